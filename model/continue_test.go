package model_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"shellgame/model"
	"shellgame/model/config"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// oneByOne reads id and then what is most probable, n tokens, each in a play of its own, and returns what
// was found after each.
func oneByOne(t testing.TB, s *model.Session, id, n int) []int {
	t.Helper()
	var found []int
	for range n {
		out, err := s.Step(context.Background(), id, false)
		if err != nil {
			t.Fatal(err)
		}
		id = out.Top(0, 0).ID
		found = append(found, id)
	}
	return found
}

// continued does so in plays of the given lengths.
func continued(t testing.TB, s *model.Session, id int, lengths ...int) []int {
	t.Helper()
	var found []int
	for _, n := range lengths {
		out, err := s.Continue(context.Background(), id, n)
		if err != nil {
			t.Fatal(err)
		}
		if out.Outs != n || out.K != 1 {
			t.Fatalf("%d tokens gave %d outputs of %d", n, out.Outs, out.K)
		}
		for i := range n {
			found = append(found, out.Top(i, 0).ID)
			if p := out.Top(i, 0).P; !(p > 0 && p <= 1) {
				t.Errorf("token %d of %d has probability %v", i, n, p)
			}
		}
		id = found[len(found)-1]
	}
	return found
}

// after is all that two sessions that read the same must agree on: what they read, the state of the first
// layer if it has one, and what the next tokens give.
func after(t testing.TB, r *model.Runner, s *model.Session) (ids []int, v []float32) {
	t.Helper()
	ids = slices.Clone(s.IDs)
	if r.Model.Config.Layers[0].Kind == config.GDN {
		v = append(v, state(t, s, 0)...)
	}
	return ids, append(v, steps(t, s, []int{5, 6})...)
}

// Tokens read in one play, each what the one before found, are those of plays by themselves: where there
// are slots to take turns and where there are none, from a slot of one's own or one shared with a fork,
// which stays as it was; after spans of keys that one workgroup takes and more. No slot or row is lost.
func TestContinue(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		t.Run("as it is", func(t *testing.T) { continues(t, d) })
		if gputest.Lavapipe(d) {
			t.Run("as hardware", func(t *testing.T) { continues(t, gputest.Hardware(d)) })
		}
	})
}

func continues(t *testing.T, d webgpu.Device) {
	for _, c := range []struct {
		cfg           string
		prompt, slots int
		fork          bool
		lengths       []int
	}{
		{hybrid, 9, 3, false, []int{1, 2, 3, 16}},
		{hybrid, 3, 2, false, []int{16, 1}},
		{hybrid, 9, 4, true, []int{2, 5}},
		{hybrid, 9, 2, true, []int{4, 3}},
		{qwen, 250, 3, false, []int{4, 7, 2}},
		{families["olmo3"], 5, 2, false, []int{9, 3}},
	} {
		what := fmt.Sprintf("after %d tokens, %d slots, fork %v", c.prompt, c.slots, c.fork)
		m := random(t, d, c.cfg)
		r := runner(t, m, model.Options{Tokens: 64, Seqs: 1, Positions: 300, Slots: c.slots, Rows: 700})
		total := 0
		for _, n := range c.lengths {
			total += n
		}
		prompt := ids(c.prompt, m.Config.N)
		read := func() *model.Session {
			s := r.NewSession()
			if _, err := s.Prefill(t.Context(), prompt, false); err != nil {
				t.Fatal(err)
			}
			return s
		}
		s := read()
		want := oneByOne(t, s, 7, total)
		wantIDs, wantLeft := after(t, r, s)
		s.Release()
		s = read()
		var fork *model.Session
		var forked []float32
		if c.fork {
			fork = s.Fork()
			forked = state(t, fork, 0)
		}
		if got := continued(t, s, 7, c.lengths...); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
		if c.fork {
			gputest.Close(t, what+": the fork's state", gputest.Tolerance{}, state(t, fork, 0), forked)
			fork.Release()
		}
		gotIDs, left := after(t, r, s)
		if !slices.Equal(gotIDs, wantIDs) {
			t.Errorf("%s: the session has read %v, want %v", what, gotIDs, wantIDs)
		}
		gputest.Close(t, what+": what is left", close4, left, wantLeft)
		s.Release()
		var all []*model.Session
		for range c.slots { // each of them free again, and rows for a whole session
			s := r.NewSession()
			if _, err := s.Step(t.Context(), 1, false); err != nil {
				t.Fatalf("%s: afterwards: %v", what, err)
			}
			all = append(all, s)
		}
		for range 4 {
			if _, err := all[0].Prefill(t.Context(), prompt[:min(len(prompt), 64)], false); err != nil {
				t.Fatalf("%s: afterwards: %v", what, err)
			}
		}
	}
}

