// Package engine is what the page talks to: it opens the device, loads checkpoints, reads programs
// step by step and fills the stage's scene. It is reached by messages alone, so that it can live in
// a frame, in a worker or in a test; web/README.md describes them.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"shellgame/internal/version"
	"shellgame/model"
	"shellgame/model/check"
	"shellgame/model/inspect"
	"shellgame/model/safetensors"
	"shellgame/stage"
	"shellgame/task"
	"shellgame/webgpu"
)

// maxPositions is how long a program in the page may be, in tokens: <bos> and 640 words, enough for
// 512 swaps and their query.
const maxPositions = 641

// Hooks are what the engine calls outside itself. Any may be nil.
type Hooks struct {
	Event func(Event)                                                     // an event for the page
	Scene func(*stage.Scene)                                              // a new moment to draw; its slices never change
	View  func(stage.View)                                                // what to show of it
	Theme func(stage.Theme)                                               // light or dark
	Show  func(visible bool)                                              // draw, or stop drawing
	Files func(ctx context.Context, base, model string) safetensors.Files // where a checkpoint is
	// Open opens a device: auto, gpu or cpu. Nil: [check.OpenQuick].
	Open func(ctx context.Context, kind string) (check.Opened, error)
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

	Refused  *Refusal `json:"refused,omitempty"` // of device
	Software bool     `json:"software,omitempty"`

	// of belief
	Lane   *int          `json:"lane,omitempty"`
	Belief *model.Belief `json:"belief,omitempty"`
	Truth  *model.Truth  `json:"truth,omitempty"`

	// of curve
	Model   string `json:"model,omitempty"`
	N       int    `json:"n,omitempty"`
	Right   *int   `json:"right,omitempty"`
	Samples int    `json:"samples,omitempty"`

	// of wrote
	IDs     []int   `json:"ids,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`

	// Least and Most are heights in CSS pixels that the stage can do with, and make use of.
	Least float64 `json:"least,omitempty"`
	Most  float64 `json:"most,omitempty"`
}

// Engine serves one page. Its methods are called by one goroutine at a time.
type Engine struct {
	hooks Hooks
	init  request
	dev   check.Opened

	models map[string]*held // on the device, by what the page calls them
	lanes  [2]*lane
	shown  which // what the stage draws
	diff   difference
	runs   int // numbers given to what the stage draws, for its colour scales

	jobs    []*job
	late    [][]byte      // replies of jobs that were ended
	wake    chan struct{} // something that a job waits for has arrived
	heard   time.Time     // when the last message was answered
	askTook time.Duration // how long the last belief took
	pace    pace
	trusted bool // reading prompts was checked on this device
	proven  bool // all kernels of a step were
	losses  []time.Time
}

// New makes an engine.
func New(h Hooks) *Engine {
	if h.Open == nil {
		h.Open = check.OpenQuick
	}
	return &Engine{hooks: h, models: map[string]*held{}, lanes: [2]*lane{newLane(0), newLane(1)}, wake: make(chan struct{}, 1)}
}

// request is any message of the page.
type request struct {
	ID       int             `json:"id"`
	Type     string          `json:"type"`
	Device   string          `json:"device"`
	Base     string          `json:"base"`
	Theme    string          `json:"theme"`
	Lane     which           `json:"lane"`
	Model    string          `json:"model"`
	Task     string          `json:"task"`
	N        int             `json:"n"`
	Seed     uint64          `json:"seed"`
	Program  string          `json:"program"`
	Belief   bool            `json:"belief"`
	Switches *model.Switches `json:"switches"`
	Patches  []model.Patch   `json:"patches"`
	Count    int             `json:"count"`
	T        int             `json:"t"`
	To       int             `json:"to"`
	Every    int             `json:"every"`
	Full     bool            `json:"full"`
	Layer    *int            `json:"layer"`
	Head     *int            `json:"head"`
	Visible  bool            `json:"visible"`
	From     int             `json:"from"`
	Models   []string        `json:"models"`
	Levels   []int           `json:"levels"`
	Samples  int             `json:"samples"`
	Store    string          `json:"store"`
	What     string          `json:"what"`
	Weights  string          `json:"weights"`
	Measure  bool            `json:"measure"`
	IDs      []int           `json:"ids"`
	Most     int             `json:"most"`
	Temp     float64         `json:"temp"`
	TopK     int             `json:"topK"`
	TopP     float64         `json:"topP"`
	Ends     []int           `json:"ends"`
	At       int             `json:"at"`
	Top      int             `json:"top"`
}

// which is a lane, or diff.
type which int

const diff which = 2

func (w *which) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "0", "null":
		*w = 0
	case "1":
		*w = 1
	case `"diff"`:
		*w = diff
	default:
		return fmt.Errorf("engine: lane %s: want 0 or 1, or with show also \"diff\"", b)
	}
	return nil
}

