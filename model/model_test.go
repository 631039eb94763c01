package model_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shellgame/model"
	"shellgame/model/config"
	"shellgame/model/safetensors"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

const hybrid = `{"model_type":"olmo_hybrid","vocab_size":41,"hidden_size":24,"intermediate_size":40,"num_hidden_layers":3,
"layer_types":["linear_attention","linear_attention","full_attention"],"num_attention_heads":4,"num_key_value_heads":2,
"linear_num_key_heads":2,"linear_num_value_heads":4,"linear_key_head_dim":7,"linear_value_head_dim":12,"linear_conv_kernel_dim":4,
"linear_allow_neg_eigval":true,"rope_parameters":{"rope_theta":10000.0,"rope_type":"default"},"tie_word_embeddings":true,"max_position_embeddings":512}`

// random makes a small model on a device.
func random(t testing.TB, d webgpu.Device, cfg string) *model.Model {
	t.Helper()
	c, err := config.Parse([]byte(cfg))
	if err != nil {
		t.Fatal(err)
	}
	ck, err := model.RandomCheckpoint(c, safetensors.F16, 3)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(context.Background(), d, "random", c, ck)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Release)
	return m
}

// runner makes a runner that takes the chunked form early, so that tests see both forms.
func runner(t testing.TB, m *model.Model, o model.Options) *model.Runner {
	t.Helper()
	o.ChunkFrom = 16
	r, err := m.NewRunner(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Release)
	return r
}

func ids(n, vocab int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = (i*i*7 + 3*i + 1) % vocab
	}
	return list
}

func copied(v []float32) []float32 { return append([]float32(nil), v...) }

// steps reads list token by token and returns the logits after each.
func steps(t testing.TB, s *model.Session, list []int) []float32 {
	t.Helper()
	var all []float32
	for _, id := range list {
		out, err := s.Step(context.Background(), id, true)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, out.Logits...)
	}
	return all
}

var close4 = gputest.Tolerance{RMS: 2e-5, Max: 1e-4}

// A prompt read in one play, in pieces split anywhere, and token by token leaves the same logits.
func TestPrefillEqualsSteps(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		prefillEqualsSteps(t, d, hybrid, 1, 2, 31, 32, 33, 64, 69)
		prefillEqualsSteps(t, d, qwen, 33)
	})
}

func prefillEqualsSteps(t *testing.T, d webgpu.Device, cfg string, splits ...int) {
	t.Helper()
	m := random(t, d, cfg)
	const n = 70
	r := runner(t, m, model.Options{Tokens: 128, Positions: 128, Slots: 4, Rows: 512})
	list := ids(n, m.Config.N)
	one := r.NewSession()
	want := steps(t, one, list)
	one.Release()
	whole := r.NewSession()
	out, err := r.Play(context.Background(), []model.Input{{Session: whole, IDs: list, Want: model.All}}, true)
	if err != nil {
		t.Fatal(err)
	}
	gputest.Close(t, "one play", close4, copied(out.Logits), want)
	whole.Release()
	for _, at := range splits {
		s := r.NewSession()
		var got []float32
		for _, part := range [][]int{list[:at], list[at:]} {
			out, err := r.Play(context.Background(), []model.Input{{Session: s, IDs: part, Want: model.All}}, true)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, out.Logits...)
		}
		gputest.Close(t, fmt.Sprintf("split at %d", at), close4, got, want)
		s.Release()
	}
}

// A token that sees more keys than one workgroup takes gives the logits that a prompt gives there.
func TestFarSteps(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		m := random(t, d, strings.Replace(hybrid, `"hidden_size":24`, `"hidden_size":32`, 1)) // heads of 8
		const n = 530
		r := runner(t, m, model.Options{Tokens: 540, Positions: 540, Slots: 4, Rows: 1200})
		list := ids(n, m.Config.N)
		whole := r.NewSession()
		out, err := r.Play(context.Background(), []model.Input{{Session: whole, IDs: list, Want: model.All}}, true)
		if err != nil {
			t.Fatal(err)
		}
		want := copied(out.Logits)
		whole.Release()
		var dispatches []int                                  // of the first step of a part, then of its last
		for _, part := range [][2]int{{250, 260}, {505, n}} { // past one span, and past two
			s := r.NewSession()
			if _, err := s.Prefill(context.Background(), list[:part[0]], false); err != nil {
				t.Fatal(err)
			}
			for at := part[0]; at < part[1]; at++ {
				before := d.Counts().Dispatches
				got := steps(t, s, list[at:at+1])
				if at == part[0] || at == part[1]-1 {
					dispatches = append(dispatches, d.Counts().Dispatches-before)
				}
				gputest.Close(t, fmt.Sprintf("step %d", at), close4, got, want[at*m.Config.N:][:m.Config.N])
			}
			s.Release()
		}
		if near, far := dispatches[0], dispatches[3]; far <= near {
			t.Errorf("a step takes %d dispatches near the start and %d far from it, want more: the spans are joined by one of their own", near, far)
		}
	})
}

