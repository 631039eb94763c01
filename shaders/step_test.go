package shaders_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"shellgame/shaders"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// A product with a norm or a gate before it or SwiGLU behind it, beside its twin: every kind of weights,
// odd numbers of rows, one vector and more than an invocation takes at a time.
func TestMatVecStep(t *testing.T) {
	shapes := []struct{ rows, d, v, n int }{{1, 128, 32, 96}, {1, 8, 4, 3}, {3, 264, 132, 17}, {2, 48, 12, 9}, {1, 1024, 64, 8}, {2, 3584, 128, 5}, {1, 2112, 64, 6}}
	every := 3 // shapes for each kind of weights; a shape is a pipeline
	if !long && gputest.GPU(t).Info().Kind == "browser" {
		shapes, every = shapes[:3], 1
	}
	for _, kind := range storedKinds {
		for _, norm := range []uint32{shaders.NormNone, shaders.NormRMS, shaders.NormGated, shaders.NormSigmoid} {
			for i, s := range shapes {
				if !long && i >= every && kind != shaders.F16 && kind != shaders.I4 {
					continue
				}
				for _, glu := range []uint32{0, 1} {
					for _, add := range []uint32{0, 1} {
						if !shaders.Fits(kind, s.d) {
							continue
						}
						p := shaders.MatVecStepParams{D: uint32(s.d), N: uint32(s.n) * (1 + glu), XStride: uint32(s.d + 8), YStride: uint32(s.n + 5), YCol: 3 * add, Rows: 1, Add: add, Eps: 1e-5, V: uint32(s.v), GateStride: uint32(s.d + 12), GateCol: 4}
						if !p.OK(kind, norm) {
							t.Fatalf("kind %d %+v: refused", kind, p)
						}
						p.NoGate = add
						x := gputest.F32(gputest.Rand(1, s.rows*(s.d+8), 1))
						scale := gputest.F32(gputest.Rand(4, s.d, 1))
						gate := gputest.F32(gputest.Rand(5, s.rows*(s.d+12), 2))
						w := stored(kind, gputest.Rand(2, int(p.N)*s.d, 0.5), int(p.N), s.d)
						y := gputest.Poisoned((s.rows + 1) * (s.n + 5))
						if add == 1 {
							copy(y, gputest.F32(gputest.Rand(3, s.rows*(s.n+5), 1)))
						}
						step := shaders.Step{Outs: uint32(s.rows)}
						tol := dots(s.d)
						if glu == 1 {
							tol.RMS, tol.Max = 4*tol.RMS, 4*tol.Max // each factor carries the product's error
						}
						what := fmt.Sprintf("%+v kind %d norm %d glu %d add %d", s, kind, norm, glu, add)
						gputest.Check(t, what, tol, shaders.MatVecStep, p.Consts(kind, norm, glu), p, step, []int{4}, x, scale, gate, w, y)
					}
				}
			}
		}
	}
}

// Rows that do not divide into vectors, and rows that are too long to hold, are refused.
func TestMatVecStepRefuses(t *testing.T) {
	for _, s := range []struct {
		kind, norm uint32
		p          shaders.MatVecStepParams
	}{
		{shaders.F16, shaders.NormNone, shaders.MatVecStepParams{D: 12, XStride: 16}},
		{shaders.I8, shaders.NormNone, shaders.MatVecStepParams{D: 24, XStride: 24}},
		{shaders.I4, shaders.NormNone, shaders.MatVecStepParams{D: 48, XStride: 48}},
		{shaders.F16, shaders.NormNone, shaders.MatVecStepParams{D: 16, XStride: 18}},
		{shaders.F32, shaders.NormGated, shaders.MatVecStepParams{D: 16, XStride: 16, V: 2}},
		{shaders.F32, shaders.NormGated, shaders.MatVecStepParams{D: 520, XStride: 520, V: 260}},
		{shaders.F32, shaders.NormGated, shaders.MatVecStepParams{D: 16, XStride: 16, V: 4, GateCol: 2}},
		{shaders.F32, shaders.NormSigmoid, shaders.MatVecStepParams{D: 16, XStride: 16, GateStride: 6}},
		{shaders.F32, shaders.NormRMS, shaders.MatVecStepParams{D: 3588, XStride: 3588}},
	} {
		if s.p.OK(s.kind, s.norm) {
			t.Errorf("%+v: taken", s)
		}
	}
}