// What a play cannot go on by is refused, and leaves the session as it was.
func TestContinueRefuses(t *testing.T) {
	m := random(t, webgpu.NewCPU(), hybrid)
	r := runner(t, m, model.Options{Tokens: 8, Seqs: 1, Positions: 10, Slots: 2, Rows: 20})
	s := r.NewSession()
	continued(t, s, 1, 3)
	read := slices.Clone(s.IDs)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx   context.Context
		id, n int
	}{{t.Context(), 1, 0}, {t.Context(), 1, model.MostContinued + 1}, {t.Context(), 1, 8}, {t.Context(), -1, 1}, {t.Context(), 41, 1}, {gone, 1, 2}} {
		if _, err := s.Continue(c.ctx, c.id, c.n); err == nil {
			t.Errorf("token %d and %d tokens: no error", c.id, c.n)
		}
	}
	if !slices.Equal(s.IDs, read) {
		t.Errorf("refused plays left %v, want %v", s.IDs, read)
	}
	want := oneByOne(t, r.NewSession(), 1, 3)
	s.Release()
	if got := continued(t, s, 1, 3, 7); !slices.Equal(got[:3], want) {
		t.Errorf("afterwards it goes on with %v, want %v", got[:3], want)
	}
}

// Greedy yields what plays one by one find, and wherever it is stopped the session has read what comes
// before the token that was yielded, no more, and goes on from there.
func TestGreedy(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		m := random(t, d, hybrid)
		r := runner(t, m, model.Options{Tokens: 16, Seqs: 1, Positions: 64, Slots: 3, Rows: 200})
		const most = 30
		s := r.NewSession()
		want := oneByOne(t, s, 2, most)
		s.Release()
		for _, stop := range []int{1, 2, 3, 5, 14, 16, most, most + 1} {
			s := r.NewSession()
			var got []int
			for id, err := range s.Greedy(t.Context(), 2, most) {
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, id); len(got) == stop {
					break
				}
			}
			n := min(stop, most)
			if !slices.Equal(got, want[:n]) {
				t.Errorf("stopped at %d: got %v, want %v", stop, got, want[:n])
			}
			if read := append([]int{2}, want[:n-1]...); !slices.Equal(s.IDs, read) {
				t.Errorf("stopped at %d: the session has read %v, want %v", stop, s.IDs, read)
			}
			one := r.NewSession()
			oneByOne(t, one, 2, n)
			_, a := after(t, r, s)
			_, b := after(t, r, one)
			gputest.Close(t, fmt.Sprintf("stopped at %d: what is left", stop), close4, a, b)
			s.Release()
			one.Release()
		}
	})
}

// A state that overflows ends it with an error, as does a context.
func TestGreedyFails(t *testing.T) {
	m := random(t, webgpu.NewCPU(), hybrid)
	huge := slices.Repeat([]float32{3e38}, 4*7*12)
	for _, c := range []struct {
		what  string
		state []float32
		want  error
	}{{"a state too large", huge, model.ErrNotFinite}, {"a context that ends", nil, context.Canceled}} {
		r := runner(t, m, model.Options{Tokens: 8, Seqs: 1, Positions: 40, Slots: 3, Rows: 80})
		ctx, cancel := context.WithCancel(t.Context())
		s := r.NewSession()
		oneByOne(t, s, 1, 2)
		if err := s.SetState(0, -1, c.state); err != nil {
			t.Fatal(err)
		}
		var last error
		for _, err := range s.Greedy(ctx, 1, 30) {
			if last = err; err == nil && c.state == nil {
				cancel()
			}
		}
		if !errors.Is(last, c.want) {
			t.Errorf("%s: %v, want %v", c.what, last, c.want)
		}
		cancel()
	}
}

// After MakeReady no play makes a program or a pipeline, on this side of a span of keys and beyond it.
func TestMakeReady(t *testing.T) {
	d := gputest.GPU(t)
	m := random(t, d, qwen)
	r := runner(t, m, model.Options{Tokens: 64, Seqs: 1, Positions: 300, Slots: 3, Rows: 700})
	s := r.NewSession()
	if _, err := s.Prefill(t.Context(), ids(250, m.Config.N), false); err != nil {
		t.Fatal(err)
	}
	if err := r.MakeReady(t.Context(), 250, 280); err != nil {
		t.Fatal(err)
	}
	before := d.Counts()
	continued(t, s, 7, 4, 16, 2)
	if after := d.Counts(); after.BindGroups != before.BindGroups || after.Pipelines != before.Pipelines || after.Buffers != before.Buffers {
		t.Errorf("made meanwhile: %+v, before %+v", after, before)
	}
}

// A pass takes as many dispatches as this, and no more come in unseen: five a layer and four around all; two
// more where norms stand behind the sublayers, and one for heads that are not whole vectors.
func TestContinueDispatches(t *testing.T) {
	for _, c := range []struct {
		cfg  string
		want int
	}{{qwen, 3*5 + 4}, {hybrid, 3*5 + 4 + 2 + 1}} {
		d := webgpu.NewCPU()
		r := runner(t, random(t, d, c.cfg), model.Options{Tokens: 8, Seqs: 1, Positions: 40, Slots: 3, Rows: 80})
		before := d.Counts().Dispatches
		continued(t, r.NewSession(), 1, 6)
		if got := d.Counts().Dispatches - before; got != 6*c.want {
			t.Errorf("six tokens took %d dispatches, want %d", got, 6*c.want)
		}
	}
}
