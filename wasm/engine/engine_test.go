package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shellgame/model/check"
	"shellgame/model/safetensors"
	"shellgame/shaders"
	"shellgame/stage"
	"shellgame/task"
	"shellgame/webgpu"
)

// page is the other end of an engine: it sends messages and keeps what comes back.
type page struct {
	t      testing.TB
	e      *Engine
	events []Event
	scenes []*stage.Scene
	opened []string // kinds of devices
	broken int      // plays until the next device is lost; 0: never
	device *lossy
}

func files(_ context.Context, base, model string) safetensors.Files {
	return safetensors.Dir(filepath.Join("../..", base, model))
}

func open(t testing.TB) *page {
	t.Helper()
	p := &page{t: t}
	p.e = New(Hooks{
		Event: func(ev Event) { p.events = append(p.events, ev) },
		Scene: func(s *stage.Scene) { p.scenes = append(p.scenes, s) },
		Files: files,
		Open: func(_ context.Context, kind string) (check.Opened, error) {
			p.opened = append(p.opened, kind)
			p.device = &lossy{Device: webgpu.NewCPU(), left: p.broken}
			p.broken = 0
			return check.Opened{Device: p.device, Trusted: true}, nil
		},
	})
	p.ask(`{"type":"init","device":"cpu","base":"web/zoo"}`)
	return p
}

// lossy is a CPU device that is lost after some plays.
type lossy struct {
	webgpu.Device
	left int
}

type lossyProgram struct {
	webgpu.Program
	d *lossy
}

func (d *lossy) Prepare(ctx context.Context, r *webgpu.Recording) (webgpu.Program, error) {
	p, err := d.Device.Prepare(ctx, r)
	return &lossyProgram{p, d}, err
}

func (p *lossyProgram) Play(ctx context.Context, s shaders.Step) ([]byte, error) {
	if p.d.left == 1 {
		return nil, fmt.Errorf("the test took it: %w", webgpu.ErrDeviceLost)
	}
	p.d.left = max(p.d.left-1, 0)
	return p.Program.Play(ctx, s)
}

// answer is a reply as the page reads it.
type answer struct {
	Reply
	Step  *step  `json:"step"`
	Steps []step `json:"steps"`
	Trace *trace `json:"trace"`
}

type trace struct {
	Switches json.RawMessage   `json:"switches"`
	Patches  []json.RawMessage `json:"patches"`
	Steps    []step            `json:"steps"`
}

type step struct {
	T   int `json:"t"`
	Top []struct {
		Word string  `json:"word"`
		P    float64 `json:"p"`
	} `json:"top"`
	Layers []struct {
		Kind  string        `json:"kind"`
		Beta  []float64     `json:"beta"`
		State [][][]float32 `json:"state"`
		Rows  [][]float64   `json:"rows"`
	} `json:"layers"`
	Truth struct {
		Vars   map[string]int `json:"vars"`
		Answer string         `json:"answer"`
	} `json:"truth"`
	Belief *struct {
		Vars map[string]struct {
			Word  string `json:"word"`
			Right bool   `json:"right"`
		} `json:"vars"`
	} `json:"belief"`
}

func (p *page) read(reply []byte) answer {
	p.t.Helper()
	var a answer
	if err := json.Unmarshal(reply, &a); err != nil {
		p.t.Fatalf("%v: %s", err, reply)
	}
	if a.SG != 1 || a.OK == (a.Error != "") || strings.Contains(a.Error, "\n") {
		p.t.Errorf("no reply of the protocol: %s", reply)
	}
	return a
}

func (p *page) say(format string, args ...any) answer {
	p.t.Helper()
	return p.read(p.e.Handle(context.Background(), fmt.Appendf(nil, format, args...)))
}

// ask wants the request answered.
func (p *page) ask(format string, args ...any) answer {
	p.t.Helper()
	a := p.say(format, args...)
	if !a.OK {
		p.t.Fatalf("%s: %s", fmt.Sprintf(format, args...), a.Error)
	}
	return a
}