// The one kernel gives what the four that it stands for give: forks, an empty sequence, a new one
// shorter than the taps, and one in place.
func TestGDNInputs(t *testing.T) {
	if p := (shaders.GDNInputsParams{W: 5}); p.OK() {
		t.Error("five taps were taken")
	}
	for _, s := range []struct{ hk, k, hv, v, w int }{{1, 1, 1, 1, 1}, {4, 32, 4, 64, 4}, {2, 12, 4, 24, 3}, {3, 5, 3, 7, 2}, {1, 129, 2, 70, 4}, {1, 16, 1, 300, 4}} {
		const slots, tokens = 5, 9
		c := 2*s.hk*s.k + s.hv*s.v
		stride := c + 2*s.hv + 3
		p := shaders.GDNInputsParams{HK: uint32(s.hk), K: uint32(s.k), HV: uint32(s.hv), V: uint32(s.v), W: uint32(s.w), XStride: uint32(stride), ACol: uint32(c), BCol: uint32(c + s.hv), QScale: float32(1 / math.Sqrt(float64(s.k))), BetaScale: 2}
		seqs := []shaders.Seq{
			{Start: 0, Count: 4, SlotIn: 1, SlotOut: 0},
			{Start: 4, Count: 0, SlotIn: 1, SlotOut: 2},
			{Start: 4, Count: 2, SlotIn: shaders.NoSlot, SlotOut: 3},
			{Start: 6, Count: 3, SlotIn: 4, SlotOut: 4},
		}
		step := shaders.Step{Tokens: tokens, Seqs: uint32(len(seqs))}
		x := append(gputest.F32(gputest.Rand(1, tokens*stride, 1)), gputest.Poison)
		weight := gputest.F32(gputest.Rand(2, c*s.w, 1))
		rates := gputest.F32(gputest.Rand(4, 2*s.hv, 1))
		tail := append(gputest.F32(gputest.Rand(3, slots*(s.w-1)*c, 1)), gputest.Poison)
		sw := gputest.Seqs(seqs...)
		outs := []int{4, 5, 6}
		if s.w == 1 {
			outs = outs[1:] // no tail
		}
		for _, software := range []bool{false, true} {
			for _, sw2 := range []struct {
				max     float32
				noDecay uint32
			}{{0, 0}, {1, 1}} {
				p.BetaMax, p.NoDecay = sw2.max, sw2.noDecay
				gputest.Check(t, fmt.Sprintf("%+v software %v %+v", s, software, sw2), tight, shaders.GDNInputs, p.Consts(software), p, step, outs,
					x, weight, rates, sw, tail, gputest.Poisoned((tokens+1)*c), gputest.Poisoned((tokens+1)*2*s.hv))
			}
		}
		cpu := webgpu.NewCPU()
		out := gputest.Run(t, cpu, shaders.GDNInputs, nil, p, step, x, weight, rates, sw, tail, gputest.Poisoned(tokens*c), gputest.Poisoned(tokens*2*s.hv))
		taps := shaders.ConvParams{C: uint32(c), W: uint32(s.w), XStride: uint32(stride)}
		y := gputest.Run(t, cpu, shaders.Conv, nil, taps, step, x, weight, tail, sw, append(tokenSeqs(seqs...), 0), gputest.Poisoned(tokens*c))[5]
		y = gputest.Run(t, cpu, shaders.L2Norm, nil, shaders.L2NormParams{Heads: p.HK, K: p.K, Stride: uint32(c), QScale: p.QScale}, step, y)[0]
		gputest.Close(t, fmt.Sprintf("%+v beside conv and l2norm", s), gputest.Tolerance{}, gputest.Floats(out[5]), gputest.Floats(y))
		if s.w == 1 {
			continue
		}
		after := gputest.Run(t, cpu, shaders.ConvTail, nil, taps, step, x, sw, tail)[2]
		gputest.Close(t, fmt.Sprintf("%+v beside conv_tail", s), gputest.Tolerance{}, gputest.Floats(out[4][:slots*(s.w-1)*c]), gputest.Floats(after[:slots*(s.w-1)*c]))
	}
}

// tokenTol bounds [shaders.GDNToken]: a token of the delta rule, whose q, k and v are off by what
// [shaders.GDNInputs] may be, v and Sᵀk both times beta, at most 2.
func tokenTol(k int) gputest.Tolerance {
	tol := deltaTol(1, k)
	return gputest.Tolerance{RMS: tol.RMS + 4*tight.RMS, Max: tol.Max + 4*tight.Max}
}

// tokenCase is a play of [shaders.GDNToken]: a fork of slot 1, and a new sequence. Slot 4 is no one's.
type tokenCase struct {
	p        shaders.GDNInputsParams
	seqs     []shaders.Seq
	channels int
	bufs     [][]uint32 // o last
}

const tokenSlots = 5

func newToken(hk, k, hv, v, w int) *tokenCase {
	const tokens = 3
	c := 2*hk*k + hv*v
	stride := c + 2*hv + 3
	t := &tokenCase{channels: c}
	t.p = shaders.GDNInputsParams{HK: uint32(hk), K: uint32(k), HV: uint32(hv), V: uint32(v), W: uint32(w), XStride: uint32(stride), ACol: uint32(c), BCol: uint32(c + hv), QScale: float32(1 / math.Sqrt(float64(k))), BetaScale: 2}
	t.seqs = []shaders.Seq{
		{Start: 2, Count: 1, Past: 7, SlotIn: 1, SlotOut: 0},
		{Start: 0, Count: 1, SlotIn: shaders.NoSlot, SlotOut: 3},
		{Start: 1, Count: 1, Past: 7, SlotIn: 1, SlotOut: 2},
	}
	t.bufs = [][]uint32{
		append(gputest.F32(gputest.Rand(1, tokens*stride, 1)), gputest.Poison),
		gputest.F32(gputest.Rand(2, c*w, 1)),
		gputest.F32(gputest.Rand(4, 2*hv, 1)),
		gputest.Seqs(t.seqs...),
		append(gputest.F32(gputest.Rand(3, tokenSlots*(w-1)*c, 1)), gputest.Poison),
		append(gputest.F32(gputest.Rand(5, tokenSlots*hv*k*v, 1)), gputest.Poison),
		gputest.Poisoned((tokens + 1) * hv * v),
	}
	// What is written is poisoned before.
	for _, s := range t.seqs {
		copy(t.bufs[4][int(s.SlotOut)*(w-1)*c:][:(w-1)*c], gputest.Poisoned((w-1)*c))
		copy(t.bufs[5][int(s.SlotOut)*hv*k*v:][:hv*k*v], gputest.Poisoned(hv*k*v))
	}
	return t
}

