package shaders_test

import (
	"fmt"
	"math"
	"testing"

	"shellgame/shaders"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// The functions of the forward pass far from where models use them, through the kernels that use
// them, on every device and beside float64. Bounds follow from the accuracy that WGSL asks of its
// functions (https://www.w3.org/TR/WGSL/#concrete-float-accuracy): exp within 3 + 2|x| units in the
// last place, log within 3, or within 2⁻²¹ for arguments of 1/2 to 2, a quotient within 2.5. A
// number below the least normal one may become zero, on the way too.
const (
	ulp         = 0x1p-23
	leastNormal = 0x1p-126
)

// far are arguments of exp, sigmoid, softplus and SiLU.
var far = []float32{
	0, float32(math.Copysign(0, -1)), 1e-45, -1e-45, 1e-40, -1e-40, 1e-12, -1e-12, 1e-6, -1e-6,
	0.5, -0.5, 1, -1, 3.9, -3.9, 4.1, -4.1, 19.9, 20.1, -20, 28, -28, 87, -87, 88, -88, 89, -89, 100, -100, 104, -104, 1000, -1000, 1e4, -1e4,
}

// expBound bounds exp(x).
func expBound(x float64) float64 {
	return (3+2*math.Abs(x))*ulp*math.Exp(math.Min(x, 88)) + leastNormal
}

func sigmoid64(x float64) float64 {
	if x < 0 {
		return math.Exp(x) / (1 + math.Exp(x))
	}
	return 1 / (1 + math.Exp(-x))
}

// sigmoidBound: the exponential of -|x|, a sum and a quotient.
func sigmoidBound(x float64) float64 {
	e := math.Exp(-math.Abs(x))
	err := expBound(-math.Abs(x)) + 4*ulp
	if x < 0 {
		return expBound(-math.Abs(x)) + 4*ulp*e
	}
	return err
}

func softplus64(x float64) float64 {
	if x > 30 {
		return x + math.Exp(-x)
	}
	return math.Log1p(math.Exp(x))
}

// softplusBound: it is the exponential of its logarithm, so what that is off by is a factor. Below
// -4 the logarithm is a series, above it a logarithm of 1 + exp(x), whose own error is absolute
// where that is below 2.
func softplusBound(x float64) float64 {
	y := softplus64(x)
	log := math.Abs(math.Log(math.Max(y, leastNormal)))
	off := 4 * ulp * math.Max(log, 1)
	switch {
	case x < -4:
		off += 8 * ulp // of the series' few terms and its logarithm
	case x <= 20:
		off += (expBound(x) + 0x1p-21*(1+math.Exp(x))) / (1 + math.Exp(x)) / y
	}
	return y*(off+(3+2*log)*ulp) + leastNormal
}

// beside compares got with want element by element.
func beside(t *testing.T, what string, args []float32, got []float32, want, bound func(x float64) float64) {
	t.Helper()
	for i, x := range args {
		w, b := want(float64(x)), bound(float64(x))
		if e := math.Abs(float64(got[i]) - w); !(e <= b) {
			t.Errorf("%s(%v): want %v got %v, err %.3g > %.3g", what, x, w, got[i], e, b)
		}
	}
}

// numbers plays a kernel on d over a row of arguments.
func numbers(t *testing.T, d webgpu.Device, k *shaders.Kernel, params any, out int, bufs ...[]uint32) []float32 {
	t.Helper()
	return gputest.Floats(gputest.Run(t, d, k, nil, params, shaders.Step{Tokens: 1, Seqs: 1}, bufs...)[out])
}

func ones(n int) []float32 {
	f := make([]float32, n)
	for i := range f {
		f[i] = 1
	}
	return f
}

func TestNumbersFunctions(t *testing.T) {
	n := uint32(len(far))
	x := gputest.F32(far)
	silu := func(x float64) float64 { return x * sigmoid64(x) }
	siluBound := func(x float64) float64 {
		return math.Abs(x)*sigmoidBound(x) + 2*ulp*math.Abs(silu(x)) + leastNormal
	}
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		// Both projections of the gates are x: beta = sigmoid(x), and with A_log = 0 g = -softplus(x).
		zero := make([]uint32, n)
		out := numbers(t, d, shaders.Gates, shaders.GatesParams{H: n, XStride: n, BetaScale: 1}, 2, x, append(zero, zero...), gputest.Poisoned(int(2*n)))
		beside(t, "softplus", far, out[:n], func(x float64) float64 { return -math.Min(softplus64(x), 88) }, softplusBound)
		beside(t, "sigmoid", far, out[n:], sigmoid64, sigmoidBound)

		act := numbers(t, d, shaders.SwiGLU, shaders.SwiGLUParams{F: n}, 1, append(gputest.F32(far), gputest.F32(ones(int(n)))...), gputest.Poisoned(int(n)))
		beside(t, "silu of swiglu", far, act, silu, siluBound)

		conv := numbers(t, d, shaders.Conv, shaders.ConvParams{C: n, W: 1, XStride: n}, 5, x, gputest.F32(ones(int(n))), []uint32{0}, gputest.Seqs(shaders.Seq{Count: 1, SlotIn: shaders.NoSlot}), []uint32{0}, gputest.Poisoned(int(n)))
		beside(t, "silu of conv", far, conv, silu, siluBound)

		// A head of ones has RMS 1, so what is left is the gate.
		gate := numbers(t, d, shaders.GatedNorm, shaders.GatedNormParams{H: 1, V: n, GateStride: n}, 3, x, gputest.F32(ones(int(n))), gputest.F32(ones(int(n))), gputest.Poisoned(int(n)))
		beside(t, "silu of gated_norm", far, gate, silu, func(x float64) float64 { return siluBound(x) + 8*ulp*math.Abs(silu(x)) })
	})
}

