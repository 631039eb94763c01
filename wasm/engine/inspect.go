package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"shellgame/model"
	"shellgame/model/config"
	"shellgame/model/inspect"
)

// inspected is the text that a lane's model is looked into with.
type inspected struct {
	*inspect.Reading
	ids      []int
	switches model.Switches
}

func (t *inspected) release() {
	if t != nil {
		t.Release()
	}
}

const (
	keptBytes = 32 << 20 // of states along a text, so that another token of it is soon looked at
	keptEach  = 16       // tokens from one to the next, at least
)

// keep says after which of n tokens the states of a model are kept.
func keep(c *config.Config, n int) (at []int) {
	gap := max(keptEach, n/(keptBytes/max(inspect.StateBytes(c), 1)+1)+1)
	for t := gap; t < n; t += gap {
		at = append(at, t)
	}
	return at
}

// breather returns what lets the page run where Go has computed for a while.
func breather() func() {
	last := time.Now()
	return func() {
		if time.Since(last) > 8*time.Millisecond {
			time.Sleep(time.Millisecond)
			last = time.Now()
		}
	}
}

// inspect reads a text with a lane's model, changed as the lane's run has it, and looks at one of its
// tokens. A text that was read is not read again for another of its tokens.
func (e *Engine) inspect(ctx context.Context, q request) (*job, error) {
	if slices.ContainsFunc(e.jobs, func(j *job) bool { return j.q.Type == q.Type }) {
		return nil, errors.New("inspect: a text is being read already: cancel that first, or wait for it")
	}
	l := e.lanes[q.Lane]
	if l.held == nil {
		return nil, errNoModel
	}
	most := mostText
	if n := l.held.Config.MaxPos; n > 0 {
		most = min(most, n)
	}
	if len(q.IDs) < 1 || len(q.IDs) > most {
		return nil, fmt.Errorf("inspect: got %d tokens, want 1 to %d", len(q.IDs), most)
	}
	if q.At < 0 || q.At >= len(q.IDs) {
		return nil, fmt.Errorf("inspect: got token %d, want 0 to %d", q.At, len(q.IDs)-1)
	}
	if q.Top < 0 {
		return nil, fmt.Errorf("inspect: got %d heads to be named, want 0 or more", q.Top)
	}
	return e.begin(ctx, q, func(ctx context.Context, r *Reply, pause func()) error {
		if err := e.trust(ctx); err != nil {
			return err
		}
		if e.lanes[q.Lane] != l {
			return errCancelled
		}
		t := l.inspected
		if t == nil || !slices.Equal(t.ids, q.IDs) || !reflect.DeepEqual(t.switches, l.made.switches) {
			t.release()
			l.inspected = nil
			reading, err := inspect.New(l.held.Model, q.IDs, inspect.Options{
				Switches: l.made.switches, Keep: keep(l.held.Config, len(q.IDs)),
				Aim: playAim, First: firstRead(l.held.Params), Breathe: breather(),
			})
			if err != nil {
				return err
			}
			t = &inspected{reading, q.IDs, l.made.switches}
			l.inspected = t
		}
		after := func(done, total int) error {
			e.event(Event{Event: "progress", What: "inspect", Done: int64(done), Total: int64(total)})
			if pause(); ctx.Err() != nil || l.inspected != t || e.lanes[q.Lane] != l {
				return errCancelled
			}
			return nil
		}
		err := t.Read(ctx, after)
		if err == nil {
			r.Inspect, err = t.At(ctx, q.At, q.Top, after)
		}
		if err != nil && !errors.Is(err, errCancelled) && l.inspected == t { // after such an error it may be of no use
			t.release()
			l.inspected = nil
		}
		return err
	}), nil
}

// firstRead is how many tokens the first play of a text reads: a large model on a slow device takes
// seconds a token, and must hear a cancel.
func firstRead(params int) int { return min(leastRun, max(200_000_000/max(params, 1), 1)) }