func (c *tokenCase) consts() shaders.C { return c.p.TokenConsts() }

func (c *tokenCase) step() shaders.Step {
	return shaders.Step{Tokens: uint32(len(c.seqs)), Seqs: uint32(len(c.seqs))}
}

// outs are the slots to compare: with one tap there is no tail.
func (c *tokenCase) outs() []int {
	if c.p.W == 1 {
		return []int{5, 6}
	}
	return []int{4, 5, 6}
}

// The one kernel gives what the two that it stands for give: odd sizes, shared keys, all numbers of taps,
// columns and slices of other numbers.
func TestGDNToken(t *testing.T) {
	if p := (shaders.GDNInputsParams{W: 5}); p.OK() {
		t.Error("five taps were taken")
	}
	for _, s := range []struct {
		hk, k, hv, v, w int
		forms           []shaders.C // constants besides K and V
	}{
		{4, 32, 4, 64, 4, []shaders.C{{}, {"SLICES": 4}}},
		{1, 128, 2, 128, 4, []shaders.C{{}, {"SLICES": 4}, {"SLICES": 16}, {"COLS": 8}}},
		{3, 5, 3, 1, 2, []shaders.C{{}}},
		{2, 12, 6, 24, 3, []shaders.C{{}, {"COLS": 32, "SLICES": 2}}},
		{1, 1, 3, 37, 1, []shaders.C{{}}},
		{2, 96, 2, 192, 4, []shaders.C{{}}},
		{1, 33, 1, 20, 4, []shaders.C{{"COLS": 4, "SLICES": 1}}},
	} {
		c := newToken(s.hk, s.k, s.hv, s.v, s.w)
		for _, form := range s.forms {
			all := c.consts()
			for name, n := range form {
				all[name] = n
			}
			for _, sw := range []struct {
				max     float32
				noDecay uint32
			}{{0, 0}, {1, 1}} {
				c.p.BetaMax, c.p.NoDecay = sw.max, sw.noDecay
				gputest.Check(t, fmt.Sprintf("%+v %v %+v", s, form, sw), tokenTol(s.k), shaders.GDNToken, all, c.p, c.step(), c.outs(), c.bufs...)
			}
		}
		c.beside(t, fmt.Sprintf("%+v", s))
	}
}

// beside compares the twin with those of the two kernels, one after the other.
func (c *tokenCase) beside(t *testing.T, what string) {
	t.Helper()
	cpu, p, b := webgpu.NewCPU(), c.p, c.bufs
	got := gputest.Run(t, cpu, shaders.GDNToken, c.consts(), p, c.step(), b...)
	made := gputest.Run(t, cpu, shaders.GDNInputs, nil, p, c.step(), b[0], b[1], b[2], b[3], b[4], gputest.Poisoned(len(c.seqs)*c.channels), gputest.Poisoned(len(c.seqs)*2*int(p.HV)))
	delta := shaders.GDNParams{HK: p.HK, HV: p.HV, Stride: uint32(c.channels)}
	read := gputest.Run(t, cpu, shaders.GDNStep, shaders.C{"K": p.K, "V": p.V}, delta, c.step(), made[5], made[6], b[3], b[5], b[6])
	for i, want := range [][]uint32{made[4], read[3], read[4]} {
		if !slices.Equal(got[4+i], want) {
			t.Errorf("%s: %s differs from the two kernels'", what, shaders.GDNToken.Slots[4+i].Name)
		}
	}
}

