package shaders_test

import (
	"fmt"
	"math"
	"testing"

	"shellgame/shaders"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// format is a floating-point type by its numbers.
type format struct {
	kind     uint32
	digits   int     // of the significand, the leading one included
	leastExp int     // the least exponent of a normal number
	limit    float64 // from here on a number is rounded to infinity
}

var formats = map[string]format{
	"f16":  {shaders.F16, 11, -14, 65520},
	"bf16": {shaders.BF16, 8, -126, 0x1.ffp127},
}

// unit is the distance of neighbouring numbers of f at x.
func (f format) unit(x float64) float64 {
	_, e := math.Frexp(x)
	return math.Ldexp(1, max(e-1, f.leastExp)-f.digits+1)
}

// nearest is x in f, ties to even, by the definition of rounding.
func (f format) nearest(x float32) float32 {
	v := float64(x)
	switch {
	case v == 0 || math.IsNaN(v) || math.IsInf(v, 0):
		return x
	case math.Abs(v) >= f.limit:
		return float32(math.Inf(1) * v)
	}
	return float32(math.Copysign(math.RoundToEven(v/f.unit(v))*f.unit(v), v))
}

var storedRuns = map[string]func(c *deltaCase, t testing.TB, d webgpu.Device) (o, state []float32){
	"gdn_step":   (*deltaCase).runStep,
	"gdn_column": (*deltaCase).runColumn,
}

// Rounding by bits is rounding: every number of the type, the midpoints between neighbours and what
// lies just beside both, in both signs, through a token that changes nothing (alpha 1, beta 0).
func TestStored(t *testing.T) {
	const k, v = 128, 128
	for name, f := range formats {
		var x []float32
		first, last, half := uint32(0), uint32(0x7f800000), uint32(1)<<15
		if f.kind == shaders.F16 { // from 2⁻²⁷ to 2¹⁶: all its numbers, and more between those that are subnormal
			first, last, half = 0x32000000, 0x47800000, 1<<12
		}
		for bits := first; bits < last; bits += 2 * half {
			for _, b := range []uint32{bits, bits + 1, bits + half - 1, bits + half, bits + half + 1, bits + 2*half - 1} {
				x = append(x, math.Float32frombits(b), -math.Float32frombits(b))
			}
		}
		if f.kind == shaders.F16 {
			x = append(x, 65504, 65519.996, 65520, -65520, 1e30, math.MaxFloat32)
		}
		for len(x)%(k*v) != 0 {
			x = append(x, float32(len(x)))
		}
		gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
			for kernel, run := range storedRuns {
				bad := 0
				for from := 0; from < len(x); from += k * v {
					part := x[from:][:k*v]
					c := newDelta(k, v, 1, 1, decays["none"], shaders.Seq{Count: 1, SlotIn: 1, SlotOut: 0})
					c.store = f.kind
					c.gates[0], c.gates[1] = 0, 0
					clear(c.qkv)
					c.state = append(make([]uint32, k*v), gputest.F32(part)...)
					_, state := run(c, t, d)
					for i, s := range part {
						got, want := state[i], f.nearest(s)
						if got == want || tiny(s) && got == 0 {
							continue
						}
						if bad++; bad < 5 {
							t.Errorf("%s %s: %v (%#08x): want %v got %v", kernel, name, s, math.Float32bits(s), want, got)
						}
					}
				}
				t.Logf("%s %s: %d numbers, %d wrong", kernel, name, len(x), bad)
			}
		})
	}
}

// tiny reports whether a GPU may take x for zero.
func tiny(x float32) bool { return math.Abs(float64(x)) < 0x1p-126 }

// Token after token from the device's own state: what is kept is a number of the type and the nearest
// to the state without rounding, and a play of many tokens is those tokens one by one.
func TestStoredTokens(t *testing.T) {
	const tokens = 9
	for name, f := range formats {
		for _, s := range deltaShapes {
			c := newDelta(s.k, s.v, s.hk, s.hv, decays["mixed"], shaders.Seq{Count: tokens, SlotIn: 1, SlotOut: 0})
			c.store = f.kind
			slot, row := s.hv*s.k*s.v, s.hv*s.v
			gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
				for kernel, run := range storedRuns {
					what := fmt.Sprintf("%s %s %+v", kernel, name, s)
					o, state := run(c, t, d)
					before := gputest.Floats(c.state)
					in := uint32(1)
					for at := range tokens {
						one := c.part(at, at+1, before, in, 0)
						oneO, after := run(one, t, d)
						plain := *one
						plain.store = shaders.F32
						wantO, want := plain.runStep(t, webgpu.NewCPU())
						gputest.Close(t, fmt.Sprintf("%s token %d o", what, at), deltaTol(1, s.k), oneO[:row], wantO[:row])
						gputest.Close(t, fmt.Sprintf("%s token %d o in a longer play", what, at), gputest.Tolerance{}, o[at*row:][:row], oneO[:row])
						size := rms(want[:slot])
						for i, got := range after[:slot] {
							if got != f.nearest(got) {
								t.Fatalf("%s token %d: state[%d] = %v is no number of the type", what, at, i, got)
							}
							exact := float64(want[i])
							slack := f.unit(exact)/2 + deltaTol(1, s.k).Max*max(1, size)
							if e := math.Abs(float64(got) - exact); e > slack {
								t.Fatalf("%s token %d: state[%d] = %v, unrounded %v: off by %.3g > %.3g", what, at, i, got, exact, e, slack)
							}
						}
						before, in = after, 0
					}
					gputest.Close(t, what+" state", gputest.Tolerance{}, state[:slot], before[:slot])
				}
			})
		}
	}
}

func rms(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum / float64(len(x)))
}
