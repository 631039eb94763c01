package sample

import (
	"context"
	"iter"

	"shellgame/model"
)

// Tokens picks the token after what a session has read, whose output is out, lets the session read it,
// and so on: it yields most tokens, unless its caller stops before. At each token the session has read
// what came before it. Unless the sampler is greedy, out needs logits. An error ends it.
func (s *Sampler) Tokens(ctx context.Context, session *model.Session, out *model.Output, most int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		if s.Greedy() {
			first := out.Top(0, 0).ID
			if most < 1 || !yield(first, nil) {
				return
			}
			for id, err := range session.Greedy(ctx, first, most-1) {
				if !yield(id, err) {
					return
				}
			}
			return
		}
		for n := range most {
			id, err := s.Next(out.Logits)
			if !yield(id, err) || err != nil || n == most-1 {
				return
			}
			if out, err = session.Step(ctx, id, true); err != nil {
				yield(0, err)
				return
			}
		}
	}
}
