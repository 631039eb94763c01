package engine

import (
	"shellgame/stage"
	"shellgame/task"
)

// show hands the stage the moment that the page is at.
func (e *Engine) show() {
	if e.hooks.Scene == nil {
		return
	}
	s := &stage.Scene{Run: e.run, T: e.at}
	if e.play != nil {
		e.words(s)
	}
	if e.model != nil {
		e.layers(s)
	}
	e.hooks.Scene(s)
}

func (e *Engine) words(s *stage.Scene) {
	p := e.play.Program
	for _, t := range p.Tokens() {
		s.Words = append(s.Words, stage.Word{Text: t.Word(), Stmt: t.Stmt})
	}
	if q, ok := p.Query(); ok {
		s.AnswerTruth, _ = p.Answer()
		if e.at >= q.Pos {
			s.Answer = e.play.Steps()[q.Pos].Top[0].Word
		}
	}
	if e.at < 0 {
		return
	}
	step := e.play.Steps()[e.at]
	for _, c := range step.Top {
		s.Next = append(s.Next, stage.Guess{Text: c.Word, P: c.P})
	}
	s.Truth = step.Truth.Answer
	state := p.At(e.at)
	for v, x := range state.Vars {
		if x >= 0 {
			s.Vars = append(s.Vars, stage.Var{Name: task.Var(v).String(), Truth: task.Word(task.NumberID(int(x)))})
		}
	}
}

// layers fills in what every layer holds after the step shown.
func (e *Engine) layers(s *stage.Scene) {
	n := len(s.Words)
	for i, info := range e.model.Info().Layers {
		l := stage.Layer{Index: i, Heads: info.Heads, K: info.K, V: info.V}
		if info.Kind == "attention" {
			l.Kind = stage.Attention
			l.Rows = make([]float32, l.Heads*n*n)
			for t := 0; t <= e.at; t++ {
				rows := e.play.Steps()[t].Layers[i].Rows
				for h := range l.Heads {
					copy(l.Rows[(h*n+t)*n:][:t+1], rows.Data[h*(t+1):])
				}
			}
		} else if e.at >= 0 {
			step := e.play.Steps()[e.at].Layers[i]
			l.State, l.Alpha, l.Beta = step.State.Data, step.Alpha, step.Beta
		}
		s.Layers = append(s.Layers, l)
	}
}
