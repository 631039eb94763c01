package engine

import (
	"strings"

	"shellgame/model"
	"shellgame/model/config"
	"shellgame/stage"
	"shellgame/task"
)

// show hands the stage the moment that the page is at. What a scene holds is kept by the stage, so
// nothing of it is changed later.
func (e *Engine) show() {
	if e.hooks.Scene == nil {
		return
	}
	l := e.lanes[e.shown%diff]
	s := &stage.Scene{Run: l.run, T: l.at}
	if e.shown == diff {
		s.T = min(l.at, e.lanes[1].at)
	}
	if l.play != nil {
		l.text(s)
	}
	switch {
	case l.held == nil:
	case e.shown == diff:
		e.differ(s)
	default:
		l.layers(s)
	}
	e.hooks.Scene(s)
}

func wordsOf(p *task.Program) []stage.Word {
	words := make([]stage.Word, len(p.Tokens()))
	for i, t := range p.Tokens() {
		words[i] = stage.Word{Text: t.Word(), Stmt: t.Stmt}
	}
	return words
}

// text fills in the program, the next word and the truth.
func (l *lane) text(s *stage.Scene) {
	p := l.play.Program
	s.Words = l.words
	if q, ok := p.Query(); ok {
		s.AnswerTruth, _ = p.Answer()
		if s.T >= q.Pos {
			if top := l.play.Steps()[q.Pos].Top[0]; undecided(top.Word) {
				s.Answer = "no preference"
			} else {
				s.Answer = top.Word
			}
		}
	}
	l.vars(s)
	if s.T < 0 {
		return
	}
	step := l.play.Steps()[s.T]
	s.Next = make([]stage.Guess, len(step.Top))
	for i, c := range step.Top {
		s.Next[i] = stage.Guess{Text: c.Word, P: c.P}
	}
	s.Truth = step.Truth.Answer
}

// vars lists all five variables, with an empty truth while undefined. What the model believes is
// that of the last end of a statement.
func (l *lane) vars(s *stage.Scene) {
	p := l.play.Program
	state := p.At(max(s.T, 0)) // <bos> leaves all undefined
	var belief *model.Belief
	for t := s.T; t >= 0; t-- {
		tok := p.Tokens()[t]
		if tok.Stmt >= 0 && p.Stmts()[tok.Stmt].Last == t && !p.Stmts()[tok.Stmt].Open {
			belief = l.play.Steps()[t].Belief
			break
		}
	}
	s.Vars = make([]stage.Var, len(state.Vars))
	for i, x := range state.Vars {
		v := &s.Vars[i]
		v.Name = task.Var(i).String()
		if x >= 0 {
			v.Truth = task.Word(task.NumberID(int(x)))
		}
		if belief != nil {
			v.Belief = belief.Vars[v.Name].Word
			if undecided(v.Belief) {
				v.Belief = stage.NoPreference
			}
		}
	}
}

// undecided says whether the likeliest word is one that no program has: the first of all words,
// where the model prefers none.
func undecided(word string) bool { return word == task.Word(task.Pad) || word == task.Word(task.BOS) }

// layers fills in what every layer holds after the step shown.
func (l *lane) layers(s *stage.Scene) {
	s.Layers = make([]stage.Layer, len(l.held.Config.Layers))
	for i := range s.Layers {
		layer := &s.Layers[i]
		*layer = shapeOf(l.held.Config, i)
		if layer.Kind == stage.Attention {
			if l.rows != nil {
				layer.Rows = l.rows[i][:s.T+1]
			}
			continue
		}
		layer.RowNames = rowNames(l.held.Name)
		if s.T >= 0 {
			step := &l.play.Steps()[s.T].Layers[i]
			layer.State, layer.Alpha, layer.Beta = step.State.Data, step.Alpha, step.Beta
		}
	}
}

func shapeOf(c *config.Config, i int) stage.Layer {
	if c.Layers[i].Kind == config.GDN {
		return stage.Layer{Index: i, Heads: c.HV, K: c.K, V: c.V}
	}
	return stage.Layer{Index: i, Kind: stage.Attention, Heads: c.Heads, K: c.HeadDim, V: c.HeadDim}
}

// rowNames says what the rows of a state stand for, where that is known: a constructed model's keys
// are the variables.
func rowNames(name string) []string {
	if name == "st-constructed" {
		return constructedRows
	}
	return nil
}

var constructedRows = strings.Split("abcde", "")

// difference is lane 0 less lane 1. It is kept, since what was read does not change.
type difference struct {
	run  int
	of   [2]int        // the lanes' runs
	rows [][][]float32 // [L][t][H, t+1]
}

// differ fills in, for each layer of lane 0 that lane 1 has in the same shape, how far they are
// apart after the last word that both have read.
func (e *Engine) differ(s *stage.Scene) {
	a, b := e.lanes[0], e.lanes[1]
	d := &e.diff
	if of := [2]int{a.run, b.run}; d.run == 0 || d.of != of {
		e.runs++
		*d = difference{run: e.runs, of: of, rows: noRows(a.held.Config)}
	}
	s.Run = d.run
	s.Layers = make([]stage.Layer, len(a.held.Config.Layers))
	for i := range s.Layers {
		layer := &s.Layers[i]
		*layer = shapeOf(a.held.Config, i)
		layer.Diff = true
		if b.held == nil || i >= len(b.held.Config.Layers) {
			continue
		}
		if o := shapeOf(b.held.Config, i); o.Kind != layer.Kind || o.Heads != layer.Heads || o.Kind == stage.GDN && (o.K != layer.K || o.V != layer.V) {
			continue
		}
		if layer.Kind == stage.Attention {
			for t := len(d.rows[i]); t <= s.T; t++ {
				d.rows[i] = append(d.rows[i], minus(a.rows[i][t], b.rows[i][t]))
			}
			layer.Rows = d.rows[i][:s.T+1]
			continue
		}
		if s.T < 0 {
			continue
		}
		layer.RowNames = rowNames(a.held.Name)
		layer.State = minus(a.play.Steps()[s.T].Layers[i].State.Data, b.play.Steps()[s.T].Layers[i].State.Data)
	}
}

// noRows has room for the attention rows of each layer.
func noRows(c *config.Config) [][][]float32 {
	rows := make([][][]float32, len(c.Layers))
	for i := range rows {
		rows[i] = [][]float32{}
	}
	return rows
}

func minus(a, b []float32) []float32 {
	d := make([]float32, len(a))
	for i := range d {
		d[i] = a[i] - b[i]
	}
	return d
}
