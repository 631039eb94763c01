package shaders_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/x448/float16"

	"shellgame/shaders"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// dots bounds products of D terms: f32 partial sums against float64 ones.
func dots(d int) gputest.Tolerance {
	e := 6e-8 * math.Sqrt(float64(d)) * 4
	return gputest.Tolerance{RMS: e, Max: 8 * e}
}

// packed stores floats as kind, two-byte kinds two to a word.
func packed(kind uint32, f []float32) []uint32 {
	if kind == shaders.F32 {
		return gputest.F32(f)
	}
	w := make([]uint32, (len(f)+1)/2)
	for i, v := range f {
		h := uint32(math.Float32bits(v) >> 16)
		if kind == shaders.F16 {
			h = uint32(float16.Fromfloat32(v).Bits())
		}
		w[i/2] |= h << (16 * (i % 2))
	}
	return w
}

// stored lays a matrix [n, d] out as kind.
func stored(kind uint32, f []float32, n, d int) []uint32 {
	if kind < shaders.I8 {
		return packed(kind, f)
	}
	row, scales := shaders.RowBytes(kind, d)
	b := make([]byte, (n*(row+scales)+15)&^15) // whole vectors
	for r := range n {
		shaders.Quantize(kind, f[r*d:][:d], b[r*row:][:row], b[n*row+r*scales:][:scales])
	}
	return slices.Clone(gputest.Words(b))
}

var storedKinds = []uint32{shaders.F32, shaders.F16, shaders.BF16, shaders.I8, shaders.I4}

// tokenSeqs is the token_seq buffer of a batch.
func tokenSeqs(seqs ...shaders.Seq) []uint32 {
	var w []uint32
	for i, s := range seqs {
		for range s.Count {
			w = append(w, uint32(i))
		}
	}
	return w
}

func TestEmbed(t *testing.T) {
	const n = 19
	for _, kind := range storedKinds {
		for _, d := range []int{1, 7, 64, 129, 192} {
			if kind >= shaders.I8 && !shaders.Fits(kind, d) {
				continue
			}
			table := stored(kind, gputest.Rand(3, n*d, 1), n, d)
			ids := []uint32{0, 18, 5, 5, 7, 999}
			for _, first := range []uint32{0, 6} {
				gputest.Check(t, fmt.Sprintf("kind %d D %d first %d", kind, d, first), gputest.Tolerance{}, shaders.Embed, shaders.C{"W_KIND": kind},
					shaders.EmbedParams{D: uint32(d), Entries: n, First: first}, shaders.Step{Tokens: 6}, []int{2}, table, ids, gputest.Poisoned(7*d))
			}
		}
	}
}

// Quantized weights are within half a unit of what they stand for, zeros and the largest exactly so.
func TestQuantize(t *testing.T) {
	const n, d = 3, 128
	f := gputest.Rand(5, n*d, 1)
	clear(f[32:64])
	clear(f[2*d:])
	f[40] = 3
	for _, kind := range []uint32{shaders.I8, shaders.I4} {
		group, most, slack := d, 127, 0.501
		if kind == shaders.I4 {
			group, most, slack = shaders.Group, 7, 0.51 // its scale is an f16
		}
		out := gputest.Run(t, webgpu.NewCPU(), shaders.Embed, shaders.C{"W_KIND": kind}, shaders.EmbedParams{D: d, Entries: n}, shaders.Step{Tokens: n},
			stored(kind, f, n, d), []uint32{0, 1, 2}, gputest.Poisoned(n*d))
		got := gputest.Floats(out[2])
		for g := range n * d / group {
			var top float64
			for _, v := range f[g*group:][:group] {
				top = max(top, math.Abs(float64(v)))
			}
			unit := top / float64(most)
			for i, v := range f[g*group:][:group] {
				if e := math.Abs(float64(got[g*group+i] - v)); e > slack*unit || v == 0 && e != 0 {
					t.Errorf("kind %d: element %d: got %v, want %v within %.2g", kind, g*group+i, got[g*group+i], v, slack*unit)
				}
			}
		}
	}
}

