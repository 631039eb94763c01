package model

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"

	"shellgame/model/config"
	"shellgame/model/safetensors"
)

// RandomCheckpoint makes a checkpoint for cfg in memory, with weights stored as dtype: normal
// matrices scaled by their inner length, norms near one, and decays and time steps as the
// published initialisation draws them. The same seed gives the same bytes.
func RandomCheckpoint(cfg *config.Config, dtype safetensors.DType, seed uint64) (*safetensors.Checkpoint, error) {
	rng := rand.New(rand.NewPCG(seed, 0x5e11))
	var entries []safetensors.Entry
	for _, w := range config.Weights(cfg) {
		if w.Same != "" {
			continue
		}
		n := 1
		for _, s := range w.Shape {
			n *= s
		}
		v := make([]float32, n)
		for i := range v {
			switch {
			case len(w.Shape) == 2:
				v[i] = float32(rng.NormFloat64() / math.Sqrt(float64(w.Shape[1])))
			case bytes.HasSuffix([]byte(w.Role), []byte("A_log")):
				v[i] = float32(math.Log(0.01 + 4*rng.Float64()))
			case bytes.HasSuffix([]byte(w.Role), []byte("dt_bias")):
				v[i] = float32(-4 + 3*rng.Float64())
			default:
				v[i] = float32(1 + 0.2*rng.NormFloat64())
			}
		}
		shape := w.Shape
		if w.Conv {
			shape = []int{shape[0], 1, shape[1]}
		}
		e, err := safetensors.EntryF32(w.Names[0], dtype, shape, v)
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

// oneFile is a model directory that holds model.safetensors alone.
type oneFile []byte

func (f oneFile) Open(name string) (io.ReaderAt, int64, io.Closer, error) {
	if name != "model.safetensors" {
		return nil, 0, nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return bytes.NewReader(f), int64(len(f)), io.NopCloser(nil), nil
}