// A comparison that lets these pass could not fail.
func TestNumbersBroken(t *testing.T) {
	for name, wrong := range map[string]func(x float64) float64{
		"sigmoid of a naive form": func(x float64) float64 { return math.Exp(x) / (1 + math.Exp(x)) },
		"off by a thousandth":     func(x float64) float64 { return sigmoid64(x) * 1.001 },
		"tail cut off":            func(x float64) float64 { return math.Max(sigmoid64(x), 1e-30) },
	} {
		caught := false
		for _, x := range far {
			e := math.Abs(wrong(float64(x)) - sigmoid64(float64(x)))
			caught = caught || !(e <= sigmoidBound(float64(x)))
		}
		if !caught {
			t.Errorf("%s: passed", name)
		}
	}
}

// logDecays are the decays that matter, each beside the others: none, one that a difference of sums
// would lose, one that leaves 7e-13, the least that f32's exponential holds, and what is beyond it.
var logDecays = []float32{0, -1e-12, -28, -88, -89, -104, -1e4}

// exp of a log decay, through each form of the delta rule: with beta = 0 a token only fades the
// state.
func TestNumbersDecay(t *testing.T) {
	for _, g := range logDecays {
		c := newDelta(12, 24, 1, 1, []float32{g}, shaders.Seq{Count: 1, SlotIn: 1, SlotOut: 0})
		c.gates[1] = 0
		size := c.k * c.v
		old := gputest.Floats(c.state)[size:]
		bound := 2*expBound(float64(g)) + ulp*math.Exp(float64(g))
		if g < -88 { // the chunks' forms take it for zero, the steps may
			bound = math.Exp(-88)
		}
		gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
			for name, state := range c.states(t, d) {
				for i := range size {
					want := float64(old[i]) * math.Exp(float64(g))
					if e := math.Abs(float64(state[i]) - want); !(e <= bound*math.Abs(float64(old[i]))+leastNormal) {
						t.Fatalf("%s, g %v: state %d: want %v got %v", name, g, i, want, state[i])
					}
				}
			}
		})
	}
}

// states plays every form of the delta rule over c and returns the states.
func (c *deltaCase) states(t testing.TB, d webgpu.Device) map[string][]float32 {
	all := map[string][]float32{}
	_, all["gdn_step"] = c.runStep(t, d)
	column := gputest.Run(t, d, shaders.GDNColumn, c.consts(), c.p, c.step(), gputest.F32(c.qkv), gputest.F32(c.gates), gputest.Seqs(c.seqs...), c.state, c.out())
	all["gdn_column"] = gputest.Floats(column[3])
	for name, wide := range map[string]bool{"gdn_chunk": false, "gdn_chunk_wide": true} {
		f := *c
		f.wide = wide
		_, all[name] = f.runChunk(t, d)
	}
	return all
}