// refuse wants it refused with a line that says so.
func (p *page) refuse(want, format string, args ...any) answer {
	p.t.Helper()
	a := p.say(format, args...)
	if a.OK || !strings.Contains(a.Error, want) {
		p.t.Errorf("%s: got %v %q, want it refused with %q", fmt.Sprintf(format, args...), a.OK, a.Error, want)
	}
	return a
}

func (p *page) scene() *stage.Scene { return p.scenes[len(p.scenes)-1] }

const (
	swaps   = "a,b,c,d,e=range(5) a,c=c,a b,d=d,b assert a=="
	pointer = "bits=[0,1,1,0] a,b,c,d,e=3,0,2,1,3 a,c=c,a assert bits[a]=="
)

// The messages of a run, in the order of a visit.
func TestRun(t *testing.T) {
	p := open(t)
	p.refuse("nothing has been run", `{"type":"step"}`)
	p.refuse("nothing has been run", `{"type":"trace"}`)
	p.refuse("nothing has been run", `{"type":"steps"}`)
	p.refuse("no checkpoint is loaded", `{"type":"run","program":%q}`, swaps)
	m := p.ask(`{"id":7,"type":"load","model":"st-constructed"}`)
	if m.Re != 7 || m.Model.Name != "st-constructed" || len(m.Model.Layers) != 1 {
		t.Errorf("load: got %+v", m.Model)
	}
	if s := p.scene(); s.T != -1 || len(s.Words) != 0 || len(s.Layers) != 1 {
		t.Errorf("after load the stage shows %+v", s)
	}
	g := p.ask(`{"type":"generate","task":"st","n":8,"seed":1}`)
	if want := task.Generate(task.StateTracking, 8, 1, 0).Python(); g.Program != want {
		t.Errorf("generate: got %q, want %q", g.Program, want)
	}
	parsed := p.ask(`{"type":"parse","program":%q}`, swaps)
	run := p.ask(`{"type":"run","program":%q}`, swaps)
	if len(run.Tokens) != 6 || run.Answer != "2" || !slices.Equal(run.Tokens, parsed.Tokens) || run.Tokens[2].Word != "a,c=c,a" || run.Tokens[2].Statement != 1 {
		t.Errorf("run: got %+v, answer %q", run.Tokens, run.Answer)
	}
	for i, c := range []struct {
		send string
		t    int
		done bool
	}{
		{`{"type":"step"}`, 0, false},
		{`{"type":"step","count":2}`, 2, false},
		{`{"type":"back"}`, 1, false},
		{`{"type":"seek","t":5}`, 5, true},
		{`{"type":"step"}`, 5, true},
		{`{"type":"seek","t":3,"full":true}`, 3, false},
		{`{"type":"reset"}`, -1, false},
		{`{"type":"back"}`, -1, false},
		{`{"type":"seek","t":99}`, 5, true},
	} {
		a := p.ask("%s", c.send)
		if a.T == nil || *a.T != c.t || a.Done != c.done || (a.Step == nil) != (c.t < 0) || p.scene().T != c.t {
			t.Errorf("%d: %s: got t %v, done %v, step %v, want %d, %v", i, c.send, *a.T, a.Done, a.Step, c.t, c.done)
		}
		if a.Step != nil && (a.Step.Layers[0].State != nil) != strings.Contains(c.send, "full") {
			t.Errorf("%s: the state came %v", c.send, a.Step.Layers[0].State != nil)
		}
	}
	if s := p.scene(); s.Answer != "2" || s.AnswerTruth != "2" || s.Vars[0].Truth != "2" || s.Next[0].Text != "2" || s.Vars[0].Belief != "" {
		t.Errorf("at the end the stage shows %+v", s)
	}
	for send, want := range map[string][]int{
		`{"type":"steps","from":1,"to":3}`:              {1, 2, 3},
		`{"type":"steps","from":5,"to":99,"full":true}`: {5},
		`{"type":"steps","from":6,"to":9}`:              nil,
		`{"type":"steps","from":-4,"to":0}`:             {0},
	} {
		a := p.ask("%s", send)
		var got []int
		for _, s := range a.Steps {
			got = append(got, s.T)
			if (s.Layers[0].State != nil) != strings.Contains(send, "full") {
				t.Errorf("%s: the state came %v", send, s.Layers[0].State != nil)
			}
		}
		if !slices.Equal(got, want) || p.scene().T != 5 {
			t.Errorf("%s: got steps %v standing at %d, want %v at 5", send, got, p.scene().T, want)
		}
	}
	var kept []int
	for _, s := range p.ask(`{"type":"trace","every":4}`).Trace.Steps {
		if s.Layers[0].State != nil {
			kept = append(kept, s.T)
		}
	}
	if want := []int{3, 5}; !slices.Equal(kept, want) {
		t.Errorf("a trace with every fourth state has those of %v, want %v", kept, want)
	}
	tr := p.ask(`{"type":"trace"}`)
	if len(tr.Trace.Steps) != 6 || tr.Trace.Switches != nil || tr.Trace.Patches != nil {
		t.Errorf("trace: %d steps, switches %s, patches %s", len(tr.Trace.Steps), tr.Trace.Switches, tr.Trace.Patches)
	}
}