func TestMatMul(t *testing.T) {
	for _, k := range []*shaders.Kernel{shaders.MatMul, shaders.MatMulWide, shaders.MatVec, shaders.MatVecWide, shaders.MatVecRow} {
		for _, kind := range storedKinds {
			for _, s := range []struct{ rows, d, n int }{{1, 128, 288}, {1, 5, 3}, {2, 64, 64}, {3, 33, 65}, {63, 16, 63}, {64, 17, 1}, {65, 130, 129}, {129, 36, 132}, {3, 264, 17}, {65, 192, 36}} {
				if kind >= shaders.I8 && !shaders.Fits(kind, s.d) {
					continue
				}
				for _, add := range []uint32{0, 1} {
					p := shaders.MatMulParams{D: uint32(s.d), N: uint32(s.n), XStride: uint32(s.d + 3), YStride: uint32(s.n + 5), YCol: 2, Rows: 1, Add: add}
					if k == shaders.MatMulWide {
						if p.XStride, p.YStride, p.YCol = p.D+4, p.N+8, 4; !p.Wide() {
							continue
						}
					}
					if k == shaders.MatVecWide {
						if p.XStride = p.D + 8; !p.WideRow() {
							continue
						}
					}
					xs, ys := int(p.XStride), int(p.YStride)
					x := gputest.F32(gputest.Rand(1, s.rows*xs, 1))
					w := stored(kind, gputest.Rand(2, s.n*s.d, 1), s.n, s.d)
					y := gputest.Poisoned((s.rows + 1) * ys)
					if add == 1 {
						copy(y, gputest.F32(gputest.Rand(3, s.rows*ys, 1)))
					}
					gputest.Check(t, fmt.Sprintf("%s kind %d %+v add %d", k.Name, kind, s, add), dots(s.d), k, shaders.C{"W_KIND": kind}, p,
						shaders.Step{Outs: uint32(s.rows)}, []int{2}, x, w, y)
				}
			}
		}
	}
}

// conv runs Conv and ConvTail on d over a batch and returns the output and the tails.
func runConv(t *testing.T, d webgpu.Device, c, w int, x, weight, tail []uint32, seqs []shaders.Seq, tokens int) (y, tails []float32) {
	p := shaders.ConvParams{C: uint32(c), W: uint32(w), XStride: uint32(c + 5), XCol: 2}
	step := shaders.Step{Tokens: uint32(tokens), Seqs: uint32(len(seqs))}
	sw := gputest.Seqs(seqs...)
	ts := append(tokenSeqs(seqs...), 0)
	out := gputest.Run(t, d, shaders.Conv, nil, p, step, x, weight, tail, sw, ts, gputest.Poisoned((tokens+1)*c))
	after := gputest.Run(t, d, shaders.ConvTail, nil, p, step, x, sw, tail)
	return gputest.Floats(out[5]), gputest.Floats(after[2])
}

// The convolution and its tail: odd sizes, several sequences, forks, an empty sequence, and a
// split at every token giving what one pass gives.
func TestConv(t *testing.T) {
	for _, s := range []struct{ c, w int }{{3, 4}, {65, 3}, {192, 4}, {8, 1}, {8, 2}} {
		const slots, tokens = 5, 9
		x := append(gputest.F32(gputest.Rand(1, tokens*(s.c+5), 1)), gputest.Poison)
		weight := gputest.F32(gputest.Rand(2, s.c*s.w, 1))
		tail := append(gputest.F32(gputest.Rand(3, slots*(s.w-1)*s.c, 1)), gputest.Poison)
		seqs := []shaders.Seq{
			{Start: 0, Count: 4, SlotIn: 1, SlotOut: 0},              // a fork of slot 1
			{Start: 4, Count: 0, SlotIn: 1, SlotOut: 2},              // another, reading nothing
			{Start: 4, Count: 2, SlotIn: shaders.NoSlot, SlotOut: 3}, // a new one, shorter than the taps
			{Start: 6, Count: 3, SlotIn: 4, SlotOut: 4},              // in place
		}
		var want, wantTail []float32
		gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
			y, tails := runConv(t, d, s.c, s.w, x, weight, tail, seqs, tokens)
			if d.Info().Kind == "cpu" {
				want, wantTail = y, tails
				return
			}
			gputest.Close(t, fmt.Sprintf("%+v y", s), tight, y, want)
			if s.w > 1 {
				gputest.Close(t, fmt.Sprintf("%+v tail", s), gputest.Tolerance{}, tails, wantTail)
			}
		})
		one, oneTail := runConv(t, webgpu.NewCPU(), s.c, s.w, x, weight, tail, []shaders.Seq{{Count: tokens, SlotIn: 1, SlotOut: 0}}, tokens)
		for at := 0; at <= tokens; at++ {
			y1, tail1 := runConv(t, webgpu.NewCPU(), s.c, s.w, x, weight, tail, []shaders.Seq{{Count: uint32(at), SlotIn: 1, SlotOut: 0}}, at)
			y2, tail2 := runConv(t, webgpu.NewCPU(), s.c, s.w, append([]uint32(nil), x[at*(s.c+5):]...), weight, gputest.F32(tail1), []shaders.Seq{{Count: uint32(tokens - at), SlotIn: 0, SlotOut: 0}}, tokens-at)
			gputest.Close(t, fmt.Sprintf("%+v split at %d", s, at), gputest.Tolerance{}, append(y1[:at*s.c:at*s.c], y2...), one)
			if s.w > 1 {
				gputest.Close(t, fmt.Sprintf("%+v tail, split at %d", s, at), gputest.Tolerance{}, tail2[:(s.w-1)*s.c], oneTail[:(s.w-1)*s.c])
			}
		}
	}
}

