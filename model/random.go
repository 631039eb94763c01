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
		entries = append(entries, RandomTensor(t, dtype, seed))
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, entries, nil); err != nil {
		return nil, err
	}
	return safetensors.OpenCheckpoint(oneFile(b.Bytes()))
}

// RandomTensor is a tensor of a checkpoint, drawn as it is written: normal matrices scaled by their
// inner length, norms near one, and decays and time steps as the published initialisation draws
// them. A tensor depends on the seed and its name alone; other types hold the same values rounded.
func RandomTensor(t config.Tensor, dtype safetensors.DType, seed uint64) safetensors.Entry {
	inner := t.Shape[len(t.Shape)-1]
	scale := 1 / math.Sqrt(float64(inner))
	draw := func(r *rand.Rand) float32 {
		switch {
		case len(t.Shape) > 1:
			return float32(r.NormFloat64() * scale)
		case strings.HasSuffix(t.Role, "A_log"):
			return float32(math.Log(0.01 + 4*r.Float64()))
		case strings.HasSuffix(t.Role, "dt_bias"):
			return float32(-4 + 3*r.Float64())
		}
		return 1 - t.Plus + float32(0.2*r.NormFloat64())
	}
	return safetensors.Entry{Name: t.Name, DType: dtype, Shape: t.Shape, Fill: func(w io.Writer) error {
		h := fnv.New64a()
		h.Write([]byte(t.Name))
		rng := rand.New(rand.NewPCG(seed, h.Sum64()))
		n := 1
		for _, d := range t.Shape {
			n *= d
		}
		for v := make([]float32, min(n, 1<<16)); n > 0; n -= len(v) {
			v = v[:min(n, len(v))]
			for i := range v {
				v[i] = draw(rng)
			}
			e, err := safetensors.EntryF32(t.Name, dtype, []int{len(v)}, v)
			if err != nil {
				return err
			}
			if _, err := w.Write(e.Data); err != nil {
				return err
			}
		}
		return nil
	}}
}

// oneFile is a model directory that holds model.safetensors alone.
type oneFile []byte

func (f oneFile) Open(name string) (io.ReaderAt, int64, io.Closer, error) {
	if name != "model.safetensors" {
		return nil, 0, nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return bytes.NewReader(f), int64(len(f)), io.NopCloser(nil), nil
}
