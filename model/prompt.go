package model

import (
	"context"
	"fmt"

	"shellgame/model/config"
)

// Prompt is everything that reading a whole prompt left: what golden files hold.
type Prompt struct {
	Logits []float32         // [T, N]
	Hidden [][]float32       // [L+1][T, D]: what enters each layer, then the last norm's output
	State  map[int][]float32 // by GDN layer: [HV, K, V]
	Tail   map[int][]float32 // by GDN layer: [W-1, C], oldest first
	Probs  map[int][]float32 // by attention layer: [Heads, T, T]
}

// ReadPrompt reads ids as one play and returns all that is known of it. The runner must have been
// made with Options.Trace and room for the prompt, and the session must be new.
func (s *Session) ReadPrompt(ctx context.Context, ids []int) (*Prompt, error) {
	r := s.r
	t, c := len(ids), r.Model.Config
	if !r.Opts.Trace || len(s.IDs) > 0 {
		return nil, fmt.Errorf("model: reading a prompt needs a new session of a runner made with Options.Trace")
	}
	out, err := r.play(ctx, []Input{{Session: s, IDs: ids, Want: All}}, true, tracePrompt)
	if err != nil {
		return nil, err
	}
	p := &Prompt{State: map[int][]float32{}, Tail: map[int][]float32{}, Probs: map[int][]float32{}}
	p.Logits = clone(out.Logits)
	for i, l := range c.Layers {
		p.Hidden = append(p.Hidden, clone(out.floats(r.names[i].hidden)[:t*c.D]))
		if l.Kind == config.GDN {
			p.State[i] = clone(out.floats(r.names[i].state))
			if c.W > 1 {
				p.Tail[i] = clone(out.floats(r.names[i].tail))
			}
			continue
		}
		probs := out.floats(r.names[i].probs)
		full := make([]float32, c.Heads*t*t)
		for h := range c.Heads {
			for row := range t {
				copy(full[(h*t+row)*t:][:t], probs[(row*c.Heads+h)*r.Opts.Positions:])
			}
		}
		p.Probs[i] = full
	}
	p.Hidden = append(p.Hidden, clone(out.floats("out.h")[:t*c.D]))
	return p, nil
}

func clone(v []float32) []float32 { return append([]float32(nil), v...) }
