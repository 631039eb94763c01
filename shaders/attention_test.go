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

// attentionTol bounds softmax attention in f32: the error of a score of HD terms moves a
// probability by as much, relatively, and n weighted values are summed.
func attentionTol(hd, n int) gputest.Tolerance {
	e := 6e-8 * 4 * (math.Sqrt(float64(hd)) + math.Sqrt(float64(n)))
	return gputest.Tolerance{RMS: e, Max: 8 * e}
}

// attentionCase is a batch over caches in which only the rows that its sequences have are not NaN.
type attentionCase struct {
	hd, h, kvh      int
	p               shaders.AttentionParams
	tokens, longest int
	seqs            []shaders.Seq
	q, k, v         []uint32 // q [T, QStride]; k and v of the new tokens, columns 1.. of one buffer
	kv              shaders.KVWriteParams
	rows            []uint32
	kCache, vCache  []uint32 // [rows, KVH, HD], past positions filled in
}

// newAttention lays out sequences of the given past and count, each with rows scattered over the
// cache. A fork of sequence i shares the rows of i's past.
func newAttention(hd, h, kvh int, forks map[int]int, lengths ...[2]int) *attentionCase {
	c := &attentionCase{hd: hd, h: h, kvh: kvh}
	r := rand.New(rand.NewPCG(uint64(hd), uint64(len(lengths))))
	total := 0
	for _, l := range lengths {
		total += l[0] + l[1]
	}
	free := r.Perm(total + 3)
	d := kvh * hd
	c.kCache, c.vCache = gputest.Poisoned((total+3)*d), gputest.Poisoned((total+3)*d)
	for i, l := range lengths {
		s := shaders.Seq{Start: uint32(c.tokens), Count: uint32(l[1]), Past: uint32(l[0]), Map: uint32(len(c.rows))}
		for j := range l[0] + l[1] {
			if of, ok := forks[i]; ok && j < l[0] {
				c.rows = append(c.rows, c.rows[int(c.seqs[of].Map)+j])
				continue
			}
			row := free[0]
			free = free[1:]
			c.rows = append(c.rows, uint32(row))
			if j < l[0] {
				copy(c.kCache[row*d:], gputest.F32(gputest.Rand(uint64(100+row), d, 1)))
				copy(c.vCache[row*d:], gputest.F32(gputest.Rand(uint64(9000+row), d, 1)))
			}
		}
		c.rows = append(c.rows, gputest.Poison) // between the maps
		c.seqs = append(c.seqs, s)
		c.tokens += l[1]
		c.longest = max(c.longest, l[0]+l[1])
	}
	c.p = shaders.AttentionParams{H: uint32(h), KVH: uint32(kvh), QStride: uint32(h*hd + 5), QCol: 3, ProbsStride: uint32(c.longest + 2), Scale: float32(1 / math.Sqrt(float64(hd)))}
	c.kv = shaders.KVWriteParams{D: uint32(d), KStride: uint32(d + 4), KCol: 1, VStride: uint32(2*d + 1), VCol: uint32(d)}
	c.q = append(gputest.F32(gputest.Rand(1, c.tokens*(h*hd+5), 1.5)), gputest.Poison)
	c.k = append(gputest.F32(gputest.Rand(2, c.tokens*(d+4), 1)), gputest.Poison)
	c.v = append(gputest.F32(gputest.Rand(3, c.tokens*(2*d+1), 1)), gputest.Poison)
	return c
}

func (c *attentionCase) consts() shaders.C { return shaders.C{"HD": uint32(c.hd)} }

func (c *attentionCase) step() shaders.Step {
	return shaders.Step{Tokens: uint32(c.tokens), Seqs: uint32(len(c.seqs)), Keys: uint32(c.longest)}
}

// write plays KVWrite on the GPU beside its twin, and keeps the caches.
func (c *attentionCase) write(t *testing.T, what string) {
	t.Helper()
	bufs := [][]uint32{c.k, c.v, c.rows, gputest.Seqs(c.seqs...), append(tokenSeqs(c.seqs...), 0), c.kCache, c.vCache}
	gputest.Check(t, what+" kv_write", gputest.Tolerance{}, shaders.KVWrite, nil, c.kv, c.step(), []int{5, 6}, bufs...)
	out := gputest.Run(t, webgpu.NewCPU(), shaders.KVWrite, nil, c.kv, c.step(), bufs...)
	c.kCache, c.vCache = out[5], out[6]
}