// Gates over the whole range of their inputs, beside the formula in float64 with every guard left
// to the arithmetic.
func TestGates(t *testing.T) {
	var rows [][2]float32 // a, b
	for _, v := range []float32{0, 1e-6, 0.5, 1, 3, 3.9, 4.1, 8, 15, 19, 21, 30, 88, 200, 1e4} {
		rows = append(rows, [2]float32{v, -v}, [2]float32{-v, v})
	}
	aLog := []float32{0, 2.7, -3, 100}
	h := len(aLog)
	x := make([]float32, len(rows)*(2*h+1))
	for i, r := range rows {
		for j := range h {
			x[i*(2*h+1)+j], x[i*(2*h+1)+h+j] = r[0], r[1]
		}
	}
	for _, s := range []struct {
		scale, limit float32
		noDecay      uint32
	}{{1, 0, 0}, {2, 0, 0}, {2, 1, 0}, {2, 1.5, 1}, {1, 1, 1}} {
		p := shaders.GatesParams{H: uint32(h), XStride: uint32(2*h + 1), BCol: uint32(h), BetaScale: s.scale, BetaMax: s.limit, NoDecay: s.noDecay}
		step := shaders.Step{Tokens: uint32(len(rows))}
		bias := []float32{0, 0.25, -0.5, 0}
		gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
			out := gputest.Floats(gputest.Run(t, d, shaders.Gates, nil, p, step, gputest.F32(x), gputest.F32(append(slices.Clone(aLog), bias...)), gputest.Poisoned(len(rows)*2*h))[2])
			for i, r := range rows {
				for j := range h {
					z := float64(r[0] + bias[j])
					lsp := math.Log(math.Log1p(math.Exp(z)))
					if z > 600 {
						lsp = math.Log(z)
					} else if z < -700 {
						lsp = z
					}
					want := math.Max(-math.Exp(float64(aLog[j])+lsp), -88)
					if s.noDecay == 1 {
						want = 0
					}
					got := float64(out[i*2*h+j])
					if e := math.Abs(got - want); !(e <= 2e-5*math.Abs(want)+1e-30) {
						t.Errorf("%+v: g of a %v, bias %v, A_log %v: want %v got %v", s, r[0], bias[j], aLog[j], want, got)
					}
					wantB := float64(s.scale) / (1 + math.Exp(-float64(r[1])))
					if s.limit > 0 {
						wantB = math.Min(wantB, float64(s.limit))
					}
					gotB := float64(out[i*2*h+h+j])
					if e := math.Abs(gotB - wantB); !(e <= 1e-6) {
						t.Errorf("%+v: beta of b %v: want %v got %v", s, r[1], wantB, gotB)
					}
				}
			}
		})
	}
}

func TestL2Norm(t *testing.T) {
	for _, s := range []struct{ heads, k, tokens int }{{1, 1, 1}, {4, 12, 3}, {5, 5, 65}, {4, 32, 7}, {2, 129, 2}} {
		stride := 2*s.heads*s.k + 7
		x := append(gputest.F32(gputest.Rand(1, s.tokens*stride, 3)), gputest.Poisoned(stride)...)
		for i := range s.k {
			x[i] = 0 // a zero vector stays zero
		}
		p := shaders.L2NormParams{Heads: uint32(s.heads), K: uint32(s.k), Stride: uint32(stride), QScale: float32(1 / math.Sqrt(float64(s.k)))}
		gputest.Check(t, fmt.Sprintf("%+v", s), tight, shaders.L2Norm, nil, p, shaders.Step{Tokens: uint32(s.tokens)}, []int{0}, x)
	}
}

