package delta_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"shellgame/model"
	"shellgame/model/delta"
	"shellgame/model/safetensors"
	"shellgame/shaders"
	"shellgame/task"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// run is a run of one head, as a trace holds it.
type run struct {
	k, v        int
	ks, qs, vs  [][]float32
	alpha, beta []float32
	start       []float32 // state before it
	states      [][]float32
	outs        [][]float32
}

// newRun draws tokens: unit keys, each third one that of the token before, beta up to 2, and decays
// from none to almost all.
func newRun(k, v, tokens int) *run {
	r := &run{k: k, v: v}
	all := gputest.Rand(uint64(k*v+tokens), tokens*(2*k+v+2), 1)
	next := func(n int) []float32 {
		x := all[:n:n]
		all = all[n:]
		return x
	}
	unit := func(x []float32, scale float64) []float32 {
		sum := 0.0
		for _, e := range x {
			sum += float64(e) * float64(e)
		}
		for i := range x {
			x[i] = float32(float64(x[i]) * scale / math.Sqrt(sum))
		}
		return x
	}
	logs := []float32{0, -1e-6, -0.01, -0.3, 0, -3, 0, -0.001, -20, 0, 0}
	for t := range tokens {
		key := unit(next(k), 1)
		if t%3 == 2 {
			key = r.ks[t-1]
		}
		r.ks = append(r.ks, key)
		r.qs = append(r.qs, unit(next(k), 1/math.Sqrt(float64(k))))
		r.vs = append(r.vs, next(v))
		gates := next(2)
		r.alpha = append(r.alpha, float32(math.Exp(float64(logs[t%len(logs)]))))
		r.beta = append(r.beta, []float32{2, 1, float32(math.Mod(math.Abs(float64(gates[0])), 2)), 2, 0}[t%5])
	}
	return r
}

// play runs the recurrent kernel on d, token by token, each from the state that it left.
func (r *run) play(t testing.TB, d webgpu.Device, store uint32) {
	t.Helper()
	r.states, r.outs = nil, nil
	state := slices.Clone(r.start)
	if state == nil {
		state = make([]float32, r.k*r.v)
	}
	c := shaders.C{"K": uint32(r.k), "V": uint32(r.v)}
	if store != shaders.F32 {
		c["STORE"] = store
	}
	p := shaders.GDNParams{HK: 1, HV: 1, Stride: uint32(2*r.k + r.v)}
	seq := gputest.Seqs(shaders.Seq{Count: 1})
	for i := range r.ks {
		gates := []float32{float32(math.Log(float64(r.alpha[i]))), r.beta[i]}
		out := gputest.Run(t, d, shaders.GDNStep, c, p, shaders.Step{Tokens: 1, Seqs: 1},
			gputest.F32(slices.Concat(r.qs[i], r.ks[i], r.vs[i])), gputest.F32(gates), seq, gputest.F32(state), gputest.Poisoned(r.v))
		// What the kernel made of the gates is what a trace says.
		r.alpha[i] = float32(math.Exp(float64(gates[0])))
		state = gputest.Floats(out[3])
		r.states, r.outs = append(r.states, state), append(r.outs, gputest.Floats(out[4]))
	}
}

func (r *run) before(i int) []float32 {
	if i == 0 {
		return r.start
	}
	return r.states[i-1]
}

func (r *run) anatomy(i int) *delta.Step {
	return delta.Anatomy(r.before(i), r.ks[i], r.qs[i], r.vs[i], r.alpha[i], r.beta[i], r.states[i])
}

func (r *run) mapped(store string) *delta.Map {
	m := &delta.Map{Store: store}
	if r.start != nil {
		m.Restart(r.start)
	}
	for i := range r.ks {
		m.Append(r.ks[i], r.qs[i], r.vs[i], r.alpha[i], r.beta[i], r.outs[i])
	}
	return m
}

var shapes = []struct{ k, v int }{{5, 1}, {12, 24}, {32, 64}, {96, 192}}

var stores = map[string]uint32{"": shaders.F32, "f16": shaders.F16, "bf16": shaders.BF16}

