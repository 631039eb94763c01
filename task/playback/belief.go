package playback

import (
	"context"
	"fmt"
	"math"

	"shellgame/model"
	"shellgame/task"
)

// askTokens is how far a question on the side reads beyond the program: assert v==.
const askTokens = 2

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

// ask forks the session for each question and reads all of them as one batch. The session itself
// does not move. Without a question there is no belief.
func (b *Playback) ask(ctx context.Context, s task.State) (*model.Belief, error) {
	qs := questions(s)
	if len(qs) == 0 {
		return nil, nil
	}
	inputs := make([]model.Input, len(qs))
	for i, q := range qs {
		words := task.AskVar(q.v)
		if q.bit {
			words = task.AskBit(q.v)
		}
		inputs[i] = model.Input{Session: b.session.Fork(), IDs: []int{int(words[0]), int(words[1])}, Want: model.Last}
		defer inputs[i].Session.Release()
	}
	out, err := b.runner.Play(ctx, inputs, false)
	if err != nil {
		return nil, err
	}
	belief := &model.Belief{Vars: map[string]model.Opinion{}}
	for i, q := range qs {
		top := out.Top(i, 0)
		if p := float64(top.P); math.IsNaN(p) || math.IsInf(p, 0) {
			return nil, fmt.Errorf("playback: the answer about %s: got probability %v, want a finite number", q.v, top.P)
		}
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
