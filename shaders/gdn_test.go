package shaders_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"shellgame/shaders"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// deltaTol bounds the delta rule in f32 against the twin's float64 sums. A token adds the rounding
// of sums over K (and over the chunk's tokens); alpha ≤ 1, beta ≤ 2 and unit keys never make an
// error grow, so the errors of T tokens add up like a random walk.
func deltaTol(tokens, k int) gputest.Tolerance {
	e := 6e-8 * 2 * math.Sqrt(float64(k+8)) * math.Sqrt(float64(tokens+4))
	return gputest.Tolerance{RMS: e, Max: 8 * e}
}

var decays = map[string][]float32{
	"none":  {0},
	"tiny":  {-1e-12},
	"-28":   {-28},
	"-88":   {-88},
	"mixed": {0, -1e-12, -0.01, -0.3, 0, 0, -28, 0, -0.001, -88, -1, -1e-12, 0, -19, 0},
}

// deltaCase is the input of the delta rule for a batch: random values, unit keys some of which
// repeat, beta up to and including 2.
type deltaCase struct {
	wide         bool // the wide kernels of the chunked form
	k, v, hk, hv int
	p            shaders.GDNParams
	store        uint32 // what the recurrent forms round the state to
	tokens       int
	seqs         []shaders.Seq
	qkv, gates   []float32
	state        []uint32 // [slots, HV, K, V]
}

const deltaSlots = 6

func newDelta(k, v, hk, hv int, decay []float32, seqs ...shaders.Seq) *deltaCase {
	c := &deltaCase{k: k, v: v, hk: hk, hv: hv, seqs: seqs}
	c.p = shaders.GDNParams{HK: uint32(hk), HV: uint32(hv), Stride: uint32(2*hk*k + hv*v + 3), Col: 2}
	if (k|v)%4 == 0 { // as wide kernels want it
		c.p.Stride, c.p.Col = c.p.Stride+5, 4
	}
	for _, s := range seqs {
		c.tokens = max(c.tokens, int(s.Start+s.Count))
	}
	r := rand.New(rand.NewPCG(uint64(k*1000+v), uint64(c.tokens)))
	c.qkv = gputest.Rand(7, (c.tokens+1)*int(c.p.Stride), 1)
	for t := range c.tokens {
		row := c.qkv[t*int(c.p.Stride)+int(c.p.Col):]
		for h := range 2 * hk {
			if t > 0 && h >= hk && r.IntN(3) == 0 { // the key of the token before
				copy(row[h*k:][:k], c.qkv[(t-1)*int(c.p.Stride)+int(c.p.Col)+h*k:][:k])
				continue
			}
			scale := 1.0
			if h < hk {
				scale = 1 / math.Sqrt(float64(k))
			}
			unit(row[h*k:][:k], scale)
		}
	}
	c.gates = make([]float32, (c.tokens+1)*2*hv)
	for t := range c.tokens {
		for h := range hv {
			c.gates[t*2*hv+h] = decay[(t+3*h)%len(decay)]
			c.gates[t*2*hv+hv+h] = []float32{2, r.Float32() * 2, 2, r.Float32(), 0}[r.IntN(5)]
		}
	}
	c.state = append(gputest.F32(gputest.Rand(9, deltaSlots*hv*k*v, 1)), gputest.Poison)
	return c
}

func unit(x []float32, scale float64) {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	for i := range x {
		x[i] = float32(float64(x[i]) * scale / math.Sqrt(sum))
	}
}

func (c *deltaCase) consts() shaders.C { return shaders.C{"K": uint32(c.k), "V": uint32(c.v)} }

// rounded are the constants of a form that rounds the state.
func (c *deltaCase) rounded() shaders.C {
	all := c.consts()
	if c.store != shaders.F32 {
		all["STORE"] = c.store
	}
	return all
}

func (c *deltaCase) step() shaders.Step {
	return shaders.Step{Tokens: uint32(c.tokens), Seqs: uint32(len(c.seqs))}
}

// out is the poisoned output, with a token's room beyond it.
func (c *deltaCase) out() []uint32 { return gputest.Poisoned((c.tokens + 1) * c.hv * c.v) }

// runStep plays the recurrent form on d.
func (c *deltaCase) runStep(t testing.TB, d webgpu.Device) (o, state []float32) {
	out := gputest.Run(t, d, shaders.GDNStep, c.rounded(), c.p, c.step(),
		gputest.F32(c.qkv), gputest.F32(c.gates), gputest.Seqs(c.seqs...), c.state, c.out())
	return gputest.Floats(out[4]), gputest.Floats(out[3])
}

// part is the case of tokens from to to of c's only sequence, from slot in to slot out.
func (c *deltaCase) part(from, to int, state []float32, in, out uint32) *deltaCase {
	p := *c
	p.tokens = to - from
	p.seqs = []shaders.Seq{{Count: uint32(to - from), Past: uint32(from), SlotIn: in, SlotOut: out}}
	p.qkv = c.qkv[from*int(c.p.Stride):]
	p.gates = c.gates[from*2*c.hv:]
	p.state = gputest.F32(state)
	return &p
}

