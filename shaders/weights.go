package shaders

import (
	"encoding/binary"
	"math"
	"sync"

	"github.com/x448/float16"
)

// weights reads a matrix [n, d] stored as kind.
type weights struct {
	words []uint32
	kind  uint32
	n, d  int
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

// row copies row r into dst [d].
func (w weights) row(dst []float32, r int) {
	at := r * w.d
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
	case I8:
		scale := math.Float32frombits(w.words[w.n*w.d/4+r])
		for i := range dst {
			dst[i] = float32(int8(w.words[(at+i)>>2]>>(8*(i&3)))) * scale
		}
	case I4:
		t := halfTable()
		for i := range dst {
			scale := t[half(w.words[w.n*w.d/8:], (at+i)/Group)]
			dst[i] = float32(int(w.words[(at+i)>>3]>>(4*(i&7))&15)-8) * scale
		}
	}
}

// Group is how many neighbouring elements of I4 share a scale.
const Group = 32

// Fits reports whether rows of d elements can be stored as kind: I8 and I4 fill whole vectors.
func Fits(kind uint32, d int) bool {
	switch kind {
	case F32:
		return true
	case F16, BF16:
		return d%2 == 0
	case I8:
		return d%16 == 0
	}
	return d%64 == 0
}

// RowBytes is the size of a row of d elements stored as kind, and of its scales, which lie behind
// all rows.
func RowBytes(kind uint32, d int) (row, scales int) {
	switch kind {
	case F32:
		return 4 * d, 0
	case F16, BF16:
		return 2 * d, 0
	case I8:
		return d, 4
	}
	return d / 2, 2 * d / Group
}

// Quantize rounds a row to kind I8 or I4: q and scales are as long as [RowBytes] says. A row, or a
// group, of zeros has the scale 0.
func Quantize(kind uint32, row []float32, q, scales []byte) {
	if kind == I8 {
		s := largest(row) / 127
		binary.LittleEndian.PutUint32(scales, math.Float32bits(s))
		by := inverse(s)
		for i, v := range row {
			q[i] = byte(nearest(v * by))
		}
		return
	}
	clear(q)
	for g := range len(row) / Group {
		part := row[g*Group:][:Group]
		h := float16.Fromfloat32(largest(part) / 7)
		binary.LittleEndian.PutUint16(scales[2*g:], h.Bits())
		by := inverse(h.Float32())
		for i, v := range part {
			at := g*Group + i
			q[at/2] |= byte(min(nearest(v*by), 7)+8) << (4 * (at & 1))
		}
	}
}

func largest(x []float32) float32 {
	var m uint32 // positive floats are in the order of their bits
	for _, v := range x {
		m = max(m, math.Float32bits(v)&0x7fffffff)
	}
	return math.Float32frombits(m)
}

func inverse(s float32) float32 {
	if s < 0x1p-126 { // an inverse could be infinite, and all is as good as zero
		return 0
	}
	return 1 / s
}

// nearest rounds a number of magnitude below 2^22, ties to even: to a sum of 1.5 * 2^23 the float32's
// last place is 1.
func nearest(v float32) int32 {
	return int32(math.Float32bits(v+0x1.8p23)) - 0x4b400000
}

func half(words []uint32, i int) uint16 { return uint16(words[i>>1] >> (16 * (i & 1))) }