// A play that reads another slot, tail, tap or head is caught.
func TestGDNTokenBroken(t *testing.T) {
	c := newToken(2, 12, 4, 24, 3)
	got := gputest.Run(t, gputest.GPU(t), shaders.GDNToken, c.consts(), c.p, c.step(), c.bufs...)
	for name, spoil := range map[string]func(b *tokenCase){
		"the slot is not read": func(b *tokenCase) { b.seqs[0].SlotIn = shaders.NoSlot },
		"the fork reads zeros": func(b *tokenCase) { b.seqs[2].SlotIn = shaders.NoSlot },
		"a new one reads":      func(b *tokenCase) { b.seqs[1].SlotIn = 4 },
		"another token":        func(b *tokenCase) { b.seqs[0].Start = 1 },
		"one tap":              func(b *tokenCase) { b.bufs[1][3*30] ^= 1 << 31 },
		"one input of a tail":  func(b *tokenCase) { b.bufs[4][(1*2+1)*b.channels+5] ^= 1 << 31 },
		"one of the state":     func(b *tokenCase) { b.bufs[5][1*4*12*24+100] ^= 1 << 31 },
		"no scale of q":        func(b *tokenCase) { b.p.QScale = 1 },
		"beta of one head":     func(b *tokenCase) { b.p.BCol++ },
		"no decay":             func(b *tokenCase) { b.p.NoDecay = 1 },
	} {
		b := *c
		b.bufs, b.seqs = nil, slices.Clone(c.seqs)
		for _, words := range c.bufs {
			b.bufs = append(b.bufs, slices.Clone(words))
		}
		spoil(&b)
		b.bufs[3] = gputest.Seqs(b.seqs...)
		want := gputest.Run(t, webgpu.NewCPU(), shaders.GDNToken, b.consts(), b.p, b.step(), b.bufs...)
		wrong := false
		for _, i := range c.outs() {
			wrong = wrong || gputest.Compare(tokenTol(int(c.p.K)), gputest.Floats(got[i]), gputest.Floats(want[i])).Err != nil
		}
		if !wrong {
			t.Errorf("%s: a wrong twin passed", name)
		}
	}
}

// The one kernel gives what the four that it stands for give: shared keys, rotation of a part, norms of
// each head and of all, positions that are not in order in the cache.
func TestAttnInputs(t *testing.T) {
	for _, s := range []struct{ h, kvh, hd, rot int }{{1, 1, 1, 0}, {4, 4, 32, 32}, {6, 2, 24, 8}, {4, 1, 7, 6}, {2, 1, 136, 64}, {2, 2, 12, 0}} {
		const tokens, positions, cached = 9, 12, 40
		q, kv := s.h*s.hd, s.kvh*s.hd
		stride := q + 2*kv + 3
		seqs := []shaders.Seq{{Start: 0, Count: 4, Past: 3, Map: 2}, {Start: 4, Count: 0, Map: 14}, {Start: 4, Count: 2, Map: 14}, {Start: 6, Count: 3, Past: 8, Map: 26}}
		step := shaders.Step{Tokens: tokens, Seqs: uint32(len(seqs))}
		rows := make([]uint32, 2+3*positions)
		for i := range rows {
			rows[i] = uint32((i*7 + 3) % cached)
		}
		angles := make([]float32, positions*max(s.rot, 2))
		for i := range angles {
			angles[i] = float32(math.Sin(float64(i) * 0.7))
		}
		x, table, sw := gputest.F32(gputest.Rand(1, tokens*stride, 1)), gputest.F32(angles), gputest.Seqs(seqs...)
		for _, each := range []uint32{0, 1} {
			norms := gputest.F32(gputest.Rand(2, q+kv, 1))
			p := shaders.AttnInputsParams{H: uint32(s.h), KVH: uint32(s.kvh), HD: uint32(s.hd), Rot: uint32(s.rot), XStride: uint32(stride), Positions: positions, Eps: 1e-6, Each: each}
			y, cache := gputest.Poisoned((tokens+1)*(q+kv)), gputest.Poisoned((cached+1)*kv)
			for _, wg := range []uint32{16, 64} {
				gputest.Check(t, fmt.Sprintf("%+v each %d wg %d", s, each, wg), tight, shaders.AttnInputs, shaders.C{"RED_WG": wg}, p, step, []int{5, 6, 7}, x, norms, table, rows, sw, y, cache, cache)
			}
			cpu := webgpu.NewCPU()
			out := gputest.Run(t, cpu, shaders.AttnInputs, nil, p, step, x, norms, table, rows, sw, y, cache, cache)
			norm := func(heads, at int, y []uint32) []uint32 {
				r := shaders.RMSNormParams{D: uint32(heads * s.hd), XStride: uint32(stride), YStride: uint32(q + kv), Eps: 1e-6, XCol: uint32(at), YCol: uint32(at), WCol: uint32(at)}
				if each == 1 {
					r.D, r.Heads, r.WCol = uint32(s.hd), uint32(heads), uint32(min(at, s.hd))
				}
				return gputest.Run(t, cpu, shaders.RMSNorm, nil, r, step, x, norms, y)[2]
			}
			y = norm(s.kvh, q, norm(s.h, 0, y))
			of := append(tokenSeqs(seqs...), 0)
			if s.rot > 0 {
				y = gputest.Run(t, cpu, shaders.RoPE, nil, shaders.RoPEParams{Heads: uint32(s.h + s.kvh), HD: p.HD, Rot: p.Rot, Stride: uint32(q + kv), Positions: positions}, step, table, sw, of, y)[3]
			}
			caches := gputest.Run(t, cpu, shaders.KVWrite, nil, shaders.KVWriteParams{D: uint32(kv), KStride: uint32(q + kv), KCol: uint32(q), VStride: uint32(stride), VCol: uint32(q + kv)}, step, y, x, rows, sw, of, cache, cache)
			for i, want := range [][]uint32{y, caches[5], caches[6]} {
				if !slices.Equal(out[5+i], want) {
					t.Errorf("%+v each %d: output %d differs from the four kernels'", s, each, i)
				}
			}
		}
	}
}

