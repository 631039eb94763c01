// Package playback reads a program with a model, token by token, and keeps every step: what the
// page steps through and `shellgame trace` prints.
package playback

import (
	"context"
	"errors"
	"fmt"

	"shellgame/internal/version"
	"shellgame/model"
	"shellgame/task"
)

// TopK is how many candidates for the next token a step keeps.
const TopK = 8

// Options say how a program is read. The zero value only reads it.
type Options struct {
	Belief  bool              // have every end of a statement wait for [Playback.Ask]
	Asked   func(*model.Step) // called with each step that has got its belief; may be nil
	Patches []Patch           // what is written into the state on the way
}

// Playback is one program in one model.
type Playback struct {
	Program *task.Program

	runner  *model.Runner
	opts    Options
	session *model.Session
	steps   []*model.Step
	pending []pending
	left    map[at][]float32 // states that a patch replaced
	ends    map[int]bool     // tokens that end a statement
	answers map[int]string   // by token: the word that truly comes next, after ==
	broken  error            // once the model has computed what is no number
}

// ownSlots are the state slots of a playback without questions: its session's, and one for who reads
// another program beside it ([StatesAfter]).
const ownSlots = 2

// Runner makes a runner for programs of up to positions tokens and, where the belief is wanted, for
// the questions asked on the side. One playback at a time uses it. The model is changed as switches
// say.
func Runner(m *model.Model, positions int, belief bool, switches model.Switches) (*model.Runner, error) {
	slots := ownSlots
	if belief {
		slots += askSlots + room(m.Config)
	}
	positions += askTokens
	return m.NewRunner(model.Options{Tokens: 64, Seqs: 16, Slots: slots, Positions: positions, Rows: 2*positions + 64, TopK: TopK, Trace: true, Switches: switches})
}

// Check says whether a program can be read in positions tokens. The error wraps nothing: it is one
// line for who wrote the program.
func Check(p *task.Program, positions int) error {
	if len(p.Stmts()) == 0 {
		return errors.New("the program is empty: write a statement, such as a,b,c,d,e=range(5)")
	}
	if n := len(p.Tokens()); n > positions {
		return fmt.Errorf("the program is %d words long, at most %d can be read here: take statements out", n-1, positions-1)
	}
	return nil
}

// New starts a program. Nothing is read yet.
func New(r *model.Runner, p *task.Program, o Options) (*Playback, error) {
	if err := Check(p, r.Opts.Positions-askTokens); err != nil {
		return nil, err
	}
	if o.Belief && r.Opts.Slots <= ownSlots+askSlots {
		return nil, errors.New("playback: the runner was made without room for the belief")
	}
	if n := r.Model.Config.N; n < task.NumWords {
		return nil, fmt.Errorf("playback: %s has a vocabulary of %d: programs need the zoo's %d words", r.Model.Name, n, task.NumWords)
	}
	b := &Playback{Program: p, runner: r, opts: o, session: r.NewSession(), left: map[at][]float32{}, ends: map[int]bool{}, answers: map[int]string{}}
	for _, s := range p.Stmts() {
		b.ends[s.Last] = !s.Open
	}
	for _, c := range o.Patches {
		if err := CheckPatch(r.Model.Config, c.Patch, len(p.Tokens())); err != nil {
			return nil, err
		}
	}
	for _, q := range p.Queries() {
		b.answers[q.Pos] = task.Word(q.AnswerID())
	}
	return b, nil
}

// Steps returns the steps read so far. They do not change, but for a belief that [Playback.Ask] adds.
func (b *Playback) Steps() []*model.Step { return b.steps }

// Done reports whether the whole program has been read.
func (b *Playback) Done() bool { return len(b.steps) == len(b.Program.Tokens()) }

// Step reads the next token. At the end it returns nil. After [model.ErrNotFinite] the error stays.
func (b *Playback) Step(ctx context.Context) (*model.Step, error) {
	if b.Done() {
		return nil, nil
	}
	if b.broken != nil {
		return nil, b.broken
	}
	t := len(b.steps)
	tok := b.Program.Tokens()[t]
	s, err := b.session.TraceStep(ctx, int(tok.ID))
	if errors.Is(err, model.ErrNotFinite) {
		b.broken = fmt.Errorf("word %d, %s: %w", t, tok.Word(), err)
		return nil, b.broken
	}
	if err != nil {
		return nil, err
	}
	s.Word, s.Span = tok.Word(), [2]int{tok.Start, tok.End}
	for i := range s.Top {
		s.Top[i].Word = task.Word(int32(s.Top[i].ID))
	}
	s.Truth = b.truth(t)
	b.steps = append(b.steps, s)
	if err := b.patch(s); err != nil {
		return nil, err
	}
	if b.opts.Belief && b.ends[t] && len(questions(b.Program.At(t))) > 0 {
		if len(b.pending) == b.runner.Opts.Slots-ownSlots-askSlots {
			if _, err := b.Ask(ctx); err != nil {
				return nil, err
			}
		}
		b.pending = append(b.pending, pending{t, b.session.Fork()})
	}
	return s, nil
}

func (b *Playback) truth(t int) *model.Truth {
	tr := &model.Truth{Vars: map[string]int{}, Answer: b.answers[t]}
	state := b.Program.At(t)
	for v, x := range state.Vars {
		name := task.Var(v).String()
		if x >= 0 {
			tr.Vars[name] = int(x)
		}
		if bit, ok := state.Bit(task.Var(v)); ok {
			if tr.Bits == nil {
				tr.Bits = map[string]int{}
			}
			tr.Bits[name] = bit
		}
	}
	return tr
}

// Trace returns all that was read so far. keep says whether the state of GDN layers after step t
// is wanted; nil keeps all.
func (b *Playback) Trace(keep func(t int) bool) *model.Trace {
	info := b.runner.Model.Device().Info()
	tr := &model.Trace{Version: model.TraceVersion, Generator: "shellgame " + version.Number, Model: b.runner.Model.Info(), Device: info.Kind, Adapter: info.Adapter, Program: b.Program.Canonical(), Source: b.Program.Source()}
	if s := b.runner.Opts.Switches; !s.Zero() {
		tr.Switches = &s
	}
	for _, p := range b.opts.Patches {
		tr.Patches = append(tr.Patches, p.Patch)
	}
	for t, s := range b.steps {
		if keep != nil && !keep(t) {
			bare := *s
			bare.Layers = append([]model.LayerStep(nil), s.Layers...)
			for i := range bare.Layers {
				bare.Layers[i].State = nil
			}
			s = &bare
		}
		tr.Steps = append(tr.Steps, s)
	}
	return tr
}

// Release gives back what the playback holds of its runner.
func (b *Playback) Release() {
	b.session.Release()
	for _, p := range b.pending {
		p.session.Release()
	}
	b.pending = nil
}
