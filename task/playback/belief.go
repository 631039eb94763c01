package playback

import (
	"context"

	"shellgame/model"
	"shellgame/model/config"
	"shellgame/task"
)

// askTokens is how far a question on the side reads beyond the program: assert v==.
const askTokens = 2

// pending is a session that stands at the end of a statement and is yet to be asked.
type pending struct {
	t       int
	session *model.Session
}

// askSlots are the state slots that asking takes: the session asked, and a fork for each question.
const askSlots = 1 + 2*task.NumVars

// room is how many sessions may wait to be asked: their states take at most 32 MiB.
func room(c *config.Config) int {
	bytes := 0
	for _, l := range c.Layers {
		if l.Kind == config.GDN {
			bytes += 4 * (c.HV*c.K*c.V + (c.W-1)*c.C())
		}
	}
	return min(max(32<<20/max(bytes, 1), 2), 128)
}

// Pending is how many ends of statements wait for [Playback.Ask].
func (b *Playback) Pending() int { return len(b.pending) }

// Ask asks for every variable at the last end of a statement that waits for it, and returns its
// step, which now holds the belief. Nil: none waits.
func (b *Playback) Ask(ctx context.Context) (*model.Step, error) {
	if len(b.pending) == 0 {
		return nil, nil
	}
	last := len(b.pending) - 1
	at := b.pending[last]
	b.pending = b.pending[:last]
	defer at.session.Release()
	belief, err := b.ask(ctx, at.session, questions(b.Program.At(at.t)))
	if err != nil {
		return nil, err
	}
	b.steps[at.t].Belief = belief
	if b.opts.Asked != nil {
		b.opts.Asked(b.steps[at.t])
	}
	return b.steps[at.t], nil
}

// question is one that can be asked on the side, with the true answer.
type question struct {
	v      task.Var
	bit    bool
	answer int
}

// questions are all that have an answer in a state: the value of each variable, and its bit.
func questions(s task.State) []question {
	var out []question
	for i, x := range s.Vars {
		v := task.Var(i)
		if x >= 0 {
			out = append(out, question{v, false, int(x)})
		}
		if bit, ok := s.Bit(v); ok {
			out = append(out, question{v, true, bit})
		}
	}
	return out
}

// ask puts the questions to a session that has read the program so far: it reads their common first
// word, is forked for each question, and all forks read their second word as one batch.
func (b *Playback) ask(ctx context.Context, s *model.Session, qs []question) (*model.Belief, error) {
	inputs := make([]model.Input, len(qs))
	for i, q := range qs {
		words := task.AskVar(q.v)
		if q.bit {
			words = task.AskBit(q.v)
		}
		if i == 0 {
			if _, err := b.runner.Play(ctx, []model.Input{{Session: s, IDs: []int{int(words[0])}}}, false); err != nil {
				return nil, err
			}
		}
		inputs[i] = model.Input{Session: s.Fork(), IDs: []int{int(words[1])}, Want: model.Last}
		defer inputs[i].Session.Release()
	}
	out, err := b.runner.Play(ctx, inputs, false)
	if err != nil {
		return nil, err
	}
	belief := &model.Belief{Vars: map[string]model.Opinion{}}
	for i, q := range qs {
		top := out.Top(i, 0)
		o := model.Opinion{Word: task.Word(int32(top.ID)), P: top.P, Right: int32(top.ID) == task.NumberID(q.answer)}
		if !q.bit {
			belief.Vars[q.v.String()] = o
			continue
		}
		if belief.Bits == nil {
			belief.Bits = map[string]model.Opinion{}
		}
		belief.Bits[q.v.String()] = o
	}
	return belief, nil
}
