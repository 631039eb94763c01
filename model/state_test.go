package model_test

import (
	"context"
	"math"
	"testing"

	"shellgame/model"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

func state(t testing.TB, s *model.Session, layer int) []float32 {
	t.Helper()
	v, err := s.State(context.Background(), layer)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A session's state is what its trace says; it can be replaced, whole or head by head, and neither a
// fork nor its origin notices.
func TestState(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		ctx := context.Background()
		m := random(t, d, hybrid)
		c := m.Config
		size := c.K * c.V
		r := runner(t, m, model.Options{Tokens: 64, Positions: 64, Seqs: 4, Slots: 4, Trace: true})
		list := ids(12, c.N)
		s := r.NewSession()
		exact := gputest.Tolerance{}
		gputest.Close(t, "before the first token", exact, state(t, s, 0), make([]float32, c.HV*size))
		want := steps(t, s, list)
		s.Release()

		s = r.NewSession()
		steps(t, s, list[:5])
		step, err := s.TraceStep(ctx, list[5])
		if err != nil {
			t.Fatal(err)
		}
		for layer := range 2 {
			gputest.Close(t, "state", exact, state(t, s, layer), step.Layers[layer].State.Data)
		}

		// A fork that gets other states, one layer's heads one by one, another's at once.
		other := gputest.Rand(5, c.HV*size, 1)
		fork := s.Fork()
		for h := range c.HV {
			if err := fork.SetState(0, h, other[h*size:][:size]); err != nil {
				t.Fatal(err)
			}
		}
		gputest.Close(t, "the other layer of the fork", exact, state(t, fork, 1), step.Layers[1].State.Data)
		if err := fork.SetState(1, -1, nil); err != nil {
			t.Fatal(err)
		}
		gputest.Close(t, "what was set", exact, state(t, fork, 0), other)
		gputest.Close(t, "zeros", exact, state(t, fork, 1), make([]float32, c.HV*size))
		for layer := range 2 {
			gputest.Close(t, "the origin", exact, state(t, s, layer), step.Layers[layer].State.Data)
		}
		// A fork of the changed one, changed back, goes on as the origin does: tail and cache are there.
		back := fork.Fork()
		for layer := range 2 {
			if err := back.SetState(layer, -1, step.Layers[layer].State.Data); err != nil {
				t.Fatal(err)
			}
		}
		n := c.N
		changed := steps(t, fork, list[6:])
		gputest.Close(t, "the origin goes on", close4, steps(t, s, list[6:]), want[6*n:])
		gputest.Close(t, "changed back", close4, steps(t, back, list[6:]), want[6*n:])
		if gputest.Compare(gputest.Tolerance{RMS: 1e-2, Max: 1e-2}, changed, want[6*n:]).Err == nil {
			t.Error("another state changed nothing")
		}
		fork.Release()
		back.Release()
		s.Release()

		// A state may be given before the first token, over what an earlier session left in the slot.
		fresh := r.NewSession()
		if err := fresh.SetState(0, 1, other[:size]); err != nil {
			t.Fatal(err)
		}
		first := make([]float32, c.HV*size)
		copy(first[size:], other[:size])
		gputest.Close(t, "a new session", exact, state(t, fresh, 0), first)
		gputest.Close(t, "its other layer", exact, state(t, fresh, 1), make([]float32, c.HV*size))
		if err := fresh.SetState(0, -1, nil); err != nil {
			t.Fatal(err)
		}
		gputest.Close(t, "a new session with zeros", close4, steps(t, fresh, list), want)
		fresh.Release()

		// Every slot came back.
		for range 4 {
			if err := r.NewSession().SetState(0, -1, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.NewSession().SetState(0, -1, nil); err == nil {
			t.Error("a fifth session found a slot where there are four")
		}
	})
}

func TestStateRefusals(t *testing.T) {
	m := random(t, webgpu.NewCPU(), hybrid)
	r := runner(t, m, model.Options{Tokens: 8, Positions: 12, Seqs: 2, Slots: 2})
	s := r.NewSession()
	size := m.Config.K * m.Config.V
	bad := make([]float32, size)
	bad[3] = float32(math.NaN())
	for want, err := range map[string]error{
		"model: state of layer 3: want a layer from 0 to 2":                                   s.SetState(3, -1, nil),
		"model: state of layer 2: it is an attention layer, want one of the gated delta rule": s.SetState(2, -1, nil),
		"model: state of layer 0: got head 4, want 0 to 3, or -1 for all":                     s.SetState(0, 4, nil),
		"model: state of layer 0: got 84 numbers, want 336":                                   s.SetState(0, -1, make([]float32, size)),
		"model: state of layer 1: got 83 numbers, want 84":                                    s.SetState(1, 0, make([]float32, size-1)),
		"model: layer 1: state: NaN or infinity, want finite numbers":                         s.SetState(1, 0, bad),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := s.State(context.Background(), 2); err == nil {
		t.Error("an attention layer has a state")
	}
}
