// Package engine is what the page talks to: it opens the device, loads checkpoints, reads programs
// step by step and fills the stage's scene. It is reached by messages alone, so that it can live in
// a frame, in a worker or in a test; web/README.md describes them.
package engine

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	json "github.com/goccy/go-json"

	"shellgame/internal/version"
	"shellgame/model"
	"shellgame/model/check"
	"shellgame/model/safetensors"
	"shellgame/stage"
	"shellgame/task"
	"shellgame/task/playback"
	"shellgame/webgpu"
)

// maxPositions is how long a program in the page may be, in tokens: 512 swaps and their query.
const maxPositions = 640

// Hooks are what the engine calls outside itself. Any may be nil.
type Hooks struct {
	Event func(Event)                                                     // an event for the page
	Scene func(*stage.Scene)                                              // a new moment to draw
	View  func(stage.View)                                                // what to show of it
	Theme func(stage.Theme)                                               // light or dark
	Show  func(visible bool)                                              // draw, or stop drawing
	Files func(ctx context.Context, base, model string) safetensors.Files // where a checkpoint is
}

// Event is a message that answers no request.
type Event struct {
	SG    int    `json:"sg"`
	Event string `json:"event"`
	What  string `json:"what,omitempty"`
	Done  int64  `json:"done,omitempty"`
	Total int64  `json:"total,omitempty"`
	Error string `json:"error,omitempty"`
	Text  string `json:"text,omitempty"`
	Layer *int   `json:"layer,omitempty"`
	Head  *int   `json:"head,omitempty"`
	T     *int   `json:"t,omitempty"`

	// Least and Most are heights in CSS pixels that the stage can do with, and make use of.
	Least float64 `json:"least,omitempty"`
	Most  float64 `json:"most,omitempty"`
}

// Engine serves one page. Its methods are called by one goroutine at a time.
type Engine struct {
	hooks Hooks
	init  request
	dev   check.Opened

	model  *model.Model
	loaded request // the load that model came from
	runner *model.Runner

	play *playback.Playback
	at   int // step shown; -1 before the first
	run  int // number of the run, for the stage's colour scales
}

// New makes an engine.
func New(h Hooks) *Engine { return &Engine{hooks: h, at: -1} }

// request is any message of the page.
type request struct {
	ID      int    `json:"id"`
	Type    string `json:"type"`
	Device  string `json:"device"`
	Base    string `json:"base"`
	Theme   string `json:"theme"`
	Model   string `json:"model"`
	Task    string `json:"task"`
	N       int    `json:"n"`
	Seed    uint64 `json:"seed"`
	Program string `json:"program"`
	Count   int    `json:"count"`
	T       int    `json:"t"`
	Full    bool   `json:"full"`
	Layer   *int   `json:"layer"`
	Head    *int   `json:"head"`
	Visible bool   `json:"visible"`
}