func TestRefusals(t *testing.T) {
	fresh := New(Hooks{Files: files})
	if r := string(fresh.Handle(context.Background(), []byte(`{"type":"load","model":"st-constructed"}`))); !strings.Contains(r, "before init") {
		t.Errorf("load before init: got %s", r)
	}
	p := open(t)
	p.ask(`{"type":"load","model":"st-constructed"}`)
	p.refuse("no JSON object", `[1,2`)
	p.refuse("lane 2", `{"type":"step","lane":2}`)
	p.refuse("lane 0 or 1", `{"type":"step","lane":"diff"}`)
	p.refuse(`type "jump"`, `{"type":"jump"}`)
	p.refuse("want auto, webgpu or cpu", `{"type":"init","device":"tpu"}`)
	p = open(t)
	p.ask(`{"type":"load","model":"st-constructed"}`)
	p.refuse("config.json", `{"type":"load","model":"nowhere"}`)
	p.refuse("want st, recall or sbr", `{"type":"generate","task":"x","n":1}`)
	p.refuse("want 1 to 128", `{"type":"generate","task":"sbr","n":129}`)
	p.refuse("the program is empty", `{"type":"run","program":" # nothing"}`)
	p.refuse("the program is 701 words long, at most 640", `{"type":"run","program":%q}`, "a,b,c,d,e=range(5)"+strings.Repeat(" a,b=b,a", 700))
	a := p.refuse("swap of two", `{"type":"parse","program":"a,b,c,d,e=range(5)\n a,b,c=c,b,a"}`)
	if a.Line != 2 || a.Col == 0 {
		t.Errorf("an error in a program stands at line %d, column %d, want line 2", a.Line, a.Col)
	}
	w := p.ask(`{"type":"run","program":"a,b,c,d,e=range(5)\n  assert a==3\nassert b==1"}`)
	if len(w.Warnings) != 1 || w.Warnings[0] != (Warning{2, 3, "the program states that a is 3, but it is 0"}) {
		t.Errorf("a false assert: got %+v", w.Warnings)
	}
	if a := p.ask(`{"type":"seek","t":3}`); *a.T != 3 {
		t.Errorf("a program that states a falsehood runs up to %d", *a.T)
	}
}

// Two lanes have their own models, programs and places, and one model is fetched once.
func TestLanes(t *testing.T) {
	p := open(t)
	p.ask(`{"type":"load","model":"st-constructed"}`)
	p.ask(`{"type":"run","program":%q}`, swaps)
	p.ask(`{"type":"seek","t":2}`)
	p.refuse("no checkpoint", `{"type":"run","lane":1,"program":%q}`, swaps)
	p.ask(`{"type":"load","lane":1,"model":"sbr-constructed"}`)
	p.ask(`{"type":"run","lane":1,"program":%q}`, pointer)
	if s := p.scene(); len(s.Words) != 6 || s.T != 2 {
		t.Errorf("lane 0 is not shown: %d words, t %d", len(s.Words), s.T)
	}
	p.ask(`{"type":"seek","lane":1,"t":12}`)
	if a := p.ask(`{"type":"step"}`); *a.T != 3 || a.Step.Truth.Vars["a"] != 2 {
		t.Errorf("lane 0 went on to %d", *a.T)
	}
	p.ask(`{"type":"show","lane":1}`)
	if s := p.scene(); s.T != 12 || len(s.Layers) != 4 || s.Layers[3].Rows == nil {
		t.Errorf("lane 1 is not shown: t %d", s.T)
	}
	if n := len(p.ask(`{"type":"trace","lane":1}`).Trace.Steps); n != 13 {
		t.Errorf("lane 1 has read %d words, want 13", n)
	}
	p.ask(`{"type":"load","lane":1,"model":"st-constructed"}`)
	if len(p.e.models) != 1 || p.e.models["st-constructed"].uses != 2 {
		t.Errorf("the device holds %v", p.e.models)
	}
	if n := p.ask(`{"type":"trace","lane":0}`).Trace.Steps; len(n) != 4 {
		t.Errorf("loading lane 1 left lane 0 at %d steps", len(n))
	}
	p.ask(`{"type":"load","model":"sbr-constructed"}`)
	if len(p.e.models) != 2 {
		t.Errorf("the device holds %v", p.e.models)
	}
}