// All of logDecays within one chunk, through the gates that clamp them: the chunk's forms, narrow and
// wide, give what the recurrence in float64 gives, and no pair of tokens loses its own decay beside
// those of others.
func TestNumbersChunk(t *testing.T) {
	const tokens = shaders.ChunkLen
	c := newDelta(12, 24, 1, 1, []float32{0, -1e-12, -28, -1e-12, -88, 0, -1e-3, -1e4, -1e-12, -1e-3}, shaders.Seq{Count: tokens, SlotIn: 1, SlotOut: 0})
	for i := range tokens {
		c.gates[2*i] = max(c.gates[2*i], shaders.MinLogDecay)
	}
	wantO, wantState := c.float64s()
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		for _, wide := range []bool{false, true} {
			f := *c
			f.wide = wide
			_, _, attn, o, state := f.phases(t, d)
			tol := deltaTol(4*tokens, c.k)
			what := fmt.Sprintf("wide %v", wide)
			gputest.Close(t, what+" o", tol, o[:tokens*c.v], wantO)
			gputest.Close(t, what+" state", tol, state[:c.k*c.v], wantState)
			for i := range tokens {
				for j := range i {
					log, qk, size := 0.0, 0.0, 0.0
					for n := j + 1; n <= i; n++ {
						log += float64(c.gates[2*n])
					}
					for e := range c.k {
						q, k := float64(c.qkv[i*int(c.p.Stride)+int(c.p.Col)+e]), float64(c.qkv[j*int(c.p.Stride)+int(c.p.Col)+c.k+e])
						qk, size = qk+q*k, size+math.Abs(q*k)
					}
					// A sum below the least exponent is nothing.
					want := math.Exp(log) * qk
					bound := size*(expBound(log)+16*ulp*math.Exp(log)) + leastNormal
					if log < -88 {
						bound += size * math.Exp(-88)
					}
					if e := math.Abs(float64(attn[i*tokens+j]) - want); !(e <= bound) {
						t.Fatalf("%s: tokens %d and %d, log decay %v: want %v got %v, err %.3g > %.3g", what, i, j, log, want, attn[i*tokens+j], e, bound)
					}
				}
			}
		}
	})
}

// float64s is the recurrence of c's only sequence and head in float64: o [T, V] and S [K, V].
func (c *deltaCase) float64s() (o, state []float32) {
	s := make([]float64, c.k*c.v)
	for i, x := range gputest.Floats(c.state)[int(c.seqs[0].SlotIn)*c.k*c.v:][:c.k*c.v] {
		s[i] = float64(x)
	}
	for t := range c.tokens {
		q, k, v := c.row(t)
		alpha, beta := math.Exp(float64(c.gates[2*t])), float64(c.gates[2*t+1])
		for j := range c.v {
			had, read := 0.0, 0.0
			for i := range c.k {
				s[i*c.v+j] *= alpha
				had += float64(k[i]) * s[i*c.v+j]
			}
			u := beta * (float64(v[j]) - had)
			for i := range c.k {
				s[i*c.v+j] += float64(k[i]) * u
				read += float64(q[i]) * s[i*c.v+j]
			}
			o = append(o, float32(read))
		}
	}
	state = make([]float32, len(s))
	for i, x := range s {
		state[i] = float32(x)
	}
	return o, state
}

// row is token t's q, k and v of the only head.
func (c *deltaCase) row(t int) (q, k, v []float32) {
	r := c.qkv[t*int(c.p.Stride)+int(c.p.Col):]
	return r[:c.k], r[c.k : 2*c.k], r[2*c.k : 2*c.k+c.v]
}