// Reply answers a request. Error is one line for the reader of the page.
type Reply struct {
	SG    int    `json:"sg"`
	Re    int    `json:"re"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
	Line  int    `json:"line,omitempty"`
	Col   int    `json:"col,omitempty"`

	Device   string           `json:"device,omitempty"`
	Adapter  string           `json:"adapter,omitempty"`
	Trusted  bool             `json:"trusted,omitempty"`
	Reason   string           `json:"reason,omitempty"`
	Refused  *Refusal         `json:"refused,omitempty"`
	Software bool             `json:"software,omitempty"`
	Version  string           `json:"version,omitempty"`
	Model    *model.ModelInfo `json:"model,omitempty"`
	Program  string           `json:"program,omitempty"`
	Tokens   []TokenInfo      `json:"tokens,omitempty"`
	Answer   string           `json:"answer,omitempty"`
	Warnings []Warning        `json:"warnings,omitempty"`
	T        *int             `json:"t,omitempty"`
	Step     *model.Step      `json:"step,omitempty"`
	Steps    []*model.Step    `json:"steps,omitempty"`
	Done     bool             `json:"done,omitempty"`
	Trace    *model.Trace     `json:"trace,omitempty"`

	Anatomy   *Anatomy      `json:"anatomy,omitempty"`
	Map       *Map          `json:"map,omitempty"`
	Answers   []Answer      `json:"answers,omitempty"`
	Curve     []CurveModel  `json:"curve,omitempty"`
	Seconds   *float64      `json:"seconds,omitempty"`
	Cancelled *bool         `json:"cancelled,omitempty"`
	Drift     *Drift        `json:"drift,omitempty"`
	Check     *check.Report `json:"check,omitempty"`
	Samples   int           `json:"samples,omitempty"`

	Vocabulary int `json:"vocabulary,omitempty"`

	Prompt  *Spent      `json:"prompt,omitempty"`
	Written *Spent      `json:"written,omitempty"`
	State   [][]float32 `json:"state,omitempty"`

	Inspect *inspect.Report `json:"inspect,omitempty"`

	Bytes     int              `json:"bytes,omitempty"`
	Deviation *model.Deviation `json:"deviation,omitempty"`
}

// TokenInfo is a word of a program.
type TokenInfo struct {
	ID        int    `json:"id"`
	Word      string `json:"word"`
	Span      [2]int `json:"span"` // byte offsets in the text as typed
	Statement int    `json:"statement"`
}

// Warning is something about a program that its author may not have meant.
type Warning struct {
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	Message string `json:"message"`
}

// Handle answers one message, a JSON object, with another, however long that takes.
func (e *Engine) Handle(ctx context.Context, message []byte) []byte {
	reply, j := e.accept(ctx, message)
	for j != nil && reply == nil {
		if j.waiting {
			<-e.wake
		}
		if reply = e.work(ctx, j); j.then != nil {
			j = j.then
		}
	}
	return reply
}

// Serve answers messages in order until ctx ends. What takes long is computed in parts, between
// which other messages are answered; what the models believe is asked when there is nothing else.
func (e *Engine) Serve(ctx context.Context, inbox <-chan []byte, post func([]byte)) {
	answer := func(message []byte) {
		if reply, _ := e.accept(ctx, message); reply != nil {
			post(reply)
		}
		e.heard = time.Now()
	}
	defer e.endJobs()
	for ctx.Err() == nil {
		for _, reply := range e.late {
			post(reply)
		}
		e.late = nil
		select {
		case message := <-inbox:
			answer(message)
			continue
		default:
		}
		if e.dueProof() {
			e.prove(ctx)
		}
		select {
		case <-e.wake: // also while another job keeps this busy
			e.resume()
		default:
		}
		j := e.ready()
		busy := j != nil
		if busy {
			if reply := e.work(ctx, j); reply != nil {
				post(reply)
			}
		}
		// A page that steps on quickly is not made to wait for answers that it leaves behind.
		var quiet <-chan time.Time
		if e.believing() != nil {
			wait := e.askTook - time.Since(e.heard)
			if wait <= 0 {
				e.ask(ctx)
				continue
			}
			quiet = time.After(wait)
		} else if wait := proofAfter - time.Since(e.heard); len(e.jobs) == 0 && e.unproven() { // with a job waiting this would turn without end
			quiet = time.After(wait)
		}
		if busy {
			continue
		}
		select {
		case message := <-inbox:
			answer(message)
		case <-e.wake:
			e.resume()
		case <-quiet:
		case <-ctx.Done():
		}
	}
}

// accept answers a message, or begins the job that will.
func (e *Engine) accept(ctx context.Context, message []byte) ([]byte, *job) {
	var q request
	if err := json.Unmarshal(message, &q); err != nil {
		return seal(q, Reply{}, fmt.Errorf("engine: a message that is no JSON object of the known fields: %w", err)), nil
	}
	var r Reply
	j, err := e.serve(ctx, q, &r)
	if q.Type != "init" && e.ill(err) {
		j, err = e.again(ctx, q, &r, err)
	}
	if j != nil && err == nil {
		return nil, j
	}
	return seal(q, r, err), nil
}

// seal turns an outcome into a message.
func seal(q request, r Reply, err error) []byte {
	r.SG, r.Re, r.OK = 1, q.ID, err == nil
	if err != nil {
		r = Reply{SG: 1, Re: q.ID, Error: oneLine(err)}
		var bad *task.Error
		if errors.As(err, &bad) {
			r.Error, r.Line, r.Col = bad.Msg, bad.Line, bad.Col
		}
	}
	b, err := json.Marshal(&r)
	if err != nil {
		b, _ = json.Marshal(&Reply{SG: 1, Re: q.ID, Error: oneLine(err)})
	}
	return b
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// serve answers a request in r, or returns the job that will.
func (e *Engine) serve(ctx context.Context, q request, r *Reply) (*job, error) {
	if q.Lane == diff && q.Type != "show" {
		return nil, fmt.Errorf("engine: %s of a difference: want lane 0 or 1", q.Type)
	}
	switch q.Type {
	case "init":
		return nil, e.open(ctx, q, r)
	case "load":
		return e.load(ctx, q)
	case "generate":
		t, err := task.ParseTask(q.Task)
		if err != nil {
			return nil, err
		}
		if err := t.CheckLevel(q.N); err != nil {
			return nil, err
		}
		r.Program = task.Generate(t, q.N, q.Seed, 0).Python()
		return nil, nil
	case "parse":
		p, err := task.Parse(q.Program)
		if err != nil {
			return nil, err
		}
		describe(p, r)
		return nil, nil
	case "run":
		return nil, e.start(ctx, q, r)
	case "step", "back", "seek", "reset":
		return nil, e.move(ctx, q, r)
	case "trace":
		return e.trace(ctx, q)
	case "anatomy":
		a, err := e.anatomy(q)
		r.Anatomy = a
		return nil, err
	case "maps":
		m, err := e.lookedAt(q)
		r.Map = m
		return nil, err
	case "answers":
		return e.answers(ctx, q)
	case "curve":
		return e.curve(ctx, q)
	case "write":
		return e.write(ctx, q)
	case "state":
		return nil, e.state(ctx, q, r)
	case "inspect":
		return e.inspect(ctx, q)
	case "cancel":
		what := q.What
		if what == "" {
			what = "curve"
		}
		for _, j := range e.jobs {
			if j.q.Type == what {
				j.cancel()
			}
		}
		return nil, nil
	case "drift":
		return e.drift(ctx, q)
	case "check":
		return e.check(ctx, q)
	case "test":
		return nil, e.test(ctx)
	case "steps":
		return nil, e.steps(q, r)
	case "show":
		e.shown = q.Lane
		e.diff = difference{}
		e.show()
		return nil, nil
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
		return nil, nil
	case "theme":
		if e.hooks.Theme != nil {
			e.hooks.Theme(theme(q.Theme))
		}
		return nil, nil
	case "visible":
		if e.hooks.Show != nil {
			e.hooks.Show(q.Visible)
		}
		return nil, nil
	}
	return nil, fmt.Errorf("engine: a message of type %q, want one that web/README.md lists", q.Type)
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
	for _, f := range p.Check() {
		r.Warnings = append(r.Warnings, Warning{f.Line, f.Col, f.Message()})
	}
}

// open opens the device that the page wants. What was on the one before is gone.
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
	e.endJobs()
	for i, l := range e.lanes {
		e.drop(l)
		e.lanes[i] = newLane(i)
	}
	if e.dev.Device != nil {
		e.dev.Device.Close()
	}
	e.dev, e.pace, e.trusted, e.proven, e.askTook = check.Opened{}, newPace(), false, false, 0
	dev, err := e.hooks.Open(ctx, kind)
	if err != nil {
		return err
	}
	e.dev, e.init = dev, q
	info := dev.Device.Info()
	r.Device, r.Adapter, r.Trusted, r.Reason, r.Version = deviceName(info), info.Adapter, dev.Trusted, dev.Reason, version.String()
	r.Refused, r.Software = refusal(dev), info.Software
	r.Samples = suggest(info)
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

func (e *Engine) event(ev Event) {
	if e.hooks.Event != nil {
		ev.SG = 1
		e.hooks.Event(ev)
	}
}