// The difference of two lanes is that of their states and rows after the last word that both read.
func TestDifference(t *testing.T) {
	p := open(t)
	for lane, name := range []string{"sbr-hybrid-neg", "sbr-hybrid-pos"} {
		p.ask(`{"type":"load","lane":%d,"model":%q}`, lane, name)
		p.ask(`{"type":"run","lane":%d,"program":%q}`, lane, pointer)
	}
	p.ask(`{"type":"show","lane":"diff"}`)
	if s := p.scene(); s.T != -1 || len(s.Words) == 0 || !s.Layers[0].Diff {
		t.Errorf("before the first word: %+v", s)
	}
	p.ask(`{"type":"seek","t":9}`)
	p.ask(`{"type":"seek","lane":1,"t":7}`)
	s := p.scene()
	if s.T != 7 {
		t.Fatalf("the difference stands at %d, want 7", s.T)
	}
	a, b := p.e.lanes[0].play.Steps(), p.e.lanes[1].play.Steps()
	for i, l := range s.Layers {
		if !l.Diff {
			t.Errorf("layer %d is no difference", i)
		}
		if l.Kind == stage.GDN {
			for j, x := range l.State {
				if want := a[7].Layers[i].State.Data[j] - b[7].Layers[i].State.Data[j]; x != want {
					t.Fatalf("layer %d state %d: got %v, want %v", i, j, x, want)
				}
			}
			continue
		}
		for at, row := range l.Rows {
			for j, x := range row {
				if want := a[at].Layers[i].Rows.Data[j] - b[at].Layers[i].Rows.Data[j]; x != want {
					t.Fatalf("layer %d row %d: got %v, want %v", i, at, x, want)
				}
			}
		}
		if len(l.Rows) != 8 {
			t.Errorf("layer %d has %d rows, want 8", i, len(l.Rows))
		}
	}
	run := s.Run
	p.ask(`{"type":"step","lane":1}`)
	if p.scene().Run != run || p.scene().T != 8 {
		t.Error("a step started the colour scales afresh, or was not shown")
	}
	p.ask(`{"type":"load","lane":1,"model":"st-constructed"}`)
	s = p.scene()
	if s.Run == run || s.T != -1 || s.Layers[0].State != nil || s.Layers[3].Rows != nil {
		t.Errorf("models of other shapes still have a difference: %+v", s)
	}
	p.ask(`{"type":"show","lane":0}`)
	if s := p.scene(); s.T != 9 || s.Layers[0].Diff || s.Layers[0].State == nil {
		t.Error("lane 0 is not shown again")
	}
}