// A step's parts follow from one another, end where the kernel ends, and read what it reads.
func TestAnatomy(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		for _, s := range shapes {
			for store, kind := range stores {
				r := newRun(s.k, s.v, 12)
				r.start = gputest.Rand(3, s.k*s.v, 1)
				r.play(t, d, kind)
				most, rounded := 0.0, false
				for i := range r.ks {
					what := fmt.Sprintf("%+v %s step %d", s, store, i)
					a := r.anatomy(i)
					a.Stored(store)
					if !(a.Worst <= a.Bound) {
						t.Errorf("%s: state off by %.3g, bound %.3g", what, a.Worst, a.Bound)
					}
					most = max(most, a.Worst/a.Bound)
					a.Stored("")
					rounded = rounded || a.Worst > a.Bound
					gputest.Close(t, what+" out", gputest.Tolerance{RMS: 1e-5, Max: 1e-5}, a.Out, r.outs[i])
					checkParts(t, what, a)
				}
				if rounded != (store != "") {
					t.Errorf("%+v %s: beyond the bound of float32: %v", s, store, rounded)
				}
				t.Logf("%+v %s: at most %.2g of the bound", s, store, most)
			}
		}
	})
}

// checkParts derives each part from those before it, element by element.
func checkParts(t *testing.T, what string, a *delta.Step) {
	t.Helper()
	near := func(part string, got float32, want float64) {
		if e := math.Abs(float64(got) - want); !(e <= 1e-6*max(1, math.Abs(want))) {
			t.Fatalf("%s: %s: got %v, want %v", what, part, got, want)
		}
	}
	square := 0.0
	for _, k := range a.Key {
		square += float64(k) * float64(k)
	}
	near("eigenvalue", a.Eigenvalue, float64(a.Alpha)*(1-float64(a.Beta)*square))
	for j, v := range a.Value {
		read, out := 0.0, 0.0
		for i, k := range a.Key {
			read += float64(k) * float64(a.Decayed[i][j])
			out += float64(a.Query[i]) * float64(a.Written[i][j])
		}
		near("read", a.Read[j], read)
		near("out", a.Out[j], out)
		for i, k := range a.Key {
			near("decayed", a.Decayed[i][j], float64(a.Alpha)*float64(a.Before[i][j]))
			near("erase", a.Erase[i][j], -float64(a.Beta)*float64(k)*read)
			near("erased", a.Erased[i][j], float64(a.Decayed[i][j])+float64(a.Erase[i][j]))
			near("write", a.Write[i][j], float64(a.Beta)*float64(k)*float64(v))
			near("written", a.Written[i][j], float64(a.Erased[i][j])+float64(a.Write[i][j]))
		}
	}
}

// A state along k is multiplied by the eigenvalue, one across it by alpha.
func TestEigenvalue(t *testing.T) {
	k, across := []float32{0.6, 0, 0.8}, []float32{0.8, 3, -0.6}
	for _, beta := range []float32{0, 0.5, 1, 2} {
		a := delta.Anatomy(k, k, k, []float32{0}, 0.9, beta, k)
		b := delta.Anatomy(across, k, k, []float32{0}, 0.9, beta, across)
		if want := 0.9 * (1 - beta); math.Abs(float64(a.Eigenvalue-want)) > 1e-6 {
			t.Errorf("beta %v: eigenvalue %v, want %v", beta, a.Eigenvalue, want)
		}
		for i := range k {
			if got, want := a.Written[i][0], a.Eigenvalue*k[i]; math.Abs(float64(got-want)) > 1e-6 {
				t.Errorf("beta %v: k[%d] becomes %v, want %v", beta, i, got, want)
			}
			if got, want := b.Written[i][0], 0.9*across[i]; math.Abs(float64(got-want)) > 1e-6 {
				t.Errorf("beta %v: across k [%d] becomes %v, want %v", beta, i, got, want)
			}
		}
	}
}

// Rows·v is what the kernel gives, over runs of any length, from any state and however it is stored.
func TestMap(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		for _, s := range shapes {
			for store, kind := range stores {
				for _, tokens := range []int{1, 2, 65} {
					r := newRun(s.k, s.v, tokens)
					if tokens == 2 {
						r.start = gputest.Rand(3, s.k*s.v, 1)
					}
					r.play(t, d, kind)
					m := r.mapped(store)
					if !(m.Worst <= m.Bound) {
						t.Errorf("%+v %s T %d: off by %.3g, bound %.3g", s, store, tokens, m.Worst, m.Bound)
					}
					if f := r.mapped(""); tokens > 2 && store != "" && f.Worst <= f.Bound {
						t.Errorf("%+v %s T %d: within float32's bound, %.3g of %.3g", s, store, tokens, f.Worst, f.Bound)
					}
					t.Logf("%+v %s T %d: worst %.3g, bound %.3g", s, store, tokens, m.Worst, m.Bound)
				}
			}
		}
	})
}