// Sequences of one packed batch do not see each other, whatever their lengths.
func TestBatchEqualsAlone(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		m := random(t, d, hybrid)
		r := runner(t, m, model.Options{Tokens: 256, Positions: 128, Seqs: 4, Slots: 5, Rows: 512})
		var inputs []model.Input
		var want []float32
		for i, n := range []int{1, 40, 7, 65} {
			list := ids(n+i, m.Config.N)[i:]
			s := r.NewSession()
			all := steps(t, s, list)
			want = append(want, all[len(all)-m.Config.N:]...)
			s.Release()
			inputs = append(inputs, model.Input{Session: r.NewSession(), IDs: list, Want: model.Last})
		}
		out, err := r.Play(context.Background(), inputs, true)
		if err != nil {
			t.Fatal(err)
		}
		gputest.Close(t, "batch", close4, copied(out.Logits), want)
		for o := range out.Outs {
			best := 0
			row := out.Logits[o*m.Config.N:][:m.Config.N]
			for i, v := range row {
				if v > row[best] {
					best = i
				}
			}
			if top := out.Top(o, 0); top.ID != best {
				t.Errorf("output %d: most probable %d, its logits say %d", o, top.ID, best)
			}
		}
	})
}

// A fork goes on as its origin would have, the origin does not notice, and everything comes back
// when sessions are released.
func TestForks(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		m := random(t, d, hybrid)
		r := runner(t, m, model.Options{Tokens: 64, Positions: 64, Seqs: 4, Slots: 6, Rows: 128})
		list := ids(30, m.Config.N)
		s := r.NewSession()
		want := steps(t, s, list)
		s.Release()

		s = r.NewSession()
		steps(t, s, list[:10])
		snapshot := s.Fork()
		a, b := snapshot.Fork(), snapshot.Fork()
		steps(t, a, []int{1, 2, 3})
		// Two forks of one state in the same batch, beside their origin.
		out, err := r.Play(context.Background(), []model.Input{
			{Session: s, IDs: list[10:11], Want: model.Last},
			{Session: a, IDs: []int{5, 6}, Want: model.Last},
			{Session: b, IDs: list[10:12], Want: model.Last},
		}, true)
		if err != nil {
			t.Fatal(err)
		}
		n := m.Config.N
		gputest.Close(t, "origin", close4, copied(out.Logits[:n]), want[10*n:11*n])
		gputest.Close(t, "fork", close4, copied(out.Logits[2*n:3*n]), want[11*n:12*n])
		gputest.Close(t, "origin goes on", close4, steps(t, s, list[11:]), want[11*n:])
		back := snapshot.Fork()
		gputest.Close(t, "back to the snapshot", close4, steps(t, back, list[10:]), want[10*n:])
		for _, x := range []*model.Session{s, snapshot, a, b, back} {
			x.Release()
		}
		// All room is free again: as many fresh sessions fit as at the start.
		var fresh []*model.Session
		for range 6 {
			f := r.NewSession()
			steps(t, f, list[:21])
			fresh = append(fresh, f)
		}
		if _, err := r.NewSession().Step(context.Background(), 1, false); err == nil {
			t.Error("a seventh session found a slot where there are six")
		}
		for _, f := range fresh {
			f.Release()
		}
	})
}

// countWrites counts the writes to a device's buffers by name.
type countWrites struct {
	webgpu.Device
	of map[string]int
}

func (c countWrites) Write(b webgpu.Buffer, offset int, data []byte) error {
	name := b.Label()[strings.LastIndexByte(b.Label(), ' ')+1:]
	c.of[name]++
	return c.Device.Write(b, offset, data)
}