func TestSwitchesAndPatches(t *testing.T) {
	p := open(t)
	p.ask(`{"type":"load","model":"st-constructed"}`)
	answer := func(extra string) (string, answer) {
		t.Helper()
		p.ask(`{"type":"run","program":%q%s}`, swaps, extra)
		a := p.ask(`{"type":"seek","t":5,"full":true}`)
		return a.Step.Top[0].Word, p.ask(`{"type":"trace"}`)
	}
	if w, _ := answer(""); w != "2" {
		t.Fatalf("as trained: got %s, want 2", w)
	}
	w, tr := answer(`,"switches":{"beta":"clamp"}`)
	if w == "2" || string(tr.Trace.Switches) != `{"beta":"clamp"}` || slices.Max(tr.Trace.Steps[2].Layers[0].Beta) > 1 {
		t.Errorf("clamped: got %s, switches %s, beta %v", w, tr.Trace.Switches, tr.Trace.Steps[2].Layers[0].Beta)
	}
	if w, tr = answer(""); w != "2" || tr.Trace.Switches != nil {
		t.Errorf("switched back: got %s, switches %s", w, tr.Trace.Switches)
	}
	w, tr = answer(`,"patches":[{"t":2,"from":"program","program":"a,b,c,d,e=range(5) a,e=e,a","at":2}]`)
	if w != "4" || len(tr.Trace.Patches) != 1 {
		t.Errorf("patched with another program: got %s, patches %s, want 4", w, tr.Trace.Patches)
	}
	_, tr = answer(`,"patches":[{"t":3,"from":"zero","layer":0,"head":1}]`)
	state := tr.Trace.Steps[3].Layers[0].State
	if flat := slices.Concat(state[1]...); slices.ContainsFunc(flat, func(x float32) bool { return x != 0 }) || slices.Concat(state[0]...)[2] == 0 && slices.Concat(state[2]...)[0] == 0 {
		t.Errorf("a head patched with zeros: got %v", state)
	}
	for want, extra := range map[string]string{
		"beta: got":                  `"switches":{"beta":"none"}`,
		"layers: got layer 9":        `"switches":{"layers":[9]}`,
		"after word 6, want":         `"patches":[{"t":6,"from":"zero"}]`,
		`from "nothing"`:             `"patches":[{"t":1,"from":"nothing"}]`,
		"no model is named":          `"patches":[{"t":1,"from":"model"}]`,
		"choose a model of the same": `"patches":[{"t":1,"from":"model","model":"sbr-constructed"}]`,
		"the patch's program: line 1, column 1: unknown": `"patches":[{"t":1,"from":"program","program":"x"}]`,
		"after word 3 of the other":                      `"patches":[{"t":1,"from":"program","program":"a=1","at":3}]`,
		"the patch's program: the program is empty":      `"patches":[{"t":1,"from":"program","program":" "}]`,
	} {
		p.refuse(want, `{"type":"run","program":%q,%s}`, swaps, extra)
	}
	if a := p.ask(`{"type":"seek","t":5}`); a.Step.Top[0].Word == "" || len(p.e.models) != 1 {
		t.Error("after refusals the run before is gone, or a model stays on the device")
	}
	p.ask(`{"type":"load","model":"st-hybrid-neg"}`)
	p.ask(`{"type":"run","program":%q,"patches":[{"t":3,"from":"model","model":"st-hybrid-pos"}]}`, swaps)
	mine := p.ask(`{"type":"seek","t":3,"full":true}`).Step
	p.ask(`{"type":"load","lane":1,"model":"st-hybrid-pos"}`)
	p.ask(`{"type":"run","lane":1,"program":%q}`, swaps)
	theirs := p.ask(`{"type":"seek","lane":1,"t":3,"full":true}`).Step
	for i, l := range theirs.Layers {
		for h := range l.State {
			for k := range l.State[h] {
				for v, want := range l.State[h][k] {
					if got := mine.Layers[i].State[h][k][v]; math.Abs(float64(got-want)) > 1e-4 {
						t.Fatalf("layer %d state [%d,%d,%d]: got %v, want the other model's %v", i, h, k, v, got, want)
					}
				}
			}
		}
	}
}

// live serves a page in the background.
func (p *page) live() (send func(string), replies <-chan []byte, stop func()) {
	inbox, out := make(chan []byte, 64), make(chan []byte, 64)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		p.e.Serve(ctx, inbox, func(b []byte) { out <- b })
		close(done)
	}()
	return func(m string) { inbox <- []byte(m) }, out, func() { cancel(); <-done }
}

func wait(t *testing.T, replies <-chan []byte) []byte {
	t.Helper()
	select {
	case b := <-replies:
		return b
	case <-time.After(time.Minute):
		t.Fatal("no reply")
		return nil
	}
}

