package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"runtime"
	"strings"
	"time"

	"shellgame/model"
	"shellgame/model/delta"
	"shellgame/stage"
	"shellgame/task"
	"shellgame/task/playback"
)

// lane is a model, changed or not, with its own program and its own place in it.
type lane struct {
	index  int
	held   *held
	runner *model.Runner
	made   made // for what

	play *playback.Playback
	from request // the run that play came from
	at   int     // step shown; -1 before the first

	// What the stage draws of the run.
	run   int
	words []stage.Word
	rows  [][][]float32 // [L][t][H, t+1] of attention layers, of the steps read

	maps map[[2]int]*delta.Map // by layer and head, of the steps looked at

	written   *written // read and written besides programs
	inspected *inspected
}

// positions is how long a program of the lane's model may be.
func (l *lane) positions() int {
	if n := l.held.Config.MaxPos; n > 0 {
		return min(maxPositions, n)
	}
	return maxPositions
}

func newLane(i int) *lane { return &lane{index: i, at: -1} }

// made is what a runner was made for.
type made struct {
	belief   bool
	switches model.Switches
}

// held is a model on the device, and how many use it.
type held struct {
	*model.Model
	name    string // what the page calls it
	weights string // how they are kept
	uses    int
}

// key is what a model is held by.
func key(name, weights string) string { return strings.TrimSpace(name + " " + weights) }

// borrow returns the model that the page calls name, from the device if it is there, else fetched.
// The borrower gives it back.
func (e *Engine) borrow(ctx context.Context, name string, o model.LoadOptions) (*held, error) {
	if e.dev.Device == nil {
		return nil, errNoDevice
	}
	if name == "" {
		return nil, errors.New("engine: no model is named")
	}
	key := key(name, o.Weights)
	if h := e.models[key]; h != nil {
		h.uses++
		return h, nil
	}
	var src *model.Source
	var err error
	await(ctx, o, func() { src, err = model.Look(baseName(name), e.hooks.Files(ctx, e.init.Base, name)) })
	if err != nil {
		return nil, err
	}
	defer src.Close()
	m, err := src.Load(ctx, e.dev.Device, o)
	if err != nil {
		return nil, err
	}
	if h := e.models[key]; h != nil { // somebody else was faster
		m.Release()
		h.uses++
		return h, nil
	}
	h := &held{Model: m, name: name, weights: o.Weights, uses: 1}
	e.models[key] = h
	return h, nil
}

// await calls f, which needs no device, beside whatever o.Pause lets run.
func await(ctx context.Context, o model.LoadOptions, f func()) {
	if o.Pause == nil {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer o.Wake()
		defer close(done)
		f()
	}()
	for ctx.Err() == nil {
		select {
		case <-done:
			return
		default:
			o.Pause()
		}
	}
	<-done
}

// baseName is the last part of an address.
func baseName(address string) string {
	name := strings.TrimSuffix(address, "/")
	name = name[strings.LastIndexByte(name, '/')+1:]
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}

func (e *Engine) giveBack(h *held) {
	if h.uses--; h.uses == 0 {
		delete(e.models, key(h.name, h.weights))
		h.Release()
	}
}

// drop releases a lane's model and what runs on it.
func (e *Engine) drop(l *lane) {
	l.written.release()
	l.inspected.release()
	l.written, l.inspected = nil, nil
	if l.runner != nil {
		l.runner.Release()
	}
	if l.held != nil {
		e.giveBack(l.held)
	}
}

// load fetches a checkpoint: a name of the zoo, or the address of a folder. The lane's model before
// it stays, and can be used, until the new one is whole.
func (e *Engine) load(ctx context.Context, q request) (*job, error) {
	if e.dev.Device == nil {
		return nil, errNoDevice
	}
	var j *job
	j = e.begin(ctx, q, func(ctx context.Context, r *Reply, pause func()) error {
		last := time.Now()
		o := model.LoadOptions{
			Weights: q.Weights,
			Progress: func(done, total int64) {
				e.event(Event{Event: "progress", What: "checkpoint", Done: done, Total: total})
				if time.Since(last) > playAim { // what arrives quickly must not keep others waiting
					pause()
					last = time.Now()
				}
			},
			Pause: func() {
				j.waiting = true
				pause()
			},
			Wake: e.awake,
		}
		var want []float32
		if q.Measure && q.Weights != "" {
			var err error
			if want, err = e.probe(ctx, q.Model, o); err != nil {
				return cmp.Or(ended(ctx), err)
			}
		}
		h, err := e.borrow(ctx, q.Model, o)
		if ctx.Err() != nil {
			if err == nil {
				e.giveBack(h)
			}
			return errCancelled
		}
		if err != nil {
			return err
		}
		if want != nil {
			got, err := model.Probe(ctx, h.Model)
			if err == nil {
				var d model.Deviation
				d, err = model.Deviate(want, got, h.Config.N)
				r.Deviation = &d
			}
			if err != nil {
				e.giveBack(h)
				return cmp.Or(ended(ctx), err)
			}
		}
		e.put(q.Lane, h, r)
		r.Bytes = h.Bytes()
		return nil
	})
	return j, nil
}