func (c *attentionCase) run(t testing.TB, d webgpu.Device, k *shaders.Kernel) []float32 {
	if k == shaders.AttentionSplit {
		parts := shaders.AttentionParts(c.tokens, c.h, c.hd, c.longest)
		one := gputest.Run(t, d, k, c.consts(), c.p, c.step(), c.q, c.kCache, c.vCache, c.rows,
			gputest.Seqs(c.seqs...), append(tokenSeqs(c.seqs...), 0), gputest.Poisoned(parts))
		return gputest.Floats(gputest.Run(t, d, shaders.AttentionJoin, c.consts(), c.p, c.step(), one[6], gputest.Poisoned((c.tokens+1)*c.h*c.hd))[1])
	}
	return gputest.Floats(gputest.Run(t, d, k, c.consts(), c.p, c.step(), c.q, c.kCache, c.vCache, c.rows,
		gputest.Seqs(c.seqs...), append(tokenSeqs(c.seqs...), 0), gputest.Poisoned((c.tokens+1)*c.h*c.hd))[6])
}

// span is run for sequences that are one span.
func (c *attentionCase) span(t testing.TB, d webgpu.Device) []float32 {
	return gputest.Floats(gputest.Run(t, d, shaders.AttentionSplit, shaders.C{"HD": uint32(c.hd), "ONE": 1}, c.p, c.step(), c.q, c.kCache, c.vCache, c.rows,
		gputest.Seqs(c.seqs...), append(tokenSeqs(c.seqs...), 0), gputest.Poisoned((c.tokens+1)*c.h*c.hd))[6])
}

func (c *attentionCase) probs(t testing.TB, d webgpu.Device) []float32 {
	return gputest.Floats(gputest.Run(t, d, shaders.AttentionProbs, c.consts(), c.p, c.step(), c.q, c.kCache, c.rows,
		gputest.Seqs(c.seqs...), append(tokenSeqs(c.seqs...), 0), gputest.Poisoned((c.tokens+1)*c.h*int(c.p.ProbsStride)))[5])
}

var attentionHeads = []struct{ hd, h, kvh int }{{8, 4, 4}, {16, 4, 1}, {20, 3, 3}, {32, 4, 4}, {64, 4, 2}, {128, 2, 1}, {256, 1, 1}}

// attentionBatches are lengths (past, count) of the sequences of a play, and which are forks.
var attentionBatches = map[string]struct {
	forks   map[int]int
	lengths [][2]int
}{
	"one token":      {nil, [][2]int{{0, 1}}},
	"two":            {nil, [][2]int{{0, 2}}},
	"63":             {nil, [][2]int{{0, 63}}},
	"65 after 1":     {nil, [][2]int{{1, 65}}},
	"130":            {nil, [][2]int{{0, 130}}},
	"a step":         {nil, [][2]int{{300, 1}}},
	"far steps":      {map[int]int{1: 0}, [][2]int{{512, 1}, {512, 2}, {700, 1}, {3, 1}}},
	"steps":          {map[int]int{1: 0, 2: 0}, [][2]int{{64, 1}, {64, 1}, {30, 1}, {0, 1}, {5, 1}}},
	"forks in tiles": {map[int]int{1: 0, 3: 0}, [][2]int{{40, 5}, {40, 3}, {0, 0}, {17, 30}, {0, 21}, {2, 1}}},
}

func TestAttention(t *testing.T) {
	gpu := gputest.GPU(t)
	windows := []uint32{0, 1, 7, 40}
	if !long && gpu.Info().Kind == "browser" { // where barriers take long
		windows = []uint32{0, 7}
	}
	var w worst
	for _, s := range attentionHeads {
		for name, b := range attentionBatches {
			c := newAttention(s.hd, s.h, s.kvh, b.forks, b.lengths...)
			what := fmt.Sprintf("%+v %s", s, name)
			c.write(t, what)
			for _, window := range windows {
				c.p.Window = window
				what := fmt.Sprintf("%s window %d", what, window)
				tol := attentionTol(s.hd, c.longest)
				want := c.run(t, webgpu.NewCPU(), shaders.Attention)
				w.add(what+" in spans, twins", tol, gputest.Close(t, what+" in spans, twins", tol, c.run(t, webgpu.NewCPU(), shaders.AttentionSplit), want))
				for _, k := range []*shaders.Kernel{shaders.Attention, shaders.AttentionDecode, shaders.AttentionSplit} {
					w.add(what+" "+k.Name, tol, gputest.Close(t, what+" "+k.Name, tol, c.run(t, gpu, k), want))
				}
				if c.longest <= shaders.AttentionSpan {
					w.add(what+" one span, twin", tol, gputest.Close(t, what+" one span, twin", tol, c.span(t, webgpu.NewCPU()), want))
					w.add(what+" one span", tol, gputest.Close(t, what+" one span", tol, c.span(t, gpu), want))
				}
				w.add(what+" probs", tol, gputest.Close(t, what+" probs", tol, c.probs(t, gpu), c.probs(t, webgpu.NewCPU())))
			}
		}
	}
	w.log(t)
}