// Reply answers a request. Error is one line for the reader of the page.
type Reply struct {
	SG    int    `json:"sg"`
	Re    int    `json:"re"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	Line  int    `json:"line,omitempty"`
	Col   int    `json:"col,omitempty"`

	Device  string           `json:"device,omitempty"`
	Adapter string           `json:"adapter,omitempty"`
	Trusted bool             `json:"trusted,omitempty"`
	Reason  string           `json:"reason,omitempty"`
	Version string           `json:"version,omitempty"`
	Model   *model.ModelInfo `json:"model,omitempty"`
	Program string           `json:"program,omitempty"`
	Tokens  []TokenInfo      `json:"tokens,omitempty"`
	Answer  string           `json:"answer,omitempty"`
	T       *int             `json:"t,omitempty"`
	Step    *model.Step      `json:"step,omitempty"`
	Done    bool             `json:"done,omitempty"`
	Trace   *model.Trace     `json:"trace,omitempty"`
}

// TokenInfo is a word of a program.
type TokenInfo struct {
	ID        int    `json:"id"`
	Word      string `json:"word"`
	Span      [2]int `json:"span"` // byte offsets in the text as typed
	Statement int    `json:"statement"`
}

// Handle answers one message, a JSON object, with another.
func (e *Engine) Handle(ctx context.Context, message []byte) []byte {
	var q request
	var r Reply
	err := json.Unmarshal(message, &q)
	if err == nil {
		err = e.serve(ctx, q, &r)
	} else {
		err = fmt.Errorf("engine: a message that is no JSON object of the known fields: %w", err)
	}
	r.SG, r.Re, r.OK = 1, q.ID, err == nil
	if err != nil {
		r = Reply{SG: 1, Re: q.ID, Error: strings.Join(strings.Fields(err.Error()), " ")}
		var bad *task.Error
		if errors.As(err, &bad) {
			r.Error, r.Line, r.Col = bad.Msg, bad.Line, bad.Col
		}
	}
	b, err := json.MarshalWithOption(&r, json.DisableHTMLEscape())
	if err != nil {
		b, _ = json.Marshal(&Reply{SG: 1, Re: q.ID, Error: err.Error()})
	}
	return b
}

func (e *Engine) serve(ctx context.Context, q request, r *Reply) error {
	switch q.Type {
	case "init":
		return e.open(ctx, q, r)
	case "load":
		return e.load(ctx, q, r)
	case "generate":
		t, err := task.ParseTask(q.Task)
		if err != nil {
			return err
		}
		if err := t.CheckLevel(q.N); err != nil {
			return err
		}
		r.Program = task.Generate(t, q.N, q.Seed, 0).Python()
		return nil
	case "parse":
		p, err := task.Parse(q.Program)
		if err != nil {
			return err
		}
		describe(p, r)
		return nil
	case "run":
		return e.start(q.Program, r)
	case "step", "back", "seek", "reset":
		return e.move(ctx, q, r)
	case "view":
		v := stage.AllHeads
		if q.Layer != nil && *q.Layer >= 0 {
			v.Layer = *q.Layer
			if q.Head != nil {
				v.Head = *q.Head
			}
		}
		if e.hooks.View != nil {
			e.hooks.View(v)
		}
		return nil
	case "theme":
		if e.hooks.Theme != nil {
			e.hooks.Theme(theme(q.Theme))
		}
		return nil
	case "visible":
		if e.hooks.Show != nil {
			e.hooks.Show(q.Visible)
		}
		return nil
	case "trace":
		if e.play == nil {
			return errors.New("nothing has been run yet: run a program first")
		}
		r.Trace = e.play.Trace(nil)
		return nil
	}
	return fmt.Errorf("engine: a message of type %q, want one that web/README.md lists", q.Type)
}

func theme(name string) stage.Theme {
	if name == "dark" {
		return stage.Dark
	}
	return stage.Light
}

func describe(p *task.Program, r *Reply) {
	for _, t := range p.Tokens() {
		r.Tokens = append(r.Tokens, TokenInfo{int(t.ID), t.Word(), [2]int{t.Start, t.End}, t.Stmt})
	}
	r.Answer, _ = p.Answer()
}

// open opens the device that the page wants.
func (e *Engine) open(ctx context.Context, q request, r *Reply) error {
	kind := q.Device
	switch kind {
	case "webgpu":
		kind = "gpu"
	case "cpu":
	case "auto", "":
		kind = "auto"
	default:
		return fmt.Errorf("device %q: want auto, webgpu or cpu", q.Device)
	}
	e.drop()
	if e.dev.Device != nil {
		e.dev.Device.Close()
	}
	dev, err := check.OpenSteps(ctx, kind)
	if err != nil {
		return err
	}
	e.dev, e.init = dev, q
	info := dev.Device.Info()
	r.Device, r.Adapter, r.Trusted, r.Reason, r.Version = deviceName(info), info.Adapter, dev.Trusted, dev.Reason, version.String()
	if e.hooks.Theme != nil && q.Theme != "" {
		e.hooks.Theme(theme(q.Theme))
	}
	return nil
}

func deviceName(i webgpu.Info) string {
	if i.Kind == "cpu" {
		return "cpu"
	}
	return "webgpu"
}

// drop releases the model and what runs on it.
func (e *Engine) drop() {
	e.play, e.at = nil, -1
	if e.runner != nil {
		e.runner.Release()
		e.runner = nil
	}
	if e.model != nil {
		e.model.Release()
		e.model = nil
	}
}

// load fetches a checkpoint: a name of the zoo, or the address of a folder. The model before it
// stays until the new one is whole.
func (e *Engine) load(ctx context.Context, q request, r *Reply) error {
	if e.dev.Device == nil {
		return errors.New("engine: load before init")
	}
	m, runner, err := e.fetch(ctx, q)
	if err != nil {
		return err
	}
	e.drop()
	e.model, e.runner, e.loaded = m, runner, q
	info := m.Info()
	r.Model = &info
	e.show()
	return nil
}

func (e *Engine) fetch(ctx context.Context, q request) (*model.Model, *model.Runner, error) {
	progress := func(done, total int64) {
		e.event(Event{Event: "progress", What: "checkpoint", Done: done, Total: total})
	}
	files := e.hooks.Files(ctx, e.init.Base, q.Model)
	name := strings.TrimSuffix(q.Model, "/")
	name = name[strings.LastIndexByte(name, '/')+1:]
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	m, err := model.Open(ctx, e.dev.Device, name, files, progress)
	if err != nil {
		return nil, nil, err
	}
	positions := maxPositions
	if m.Config.MaxPos > 0 {
		positions = min(positions, m.Config.MaxPos)
	}
	runner, err := playback.Runner(m, positions, false)
	if err != nil {
		m.Release()
		return nil, nil, err
	}
	return m, runner, nil
}

func (e *Engine) event(ev Event) {
	if e.hooks.Event != nil {
		ev.SG = 1
		e.hooks.Event(ev)
	}
}

// start begins a program; nothing is read yet.
func (e *Engine) start(src string, r *Reply) error {
	if e.model == nil {
		return errors.New("no checkpoint is loaded yet: choose one first")
	}
	p, err := task.Parse(src)
	if err != nil {
		return err
	}
	play, err := playback.New(e.runner, p, playback.Options{})
	if err != nil {
		return err
	}
	if e.play != nil {
		e.play.Release()
	}
	e.play, e.at = play, -1
	e.run++
	describe(p, r)
	e.show()
	return nil
}

// move shows another step, reading what has not been read yet.
func (e *Engine) move(ctx context.Context, q request, r *Reply) error {
	if e.play == nil {
		return errors.New("nothing has been run yet: run a program first")
	}
	count := max(q.Count, 1)
	to := map[string]int{"step": e.at + count, "back": e.at - count, "seek": q.T, "reset": -1}[q.Type]
	last := len(e.play.Program.Tokens()) - 1
	to = min(max(to, -1), last)
	for len(e.play.Steps()) <= to {
		if err := e.next(ctx); err != nil {
			return err
		}
	}
	e.at = to
	r.T, r.Done = &to, to == last
	if to >= 0 {
		r.Step = e.play.Steps()[to]
		if !q.Full {
			r.Step = brief(r.Step)
		}
	}
	e.show()
	return nil
}

// next reads one more token. A lost device is opened again, as itself or as the CPU, and the
// program is read anew up to where it was: nothing that was typed is lost.
func (e *Engine) next(ctx context.Context) error {
	_, err := e.play.Step(ctx)
	if !errors.Is(err, webgpu.ErrDeviceLost) {
		return err
	}
	e.event(Event{Event: "device-lost", Error: strings.Join(strings.Fields(err.Error()), " ")})
	p, read := e.play.Program, len(e.play.Steps())
	loaded, q := e.loaded, e.init
	q.Device = "auto"
	var r Reply
	if err := e.open(ctx, q, &r); err != nil {
		return err
	}
	if err := e.load(ctx, loaded, &r); err != nil {
		return err
	}
	play, err := playback.New(e.runner, p, playback.Options{})
	if err != nil {
		return err
	}
	e.play = play
	for len(play.Steps()) <= read {
		if _, err := play.Step(ctx); err != nil {
			return err
		}
	}
	e.event(Event{Event: "device", What: r.Device, Text: r.Adapter, Error: r.Reason})
	return nil
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