// probe returns the logits of a model as its checkpoint has it, and lets go of it.
func (e *Engine) probe(ctx context.Context, name string, o model.LoadOptions) ([]float32, error) {
	o.Weights = "f16"
	h, err := e.borrow(ctx, name, o)
	if err != nil {
		return nil, err
	}
	defer e.giveBack(h)
	return model.Probe(ctx, h.Model)
}

// ended is the error of what was cancelled, or nil.
func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return errCancelled
	}
	return nil
}

// put gives a lane a model.
func (e *Engine) put(lane which, h *held, r *Reply) {
	e.drop(e.lanes[lane])
	l := newLane(int(lane))
	e.runs++
	l.run = e.runs
	l.held, e.lanes[lane] = h, l
	info := h.Info()
	r.Model, r.Vocabulary = &info, h.Config.N
	e.show()
}

// start begins a program; nothing is read yet. On an error the run before it stays.
func (e *Engine) start(ctx context.Context, q request, r *Reply) error {
	l := e.lanes[q.Lane]
	if l.held == nil {
		return errNoModel
	}
	p, err := task.Parse(q.Program)
	if err != nil {
		return err
	}
	want := made{belief: q.Belief}
	if q.Switches != nil {
		want.switches = *q.Switches
	}
	positions := l.positions()
	if err := playback.Check(p, positions); err != nil {
		return err
	}
	runner := l.runner
	if runner == nil || !reflect.DeepEqual(l.made, want) {
		if runner, err = playback.Runner(l.held.Model, positions, want.belief, want.switches); err != nil {
			return err
		}
	}
	patches, err := e.patches(ctx, q, l, runner, p, positions)
	var play *playback.Playback
	if err == nil {
		play, err = playback.New(runner, p, playback.Options{Belief: q.Belief, Patches: patches, Asked: func(s *model.Step) {
			e.event(Event{Event: "belief", Lane: &l.index, T: &s.T, Belief: s.Belief, Truth: s.Truth})
		}})
	}
	if err != nil {
		if runner != l.runner {
			runner.Release()
		}
		return err
	}
	read := 0
	if l.play != nil {
		read = len(l.play.Steps())
		l.play.Release()
	}
	if l.runner != nil && l.runner != runner {
		l.runner.Release()
	}
	l.runner, l.made, l.play, l.from, l.at = runner, want, play, q, -1
	e.runs++
	l.run, l.words, l.rows = e.runs, wordsOf(p), noRows(l.held.Config)
	l.maps = map[[2]int]*delta.Map{}
	describe(p, r)
	e.show()
	if read > longRun {
		runtime.GC() // a page's memory never shrinks: the steps before this run must not lie beside its own
	}
	return nil
}

// longRun is how many steps hold enough memory to be worth collecting at once.
const longRun = 64

// patches finds the states that the patches of a run take.
func (e *Engine) patches(ctx context.Context, q request, l *lane, runner *model.Runner, p *task.Program, positions int) ([]playback.Patch, error) {
	var out []playback.Patch
	for _, patch := range q.Patches {
		if err := playback.CheckPatch(l.held.Config, patch, len(p.Tokens())); err != nil {
			return nil, err
		}
		done := playback.Patch{Patch: patch}
		var err error
		if patch.From != "zero" {
			err = e.trust(ctx)
		}
		if err != nil {
			return nil, err
		}
		switch patch.From {
		case "zero":
		case "model":
			done.States, err = e.statesOf(ctx, patch.Model, l, intsOf(p)[:patch.T+1])
		case "program":
			other, bad := task.Parse(patch.Program)
			if bad == nil {
				bad = playback.Check(other, positions)
			}
			if bad != nil { // not wrapped: its line is not one of the run's program
				return nil, fmt.Errorf("the patch's program: %v", bad)
			}
			ids := intsOf(other)
			if patch.At < 0 || patch.At >= len(ids) {
				return nil, fmt.Errorf("patch: after word %d of the other program, want one of 0 to %d", patch.At, len(ids)-1)
			}
			done.States, err = playback.StatesAfter(ctx, runner, ids[:patch.At+1])
		default:
			err = fmt.Errorf("patch: from %q, want zero, model or program", patch.From)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, done)
	}
	return out, nil
}

// statesOf reads ids with another model of the lane's shape.
func (e *Engine) statesOf(ctx context.Context, name string, l *lane, ids []int) (playback.States, error) {
	h, err := e.borrow(ctx, name, model.LoadOptions{})
	if err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	defer e.giveBack(h)
	if got, want := shapes(h), shapes(l.held); got != want {
		return nil, fmt.Errorf("patch: the layers of %s are %s, want those of %s, %s: choose a model of the same shape", h.Name, got, l.held.Name, want)
	}
	r, err := h.NewRunner(model.Options{Tokens: 64, Seqs: 1, Positions: len(ids), TopK: 1})
	if err != nil {
		return nil, err
	}
	defer r.Release()
	return playback.StatesAfter(ctx, r, ids)
}

