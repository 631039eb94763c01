package model

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"strings"

	"shellgame/model/config"
	"shellgame/model/safetensors"
)

// RandomCheckpoint makes a checkpoint for cfg in memory, with the values of [RandomTensor] stored as
// dtype. The same seed gives the same bytes.
func RandomCheckpoint(cfg *config.Config, dtype safetensors.DType, seed uint64) (*safetensors.Checkpoint, error) {
	var entries []safetensors.Entry
	for _, t := range config.Tensors(cfg) {
		e, err := RandomTensor(t, dtype, seed)
		if err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, entries, nil); err != nil {
		return nil, err
	}
	return safetensors.OpenCheckpoint(oneFile(b.Bytes()))
}

// RandomTensor draws a tensor of a checkpoint: normal matrices scaled by their inner length, norms
// near one, and decays and time steps as the published initialisation draws them. A tensor depends on
// the seed and its name alone; other types hold the same values rounded.
func RandomTensor(t config.Tensor, dtype safetensors.DType, seed uint64) (safetensors.Entry, error) {
	h := fnv.New64a()
	h.Write([]byte(t.Name))
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	n := 1
	for _, s := range t.Shape {
		n *= s
	}
	v := make([]float32, n)
	scale := 1 / math.Sqrt(float64(t.Shape[len(t.Shape)-1]))
	for i := range v {
		switch {
		case len(t.Shape) > 1:
			v[i] = float32(rng.NormFloat64() * scale)
		case strings.HasSuffix(t.Role, "A_log"):
			v[i] = float32(math.Log(0.01 + 4*rng.Float64()))
		case strings.HasSuffix(t.Role, "dt_bias"):
			v[i] = float32(-4 + 3*rng.Float64())
		default:
			v[i] = float32(1-float64(t.Plus)) + float32(0.2*rng.NormFloat64())
		}
	}
	return safetensors.EntryF32(t.Name, dtype, t.Shape, v)
}

// oneFile is a model directory that holds model.safetensors alone.
type oneFile []byte

func (f oneFile) Open(name string) (io.ReaderAt, int64, io.Closer, error) {
	if name != "model.safetensors" {
		return nil, 0, nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return bytes.NewReader(f), int64(len(f)), io.NopCloser(nil), nil
}