// Row i column j is what token i would read if token j alone had a value, by the recurrence itself.
func TestMapRows(t *testing.T) {
	const tokens = 40
	r := newRun(6, 3, tokens)
	r.play(t, webgpu.NewCPU(), shaders.F32)
	m := r.mapped("")
	S := make([][tokens]float64, r.k) // a column for each token, which writes 1 there
	for i := range tokens {
		var along, want [tokens]float64
		for j := range tokens {
			for x, k := range r.ks[i] {
				S[x][j] *= float64(r.alpha[i])
				along[j] += float64(k) * S[x][j]
			}
			value := 0.0
			if j == i {
				value = 1
			}
			for x, k := range r.ks[i] {
				S[x][j] += float64(r.beta[i]) * float64(k) * (value - along[j])
				want[j] += float64(r.qs[i][x]) * S[x][j]
			}
		}
		if len(m.Rows[i]) != i+1 {
			t.Fatalf("row %d has %d elements", i, len(m.Rows[i]))
		}
		for j, got := range m.Rows[i] {
			if math.Abs(float64(got)-want[j]) > 1e-6 {
				t.Errorf("rows[%d][%d]: got %v, want %v", i, j, got, want[j])
			}
		}
	}
}

// A state that was replaced in mid-run hides what was written before.
func TestMapRestart(t *testing.T) {
	for name, state := range map[string][]float32{"zeros": nil, "other": gputest.Rand(8, 12*24, 1)} {
		a, b := newRun(12, 24, 10), newRun(12, 24, 7)
		a.play(t, webgpu.NewCPU(), shaders.F32)
		b.start = state
		b.play(t, webgpu.NewCPU(), shaders.F32)
		m := a.mapped("")
		m.Restart(state)
		for i := range b.ks {
			m.Append(b.ks[i], b.qs[i], b.vs[i], b.alpha[i], b.beta[i], b.outs[i])
		}
		if !(m.Worst <= m.Bound) {
			t.Errorf("%s: off by %.3g, bound %.3g", name, m.Worst, m.Bound)
		}
		alone := b.mapped("")
		for i, row := range alone.Rows {
			if got := m.Rows[10+i]; !slices.Equal(got[10:], row) || slices.Max(got[:10]) != 0 || slices.Min(got[:10]) != 0 {
				t.Errorf("%s: row %d is %v, want zeros and then %v", name, i, got, row)
			}
		}
	}
}

// Numbers that are not the run's own are found.
func TestFinds(t *testing.T) {
	r := newRun(12, 24, 40)
	r.play(t, webgpu.NewCPU(), shaders.F32)
	for name, spoil := range map[string]func(r *run){
		"an output":       func(r *run) { r.outs[20][3] += 1e-4 },
		"an output, NaN":  func(r *run) { r.outs[20][3] = float32(math.NaN()) },
		"a value":         func(r *run) { r.vs[7][3] += 0.01 },
		"a beta":          func(r *run) { r.beta[30] += 0.001 },
		"an alpha":        func(r *run) { r.alpha[31] *= 0.999 },
		"the sign of k":   func(r *run) { r.ks[12][2] = -r.ks[12][2] },
		"q of one token":  func(r *run) { r.qs[39][0] += 1e-3 },
		"tokens in order": func(r *run) { r.ks[20], r.ks[21] = r.ks[21], r.ks[20] },
	} {
		bad := *r
		bad.ks, bad.qs, bad.vs, bad.outs = deep(r.ks), deep(r.qs), deep(r.vs), deep(r.outs)
		bad.alpha, bad.beta = slices.Clone(r.alpha), slices.Clone(r.beta)
		spoil(&bad)
		if m := bad.mapped(""); m.Worst <= m.Bound {
			t.Errorf("map: %s: off by %.3g, within the bound %.3g", name, m.Worst, m.Bound)
		}
	}
	after := deep(r.states)
	after[9][5] += 1e-5
	for name, a := range map[string]*delta.Step{
		"the state":        delta.Anatomy(r.before(9), r.ks[9], r.qs[9], r.vs[9], r.alpha[9], r.beta[9], after[9]),
		"the state before": delta.Anatomy(r.before(8), r.ks[9], r.qs[9], r.vs[9], r.alpha[9], r.beta[9], r.states[9]),
		"beta":             delta.Anatomy(r.before(8), r.ks[8], r.qs[8], r.vs[8], r.alpha[8], r.beta[8]+1e-4, r.states[8]),
	} {
		if a.Worst <= a.Bound {
			t.Errorf("anatomy: %s: off by %.3g, within the bound %.3g", name, a.Worst, a.Bound)
		}
	}
}