var deltaShapes = []struct{ k, v, hk, hv int }{{5, 1, 5, 5}, {12, 24, 2, 4}, {32, 64, 4, 4}, {96, 192, 1, 2}, {128, 128, 1, 1}}

var deltaTimes = []int{1, 2, 63, 64, 65, 130, 513}

// worst keeps the largest error relative to its bound.
type worst struct {
	of    float64
	text  string
	tests int
}

func (w *worst) add(what string, tol gputest.Tolerance, d gputest.Diff) {
	w.tests++
	if r := d.Worst / tol.Max; r >= w.of {
		w.of, w.text = r, fmt.Sprintf("%s: worst [%d] want %v got %v, err %.3g (bound %.3g), RMS %.3g (bound %.3g)", what, d.Index, d.Want, d.Got, d.Worst, tol.Max, d.RMS, tol.RMS)
	}
}

func (w *worst) log(t *testing.T) {
	t.Helper()
	t.Logf("%d comparisons, %s", w.tests, w.text)
}

func TestGDNStep(t *testing.T) {
	var w worst
	for _, s := range append(deltaShapes, struct{ k, v, hk, hv int }{256, 256, 1, 1}) {
		for _, tokens := range deltaTimes {
			if s.k == 256 && tokens > 65 {
				continue
			}
			for name, decay := range decays {
				if name != "mixed" && tokens != 65 {
					continue
				}
				c := newDelta(s.k, s.v, s.hk, s.hv, decay, shaders.Seq{Count: uint32(tokens), SlotIn: 1, SlotOut: 0})
				what := fmt.Sprintf("gdn_step %+v T %d decay %s", s, tokens, name)
				tol := deltaTol(tokens, s.k)
				o, state := c.runStep(t, gputest.GPU(t))
				wantO, wantState := c.runStep(t, webgpu.NewCPU())
				w.add(what+" o", tol, gputest.Close(t, what+" o", tol, o, wantO))
				w.add(what+" state", tol, gputest.Close(t, what+" state", tol, state, wantState))
			}
		}
	}
	w.log(t)
}

// deltaBatch holds several sequences: a fork, another of the same slot that reads nothing, a new
// one, one in place, and a new one that reads nothing.
func deltaBatch() []shaders.Seq {
	return []shaders.Seq{
		{Start: 0, Count: 37, SlotIn: 1, SlotOut: 0},
		{Start: 37, Count: 0, SlotIn: 1, SlotOut: 2},
		{Start: 37, Count: 70, SlotIn: shaders.NoSlot, SlotOut: 3},
		{Start: 107, Count: 1, SlotIn: 4, SlotOut: 4},
		{Start: 108, Count: 0, SlotIn: shaders.NoSlot, SlotOut: 5},
	}
}

// A batch gives each sequence what it gets alone, on every device.
func TestGDNStepBatch(t *testing.T) {
	for _, s := range deltaShapes {
		c := newDelta(s.k, s.v, s.hk, s.hv, decays["mixed"], deltaBatch()...)
		gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
			o, state := c.runStep(t, d)
			c.checkAlone(t, d, o, state, gputest.Tolerance{}, (*deltaCase).runStep)
		})
	}
}

// checkAlone compares a batch's results with those of each sequence played by itself.
func (c *deltaCase) checkAlone(t *testing.T, d webgpu.Device, o, state []float32, tol gputest.Tolerance, run func(*deltaCase, testing.TB, webgpu.Device) (o, state []float32)) {
	t.Helper()
	want := append([]float32(nil), gputest.Floats(c.state)...)
	row, slot := c.hv*c.v, c.hv*c.k*c.v
	for i, s := range c.seqs {
		alone := *c
		alone.seqs = []shaders.Seq{s}
		oneO, oneState := run(&alone, t, d)
		from, to := int(s.Start)*row, int(s.Start+s.Count)*row
		if from < to {
			gputest.Close(t, fmt.Sprintf("seq %d o", i), tol, o[from:to], oneO[from:to])
		}
		copy(want[int(s.SlotOut)*slot:][:slot], oneState[int(s.SlotOut)*slot:][:slot])
	}
	gputest.Close(t, "state", tol, state, want)
	gputest.Close(t, "seq 1 reads nothing: its state", gputest.Tolerance{}, state[2*slot:3*slot], gputest.Floats(c.state)[slot:2*slot])
	gputest.Close(t, "seq 4 is new and reads nothing: its state", gputest.Tolerance{}, state[5*slot:6*slot], make([]float32, slot))
	for _, v := range o[c.tokens*row:] {
		if math.Float32bits(v) != gputest.Poison {
			t.Fatalf("wrote past token %d", c.tokens)
		}
	}
}