func TestGatedNorm(t *testing.T) {
	for _, s := range []struct{ h, v, tokens int }{{1, 1, 1}, {5, 1, 3}, {4, 24, 65}, {4, 64, 2}, {3, 129, 5}} {
		gs := s.h*s.v + 4
		gate := gputest.Rand(1, s.tokens*gs, 2)
		gate[3], gate[len(gate)-1] = -1e4, 1e3
		o := gputest.Rand(3, s.tokens*s.h*s.v, 0.1)
		weight := gputest.Rand(2, s.v, 1)
		p := shaders.GatedNormParams{H: uint32(s.h), V: uint32(s.v), GateStride: uint32(gs), GateCol: 3, Eps: 1e-5}
		for _, p.NoGate = range []uint32{0, 1} {
			gputest.Check(t, fmt.Sprintf("%+v no gate %d", s, p.NoGate), tight, shaders.GatedNorm, nil, p, shaders.Step{Tokens: uint32(s.tokens)}, []int{3},
				gputest.F32(gate), gputest.F32(weight), gputest.F32(o), gputest.Poisoned((s.tokens+1)*s.h*s.v))
		}
		// Without the gate it is the RMS norm of each head's row.
		plain := gputest.Run(t, webgpu.NewCPU(), shaders.GatedNorm, nil, p, shaders.Step{Tokens: uint32(s.tokens)}, gputest.F32(gate), gputest.F32(weight), gputest.F32(o), gputest.Poisoned(len(o)))[3]
		norm := shaders.RMSNormParams{D: uint32(s.v), XStride: uint32(s.v), YStride: uint32(s.v), Eps: 1e-5}
		want := gputest.Run(t, webgpu.NewCPU(), shaders.RMSNorm, nil, norm, shaders.Step{Tokens: uint32(s.tokens * s.h)}, gputest.F32(o), gputest.F32(weight), gputest.Poisoned(len(o)))[2]
		gputest.Close(t, fmt.Sprintf("%+v beside RMSNorm", s), tight, gputest.Floats(plain), gputest.Floats(want))
	}
}

func TestSigmoidGate(t *testing.T) {
	for _, s := range []struct{ d, tokens int }{{1, 1}, {63, 3}, {160, 65}} {
		stride := s.d + 5
		gate := gputest.Rand(1, s.tokens*stride, 3)
		gate[4], gate[4+s.d-1] = 1e4, -1e4
		y := gputest.Poisoned((s.tokens + 1) * s.d)
		copy(y, gputest.F32(gputest.Rand(2, s.tokens*s.d, 3)))
		gputest.Check(t, fmt.Sprintf("%+v", s), tight, shaders.SigmoidGate, nil, shaders.SigmoidGateParams{D: uint32(s.d), GateStride: uint32(stride), GateCol: 4},
			shaders.Step{Tokens: uint32(s.tokens)}, []int{1}, gputest.F32(gate), y)
	}
}

// A head is zero where its bit is set and untouched where not, at the edges of the mask's words.
func TestHeadMask(t *testing.T) {
	for _, s := range []struct{ h, d, tokens int }{{1, 1, 1}, {4, 24, 65}, {33, 3, 2}, {128, 5, 3}} {
		for _, off := range [][]int{{}, {0}, {s.h - 1}, {0, s.h / 2, min(31, s.h-1), min(32, s.h-1), min(64, s.h-1)}} {
			var m [4]uint32
			for _, h := range off {
				m[h/32] |= 1 << (h % 32)
			}
			x := gputest.Rand(1, s.tokens*s.h*s.d, 3)
			want := append([]float32(nil), x...)
			for i := range want {
				if slices.Contains(off, i/s.d%s.h) {
					want[i] = 0
				}
			}
			p := shaders.HeadMaskParams{Off0: m[0], Off1: m[1], Off2: m[2], Off3: m[3], H: uint32(s.h), D: uint32(s.d)}
			buf := append(gputest.F32(x), gputest.Poisoned(70)...)
			gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
				got := gputest.Floats(gputest.Run(t, d, shaders.HeadMask, nil, p, shaders.Step{Tokens: uint32(s.tokens)}, buf)[0])
				gputest.Close(t, fmt.Sprintf("%+v off %v", s, off), gputest.Tolerance{}, got, append(want, gputest.Floats(gputest.Poisoned(70))...))
			})
		}
	}
}

