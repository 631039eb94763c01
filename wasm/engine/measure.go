package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"shellgame/model"
	"shellgame/model/check"
	"shellgame/model/config"
	"shellgame/task"
	"shellgame/task/eval"
	"shellgame/task/playback"
	"shellgame/webgpu"
)

// pace sizes plays so that the page is not kept waiting by one.
type pace struct{ tokens int }

const (
	playAim  = 80 * time.Millisecond
	leastRun = 8    // tokens
	mostRun  = 1024 // tokens
)

func newPace() pace { return pace{leastRun} }

// took takes in how long a play of so many tokens took.
func (p *pace) took(read int, d time.Duration) {
	fits := int(float64(read) * float64(playAim) / float64(max(d, time.Microsecond)))
	p.tokens = max(min(fits, 2*p.tokens, mostRun), leastRun)
}

// trust checks the kernels that read many tokens at once, which opening the device left out.
func (e *Engine) trust(ctx context.Context) error {
	if e.trusted || e.dev.Device.Info().Kind == "cpu" {
		return nil
	}
	err := check.Trust(ctx, e.dev.Device)
	e.trusted = err == nil
	return err
}

// CurveModel is what one model scores over the sizes of a task.
type CurveModel struct {
	Model  string       `json:"model"`
	Levels []CurveLevel `json:"levels"`
	Error  string       `json:"error,omitempty"`
}

// CurveLevel is the score at one size; see [eval.Score].
type CurveLevel struct {
	N        int     `json:"n"`
	Right    int     `json:"right"`
	Samples  int     `json:"samples"`
	Accuracy float64 `json:"accuracy"`
	Stderr   float64 `json:"stderr"`
}

// mostSamples is how many programs a level a page may ask for.
const mostSamples = 4096

// suggest is how many programs a level a device scores in bearable time.
func suggest(i webgpu.Info) int {
	switch {
	case i.Kind == "cpu":
		return 16
	case i.Software:
		return 8
	}
	return 256
}

// curve scores models over the sizes of a task.
func (e *Engine) curve(ctx context.Context, q request) (*job, error) {
	if slices.ContainsFunc(e.jobs, func(j *job) bool { return j.q.Type == "curve" }) {
		return nil, errors.New("a curve is being computed already: cancel it first, or wait for it")
	}
	t, err := task.ParseTask(q.Task)
	if err != nil {
		return nil, err
	}
	if len(q.Levels) == 0 {
		q.Levels = t.Levels()
	}
	for _, n := range q.Levels {
		if err := t.CheckLevel(n); err != nil {
			return nil, err
		}
	}
	if len(q.Models) == 0 {
		return nil, errors.New("curve: no models are named")
	}
	if e.dev.Device == nil {
		return nil, errNoDevice
	}
	if q.Samples == 0 {
		q.Samples = suggest(e.dev.Device.Info())
	}
	if q.Samples < 1 || q.Samples > mostSamples {
		return nil, fmt.Errorf("curve: got %d samples, want 1 to %d", q.Samples, mostSamples)
	}
	return e.begin(ctx, q, func(ctx context.Context, r *Reply, pause func()) error {
		start := time.Now()
		r.Curve = []CurveModel{}
		for i, name := range q.Models {
			if i > 0 && ctx.Err() != nil {
				break
			}
			before, total := i*len(q.Levels)*q.Samples, len(q.Models)*len(q.Levels)*q.Samples
			m, err := e.curveOf(ctx, name, eval.Options{Task: t, Levels: q.Levels, Samples: q.Samples, Seed: q.Seed, Tokens: mostRun}, pause, func(s eval.Score, done int) {
				e.event(Event{Event: "curve", Model: name, N: s.N, Right: &s.Right, Samples: s.Samples, Done: int64(before + done), Total: int64(total)})
			})
			if e.illInJob(err) {
				return err
			}
			if err != nil && ctx.Err() == nil {
				m.Error = oneLine(err)
			}
			r.Curve = append(r.Curve, m)
		}
		seconds, cancelled := time.Since(start).Seconds(), ctx.Err() != nil
		r.Seconds, r.Cancelled = &seconds, &cancelled
		return nil
	}), nil
}