// attnTokenTol bounds [shaders.AttnToken]: attention to as many keys, whose query and new key and value
// are off by what [shaders.AttnInputs] may be, the scores by both.
func attnTokenTol(hd int) gputest.Tolerance {
	tol := attentionTol(hd, shaders.AttentionSpan)
	return gputest.Tolerance{RMS: tol.RMS + 4*tight.RMS, Max: tol.Max + 4*tight.Max}
}

// attnTokenCase is a play of [shaders.AttnToken]: a sequence for each past, in rows scattered over the
// caches, of which only those of its past are not poisoned, and a fork that shares the last one's.
type attnTokenCase struct {
	p    shaders.AttnTokenParams
	hd   int
	seqs []shaders.Seq
	own  []int      // cache rows of the new tokens
	bufs [][]uint32 // o last
}

func newAttnToken(h, kvh, hd, rot int, each uint32, pasts ...int) *attnTokenCase {
	n := len(pasts) + 1
	kv, heads := kvh*hd, h+kvh
	stride := heads*hd + kv + 3
	c := &attnTokenCase{hd: hd}
	var maps []uint32
	cached := n
	for _, past := range pasts {
		cached += past
	}
	free := rand.New(rand.NewPCG(uint64(hd), uint64(n))).Perm(cached)
	k, v := gputest.Poisoned((cached+1)*kv), gputest.Poisoned((cached+1)*kv)
	longest := 0
	for i, past := range append(slices.Clone(pasts), pasts[len(pasts)-1]) {
		maps = append(maps, gputest.Poison) // between the maps
		// Tokens are not in the order of their sequences.
		s := shaders.Seq{Start: uint32((i + 1) % n), Count: 1, Past: uint32(past), Map: uint32(len(maps))}
		longest = max(longest, past)
		for j := range past {
			if i == n-1 {
				maps = append(maps, maps[int(c.seqs[i-1].Map)+j])
				continue
			}
			row := free[0]
			free = free[1:]
			maps = append(maps, uint32(row))
			copy(k[row*kv:], gputest.F32(gputest.Rand(uint64(100+row), kv, 1)))
			copy(v[row*kv:], gputest.F32(gputest.Rand(uint64(9000+row), kv, 1)))
		}
		c.own = append(c.own, free[0])
		maps = append(maps, uint32(free[0]))
		free = free[1:]
		c.seqs = append(c.seqs, s)
	}
	positions := longest // the last position takes the table's last row
	angles := make([]float32, max(positions, 1)*max(rot, 2))
	for i := range angles {
		angles[i] = float32(math.Sin(float64(i/2)*0.7 + float64(i%2)*math.Pi/2))
	}
	weights := heads * hd
	if each == 1 {
		weights = 2 * hd
	}
	c.p = shaders.AttnTokenParams{H: uint32(h), KVH: uint32(kvh), Rot: uint32(rot), XStride: uint32(stride), Positions: uint32(max(positions, 1)), Eps: 1e-6, Each: each, Scale: float32(1 / math.Sqrt(float64(hd)))}
	c.bufs = [][]uint32{
		append(gputest.F32(gputest.Rand(1, n*stride, 0.7)), gputest.Poison),
		gputest.F32(gputest.Rand(2, weights, 1)),
		gputest.F32(angles),
		append(maps, gputest.Poison),
		gputest.Seqs(c.seqs...),
		k, v,
		gputest.Poisoned((n + 1) * h * hd),
	}
	return c
}

func (c *attnTokenCase) consts() shaders.C { return shaders.C{"HD": uint32(c.hd)} }

func (c *attnTokenCase) step() shaders.Step {
	n := uint32(len(c.seqs))
	return shaders.Step{Tokens: n, Seqs: n, Keys: shaders.AttentionSpan}
}

var attnTokenOuts = []int{5, 6, 7}

// The one kernel gives what the two that it stands for give: shared keys, rotation of nothing, a part and
// all, norms of each head and of all, windows, no past and as much as there may be.
func TestAttnToken(t *testing.T) {
	for _, s := range []struct {
		h, kvh, hd, rot int
		pasts           []int
		windows         []uint32
	}{
		{2, 1, 4, 4, []int{0, 1, 5, 255}, []uint32{0, 1, 3}},
		{6, 2, 12, 8, []int{63, 0, 200, 5}, []uint32{0, 7}},
		{5, 5, 20, 0, []int{31, 32, 33}, []uint32{0}},
		{4, 4, 32, 32, []int{0, 1, 5, 63, 200, 255}, []uint32{0, 1, 2, 40, 256}},
		{4, 1, 64, 16, []int{64, 129}, []uint32{0, 65}},
		{4, 2, 128, 64, []int{5, 255, 130}, []uint32{0, 100}},
		{2, 1, 256, 64, []int{0, 1, 63, 200, 255}, []uint32{0, 33, 64}},
		{9, 3, 128, 0, []int{2}, []uint32{0}},
		{36, 4, 128, 128, []int{7}, []uint32{0}},
		{35, 35, 128, 32, []int{3}, []uint32{0}}, // more heads than a norm takes at once
	} {
		for _, each := range []uint32{0, 1} {
			c := newAttnToken(s.h, s.kvh, s.hd, s.rot, each, s.pasts...)
			for _, window := range s.windows {
				c.p.Window = window
				what := fmt.Sprintf("%+v each %d window %d", s, each, window)
				gputest.Check(t, what, attnTokenTol(s.hd), shaders.AttnToken, c.consts(), c.p, c.step(), attnTokenOuts, c.bufs...)
				c.beside(t, what)
			}
			c.keeps(t, fmt.Sprintf("%+v each %d", s, each))
		}
	}
}