func TestRoPE(t *testing.T) {
	for _, s := range []struct{ heads, hd, rot int }{{1, 2, 2}, {4, 16, 16}, {3, 20, 8}, {2, 64, 32}} {
		const positions = 40
		angles := gputest.Rand(5, positions*s.rot/2, 3)
		table := make([]float32, 2*len(angles))
		for i, a := range angles {
			table[2*i], table[2*i+1] = float32(math.Cos(float64(a))), float32(math.Sin(float64(a)))
		}
		seqs := []shaders.Seq{{Start: 0, Count: 3, Past: 30}, {Start: 3, Count: 4}}
		stride := s.heads*s.hd + 9
		x := append(gputest.F32(gputest.Rand(1, 7*stride, 1)), gputest.Poisoned(stride)...)
		p := shaders.RoPEParams{Heads: uint32(s.heads), HD: uint32(s.hd), Rot: uint32(s.rot), Stride: uint32(stride), Col: 4, Positions: positions}
		gputest.Check(t, fmt.Sprintf("%+v", s), tight, shaders.RoPE, nil, p, shaders.Step{Tokens: 7, Seqs: 2}, []int{3},
			gputest.F32(table), gputest.Seqs(seqs...), tokenSeqs(seqs...), x)
	}
}

func TestSwiGLU(t *testing.T) {
	for _, s := range []struct{ f, tokens int }{{1, 1}, {63, 3}, {160, 65}} {
		x := gputest.Rand(1, s.tokens*2*s.f, 3)
		x[0] = -1e4
		gputest.Check(t, fmt.Sprintf("%+v", s), tight, shaders.SwiGLU, nil, shaders.SwiGLUParams{F: uint32(s.f)}, shaders.Step{Tokens: uint32(s.tokens)}, []int{1},
			gputest.F32(x), gputest.Poisoned((s.tokens+1)*s.f))
	}
}

// Equal logits are ordered by id, and the probabilities are the softmax's.
func TestTopK(t *testing.T) {
	for _, s := range []struct{ n, k, outs int }{{1, 1, 1}, {5, 5, 2}, {64, 3, 3}, {65, 8, 1}, {288, 10, 7}} {
		logits := gputest.Rand(uint64(s.n), s.outs*s.n, 4)
		if s.n > 4 {
			logits[0], logits[3] = 9, 9
			logits[len(logits)-1] = -1e4
		}
		p := shaders.TopKParams{N: uint32(s.n), K: uint32(s.k)}
		bufs := [][]uint32{gputest.F32(logits), gputest.Poisoned(s.outs*s.k*2 + 3)}
		step := shaders.Step{Outs: uint32(s.outs)}
		want := gputest.Run(t, webgpu.NewCPU(), shaders.TopK, nil, p, step, bufs...)[1]
		got := gputest.Run(t, gputest.GPU(t), shaders.TopK, nil, p, step, bufs...)[1]
		var ids, wantIDs []uint32
		var probs, wantProbs []float32
		for i := 0; i < s.outs*s.k; i++ {
			ids, wantIDs = append(ids, got[2*i]), append(wantIDs, want[2*i])
			probs, wantProbs = append(probs, math.Float32frombits(got[2*i+1])), append(wantProbs, math.Float32frombits(want[2*i+1]))
		}
		if fmt.Sprint(ids) != fmt.Sprint(wantIDs) {
			t.Errorf("%+v: ids %v, want %v", s, ids, wantIDs)
		}
		gputest.Close(t, fmt.Sprintf("%+v p", s), tight, probs, wantProbs)
		for _, w := range got[s.outs*s.k*2:] {
			if w != gputest.Poison {
				t.Errorf("%+v: wrote past its %d results", s, s.outs*s.k)
			}
		}
	}
}

func TestCopy(t *testing.T) {
	for _, s := range []struct{ d, tokens int }{{1, 1}, {63, 3}, {128, 65}} {
		gputest.Check(t, fmt.Sprintf("%+v", s), gputest.Tolerance{}, shaders.Copy, nil, shaders.CopyParams{D: uint32(s.d)}, shaders.Step{Tokens: uint32(s.tokens)}, []int{1},
			gputest.F32(gputest.Rand(1, s.tokens*s.d, 3)), gputest.Poisoned((s.tokens+1)*s.d))
	}
}
