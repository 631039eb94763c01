package shaders

import (
	"math"
	"sync"

	"github.com/x448/float16"
)

// weights reads a matrix stored as f32, f16 or bf16.
type weights struct {
	words []uint32
	kind  uint32
}

// halfTable holds the float32 of every float16. A twin reads each weight once a token, and a
// table is several times faster than converting.
var halfTable = sync.OnceValue(func() *[1 << 16]float32 {
	var t [1 << 16]float32
	for i := range t {
		t[i] = float16.Frombits(uint16(i)).Float32()
	}
	return &t
})

// row copies len(dst) elements from element at on into dst.
func (w weights) row(dst []float32, at int) {
	switch w.kind {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(w.words[at+i])
		}
	case F16:
		t := halfTable()
		for i := range dst {
			dst[i] = t[half(w.words, at+i)]
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(half(w.words, at+i)) << 16)
		}
	}
}

func half(words []uint32, i int) uint16 { return uint16(words[i>>1] >> (16 * (i & 1))) }