// Two plays with the state carried over give what one gives, wherever the split is.
func TestGDNStepSplit(t *testing.T) {
	const tokens = 11
	c := newDelta(12, 24, 2, 4, decays["mixed"], shaders.Seq{Count: tokens, SlotIn: 1, SlotOut: 0})
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		c.checkSplits(t, d, gputest.Tolerance{}, tokens, (*deltaCase).runStep, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
	})
}

func (c *deltaCase) checkSplits(t *testing.T, d webgpu.Device, tol gputest.Tolerance, tokens int, run func(*deltaCase, testing.TB, webgpu.Device) (o, state []float32), splits []int) {
	t.Helper()
	one, oneState := run(c, t, d)
	row, slot := c.hv*c.v, c.hv*c.k*c.v
	for _, at := range splits {
		o1, state := run(c.part(0, at, gputest.Floats(c.state), 1, 0), t, d)
		o2, state := run(c.part(at, tokens, state, 0, 0), t, d)
		gputest.Close(t, fmt.Sprintf("split at %d: o", at), tol, append(o1[:at*row:at*row], o2[:(tokens-at)*row]...), one[:tokens*row])
		gputest.Close(t, fmt.Sprintf("split at %d: state", at), tol, state[:slot], oneState[:slot])
	}
}

// swaps is the state tracking of the shell game: five values in S [5, 1], each token the
// reflection that swaps two of them, and a read of one. It returns what must be read.
func swaps(tokens int) (c *deltaCase, want []float32) {
	c = newDelta(5, 1, 1, 1, decays["none"], shaders.Seq{Count: uint32(tokens), SlotIn: 1, SlotOut: 0})
	r := rand.New(rand.NewPCG(3, 4))
	cups := []float32{3, 0, 2, 1, 4}
	copy(gputest.Floats(c.state)[5:], cups)
	for t := range tokens {
		row := c.qkv[t*int(c.p.Stride)+int(c.p.Col):]
		clear(row[:11])
		a := r.IntN(5)
		b := (a + 1 + r.IntN(4)) % 5
		row[5+a], row[5+b] = float32(math.Sqrt(0.5)), -float32(math.Sqrt(0.5))
		c.gates[2*t], c.gates[2*t+1] = 0, 2
		cups[a], cups[b] = cups[b], cups[a]
		i := r.IntN(5)
		row[i] = 1
		want = append(want, cups[i])
	}
	return c, want
}

// A swap is a reflection: I - 2kkᵀ with k = (e_a - e_b)/√2 exchanges two values exactly.
func TestGDNSwaps(t *testing.T) {
	c, want := swaps(300)
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		for name, run := range map[string]func(*deltaCase, testing.TB, webgpu.Device) (o, state []float32){"step": (*deltaCase).runStep, "chunk": (*deltaCase).runChunk} {
			o, _ := run(c, t, d)
			gputest.Close(t, name, gputest.Tolerance{RMS: 1e-4, Max: 1e-4}, o[:300], want)
		}
	})
}

// A twin with one wrong sign, a state not carried, or a decay left out is caught.
func TestGDNBrokenTwin(t *testing.T) {
	c := newDelta(12, 24, 2, 4, decays["mixed"], shaders.Seq{Count: 40, SlotIn: 1, SlotOut: 0})
	o, state := c.runStep(t, gputest.GPU(t))
	for name, spoil := range map[string]func(b *deltaCase){
		"sign of k in one token": func(b *deltaCase) {
			row := b.qkv[20*int(b.p.Stride)+int(b.p.Col)+b.hk*b.k:]
			row[3] = -row[3]
		},
		"state not read":       func(b *deltaCase) { b.seqs[0].SlotIn = shaders.NoSlot },
		"no decay":             func(b *deltaCase) { clear(b.gates[:b.hv]) },
		"beta 1 % off":         func(b *deltaCase) { b.gates[30*2*b.hv+b.hv] = b.gates[30*2*b.hv+b.hv]*1.01 + 0.01 },
		"key head of another":  func(b *deltaCase) { b.p.Col += uint32(b.k) },
		"one token left out":   func(b *deltaCase) { b.seqs[0].Count-- },
		"the last token twice": func(b *deltaCase) { b.seqs[0].Start++ },
	} {
		b := *c
		b.qkv, b.gates = append([]float32(nil), c.qkv...), append([]float32(nil), c.gates...)
		b.seqs = append([]shaders.Seq(nil), c.seqs...)
		spoil(&b)
		wantO, wantState := b.runStep(t, webgpu.NewCPU())
		tol := deltaTol(40, 12)
		if gputest.Compare(tol, o, wantO).Err == nil && gputest.Compare(tol, state, wantState).Err == nil {
			t.Errorf("%s: a wrong twin passed", name)
		}
	}
}