// beside compares the twin with those of the two kernels, one after the other.
func (c *attnTokenCase) beside(t *testing.T, what string) {
	t.Helper()
	made, want := c.two(t, shaders.AttentionSplit, shaders.C{"HD": uint32(c.hd), "ONE": 1})
	got := gputest.Run(t, webgpu.NewCPU(), shaders.AttnToken, c.consts(), c.p, c.step(), c.bufs...)
	for i, want := range [][]uint32{made[6], made[7], want} {
		if !slices.Equal(got[5+i], want) {
			t.Errorf("%s: %s differs from the two kernels'", what, shaders.AttnToken.Slots[5+i].Name)
		}
	}
}

// two plays the twins of [shaders.AttnInputs] and an attention, and gives the first's buffers and the
// second's output.
func (c *attnTokenCase) two(t *testing.T, attention *shaders.Kernel, consts shaders.C) (made [][]uint32, o []uint32) {
	t.Helper()
	cpu, p, b := webgpu.NewCPU(), c.p, c.bufs
	stride := (p.H + p.KVH) * uint32(c.hd)
	in := shaders.AttnInputsParams{H: p.H, KVH: p.KVH, HD: uint32(c.hd), Rot: p.Rot, XStride: p.XStride, Positions: p.Positions, Eps: p.Eps, Each: p.Each}
	made = gputest.Run(t, cpu, shaders.AttnInputs, nil, in, c.step(), b[0], b[1], b[2], b[3], b[4], gputest.Poisoned(len(c.seqs)*int(stride)), b[5], b[6])
	of := make([]uint32, len(c.seqs))
	for i, s := range c.seqs {
		of[s.Start] = uint32(i)
	}
	softmax := shaders.AttentionParams{H: p.H, KVH: p.KVH, QStride: stride, Window: p.Window, Scale: p.Scale}
	return made, gputest.Run(t, cpu, attention, consts, softmax, c.step(), made[5], made[6], made[7], b[3], b[4], of, b[7])[6]
}

// keeps reports what changes of the caches beyond the new rows, to the bit.
func (c *attnTokenCase) keeps(t *testing.T, what string) {
	t.Helper()
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		got := gputest.Run(t, d, shaders.AttnToken, c.consts(), c.p, c.step(), c.bufs...)
		kv := int(c.p.KVH) * c.hd
		for _, slot := range []int{5, 6} {
			for i, w := range got[slot] {
				if fresh := slices.Contains(c.own, i/kv); w != c.bufs[slot][i] != fresh {
					t.Fatalf("%s: %s row %d of a new token: %v; word %d was %#x and is %#x", what, shaders.AttnToken.Slots[slot].Name, i/kv, fresh, i, c.bufs[slot][i], w)
				}
			}
		}
	})
}

// A window that has left a position of a longer sequence behind is one span, wherever it is.
func TestAttnTokenFar(t *testing.T) {
	for _, window := range []uint32{100, shaders.AttentionSpan} {
		c := newAttnToken(2, 1, 32, 32, 1, 300, 700)
		c.p.Window = window
		what := fmt.Sprintf("window %d", window)
		tol := attnTokenTol(32)
		gputest.Check(t, what, tol, shaders.AttnToken, c.consts(), c.p, c.step(), attnTokenOuts, c.bufs...)
		_, want := c.two(t, shaders.Attention, c.consts())
		got := gputest.Run(t, webgpu.NewCPU(), shaders.AttnToken, c.consts(), c.p, c.step(), c.bufs...)
		gputest.Close(t, what+" beside attention", tol, gputest.Floats(got[7]), gputest.Floats(want))
	}
}

// Scores all equal, and so far apart that what no token sees would win: the output is finite, and without
// a past the new value itself.
func TestAttnTokenExtremes(t *testing.T) {
	const h, hd = 8, 12
	for name, scale := range map[string]float32{"flat": 0, "huge": 1e5, "the least": -1e5} {
		c := newAttnToken(h, h, hd, 8, 1, 2, 90, 0)
		c.p.Scale = scale
		gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
			o := gputest.Floats(gputest.Run(t, d, shaders.AttnToken, c.consts(), c.p, c.step(), c.bufs...)[7])
			for i, x := range o[:len(c.seqs)*h*hd] {
				if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
					t.Fatalf("%s: [%d] is %v", name, i, x)
				}
			}
			for _, s := range c.seqs[2:] {
				value := gputest.Floats(c.bufs[0])[s.Start*c.p.XStride+2*h*hd:][:h*hd]
				gputest.Close(t, name+" without a past", tight, o[s.Start*h*hd:][:h*hd], value)
			}
		})
		if scale == 0 {
			gputest.Check(t, name, attnTokenTol(hd), shaders.AttnToken, c.consts(), c.p, c.step(), attnTokenOuts, c.bufs...)
		}
	}
}