// Beliefs come as events when nothing else is asked, the last word's first; the trace waits for them
// and steps that are asked for again have them.
func TestBelief(t *testing.T) {
	p := open(t)
	beliefs := make(chan Event, 16)
	p.e.hooks.Event = func(ev Event) {
		if ev.Event == "belief" {
			beliefs <- ev
		}
	}
	send, replies, stop := p.live()
	defer stop()
	for _, m := range []string{`{"type":"load","model":"st-constructed"}`, fmt.Sprintf(`{"type":"run","belief":true,"program":%q}`, swaps), `{"type":"seek","t":5}`} {
		send(m)
		if a := p.read(wait(t, replies)); !a.OK || a.Step != nil && a.Step.Belief != nil {
			t.Fatalf("%s: got %+v", m, a)
		}
	}
	for _, want := range []struct {
		t int
		a string
	}{{3, "2"}, {2, "2"}, {1, "0"}} {
		select {
		case ev := <-beliefs:
			if *ev.T != want.t || *ev.Lane != 0 || ev.Truth == nil || ev.Belief.Vars["a"].Word != want.a || !ev.Belief.Vars["a"].Right {
				t.Errorf("got the belief after word %d of lane %d: %+v, want that of %d", *ev.T, *ev.Lane, ev.Belief, want.t)
			}
		case <-time.After(time.Minute):
			t.Fatal("no belief")
		}
	}
	send(`{"type":"seek","t":2}`)
	if a := p.read(wait(t, replies)); a.Step.Belief == nil || a.Step.Belief.Vars["c"].Word != "0" {
		t.Errorf("the step has no belief: %+v", a.Step)
	}
	stop()
	if s := p.scene(); s.Vars[2].Belief != "0" {
		t.Errorf("the stage shows %+v", s.Vars)
	}

	p = open(t)
	p.ask(`{"type":"load","model":"st-constructed"}`)
	p.ask(`{"type":"run","belief":true,"program":%q}`, swaps)
	p.ask(`{"type":"seek","t":5}`)
	got := 0
	for _, s := range p.ask(`{"type":"trace"}`).Trace.Steps {
		if s.Belief != nil {
			got++
		}
	}
	if got != 3 {
		t.Errorf("the trace holds %d beliefs, want 3", got)
	}

	// A model that cannot recall prefers no word, and says none.
	p = open(t)
	p.ask(`{"type":"load","model":"st-constructed"}`)
	p.ask(`{"type":"run","belief":true,"program":%q}`, "bits=[ 0, 1, 1, ] b= 2 assert bits[b]==")
	p.ask(`{"type":"seek","t":9}`)
	p.ask(`{"type":"trace"}`)
	p.ask(`{"type":"seek","t":9}`)
	if s := p.scene(); s.Vars[1].Belief != stage.NoPreference || s.Answer != "no preference" {
		t.Errorf("got answer %q and %+v, want no preference", s.Answer, s.Vars)
	}

	// More than can wait at a time: some are asked while the program is read, and told too.
	p = open(t)
	told := map[int]bool{}
	p.e.hooks.Event = func(ev Event) {
		if ev.Event == "belief" {
			told[*ev.T] = true
		}
	}
	p.ask(`{"type":"load","model":"st-constructed"}`)
	p.ask(`{"type":"run","belief":true,"program":%q}`, "a,b,c,d,e=range(5)"+strings.Repeat(" a,c=c,a", 200))
	p.ask(`{"type":"seek","t":201}`)
	if len(told) < 40 {
		t.Errorf("while 201 statements were read %d beliefs were told, want those that could not wait", len(told))
	}
	p.ask(`{"type":"trace"}`)
	if len(told) != 201 {
		t.Errorf("after all were asked %d beliefs were told, want 201", len(told))
	}
}

