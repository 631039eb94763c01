package playback

import (
	"context"
	"fmt"

	"shellgame/model"
	"shellgame/model/config"
)

// Patch is what is written into the state after a step, with the states that it takes.
type Patch struct {
	model.Patch
	States States // nil: zeros
}

// States are S [HV, K, V] by GDN layer.
type States map[int][]float32

// CheckPatch says whether a patch fits a model of shape c and a program of that many tokens.
func CheckPatch(c *config.Config, p model.Patch, tokens int) error {
	if p.T < 0 || p.T >= tokens {
		return fmt.Errorf("patch: after word %d, want one of the program, 0 to %d", p.T, tokens-1)
	}
	gdn := layersOf(c)
	if len(gdn) == 0 {
		return fmt.Errorf("patch: the model has attention alone, want one with a recurrent state")
	}
	if p.Layer != nil {
		if i := *p.Layer; i < 0 || i >= len(c.Layers) || c.Layers[i].Kind != config.GDN {
			return fmt.Errorf("patch: layer %d, want one with a recurrent state, of %v", i, gdn)
		}
	}
	if p.Head != nil && (*p.Head < 0 || *p.Head >= c.HV) {
		return fmt.Errorf("patch: head %d, want 0 to %d", *p.Head, c.HV-1)
	}
	return nil
}

// layersOf lists the GDN layers.
func layersOf(c *config.Config) []int {
	var gdn []int
	for i, l := range c.Layers {
		if l.Kind == config.GDN {
			gdn = append(gdn, i)
		}
	}
	return gdn
}

// StatesAfter reads ids in a session of its own and returns the state that they leave.
func StatesAfter(ctx context.Context, r *model.Runner, ids []int) (States, error) {
	s := r.NewSession()
	defer s.Release()
	if _, err := s.Prefill(ctx, ids, false); err != nil {
		return nil, err
	}
	states := States{}
	for _, i := range layersOf(r.Model.Config) {
		state, err := s.State(ctx, i)
		if err != nil {
			return nil, err
		}
		states[i] = state
	}
	return states, nil
}

// patch writes what is due after step t, into the session and into what the step shows.
func (b *Playback) patch(s *model.Step) error {
	c := b.runner.Model.Config
	size := c.K * c.V
	for _, p := range b.opts.Patches {
		if p.T != s.T {
			continue
		}
		for _, i := range layersOf(c) {
			if p.Layer != nil && *p.Layer != i {
				continue
			}
			l := &s.Layers[i]
			if b.left[at{s.T, i}] == nil {
				b.left[at{s.T, i}] = l.State.Data
				l.State = &model.Array{Shape: l.State.Shape, Data: append([]float32(nil), l.State.Data...)}
			}
			head, to := -1, l.State.Data
			data := p.States[i]
			if p.Head != nil {
				head = *p.Head
				to = to[head*size:][:size]
				if data != nil {
					data = data[head*size:][:size]
				}
			}
			if err := b.session.SetState(i, head, data); err != nil {
				return err
			}
			clear(to)
			copy(to, data)
		}
	}
	return nil
}

// at is a layer at a step.
type at struct{ t, layer int }

// Left returns S [HV, K, V] as the model left it in a GDN layer after step t, before any patch.
func (b *Playback) Left(t, layer int) []float32 {
	if s := b.left[at{t, layer}]; s != nil {
		return s
	}
	return b.steps[t].Layers[layer].State.Data
}