// A play that reads another row, head, position or weight is caught.
func TestAttnTokenBroken(t *testing.T) {
	const h, kvh, hd = 4, 2, 12
	c := newAttnToken(h, kvh, hd, 8, 1, 40, 0, 70)
	c.p.Window = 50
	got := gputest.Run(t, gputest.GPU(t), shaders.AttnToken, c.consts(), c.p, c.step(), c.bufs...)
	for name, spoil := range map[string]func(b *attnTokenCase){
		"window":             func(b *attnTokenCase) { b.p.Window = 49 },
		"scale":              func(b *attnTokenCase) { b.p.Scale *= 1.001 },
		"no rotation":        func(b *attnTokenCase) { b.p.Rot = 0 },
		"one angle":          func(b *attnTokenCase) { b.bufs[2][40*8+1] ^= 1 << 31 },
		"the last position":  func(b *attnTokenCase) { b.p.Positions-- },
		"eps":                func(b *attnTokenCase) { b.p.Eps = 1e-2 },
		"q's norm":           func(b *attnTokenCase) { b.bufs[1][hd-1] ^= 1 << 31 },
		"k's norm":           func(b *attnTokenCase) { b.bufs[1][2*hd-1] ^= 1 << 31 },
		"another token":      func(b *attnTokenCase) { b.seqs[0].Start = b.seqs[1].Start },
		"one past key":       func(b *attnTokenCase) { b.bufs[5][int(b.bufs[3][b.seqs[0].Map+39])*kvh*hd+hd] ^= 1 << 31 },
		"one past value":     func(b *attnTokenCase) { b.bufs[6][int(b.bufs[3][b.seqs[0].Map+3])*kvh*hd] ^= 1 << 31 },
		"one row":            func(b *attnTokenCase) { b.bufs[3][b.seqs[2].Map+60] = b.bufs[3][b.seqs[2].Map+30] },
		"one of a new value": func(b *attnTokenCase) { b.bufs[0][(h+kvh)*hd+5] ^= 1 << 31 },
		"heads share a key":  func(b *attnTokenCase) { b.p.KVH = 1 },
	} {
		b := *c
		b.bufs, b.seqs = nil, slices.Clone(c.seqs)
		for _, words := range c.bufs {
			b.bufs = append(b.bufs, slices.Clone(words))
		}
		spoil(&b)
		b.bufs[4] = gputest.Seqs(b.seqs...)
		want := gputest.Run(t, webgpu.NewCPU(), shaders.AttnToken, b.consts(), b.p, b.step(), b.bufs...)
		wrong := false
		for _, i := range attnTokenOuts {
			g, w := gputest.Floats(got[i]), gputest.Floats(want[i])
			if i < 7 { // of the caches only what is written: past rows are inputs
				g, w = c.written(g), c.written(w)
			}
			wrong = wrong || gputest.Compare(attnTokenTol(hd), g, w).Err != nil
		}
		if !wrong {
			t.Errorf("%s: a wrong twin passed", name)
		}
	}
}

// written are the new tokens' rows of a cache.
func (c *attnTokenCase) written(cache []float32) (rows []float32) {
	n := int(c.p.KVH) * c.hd
	for _, row := range c.own {
		rows = append(rows, cache[row*n:][:n]...)
	}
	return rows
}

// The row form ends in SwiGLU too.
func TestMatVecRowGLU(t *testing.T) {
	for _, kind := range []uint32{shaders.F32, shaders.F16, shaders.BF16} {
		for _, s := range []struct{ rows, d, n int }{{1, 128, 288}, {2, 5, 3}, {3, 33, 17}} {
			p := shaders.MatMulParams{D: uint32(s.d), N: uint32(s.n), XStride: uint32(s.d + 3), YStride: uint32(s.n + 5), YCol: 2, Rows: 1}
			tol := dots(s.d)
			tol.RMS, tol.Max = 4*tol.RMS, 4*tol.Max
			gputest.Check(t, fmt.Sprintf("kind %d %+v", kind, s), tol, shaders.MatVecRow, shaders.C{"W_KIND": kind, "GLU": 1}, p, shaders.Step{Outs: uint32(s.rows)}, []int{2},
				gputest.F32(gputest.Rand(1, s.rows*(s.d+3), 1)), packed(kind, gputest.Rand(2, 2*s.n*s.d, 1)), gputest.Poisoned((s.rows+1)*(s.n+5)))
		}
	}
}