// Where the keys of a batch of new texts lie is written at once, in whatever order their room was
// given back before, and what older texts have read is not written over.
func TestBatchMapsAreOneWrite(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		c := countWrites{d, map[string]int{}}
		m := random(t, c, hybrid)
		r := runner(t, m, model.Options{Tokens: 64, Positions: 16, Seqs: 6, Slots: 12, Rows: 160})
		play := func(inputs []model.Input) ([]float32, int) {
			t.Helper()
			before := c.of["rows"]
			out, err := r.Play(context.Background(), inputs, true)
			if err != nil {
				t.Fatal(err)
			}
			return copied(out.Logits), c.of["rows"] - before
		}
		list := ids(16, m.Config.N)
		s := r.NewSession()
		olds := steps(t, s, list)
		s.Release()
		var want []float32
		for i := range 6 {
			want = append(want, olds[(2+i)*m.Config.N:][:m.Config.N]...)
		}
		// The old text's map lies between those of others.
		var around []*model.Session
		for range 3 {
			around = append(around, r.NewSession())
			steps(t, around[len(around)-1], list[:1])
		}
		old := r.NewSession()
		steps(t, old, list[:8])
		for _, s := range around {
			s.Release()
		}
		for round := range 3 {
			var inputs []model.Input
			for i := range 6 {
				inputs = append(inputs, model.Input{Session: r.NewSession(), IDs: list[:3+i], Want: model.Last})
			}
			got, writes := play(inputs)
			gputest.Close(t, "batch", close4, got, want)
			if writes > 2 { // before and behind the old text's map
				t.Errorf("round %d: %d writes of row maps, want one or two", round, writes)
			}
			next := 8 + round
			got, _ = play([]model.Input{{Session: inputs[0].Session, IDs: []int{1}}, {Session: old, IDs: list[next : next+1], Want: model.Last}})
			gputest.Close(t, "the old text", close4, got, olds[next*m.Config.N:][:m.Config.N])
			for _, in := range inputs {
				in.Session.Release()
			}
		}
	})
}

// A session is as before after a play that failed.
func TestRefusals(t *testing.T) {
	m := random(t, webgpu.NewCPU(), hybrid)
	r := runner(t, m, model.Options{Tokens: 8, Positions: 12, Seqs: 2, Slots: 2, Rows: 16})
	s := r.NewSession()
	want := steps(t, s, []int{1, 2, 3})
	s.Release()
	s = r.NewSession()
	steps(t, s, []int{1, 2})
	ctx := context.Background()
	for name, in := range map[string][]model.Input{
		"vocabulary": {{Session: s, IDs: []int{41}}},
		"negative":   {{Session: s, IDs: []int{-1}}},
		"too many":   {{Session: s, IDs: make([]int, 9)}},
		"nothing":    {{Session: s}},
		"twice":      {{Session: s, IDs: []int{1}}, {Session: s, IDs: []int{1}}},
		"slots":      {{Session: r.NewSession(), IDs: []int{1}}, {Session: r.NewSession(), IDs: []int{1}}},
	} {
		if _, err := r.Play(ctx, in, false); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	steps(t, s, make([]int, 9)[:8])
	if _, err := s.Prefill(ctx, []int{1, 1, 1}, false); err == nil {
		t.Error("a session read beyond its positions")
	}
	s.Release()
	s = r.NewSession()
	got := steps(t, s, []int{1, 2, 3})
	gputest.Close(t, "after refusals", gputest.Tolerance{}, got, want)
}

// Once warm, a step makes no buffer, pipeline or bind group, and few Go allocations.
func TestStepReusesEverything(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		m := random(t, d, hybrid)
		r := runner(t, m, model.Options{Tokens: 64, Positions: 256, Seqs: 4, Trace: true})
		s := r.NewSession()
		ctx := context.Background()
		step := func() {
			if _, err := s.Step(ctx, 1, false); err != nil {
				t.Fatal(err)
			}
		}
		step()
		step()
		before := d.Counts()
		allocs := testing.AllocsPerRun(50, step)
		after := d.Counts()
		if after.Buffers != before.Buffers || after.Pipelines != before.Pipelines || after.BindGroups != before.BindGroups {
			t.Errorf("steps made objects: before %+v, after %+v", before, after)
		}
		perStep := (after.Dispatches - before.Dispatches) / 51
		t.Logf("%s: %.0f allocations and %d dispatches a step", d.Info().Kind, allocs, perStep)
		limit := 150.0
		if k := d.Info().Kind; k != "cpu" && k != "browser" {
			limit += 26 * float64(perStep) // of gogpu/wgpu's own, at each call into the driver
		}
		if allocs >= limit {
			t.Errorf("%.0f allocations a step, want fewer than %.0f", allocs, limit)
		}
	})
}