// shapes says what states a model has.
func shapes(h *held) string {
	var out []string
	for _, l := range h.Info().Layers {
		if l.Kind == "gdn" {
			out = append(out, fmt.Sprintf("gdn %d x %d x %d", l.Heads, l.K, l.V))
		} else {
			out = append(out, l.Kind)
		}
	}
	return strings.Join(out, ", ")
}

func intsOf(p *task.Program) []int {
	ids := make([]int, len(p.Tokens()))
	for i, t := range p.Tokens() {
		ids[i] = int(t.ID)
	}
	return ids
}

var (
	errNoDevice  = errors.New("engine: a model is wanted before init")
	errNoModel   = errors.New("no checkpoint is loaded yet: choose one first")
	errCancelled = errors.New("cancelled")
	errNoRun     = errors.New("nothing has been run yet: run a program first")
)

// move shows another step, reading what has not been read yet.
func (e *Engine) move(ctx context.Context, q request, r *Reply) error {
	l := e.lanes[q.Lane]
	if l.play == nil {
		return errNoRun
	}
	count := max(q.Count, 1)
	to := map[string]int{"step": l.at + count, "back": l.at - count, "seek": q.T, "reset": -1}[q.Type]
	last := len(l.play.Program.Tokens()) - 1
	to = min(max(to, -1), last)
	if err := l.read(ctx, to); err != nil {
		return err
	}
	l.at = to
	r.T, r.Done = &to, to == last
	if to >= 0 {
		r.Step = l.play.Steps()[to]
		if !q.Full {
			r.Step = brief(r.Step)
		}
	}
	e.show()
	return nil
}

// steps gives steps that were read, from q.From to q.To, and moves nothing.
func (e *Engine) steps(q request, r *Reply) error {
	l := e.lanes[q.Lane]
	if l.play == nil {
		return errNoRun
	}
	all := l.play.Steps()
	for t := max(q.From, 0); t <= min(q.To, len(all)-1); t++ {
		step := all[t]
		if !q.Full {
			step = brief(step)
		}
		r.Steps = append(r.Steps, step)
	}
	return nil
}

// read reads up to word to.
func (l *lane) read(ctx context.Context, to int) error {
	for len(l.play.Steps()) <= to {
		step, err := l.play.Step(ctx)
		if err != nil {
			return err
		}
		for i, layer := range step.Layers {
			if layer.Rows != nil {
				l.rows[i] = append(l.rows[i], layer.Rows.Data)
			}
		}
	}
	return nil
}

// restore brings a lane to where it was.
func (e *Engine) restore(ctx context.Context, was *lane) error {
	if was.held == nil {
		return nil
	}
	var r Reply
	h, err := e.borrow(ctx, was.held.name, model.LoadOptions{Weights: was.held.weights})
	if err != nil {
		return err
	}
	e.put(which(was.index), h, &r)
	if was.play == nil {
		return nil
	}
	if err := e.start(ctx, was.from, &r); err != nil {
		return err
	}
	l := e.lanes[was.index]
	if err := l.read(ctx, len(was.play.Steps())-1); err != nil {
		return err
	}
	l.at = was.at
	return nil
}

// trace answers with all that a lane has read, when what was asked on the side is known.
func (e *Engine) trace(ctx context.Context, q request) (*job, error) {
	l := e.lanes[q.Lane]
	if l.play == nil {
		return nil, errNoRun
	}
	play := l.play
	return e.begin(ctx, q, func(ctx context.Context, r *Reply, pause func()) error {
		for play.Pending() > 0 && ctx.Err() == nil {
			if _, err := play.Ask(ctx); err != nil {
				return err
			}
			pause()
		}
		last := len(play.Steps()) - 1
		r.Trace = play.Trace(func(t int) bool { return q.Every <= 1 || (t+1)%q.Every == 0 || t == last })
		return ctx.Err()
	}), nil
}

// believing is a lane with something to ask on the side, the one that is drawn first.
func (e *Engine) believing() *lane {
	for i := range e.lanes {
		if l := e.lanes[(i+int(e.shown))%2]; l.play != nil && l.play.Pending() > 0 {
			return l
		}
	}
	return nil
}

// ask has one belief asked; the playback tells the page.
func (e *Engine) ask(ctx context.Context) {
	l := e.believing()
	start := time.Now()
	step, err := l.play.Ask(ctx)
	if err != nil {
		if e.ill(err) {
			err = e.recover(ctx, err)
		}
		if err != nil {
			e.event(Event{Event: "belief", Lane: &l.index, Error: oneLine(err)})
		}
		return
	}
	e.askTook = time.Since(start)
	if step.T <= l.at {
		e.show()
	}
}

// brief leaves out of a step what the stage draws itself.
func brief(s *model.Step) *model.Step {
	b := *s
	b.Layers = make([]model.LayerStep, len(s.Layers))
	for i, l := range s.Layers {
		b.Layers[i] = model.LayerStep{Layer: l.Layer, Kind: l.Kind, Alpha: l.Alpha, Beta: l.Beta}
	}
	return &b
}
