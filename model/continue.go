package model

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

// MostContinued is how many tokens one play of [Session.Continue] reads at most.
const MostContinued = 16

// Continue reads id, then what is most probable after it, and so on, n tokens in one play. Output i holds
// the most probable token after the i-th of them, and no other candidates. What is read next never leaves
// the device on its way: of tokens read play by play each waits for that.
func (s *Session) Continue(ctx context.Context, id, n int) (*Output, error) {
	r := s.r
	if n < 1 || n > MostContinued {
		return nil, fmt.Errorf("model: continuing by %d tokens: want 1 to %d", n, MostContinued)
	}
	f, p, err := s.goOn(id, n)
	if err != nil {
		return nil, err
	}
	ids, last, other := p.inputs[0].IDs, int(p.seqs[0].SlotOut), int(p.seqs[0].Turn)
	out, err := r.run(ctx, f, p)
	if err != nil {
		p.undo(r)
		return nil, err
	}
	tops := wordView(out.bytes("tops"))
	out.Outs, out.K, out.tokens = n, 1, n
	for i := range n {
		found := tops[(len(s.IDs)+i)%MostContinued*2:][:2]
		out.top = append(out.top, found...)
		if i+1 < n {
			ids[i+1] = int(found[0])
		}
	}
	if f.apart {
		if n%2 == 0 {
			last, other = other, last
		}
		p.slots[0] = last
		if other != s.slot { // which the session leaves by itself
			r.slotRefs[other]--
		}
	}
	p.commit(r)
	return out, out.finite()
}

// MakeReady makes the recordings by which [Session.Continue] reads the tokens of so many positions, for
// which the first play would wait otherwise.
func (r *Runner) MakeReady(ctx context.Context, positions ...int) error {
	for _, n := range positions {
		f := r.formFor(1, 1, n+1, false, traceNone)
		f.goesOn, f.apart = true, r.Opts.Slots > 1
		if _, err := r.program(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

// goOn plans a play of n passes. Where a slot is free, each pass writes another than it reads.
func (s *Session) goOn(id, n int) (form, *plan, error) {
	r := s.r
	ids := slices.Repeat([]int{id}, n) // all but the first are known afterwards
	p, err := r.plan([]Input{{Session: s, IDs: ids, Want: Last}})
	if err != nil {
		p.undo(r)
		return form{}, nil, err
	}
	f := r.formFor(1, 1, len(s.IDs)+n, false, traceNone)
	p.spare = slices.Index(r.slotRefs, 0)
	f.goesOn, f.apart = true, p.spare >= 0
	q := &p.seqs[0]
	q.Count, q.Turn = 1, q.SlotOut
	if f.apart {
		r.slotRefs[p.spare]++
		q.Turn = uint32(p.spare)
		if q.SlotOut == q.SlotIn {
			q.SlotOut, q.Turn = q.Turn, q.SlotOut
		}
	}
	return f, p, nil
}

// greedyAim is how long a play of [Session.Greedy] may take: what came is seen that much later, and a stop
// heard.
const greedyAim = 30 * time.Millisecond

// patience is how long a device may take to bring a session back to where its caller stopped.
const patience = 2 * time.Second

// Greedy reads id and then, again and again, what is most probable, most tokens in all, and yields the most
// probable token after each. At each token it yields the session has read those before it, as far as the
// caller can see: what was read ahead when the caller stops is read no more. An error ends it.
func (s *Session) Greedy(ctx context.Context, id, most int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		ahead := 1
		for most > 0 {
			n := min(ahead, most)
			var before *Session
			if n > 1 {
				before = s.Fork()
			}
			start := time.Now()
			out, err := s.Continue(ctx, id, n)
			if err != nil {
				if before != nil {
					before.Release()
				}
				yield(0, err)
				return
			}
			if took := time.Since(start); took < greedyAim/2 && s.r.dev.Info().Kind != "cpu" {
				ahead = min(2*ahead, MostContinued)
			} else if took > greedyAim {
				ahead = max(ahead/2, 1)
			}
			found := make([]int, n)
			for i := range found {
				found[i] = out.Top(i, 0).ID
			}
			for i, next := range found {
				if yield(next, nil) {
					continue
				}
				if i+1 < n {
					s.Release()
					*s = *before
					again, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
					_, _ = s.Continue(again, id, i+1) // or else it has read a little less
					cancel()
				} else if before != nil {
					before.Release()
				}
				return
			}
			if before != nil {
				before.Release()
			}
			id, most = found[n-1], most-n
		}
	}
}
