package model

import (
	"context"
	"fmt"
	"math"

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

// Gates are what the delta rule took of some tokens in a layer.
type Gates struct {
	Alpha, Beta []float32 // [T, HV]: decay exp(g), write strength
}

// ReadGates reads ids, in as many plays as they need, and returns the gates of each GDN layer. The
// runner must have been made with Options.Trace.
func (s *Session) ReadGates(ctx context.Context, ids []int) (map[int]Gates, error) {
	r := s.r
	if !r.Opts.Trace {
		return nil, fmt.Errorf("model: reading gates needs a runner made with Options.Trace")
	}
	all := map[int]Gates{}
	hv := r.Model.Config.HV
	for len(ids) > 0 {
		part := ids[:min(len(ids), r.Opts.Tokens)]
		ids = ids[len(part):]
		out, err := r.play(ctx, []Input{{Session: s, IDs: part, Want: Last}}, false, traceGates)
		if err != nil {
			return nil, err
		}
		for i, l := range r.Model.Config.Layers {
			if l.Kind != config.GDN {
				continue
			}
			raw := out.floats(r.names[i].gates)[:len(part)*2*hv]
			if err := firstNotFinite(nil, i, "gates", raw); err != nil {
				return nil, err
			}
			g := all[i]
			for t := range part {
				for _, decay := range raw[t*2*hv:][:hv] {
					g.Alpha = append(g.Alpha, float32(math.Exp(float64(decay))))
				}
				g.Beta = append(g.Beta, raw[t*2*hv+hv:][:hv]...)
			}
			all[i] = g
		}
	}
	return all, nil
}

func clone(v []float32) []float32 { return append([]float32(nil), v...) }