// When the device is lost it is opened again and both lanes go on where they were, with their
// programs, switches and patches.
func TestDeviceLoss(t *testing.T) {
	for _, what := range []string{
		`{"type":"step"}`,
		`{"type":"step","lane":1}`,
		fmt.Sprintf(`{"type":"run","program":%q,"patches":[{"t":1,"from":"program","program":"a=1","at":2}]}`, swaps),
	} {
		p := open(t)
		for lane, extra := range []string{`"switches":{"decay":false}`, `"patches":[{"t":2,"from":"zero"}]`} {
			p.ask(`{"type":"load","lane":%d,"model":"st-constructed"}`, lane)
			p.ask(`{"type":"run","lane":%d,"program":%q,%s}`, lane, swaps, extra)
			p.ask(`{"type":"seek","lane":%d,"t":%d}`, lane, 2+lane)
		}
		before := [2]string{}
		for lane := range 2 {
			before[lane] = string(p.e.Handle(context.Background(), fmt.Appendf(nil, `{"type":"trace","lane":%d}`, lane)))
		}
		p.device.left = 1
		p.ask("%s", what)
		if fmt.Sprint(p.opened) != "[cpu auto]" {
			t.Errorf("%s: devices opened: %v", what, p.opened)
		}
		var names []string
		for _, ev := range p.events {
			if ev.Event != "progress" {
				names = append(names, ev.Event+" "+ev.What)
			}
		}
		if !slices.Equal(names, []string{"device-lost lost", "device cpu"}) {
			t.Errorf("%s: events %q", what, names)
		}
		for lane := range 2 {
			now := string(p.e.Handle(context.Background(), fmt.Appendf(nil, `{"type":"trace","lane":%d}`, lane)))
			mine := !strings.Contains(what, `"lane":1`) == (lane == 0)
			if !mine && now != before[lane] {
				t.Errorf("%s: lane %d is not as it was", what, lane)
			}
			if mine && strings.Contains(what, "step") && !strings.HasPrefix(now, strings.TrimSuffix(before[lane], "]}}")) {
				t.Errorf("%s: lane %d did not go on from where it was", what, lane)
			}
		}
	}
}

// A device that is lost again and again is an error, not an endless try.
func TestDeviceLossForGood(t *testing.T) {
	p := open(t)
	p.ask(`{"type":"load","model":"st-constructed"}`)
	p.ask(`{"type":"run","program":%q}`, swaps)
	p.ask(`{"type":"seek","t":2}`)
	p.device.left, p.broken = 1, 1
	p.refuse("GPU device lost", `{"type":"step"}`)
}

// slow is a folder whose weights come when they are let.
type slow struct {
	safetensors.Files
	ctx  context.Context
	gate chan struct{}
}

func (s slow) Open(name string) (io.ReaderAt, int64, io.Closer, error) {
	r, n, c, err := s.Files.Open(name)
	return slowReader{r, s}, n, c, err
}

type slowReader struct {
	io.ReaderAt
	s slow
}

func (r slowReader) ReadAt(p []byte, off int64) (int, error) {
	select {
	case <-r.s.gate:
	case <-r.s.ctx.Done():
		return 0, r.s.ctx.Err()
	}
	return r.ReaderAt.ReadAt(p, off)
}

// While a model loads, however slowly, the one before it answers; a load that is cancelled or fails
// leaves that one as it was.
func TestLoadBeside(t *testing.T) {
	p := open(t)
	gate := make(chan struct{})
	p.e.hooks.Files = func(ctx context.Context, base, model string) safetensors.Files {
		if model == "st-gdn-neg" {
			return slow{files(ctx, base, model), ctx, gate}
		}
		return files(ctx, base, model)
	}
	p.ask(`{"type":"load","model":"st-constructed"}`)
	inbox, replies := make(chan []byte), make(chan answer, 8)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.e.Serve(ctx, inbox, func(b []byte) { replies <- p.read(b) })
	}()
	defer func() { cancel(); <-ended }()
	say := func(message string) { inbox <- []byte(message) }
	hear := func(id int) answer {
		t.Helper()
		select {
		case a := <-replies:
			if a.Re != id {
				t.Fatalf("got the reply to %d: %+v, want that to %d", a.Re, a, id)
			}
			return a
		case <-time.After(20 * time.Second):
			t.Fatalf("no reply to %d", id)
			panic("unreachable")
		}
	}
	const program = `a,b,c,d,e=range(5)\na,c=c,a\nassert a==`
	say(`{"id":1,"type":"run","program":"` + program + `"}`)
	hear(1)
	for _, stop := range []string{"at once", "half-way"} {
		say(`{"id":2,"type":"load","model":"st-gdn-neg"}`)
		if stop == "half-way" {
			for range 6 {
				gate <- struct{}{}
			}
		}
		say(`{"id":3,"type":"step"}`)
		if a := hear(3); !a.OK || a.Step == nil {
			t.Fatalf("%s: step beside a load: %+v", stop, a)
		}
		say(`{"id":4,"type":"cancel","what":"load"}`)
		hear(4)
		if a := hear(2); a.OK || a.Error != "cancelled" {
			t.Errorf("%s: got %+v, want that it was cancelled", stop, a.Reply)
		}
		say(`{"id":5,"type":"step"}`)
		if a := hear(5); !a.OK || a.Step == nil {
			t.Errorf("%s: step after that: %+v", stop, a)
		}
	}
	// Another job that always has something to do does not keep a load from what has arrived.
	say(`{"id":8,"type":"curve","task":"st","models":["st-constructed"],"levels":[64],"samples":4096,"seed":1}`)
	close(gate)
	say(`{"id":6,"type":"load","model":"st-gdn-neg"}`)
	if a := hear(6); !a.OK || a.Model == nil || a.Model.Name != "st-gdn-neg" {
		t.Errorf("a load to its end: %+v", a.Reply)
	}
	say(`{"id":9,"type":"cancel"}`)
	hear(9)
	hear(8)
}