// A traced step agrees with an untraced one, and what it says fits together: rows of attention sum
// to one, and S, q and what is read from it obey the delta rule's own equation.
func TestTraceStep(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		m := random(t, d, hybrid)
		r := runner(t, m, model.Options{Tokens: 64, Positions: 64, Seqs: 4, Trace: true})
		s, plain := r.NewSession(), r.NewSession()
		var before []float32
		for i, id := range ids(20, m.Config.N) {
			step, err := s.TraceStep(context.Background(), id)
			if err != nil {
				t.Fatal(err)
			}
			out, err := plain.Step(context.Background(), id, false)
			if err != nil {
				t.Fatal(err)
			}
			if top := out.Top(0, 0); top.ID != step.Top[0].ID {
				t.Fatalf("step %d: traced %d, untraced %d", i, step.Top[0].ID, top.ID)
			}
			rows := step.Layers[2].Rows
			for h := range rows.Shape[0] {
				sum := 0.0
				for _, p := range rows.Data[h*(i+1):][:i+1] {
					sum += float64(p)
				}
				if math.Abs(sum-1) > 1e-5 {
					t.Errorf("step %d head %d: attention sums to %v", i, h, sum)
				}
			}
			l := step.Layers[0]
			if before == nil {
				before = make([]float32, len(l.State.Data))
			}
			state, reads := deltaRule(l, before)
			gputest.Close(t, fmt.Sprintf("step %d state", i), gputest.Tolerance{RMS: 1e-5, Max: 1e-5}, l.State.Data, state)
			gputest.Close(t, fmt.Sprintf("step %d output", i), gputest.Tolerance{RMS: 1e-5, Max: 1e-5}, l.Out.Data, reads)
			before = l.State.Data
		}
	})
}

// deltaRule is S after a step from S before it and what the step reads, by the published formula in
// float64.
func deltaRule(l model.LayerStep, before []float32) (after, out []float32) {
	hv, k, v := l.State.Shape[0], l.State.Shape[1], l.State.Shape[2]
	group := hv / l.K.Shape[0]
	after, out = make([]float32, len(before)), make([]float32, hv*v)
	for h := range hv {
		key, query := l.K.Data[h/group*k:][:k], l.Q.Data[h/group*k:][:k]
		for j := range v {
			read := 0.0
			for i := range k {
				read += float64(key[i]) * float64(l.Alpha[h]) * float64(before[(h*k+i)*v+j])
			}
			u := float64(l.Beta[h]) * (float64(l.V.Data[h*v+j]) - read)
			for i := range k {
				at := (h*k+i)*v + j
				after[at] = float32(float64(l.Alpha[h])*float64(before[at]) + float64(key[i])*u)
				out[h*v+j] += query[i] * after[at]
			}
		}
	}
	return after, out
}

// root is the module's folder as the tests see it.
const root = ".."

func openZoo(t testing.TB, d webgpu.Device, name string) *model.Model {
	t.Helper()
	m, err := model.Open(context.Background(), d, name, safetensors.Dir(filepath.Join(root, "web/zoo", name)), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Release)
	return m
}

// The zoo's checkpoints load, say what they are, and a step of the hybrid takes few dispatches.
func TestZooLoads(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(root, "web/zoo/*/config.json"))
	if err != nil || len(found) < 15 {
		t.Fatalf("found %d checkpoints in the zoo: %v", len(found), err)
	}
	for _, f := range found {
		if _, err := os.Stat(f); err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(filepath.Dir(f))
		m := openZoo(t, webgpu.NewCPU(), name)
		r := runner(t, m, model.Options{Tokens: 8, Positions: 16})
		dispatches := 3 // embed, head, top
		for _, l := range m.Config.Layers {
			dispatches += 6
			if l.Kind == config.GDN && m.Config.V%4 != 0 {
				dispatches++ // the output's norm
			}
			if l.Kind == config.Attention {
				dispatches += 2 // norms behind mixer and MLP
			}
		}
		if got := r.Dispatches(true); len(got) > dispatches {
			t.Errorf("%s: a step takes %d dispatches, want at most %d: %v", name, len(got), dispatches, got)
		}
		t.Logf("%s: %d parameters, %s, %d dispatches a step, %d KiB a state", name, m.Params, model.Describe(m.Config), len(r.Dispatches(true)), r.StateBytes()/1024)
	}
}

// A large vocabulary's candidates are found in parts, and are the largest of the logits.
func TestLargeVocabulary(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		m := random(t, d, strings.Replace(hybrid, `"vocab_size":41`, `"vocab_size":4201`, 1))
		r := runner(t, m, model.Options{Tokens: 8, Positions: 16, Seqs: 1, Slots: 1})
		if ops := strings.Join(r.Dispatches(true), "\n"); !strings.Contains(ops, "top_k_split") {
			t.Fatalf("no parts in\n%s", ops)
		}
		s := r.NewSession()
		for _, id := range []int{7, 4200, 1234} {
			out, err := s.Step(context.Background(), id, true)
			if err != nil {
				t.Fatal(err)
			}
			best := 0
			for i, v := range out.Logits {
				if v > out.Logits[best] {
					best = i
				}
			}
			if got := out.Top(0, 0); got.ID != best || !(got.P > 0 && got.P < 1) || out.Top(0, 1).P > got.P {
				t.Errorf("after %d: candidate %+v, then %+v, want token %d", id, got, out.Top(0, 1), best)
			}
		}
	})
}