func deep(x [][]float32) [][]float32 {
	y := make([][]float32, len(x))
	for i, v := range x {
		y[i] = slices.Clone(v)
	}
	return y
}

// On the zoo's models every step of every head is the sum of its parts, and every map gives what the
// kernel gave.
func TestZoo(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		for name, program := range map[string]*task.Program{
			"st-constructed": task.Generate(task.StateTracking, 40, 1, 0),
			"sbr-hybrid-neg": task.Generate(task.StateBasedRecall, 16, 1, 0),
			"st-gdn-pos":     task.Generate(task.StateTracking, 40, 1, 0),
		} {
			m, err := model.Open(context.Background(), d, name, safetensors.Dir(filepath.Join("../../web/zoo", name)), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Release()
			var ids []int
			for _, token := range program.Tokens() {
				ids = append(ids, int(token.ID))
			}
			for _, store := range []string{"", "bf16"} {
				checkHeads(t, m, ids, store)
			}
		}
	})
}

// The same of a Qwen3.5, two of whose value heads share each key head.
func TestGroupedHeads(t *testing.T) {
	m, err := model.Open(context.Background(), webgpu.NewCPU(), "qwen3.5", safetensors.Dir("../../testdata/golden/qwen3.5-text"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	if c := m.Config; c.HV != 2*c.HK {
		t.Fatalf("got %d value heads of %d key heads", c.HV, c.HK)
	}
	var ids []int
	for i := range 60 {
		ids = append(ids, (i*i+3)%m.Config.N)
	}
	checkHeads(t, m, ids, "")
}

func checkHeads(t *testing.T, m *model.Model, tokens []int, store string) {
	t.Helper()
	r, err := m.NewRunner(model.Options{Tokens: 1, Seqs: 1, Positions: len(tokens), Trace: true, Switches: model.Switches{Store: store}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	c := m.Config
	maps := map[[2]int]*delta.Map{}
	before := make([][]float32, len(c.Layers))
	s := r.NewSession()
	step, whole := 0.0, 0.0 // share of the bound
	for i, id := range tokens {
		st, err := s.TraceStep(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		for l, ls := range st.Layers {
			if ls.State == nil {
				continue
			}
			for h := range c.HV {
				hk, size := h/(c.HV/c.HK), c.K*c.V
				k, q, v := ls.K.Data[hk*c.K:][:c.K], ls.Q.Data[hk*c.K:][:c.K], ls.V.Data[h*c.V:][:c.V]
				var was []float32
				if before[l] != nil {
					was = before[l][h*size:][:size]
				}
				a := delta.Anatomy(was, k, q, v, ls.Alpha[h], ls.Beta[h], ls.State.Data[h*size:][:size])
				a.Stored(store)
				if step = max(step, a.Worst/a.Bound); !(a.Worst <= a.Bound) {
					t.Fatalf("%s %s step %d layer %d head %d: off by %.3g, bound %.3g", m.Name, store, i, l, h, a.Worst, a.Bound)
				}
				at := [2]int{l, h}
				if maps[at] == nil {
					maps[at] = &delta.Map{Store: store}
				}
				maps[at].Append(k, q, v, ls.Alpha[h], ls.Beta[h], ls.Out.Data[h*c.V:][:c.V])
				if w := maps[at]; !(w.Worst <= w.Bound) {
					t.Fatalf("%s %s step %d layer %d head %d: map is off by %.3g, bound %.3g", m.Name, store, i, l, h, w.Worst, w.Bound)
				}
				whole = max(whole, maps[at].Worst/maps[at].Bound)
			}
			before[l] = ls.State.Data
		}
	}
	if len(maps) == 0 {
		t.Fatal("nothing was compared")
	}
	t.Logf("%s %s: steps at most %.2g of the bound, maps %.2g", m.Name, store, step, whole)
}

// A run of 512 tokens in one head of the zoo.
func BenchmarkMap(b *testing.B) {
	r := newRun(32, 64, 512)
	out := make([]float32, 64)
	for b.Loop() {
		m := &delta.Map{}
		for i := range r.ks {
			m.Append(r.ks[i], r.qs[i], r.vs[i], r.alpha[i], r.beta[i], out)
		}
	}
}