// A text is read and written on from token by token; the same seed writes the same, an end ends it,
// and what makes no sense is refused in a line.
func TestWrite(t *testing.T) {
	p := open(t)
	p.ask(`{"type":"load","model":"st-hybrid-neg"}`)
	write := func(fields string) answer {
		p.events = nil
		var a answer
		if err := json.Unmarshal(p.e.Handle(t.Context(), []byte(`{"id":7,"type":"write",`+fields+`}`)), &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	told := func() (ids []int) {
		for _, ev := range p.events {
			if ev.Event == "wrote" {
				ids = append(ids, ev.IDs...)
			}
		}
		return ids
	}
	a := write(`"ids":[1,6,20,30],"most":12,"temp":1,"topK":50,"topP":0.9,"seed":3`)
	first := told()
	if !a.OK || a.Prompt == nil || a.Prompt.Tokens != 4 || a.Written.Tokens != len(first) || len(first) == 0 {
		t.Fatalf("got %+v and %v", a.Reply, first)
	}
	write(`"ids":[1,6,20,30],"most":12,"temp":1,"topK":50,"topP":0.9,"seed":3`)
	if !slices.Equal(told(), first) {
		t.Errorf("the same seed wrote %v, then %v", first, told())
	}
	a = write(fmt.Sprintf(`"ids":[1,6,20,30],"most":12,"temp":1,"topK":50,"topP":0.9,"seed":3,"ends":[%d]`, first[0]))
	if !a.OK || !a.Done || a.Written.Tokens != 0 {
		t.Errorf("an end at once: %+v", a.Reply)
	}
	if s := p.ask(`{"type":"state","layer":0,"head":1}`); !s.OK || len(s.State) == 0 || len(s.State[0]) == 0 {
		t.Errorf("state: %+v", s.Reply)
	}
	for fields, want := range map[string]string{
		`"ids":[],"most":1,"topP":1`:            "write: got an empty prompt, want at least one token",
		`"ids":[1],"most":0,"topP":1`:           "write: got 1 tokens of prompt and 0 to write, want 1 or more and at most 4096 together",
		`"ids":[1],"most":5000,"topP":1`:        "write: got 1 tokens of prompt and 5000 to write, want 1 or more and at most 4096 together",
		`"ids":[1],"most":1,"topP":0`:           "write: top-p: got 0, want more than 0 and at most 1",
		`"ids":[1],"most":1,"topP":1,"temp":-1`: "write: temp: got -1, want 0 or a positive number",
		`"ids":[288],"most":1,"topP":1`:         "model: token 288: the vocabulary has 288",
		`"ids":[1],"most":1,"topP":1,"lane":1`:  "no checkpoint is loaded yet: choose one first",
	} {
		if a := write(fields); a.OK || a.Error != want {
			t.Errorf("%s: got %q, want %q", fields, a.Error, want)
		}
	}
}