// Rows of the map sum to 1 over what the query sees, are zero elsewhere, and weigh the values to
// the output: the maps that are drawn are those that are used.
func TestAttentionProbs(t *testing.T) {
	c := newAttention(16, 4, 2, map[int]int{1: 0}, [2]int{40, 5}, [2]int{40, 3}, [2]int{0, 30})
	c.write(t, "probs")
	c.p.Window = 20
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		probs, o := c.probs(t, d), c.run(t, d, shaders.Attention)
		v := gputest.Floats(c.vCache)
		n := int(c.p.ProbsStride)
		for i, s := range c.seqs {
			for pos := int(s.Past); pos < int(s.Past+s.Count); pos++ {
				tok := int(s.Start) + pos - int(s.Past)
				for h := range c.h {
					row := probs[(tok*c.h+h)*n:][:n]
					sum, read := 0.0, make([]float64, c.hd)
					for j, x := range row {
						if seen := j <= pos && j > pos-20; !seen {
							if x != 0 {
								t.Fatalf("seq %d position %d head %d: probability %v at %d, which is not seen", i, pos, h, x, j)
							}
							continue
						}
						sum += float64(x)
						for dim := range read {
							read[dim] += float64(x) * float64(v[(int(c.rows[int(s.Map)+j])*c.kvh+h/2)*c.hd+dim])
						}
					}
					if math.Abs(sum-1) > 1e-5 {
						t.Fatalf("seq %d position %d head %d: probabilities sum to %v", i, pos, h, sum)
					}
					for dim, x := range read {
						if got := float64(o[(tok*c.h+h)*c.hd+dim]); math.Abs(got-x) > 1e-5 {
							t.Fatalf("seq %d position %d head %d dim %d: output %v, the map gives %v", i, pos, h, dim, got, x)
						}
					}
				}
			}
		}
		c := *c
		c.p.ProbsStride = 11 // narrower than the sequences are long
		narrow := c.probs(t, d)
		for row := range c.tokens * c.h {
			gputest.Close(t, "narrow rows", gputest.Tolerance{RMS: 1e-6, Max: 1e-6}, narrow[row*11:][:11], probs[row*n:][:11])
		}
	})
}

// Scores far apart, all equal, and huge: the running maximum keeps the exponentials finite.
func TestAttentionExtremes(t *testing.T) {
	for name, scale := range map[string]float32{"flat": 0, "sharp": 300, "huge": 1e5} {
		c := newAttention(32, 2, 2, nil, [2]int{70, 20}, [2]int{0, 50})
		c.write(t, name)
		c.p.Scale = scale
		// The winners of a sharp softmax are one-hot; near ties would depend on the last bit.
		tol := attentionTol(32, 90)
		tol.RMS, tol.Max = tol.RMS*float64(max(scale, 1)), tol.Max*float64(max(scale, 1))
		want := c.run(t, webgpu.NewCPU(), shaders.Attention)
		for _, k := range []*shaders.Kernel{shaders.Attention, shaders.AttentionDecode, shaders.AttentionSplit} {
			got := c.run(t, gputest.GPU(t), k)
			for i, x := range got[:c.tokens*c.h*c.hd] {
				if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
					t.Fatalf("%s %s: [%d] is %v", name, k.Name, i, x)
				}
			}
			if name != "huge" {
				gputest.Close(t, name+" "+k.Name, tol, got, want)
			}
		}
	}
}

// A window one too wide, a key of another sequence or head, and a missing scale are caught.
func TestAttentionBrokenTwin(t *testing.T) {
	c := newAttention(16, 4, 2, map[int]int{1: 0}, [2]int{40, 5}, [2]int{40, 3}, [2]int{0, 30})
	c.write(t, "broken")
	c.p.Window = 20
	tol := attentionTol(16, c.longest)
	for _, k := range []*shaders.Kernel{shaders.Attention, shaders.AttentionDecode, shaders.AttentionSplit} {
		got := c.run(t, gputest.GPU(t), k)
		for name, spoil := range map[string]func(b *attentionCase){
			"window":   func(b *attentionCase) { b.p.Window = 21 },
			"scale":    func(b *attentionCase) { b.p.Scale *= 1.001 },
			"head":     func(b *attentionCase) { b.p.QCol += 16 },
			"key":      func(b *attentionCase) { b.rows[35] = b.rows[10] },
			"position": func(b *attentionCase) { b.seqs[1].Past-- },
		} {
			b := *c
			b.rows = append([]uint32(nil), c.rows...)
			b.seqs = append([]shaders.Seq(nil), c.seqs...)
			b.q = append(append([]uint32(nil), c.q...), make([]uint32, 32)...)
			spoil(&b)
			if gputest.Compare(tol, got, b.run(t, webgpu.NewCPU(), shaders.Attention)).Err == nil {
				t.Errorf("%s: %s: a wrong twin passed", k.Name, name)
			}
		}
	}
}