// curveOf scores one model until ctx ends, and tells of each level that a play has changed.
func (e *Engine) curveOf(ctx context.Context, name string, o eval.Options, pause func(), tell func(s eval.Score, done int)) (CurveModel, error) {
	m := CurveModel{Model: name, Levels: []CurveLevel{}}
	h, err := e.borrow(ctx, name, model.LoadOptions{})
	if err != nil {
		return m, err
	}
	defer e.giveBack(h)
	if err := e.trust(ctx); err != nil {
		return m, err
	}
	run, err := eval.New(h.Model, o)
	if err != nil {
		return m, err
	}
	defer run.Release()
	told := slices.Clone(run.Scores())
	for !run.Done() {
		if pause(); ctx.Err() != nil {
			break
		}
		start := time.Now()
		read, err := run.Play(ctx, e.pace.tokens)
		if err != nil {
			return m, err
		}
		e.pace.took(read, time.Since(start))
		done, _ := run.Progress()
		for i, s := range run.Scores() {
			if s != told[i] {
				tell(s, done)
			}
		}
		copy(told, run.Scores())
	}
	for _, s := range told {
		if s.Samples > 0 {
			p, stderr := s.Accuracy()
			m.Levels = append(m.Levels, CurveLevel{s.N, s.Right, s.Samples, p, stderr})
		}
	}
	return m, nil
}

// Answer is what one model answers to each question of a program.
type Answer struct {
	Model string `json:"model"`
	Asks  []Ask  `json:"asks"`
	Error string `json:"error,omitempty"`
}

// Ask is a question of a program, at its token that ends in ==, and what a model says.
type Ask struct {
	T     int     `json:"t"`
	Word  string  `json:"word"`
	P     float32 `json:"p"`
	Truth string  `json:"truth"`
}

// answers has each of some models read a program.
func (e *Engine) answers(ctx context.Context, q request) (*job, error) {
	p, err := task.Parse(q.Program)
	if err == nil {
		err = playback.Check(p, maxPositions)
	}
	if err != nil {
		return nil, err
	}
	if len(p.Queries()) == 0 {
		return nil, errors.New("the program asks nothing: end it with a question, such as assert a==")
	}
	if len(q.Models) == 0 {
		return nil, errors.New("answers: no models are named")
	}
	return e.begin(ctx, q, func(ctx context.Context, r *Reply, pause func()) error {
		r.Answers = []Answer{}
		for i, name := range q.Models {
			a := Answer{Model: name, Asks: []Ask{}}
			err := e.answer(ctx, name, p, pause, &a)
			if err := ctx.Err(); err != nil {
				return err
			}
			if e.illInJob(err) {
				return err
			}
			if err != nil {
				a.Error = oneLine(err)
			}
			r.Answers = append(r.Answers, a)
			e.event(Event{Event: "progress", What: "answers", Done: int64(i + 1), Total: int64(len(q.Models))})
			pause()
		}
		return nil
	}), nil
}

// answer has one model read a program.
func (e *Engine) answer(ctx context.Context, name string, p *task.Program, pause func(), a *Answer) error {
	h, err := e.borrow(ctx, name, model.LoadOptions{})
	if err != nil {
		return err
	}
	defer e.giveBack(h)
	if err := e.trust(ctx); err != nil {
		return err
	}
	ids := intsOf(p)
	if h.Config.N < task.NumWords {
		return fmt.Errorf("%s has a vocabulary of %d: programs need the zoo's %d words", h.Name, h.Config.N, task.NumWords)
	}
	run, err := h.NewRunner(model.Options{Tokens: min(mostRun, len(ids)), Seqs: 1, Positions: len(ids), TopK: 1})
	if err != nil {
		return err
	}
	defer run.Release()
	s := run.NewSession()
	for _, query := range p.Queries() {
		for len(s.IDs) <= query.Pos {
			if pause(); ctx.Err() != nil {
				return ctx.Err()
			}
			part := ids[len(s.IDs):min(len(s.IDs)+e.pace.tokens, query.Pos+1)]
			start := time.Now()
			out, err := run.Play(ctx, []model.Input{{Session: s, IDs: part, Want: model.Last}}, false)
			if err != nil {
				return err
			}
			e.pace.took(len(part), time.Since(start))
			if len(s.IDs) > query.Pos {
				top := out.Top(0, 0)
				a.Asks = append(a.Asks, Ask{query.Pos, task.Word(int32(top.ID)), top.P, task.Word(query.AnswerID())})
			}
		}
	}
	return nil
}