// exp(A_log) alone is infinite and softplus(a) zero: their product is not NaN but so small that
// nothing fades.
func TestNumbersRate(t *testing.T) {
	aLog := []float32{100, 100, 88, -100, 0, 104}
	a := []float32{-200, -188, -176, 1e4, -1e4, -1e4}
	n := uint32(len(a))
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		x := append(gputest.F32(a), make([]uint32, n)...)
		out := numbers(t, d, shaders.Gates, shaders.GatesParams{H: n, XStride: 2 * n, BCol: n, BetaScale: 2}, 2, x, append(gputest.F32(aLog), make([]uint32, n)...), gputest.Poisoned(int(2*n)))
		for i, g := range out[:n] {
			want := -math.Exp(float64(aLog[i]) + float64(a[i]))
			if a[i] > 0 {
				want = -math.Exp(float64(aLog[i]) + math.Log(float64(a[i])))
			}
			if e := math.Abs(float64(g) - want); !(e <= 1e-4*math.Abs(want)+leastNormal) {
				t.Errorf("A_log %v, a %v: g is %v, want %v", aLog[i], a[i], g, want)
			}
			// What follows: the state is as it was.
			c := newDelta(12, 24, 1, 1, []float32{g}, shaders.Seq{Count: 1, SlotIn: 1, SlotOut: 0})
			c.gates[1] = 0
			size := c.k * c.v
			for name, state := range c.states(t, d) {
				gputest.Close(t, fmt.Sprintf("A_log %v, a %v, %s", aLog[i], a[i], name), gputest.Tolerance{}, state[:size], gputest.Floats(c.state)[size:2*size])
			}
		}
	})
}

// softmax over scores up to ±1e4, as attention in all its forms and as the candidates' probabilities.
func TestNumbersSoftmax(t *testing.T) {
	for name, scores := range map[string][]float32{
		"one above":      {1e4, -1e4, 0, 88, -88},
		"one below":      {-1e4, 1e4, 1e4 - 1, 1e4 - 0.5, 1e4 - 88},
		"all low":        {-1e4, -1e4, -1e4},
		"all high":       {1e4, 1e4, 1e4, 1e4},
		"the last wins":  {-1e4, -9999, -9990, 0, 1e4},
		"the first wins": {1e4, 0, -1e4, 1e4 - 104, 1e4 - 20},
		"near zero":      {0, float32(math.Copysign(0, -1)), 1e-40, -1e-40, 1e-12, 1},
		"alone":          {-1e4},
	} {
		t.Run(name, func(t *testing.T) { softmaxOf(t, scores) })
	}
}

func softmaxOf(t *testing.T, scores []float32) {
	n := len(scores)
	top := math.Inf(-1)
	for _, s := range scores {
		top = math.Max(top, float64(s))
	}
	want, total := make([]float64, n), 0.0
	for i, s := range scores {
		want[i] = math.Exp(float64(s) - top)
		total += want[i]
	}
	for i := range want {
		want[i] /= total
	}
	// Each exponential is of at most 0 and at most 1, so (3 + 2|x|) ulp · e^x is below 3.1 ulp; their
	// sum of n and the quotient come on top.
	bound := float64(2*n+8) * ulp
	const hd = 8
	c := newAttention(hd, 1, 1, nil, [2]int{n - 1, 1})
	c.p.Scale = 1
	c.q = make([]uint32, len(c.q))
	gputest.Floats(c.q)[c.p.QCol] = 1
	keys, values := gputest.Floats(c.kCache), gputest.Floats(c.vCache)
	for j, s := range scores {
		row := int(c.rows[j]) * hd
		clear(keys[row:][:hd])
		clear(values[row:][:hd])
		keys[row] = s
		values[row+j] = 1 // so that o is the probabilities
	}
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		close := func(what string, i int, p float32) {
			t.Helper()
			if e := math.Abs(float64(p) - want[i]); !(e <= bound) {
				t.Errorf("%s: %d: want %v got %v, err %.3g > %.3g", what, i, want[i], p, e, bound)
			}
		}
		for _, k := range []*shaders.Kernel{shaders.Attention, shaders.AttentionDecode, shaders.AttentionSplit} {
			for i, p := range c.run(t, d, k)[:n] {
				close(k.Name, i, p)
			}
		}
		for i, p := range c.probs(t, d)[:n] {
			close("attention_probs", i, p)
		}
		topped := gputest.Run(t, d, shaders.TopK, nil, shaders.TopKParams{N: uint32(n), K: uint32(n)}, shaders.Step{Outs: 1}, gputest.F32(scores), gputest.Poisoned(2*n))[1]
		for r := range n {
			close("top_k", int(topped[2*r]), math.Float32frombits(topped[2*r+1]))
		}
	})
}

