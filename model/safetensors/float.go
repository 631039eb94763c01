package safetensors

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"
)

var decoders = map[DType]func(out []float32, raw []byte){
	F32: func(out []float32, raw []byte) {
		for i := range len(raw) / 4 {
			out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	},
	F16: func(out []float32, raw []byte) {
		for i := range len(raw) / 2 {
			out[i] = f16ToF32(binary.LittleEndian.Uint16(raw[2*i:]))
		}
	},
	BF16: func(out []float32, raw []byte) {
		for i := range len(raw) / 2 {
			out[i] = BF16ToF32(binary.LittleEndian.Uint16(raw[2*i:]))
		}
	},
}

// Decode turns raw, of type F32, F16 or BF16, into as many float32 as it holds.
func Decode(d DType, out []float32, raw []byte) { decoders[d](out, raw) }

// f16ToF32 is exact for every value: the bits of a float16 in a float32's places are 2^-112 of it,
// but for infinities and NaN.
func f16ToF32(h uint16) float32 {
	if h&0x7c00 == 0x7c00 {
		return float16.Frombits(h).Float32()
	}
	v := math.Float32frombits(uint32(h&0x7fff)<<13) * 0x1p112
	if h&0x8000 != 0 {
		return -v
	}
	return v
}

// BF16ToF32 widens the bits of a bfloat16, which are the upper half of a
// float32. It is exact for every value.
func BF16ToF32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// F32ToBF16 rounds to the nearest bfloat16, ties to even; a NaN stays a NaN.
func F32ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if f != f {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// NonFinite returns the index of the first NaN or infinity among the elements
// of raw, whose type is F32, F16 or BF16, or -1. It looks at the exponent bits.
func NonFinite(d DType, raw []byte) int {
	switch d {
	case F32:
		for i := range len(raw) / 4 {
			if raw[4*i+3]&0x7f == 0x7f && raw[4*i+2]&0x80 != 0 {
				return i
			}
		}
	case F16, BF16:
		mask := uint16(0x7c00)
		if d == BF16 {
			mask = 0x7f80
		}
		for i := range len(raw) / 2 {
			if binary.LittleEndian.Uint16(raw[2*i:])&mask == mask {
				return i
			}
		}
	}
	return -1
}
