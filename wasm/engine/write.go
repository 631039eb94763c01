package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"shellgame/model"
	"shellgame/model/sample"
)

// written is what a lane's model reads and writes besides programs: a session of any tokens.
type written struct {
	runner *model.Runner
	s      *model.Session
}

func (t *written) release() {
	if t != nil {
		t.runner.Release()
	}
}

// mostText is how many tokens a text may have, prompt and answer together.
const mostText = 4096

// Spent is how many tokens were read or written, and how long it took.
type Spent struct {
	Tokens  int     `json:"tokens"`
	Seconds float64 `json:"seconds"`
}

// write reads a prompt and goes on from it. Each token is told as it comes.
func (e *Engine) write(ctx context.Context, q request) (*job, error) {
	if q.Lane == diff || e.lanes[q.Lane].held == nil {
		return nil, errNoModel
	}
	if len(q.IDs) == 0 {
		return nil, fmt.Errorf("write: got an empty prompt, want at least one token")
	}
	if q.Most < 1 || len(q.IDs)+q.Most > mostText {
		return nil, fmt.Errorf("write: got %d tokens of prompt and %d to write, want 1 or more and at most %d together", len(q.IDs), q.Most, mostText)
	}
	pick, err := sample.New(sample.Options{Temp: q.Temp, TopK: q.TopK, TopP: q.TopP, Seed: q.Seed})
	if err != nil {
		return nil, fmt.Errorf("write: %w", err)
	}
	return e.begin(ctx, q, func(ctx context.Context, r *Reply, pause func()) error {
		if err := e.trust(ctx); err != nil {
			return err
		}
		l := e.lanes[q.Lane]
		if l.held == nil {
			return errNoModel
		}
		if most := l.held.Config.MaxPos; most > 0 && len(q.IDs)+q.Most > most {
			return fmt.Errorf("write: got %d tokens of prompt and %d to write, %s has room for %d", len(q.IDs), q.Most, l.held.Name, most)
		}
		runner, err := l.held.NewRunner(model.Options{Seqs: 1, Slots: 3, Tokens: min(len(q.IDs), 64), Positions: len(q.IDs) + q.Most, TopK: 8})
		if err != nil {
			return err
		}
		l.written.release()
		t := &written{runner, runner.NewSession()}
		l.written = t
		ends := append(slices.Clone(q.Ends), l.held.Config.EOSAll...)
		// What was there is gone once another text or model is.
		gone := func() bool { return ctx.Err() != nil || l.written != t || e.lanes[q.Lane] != l }

		start, read := time.Now(), 0
		size := min(firstRead(l.held.Params), runner.Opts.Tokens)
		var out *model.Output
		for read < len(q.IDs) {
			n := min(size, len(q.IDs)-read)
			from := time.Now()
			if out, err = t.s.Prefill(ctx, q.IDs[read:read+n], !pick.Greedy()); err != nil {
				return err
			}
			read += n
			e.event(Event{Event: "progress", What: "prompt", Done: int64(read), Total: int64(len(q.IDs))})
			if time.Since(from) < playAim/2 {
				size = min(2*size, runner.Opts.Tokens)
			}
			if pause(); gone() {
				return errCancelled
			}
		}
		r.Prompt = &Spent{read, time.Since(start).Seconds()}
		r.Written = &Spent{}
		start = time.Now()
		for id, err := range pick.Tokens(ctx, t.s, out, q.Most) {
			if err != nil {
				if ctx.Err() != nil {
					break
				}
				return err
			}
			if slices.Contains(ends, id) {
				r.Done = true
				break
			}
			r.Written.Tokens++
			r.Written.Seconds = time.Since(start).Seconds()
			e.event(Event{Event: "wrote", Lane: &l.index, IDs: []int{id}, Done: int64(r.Written.Tokens), Seconds: r.Written.Seconds})
			if pause(); gone() {
				break
			}
		}
		cancelled := ctx.Err() != nil
		r.Cancelled = &cancelled
		return nil
	}), nil
}

// state reads the state of one head after the text so far.
func (e *Engine) state(ctx context.Context, q request, r *Reply) error {
	if q.Lane == diff {
		return errNoModel
	}
	l := e.lanes[q.Lane]
	if l.written == nil {
		return fmt.Errorf("state: nothing was written yet")
	}
	if q.Layer == nil || q.Head == nil {
		return fmt.Errorf("state: want a layer and a head")
	}
	c := l.held.Config
	if *q.Head < 0 || *q.Head >= max(c.HV, 1) {
		return fmt.Errorf("state: got head %d, want 0 to %d", *q.Head, c.HV-1)
	}
	s, err := l.written.s.State(ctx, *q.Layer)
	if err != nil {
		return err
	}
	s = s[*q.Head*c.K*c.V:][:c.K*c.V]
	for k := range c.K {
		r.State = append(r.State, s[k*c.V:][:c.V])
	}
	return nil
}