// Beta exactly 2 with one unit key for all tokens: each of them reflects the state, which neither
// fades nor grows, however many there are.
//
// The bound: a token's f32 sums are off by at most (K + 6) ulp/2 of the largest number in it, a
// reflection hands that on without making it larger, and beside it comes the next token's: T tokens
// are off by no more than T times that. The forms by chunks sum over 32 tokens besides. One key is
// rounded the same way each time, so the errors do add up and not like a random walk: after 65,536
// tokens they are up to 0.7 % of the largest number, a tenth of the bound.
func TestNumbersReflections(t *testing.T) {
	tokens := 2048
	if long {
		tokens = 65536
	}
	const play = 1024 // llvmpipe ends an invocation's loops after 65,536 turns
	for name, key := range map[string]func(k []float32){
		"an exact key":  func(k []float32) { k[0], k[3], k[4], k[7] = 0.5, 0.5, -0.5, 0.5 },
		"a random key":  func(k []float32) { copy(k, gputest.Rand(5, len(k), 1)); unit(k, 1) },
		"an axis":       func(k []float32) { k[2] = 1 },
		"a swap of two": func(k []float32) { k[1], k[6] = float32(math.Sqrt(0.5)), -float32(math.Sqrt(0.5)) },
	} {
		c := newDelta(12, 24, 1, 1, []float32{0}, shaders.Seq{Count: uint32(tokens), SlotIn: 1, SlotOut: 0})
		for i := range tokens {
			_, k, v := c.row(i)
			clear(k)
			key(k)
			for j := range v { // the same value, written and taken back in turns
				v[j] = float32(j%5) - 2
			}
			c.gates[2*i], c.gates[2*i+1] = 0, 2
		}
		wantO, wantState := c.float64s()
		c.gates[2*tokens-1] = 1.5
		if _, wrong := c.float64s(); gputest.Compare(gputest.Tolerance{RMS: 0.1, Max: 0.1}, wrong, wantState).Err == nil {
			t.Fatalf("%s: one token's beta of 1.5 does not show", name)
		}
		c.gates[2*tokens-1] = 2
		largest := 1.0
		for _, x := range append(wantO, wantState...) {
			largest = math.Max(largest, math.Abs(float64(x)))
		}
		gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
			for form, run := range map[string]func(p *deltaCase) (o, state []float32){
				"gdn_step": func(p *deltaCase) (o, state []float32) { return p.runStep(t, d) },
				"gdn_column": func(p *deltaCase) (o, state []float32) {
					out := gputest.Run(t, d, shaders.GDNColumn, p.consts(), p.p, p.step(), gputest.F32(p.qkv[:p.tokens*int(p.p.Stride)]), gputest.F32(p.gates[:p.tokens*2]), gputest.Seqs(p.seqs...), p.state, p.out())
					return gputest.Floats(out[4]), gputest.Floats(out[3])
				},
				"gdn_chunk":      func(p *deltaCase) (o, state []float32) { p.wide = false; return p.runChunk(t, d) },
				"gdn_chunk_wide": func(p *deltaCase) (o, state []float32) { p.wide = true; return p.runChunk(t, d) },
			} {
				each := float64(c.k+6) * ulp / 2 * largest
				if form == "gdn_chunk" || form == "gdn_chunk_wide" {
					each = float64(c.k+shaders.ChunkLen+6) * ulp / 2 * largest
				}
				state, in := gputest.Floats(c.state), uint32(1)
				worst := 0.0
				for at := 0; at < tokens; at += play {
					p := c.part(at, at+play, state, in, 0)
					p.qkv, p.gates = p.qkv[:(play+1)*int(c.p.Stride)], p.gates[:(play+1)*2]
					var o []float32
					o, state = run(p)
					in = 0
					for i := range play * c.v {
						e := math.Abs(float64(o[i])-float64(wantO[at*c.v+i])) / (float64(at+i/c.v+1) * each)
						if !(e <= 1) {
							t.Fatalf("%s, %s: o of token %d: want %v got %v, %.3g times the bound", name, form, at+i/c.v, wantO[at*c.v+i], o[i], e)
						}
						worst = math.Max(worst, e)
					}
				}
				off := 0.0
				for i, want := range wantState {
					off = math.Max(off, math.Abs(float64(state[i])-float64(want))/largest)
					e := math.Abs(float64(state[i])-float64(want)) / (float64(tokens) * each)
					if !(e <= 1) {
						t.Fatalf("%s, %s: state %d: want %v got %v, %.3g times the bound", name, form, i, want, state[i], e)
					}
					worst = math.Max(worst, e)
				}
				t.Logf("%s, %s: %d tokens, at most %.2g of the bound; the state off by %.2g of the largest number", name, form, tokens, worst, off)
			}
		})
	}
}
