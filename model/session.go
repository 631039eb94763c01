package model

import (
	"context"
	"slices"
)

// Session is one text that a model is reading: its tokens, its state slot (S of every GDN layer
// and the convolution's tail) and its rows of the KV cache.
type Session struct {
	IDs []int // tokens read

	r      *Runner
	slot   int // -1 before the first token: all zeros
	rows   []uint32
	rowMap int // first word of its row map, -1 before it has one
	mapped int // rows already in that map
}

// NewSession starts a text.
func (r *Runner) NewSession() *Session { return &Session{r: r, slot: -1, rowMap: -1} }

// Fork returns a session that has read the same and goes on by itself. The two share the state
// slot until one of them reads on, and the KV cache's rows for good: a fork is also a snapshot,
// and going back is forking an earlier one.
func (s *Session) Fork() *Session {
	f := &Session{IDs: slices.Clone(s.IDs), r: s.r, slot: s.slot, rows: slices.Clone(s.rows), rowMap: -1}
	if f.slot >= 0 {
		s.r.slotRefs[f.slot]++
	}
	for _, row := range f.rows {
		s.r.rowRefs[row]++
	}
	return f
}

// Release gives back what only this session uses.
func (s *Session) Release() {
	r := s.r
	if s.slot >= 0 {
		r.slotRefs[s.slot]--
	}
	for i := len(s.rows) - 1; i >= 0; i-- {
		row := s.rows[i]
		if r.rowRefs[row]--; r.rowRefs[row] == 0 {
			r.freeRows = append(r.freeRows, row)
		}
	}
	if s.rowMap >= 0 {
		r.freeMaps = append(r.freeMaps, s.rowMap)
	}
	*s = Session{r: r, slot: -1, rowMap: -1}
}

// Prefill reads ids, in as many plays as they need, and returns the output of the last one, which
// holds what was asked of the tokens in it.
func (s *Session) Prefill(ctx context.Context, ids []int, logits bool) (*Output, error) {
	for len(ids) > s.r.Opts.Tokens {
		if _, err := s.r.Play(ctx, []Input{{Session: s, IDs: ids[:s.r.Opts.Tokens]}}, false); err != nil {
			return nil, err
		}
		ids = ids[s.r.Opts.Tokens:]
	}
	return s.r.Play(ctx, []Input{{Session: s, IDs: ids, Want: Last}}, logits)
}

// Step reads one token and returns the candidates for the next.
func (s *Session) Step(ctx context.Context, id int, logits bool) (*Output, error) {
	return s.r.Play(ctx, []Input{{Session: s, IDs: []int{id}, Want: Last}}, logits)
}
