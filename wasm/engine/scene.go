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
	e.vars(s)
	if e.at < 0 {
		return
	}
	step := e.play.Steps()[e.at]
	for _, c := range step.Top {
		s.Next = append(s.Next, stage.Guess{Text: c.Word, P: c.P})
	}
	s.Truth = step.Truth.Answer
}

// vars lists all five variables, with an empty truth while undefined.
func (e *Engine) vars(s *stage.Scene) {
	state := e.play.Program.At(max(e.at, 0)) // <bos> leaves all undefined
	for v, x := range state.Vars {
		truth := ""
		if x >= 0 {
			truth = task.Word(task.NumberID(int(x)))
		}
		s.Vars = append(s.Vars, stage.Var{Name: task.Var(v).String(), Truth: truth})
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
			s.Layers = append(s.Layers, l)
			continue
		}
		l.RowNames = rowNames(e.model.Name)
		if e.at >= 0 {
			step := e.play.Steps()[e.at].Layers[i]
			l.State, l.Alpha, l.Beta = step.State.Data, step.Alpha, step.Beta
		}
		s.Layers = append(s.Layers, l)
	}
}

// rowNames says what the rows of a state stand for, where that is known: a constructed model's keys
// are the variables.
func rowNames(name string) []string {
	if name == "st-constructed" {
		return []string{"a", "b", "c", "d", "e"}
	}
	return nil
}