// Drift is how far a model whose state is rounded after each token moves away from itself in float32.
type Drift struct {
	Store string      `json:"store"`
	Steps []DriftStep `json:"steps"`
	Flips []int       `json:"flips"` // tokens ending in == whose likeliest next word is another
}

// DriftStep is the distance after a token.
type DriftStep struct {
	T     int       `json:"t"`
	State []float64 `json:"state"` // by GDN layer: RMS of the difference over RMS of the float32 state
	P     float64   `json:"p"`     // largest change of a next-word probability
}

// drift reads a program twice with a lane's model, changed as the lane's run has it.
func (e *Engine) drift(ctx context.Context, q request) (*job, error) {
	if q.Store != "bf16" && q.Store != "f16" {
		return nil, fmt.Errorf("drift: store %q, want bf16 or f16", q.Store)
	}
	l := e.lanes[q.Lane]
	if l.held == nil {
		return nil, errNoModel
	}
	p, err := task.Parse(q.Program)
	if err == nil {
		err = playback.Check(p, l.positions())
	}
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(l.held.Config.Layers, func(l config.Layer) bool { return l.Kind == config.GDN }) {
		return nil, fmt.Errorf("%s has attention alone: it keeps no state that could be rounded", l.held.Name)
	}
	h, switches := l.held, l.made.switches
	h.uses++
	return e.begin(ctx, q, func(ctx context.Context, r *Reply, pause func()) error {
		defer e.giveBack(h)
		d, err := driftOf(ctx, h.Model, switches, q.Store, p, pause)
		r.Drift = d
		return err
	}), nil
}

func driftOf(ctx context.Context, m *model.Model, switches model.Switches, store string, p *task.Program, pause func()) (*Drift, error) {
	ids := intsOf(p)
	if m.Config.N < task.NumWords {
		return nil, fmt.Errorf("%s has a vocabulary of %d: programs need the zoo's %d words", m.Name, m.Config.N, task.NumWords)
	}
	var sessions [2]*model.Session
	for i, kind := range []string{"", store} {
		switches.Store = kind
		r, err := m.NewRunner(model.Options{Tokens: 1, Seqs: 1, Positions: len(ids), TopK: 1, Switches: switches})
		if err != nil {
			return nil, err
		}
		defer r.Release()
		sessions[i] = r.NewSession()
	}
	d := &Drift{Store: store, Flips: []int{}}
	asked := map[int]bool{}
	for _, q := range p.Queries() {
		asked[q.Pos] = true
	}
	for t, id := range ids {
		if pause(); ctx.Err() != nil {
			return nil, ctx.Err()
		}
		step := DriftStep{T: t}
		var probs [2][]float64
		var top [2]int
		for i, s := range sessions {
			out, err := s.Step(ctx, id, true)
			if err != nil {
				return nil, err
			}
			probs[i], top[i] = softmax(out.Logits), out.Top(0, 0).ID
		}
		for i, x := range probs[0] {
			step.P = max(step.P, math.Abs(x-probs[1][i]))
		}
		if asked[t] && top[0] != top[1] {
			d.Flips = append(d.Flips, t)
		}
		for i, l := range m.Config.Layers {
			if l.Kind != config.GDN {
				continue
			}
			exact, err := sessions[0].State(ctx, i)
			if err != nil {
				return nil, err
			}
			rounded, err := sessions[1].State(ctx, i)
			if err != nil {
				return nil, err
			}
			step.State = append(step.State, apart(exact, rounded))
		}
		d.Steps = append(d.Steps, step)
	}
	return d, nil
}

// apart is the RMS of b - a over that of a, 0 where both are 0.
func apart(a, b []float32) float64 {
	var diff, size float64
	for i, x := range a {
		y := float64(b[i]) - float64(x)
		diff += y * y
		size += float64(x) * float64(x)
	}
	if diff == 0 {
		return 0
	}
	return math.Sqrt(diff / max(size, math.SmallestNonzeroFloat32))
}

func softmax(logits []float32) []float64 {
	most, sum := slices.Max(logits), 0.0
	p := make([]float64, len(logits))
	for i, x := range logits {
		p[i] = math.Exp(float64(x - most))
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}