// Ranges of several buffers, one of them of a slot and one empty, land where they belong and nowhere
// else.
func TestCollect(t *testing.T) {
	var bufs [][]uint32
	for i := range shaders.CollectRanges {
		bufs = append(bufs, gputest.F32(gputest.Rand(uint64(i+1), 700, 1)))
	}
	p := shaders.CollectParams{Stamp: 1100}
	p.Ranges = [shaders.CollectRanges]shaders.CollectRange{{Size: 1, Off: 3, At: 5}, {Size: 300, Off: 7, At: 10}, {Size: 0}, {Size: 130, Off: 2, Stride: 140, At: 400}, {Size: 63, At: 600}, {Size: 257, Off: 443, At: 700}}
	step := shaders.Step{Slot: 3}
	want := gputest.Poisoned(1200)
	for i, r := range p.Ranges {
		copy(want[r.At:][:r.Size], bufs[i][r.Off+r.Stride*3:])
	}
	want[1100] = 1 // the first play
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		got := gputest.Run(t, d, shaders.Collect, nil, p, step, append(slices.Clone(bufs), gputest.Poisoned(1200))...)[shaders.CollectRanges]
		if !slices.Equal(got[:1200], want) {
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("word %d: got %#x, want %#x", i, got[i], want[i])
				}
			}
		}
	})
}

// In two phases the candidates are those of one: parts that are not full, fewer logits than
// candidates in the last, equal logits in different parts.
func TestTopKSplit(t *testing.T) {
	for _, s := range []struct{ n, k, outs int }{{5, 5, 2}, {2048, 3, 1}, {2050, 8, 3}, {9001, 10, 2}, {270000, 4, 1}} {
		logits := gputest.Rand(uint64(s.n), s.outs*s.n, 4)
		logits[0], logits[s.n-1] = 19, 19
		if s.n > 4000 {
			logits[3000], logits[2047] = 19, 19
		}
		logits[len(logits)-2] = -1e4
		p := shaders.TopKParams{N: uint32(s.n), K: uint32(s.k)}
		step := shaders.Step{Outs: uint32(s.outs)}
		x := gputest.F32(logits)
		want := gputest.Run(t, webgpu.NewCPU(), shaders.TopK, nil, p, step, x, gputest.Poisoned(s.outs*s.k*2))[1]
		gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
			parts := shaders.TopKParts(s.outs, s.n, s.k)
			split := gputest.Run(t, d, shaders.TopKSplit, nil, p, step, x, gputest.Poisoned(parts+3))[1]
			for _, w := range split[parts:] {
				if w != gputest.Poison {
					t.Errorf("%+v: wrote past its parts", s)
				}
			}
			got := gputest.Run(t, d, shaders.TopKJoin, nil, p, step, split, gputest.Poisoned(s.outs*s.k*2+3))[1]
			for i := 0; i < s.outs*s.k; i++ {
				a, b := math.Float32frombits(got[2*i+1]), math.Float32frombits(want[2*i+1])
				if got[2*i] != want[2*i] || !(math.Abs(float64(a-b)) <= 1e-6+1e-5*float64(b)) {
					t.Errorf("%+v: candidate %d is %d (%v), want %d (%v)", s, i, got[2*i], a, want[2*i], b)
				}
			}
			for _, w := range got[s.outs*s.k*2:] {
				if w != gputest.Poison {
					t.Errorf("%+v: wrote past its %d results", s, s.outs*s.k)
				}
			}
		})
	}
}

// After a pass each sequence reads what was found most probable, one position on, from the slot that was
// written, into the other one; what was found is kept in the row of its position, and nothing else moves.
func TestAdvance(t *testing.T) {
	for _, k := range []uint32{1, 3} {
		const most = 4
		seqs := []shaders.Seq{
			{Start: 0, Count: 1, Past: 6, SlotIn: 5, SlotOut: 2, Map: 40, Turn: 5},
			{Start: 1, Count: 1, Past: 0, SlotIn: shaders.NoSlot, SlotOut: 0, Turn: 0},
			{Start: 2, Count: 1, Past: 3, SlotIn: 1, SlotOut: 3, Turn: 4},
		}
		size := 2 * int(k)
		top := make([]uint32, len(seqs)*size)
		for i := range top {
			top[i] = uint32(100 + i)
		}
		tops := gputest.Poisoned(len(seqs)*most*size + 1)
		for b, row := range []int{2, 0, 3} {
			copy(tops[(b*most+row)*size:], top[b*size:][:size])
		}
		want := [][]uint32{
			top,
			{top[0], top[size], top[2*size], gputest.Poison},
			append(gputest.Seqs(
				shaders.Seq{Start: 0, Count: 1, Past: 7, SlotIn: 2, SlotOut: 5, Map: 40, Turn: 2},
				shaders.Seq{Start: 1, Count: 1, Past: 1, SlotIn: 0, SlotOut: 0, Turn: 0},
				shaders.Seq{Start: 2, Count: 1, Past: 4, SlotIn: 3, SlotOut: 4, Turn: 3},
			), gputest.Poison),
			tops,
		}
		gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
			got := gputest.Run(t, d, shaders.Advance, nil, shaders.AdvanceParams{K: k, Most: most}, shaders.Step{Tokens: 3, Seqs: 3, Outs: 3},
				top, gputest.Poisoned(4), append(gputest.Seqs(seqs...), gputest.Poison), gputest.Poisoned(len(tops)))
			for i, w := range want {
				if !slices.Equal(got[i][:len(w)], w) {
					t.Errorf("k %d: buffer %d holds %v, want %v", k, i, got[i][:len(w)], w)
				}
			}
		})
	}
}
