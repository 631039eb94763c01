package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shellgame/model/check"
	"shellgame/webgpu"
	"shellgame/webgpu/faulty"
)

// ailing is a page whose first device is a GPU that the test makes ill.
func ailing(t *testing.T) (*page, *faulty.Device) {
	t.Helper()
	p := open(t)
	gpu := faulty.New(webgpu.NewCPU(), faulty.Fault{})
	gpu.Name = "a GPU"
	p.opened = nil
	p.e.hooks.Open = func(_ context.Context, kind string) (check.Opened, error) {
		p.opened = append(p.opened, kind)
		if kind == "cpu" {
			return check.Opened{Device: webgpu.NewCPU(), Trusted: true}, nil
		}
		return check.Opened{Device: gpu, Trusted: true}, nil
	}
	p.ask(`{"type":"init","device":"auto","base":"web/zoo"}`)
	p.ask(`{"type":"load","model":"st-constructed"}`)
	p.ask(`{"type":"run","program":%q}`, swaps)
	p.ask(`{"type":"seek","t":2}`)
	return p, gpu
}

// device is the last event of that name.
func (p *page) deviceEvent() *Event {
	for i := len(p.events) - 1; i >= 0; i-- {
		if p.events[i].Event == "device" {
			return &p.events[i]
		}
	}
	return nil
}

// Whatever fails in a GPU in the middle of a run: the step is repeated on the CPU with right numbers,
// the program stays where it was, and the page is told which GPU is refused and why.
func TestGPUFailsOnTheWay(t *testing.T) {
	for name, c := range map[string]struct {
		fault faulty.Fault
		why   string
	}{
		"stale":  {faulty.Fault{Kind: faulty.Error, Err: webgpu.ErrStale}, "read-back carries an earlier step's data"},
		"silent": {faulty.Fault{Kind: faulty.Error, Err: webgpu.ErrNoAnswer}, "the GPU does not answer"},
		"memory": {faulty.Fault{Kind: faulty.Error, Err: webgpu.ErrOutOfMemory}, "out of GPU memory"},
		"broken": {faulty.Fault{Kind: faulty.Error, Err: webgpu.ErrGPU}, "GPU error"},
		"NaN":    {faulty.Fault{Kind: faulty.NaN}, "NaN or infinity"},
	} {
		p, gpu := ailing(t)
		gpu.Fault = c.fault
		a := p.ask(`{"type":"seek","t":5}`)
		if *a.T != 5 || a.Step.Top[0].Word != "2" {
			t.Errorf("%s: got step %d, answer %q, want 2", name, *a.T, a.Step.Top[0].Word)
		}
		if fmt.Sprint(p.opened) != "[auto cpu]" {
			t.Errorf("%s: devices opened: %v", name, p.opened)
		}
		ev := p.deviceEvent()
		if ev == nil || ev.What != "cpu" || ev.Refused == nil || ev.Refused.Adapter != "a GPU" || !strings.Contains(ev.Refused.Error, c.why) {
			t.Errorf("%s: the page is told %+v", name, ev)
		}
		if s := p.scene(); s.T != 5 || s.Answer != "2" {
			t.Errorf("%s: the stage shows word %d, answer %q", name, s.T, s.Answer)
		}
		p.ask(`{"type":"back"}`)
	}
}

// A checkpoint that does not fit the GPU's memory is loaded on the CPU.
func TestNoMemoryForAModel(t *testing.T) {
	p, gpu := ailing(t)
	gpu.Fault = faulty.Fault{Kind: faulty.Memory}
	p.ask(`{"type":"load","model":"st-hybrid-neg"}`)
	if ev := p.deviceEvent(); ev == nil || ev.What != "cpu" || !strings.Contains(ev.Error, "out of GPU memory") {
		t.Errorf("the page is told %+v", ev)
	}
	p.ask(`{"type":"run","program":%q}`, swaps)
	if a := p.ask(`{"type":"seek","t":5}`); a.Step.Top[0].Word != "2" {
		t.Errorf("got %q", a.Step.Top[0].Word)
	}
}

// A model that computes what is no number on the CPU too is told from a GPU that does: the GPU stays.
func TestModelWithoutNumbers(t *testing.T) {
	p, gpu := ailing(t)
	sick := faulty.New(webgpu.NewCPU(), faulty.Fault{Kind: faulty.NaN, After: 3})
	p.e.hooks.Open = func(_ context.Context, kind string) (check.Opened, error) {
		p.opened = append(p.opened, kind)
		if kind == "cpu" {
			return check.Opened{Device: sick, Trusted: true}, nil
		}
		gpu.Plays = 0
		return check.Opened{Device: gpu, Trusted: true}, nil
	}
	gpu.Plays, gpu.Fault = 3, faulty.Fault{Kind: faulty.NaN, After: 3}
	for range 2 {
		a := p.refuse("word 3, b,d=d,b: model: layer 0: ", `{"type":"step"}`)
		if !strings.Contains(a.Error, "NaN or infinity") || !strings.HasSuffix(a.Error, "on GPU and CPU alike: it is the model") {
			t.Errorf("got %q", a.Error)
		}
		if ev := p.deviceEvent(); ev == nil || ev.What != "webgpu" || ev.Refused != nil {
			t.Errorf("the page is told %+v", ev)
		}
		sick.Plays = 0
	}
	if a := p.ask(`{"type":"back"}`); *a.T != 1 {
		t.Errorf("the steps before cannot be looked at: %d", *a.T)
	}
	if want := "[auto cpu auto cpu auto]"; fmt.Sprint(p.opened) != want {
		t.Errorf("devices opened: %v, want %s", p.opened, want)
	}
}

// On the CPU a step that is no number is an error that stays, and is not drawn.
func TestNotFinite(t *testing.T) {
	p := open(t)
	p.ask(`{"type":"load","model":"st-constructed"}`)
	p.ask(`{"type":"run","program":%q}`, swaps)
	sick := faulty.New(webgpu.NewCPU(), faulty.Fault{Kind: faulty.NaN, After: 2})
	p.e.hooks.Open = func(context.Context, string) (check.Opened, error) {
		return check.Opened{Device: sick, Trusted: true}, nil
	}
	p.ask(`{"type":"init","device":"cpu","base":"web/zoo"}`)
	p.ask(`{"type":"load","model":"st-constructed"}`)
	p.ask(`{"type":"run","program":%q}`, swaps)
	p.ask(`{"type":"seek","t":1}`)
	for range 2 {
		p.refuse("word 2, a,c=c,a: model: layer 0: ", `{"type":"seek","t":5}`)
	}
	for _, s := range p.scenes {
		for _, l := range s.Layers {
			if slices.ContainsFunc(l.State, func(x float32) bool { return x != x }) {
				t.Fatal("the stage was given what is no number")
			}
		}
	}
	sick.Fault.After, sick.Plays = 0, 0
	for m, want := range map[string]string{
		`{"type":"answers","models":["st-hybrid-neg"],"program":%q}`:                              "NaN or infinity",
		`{"type":"curve","task":"st","models":["st-hybrid-neg"],"levels":[4],"samples":2,"x":%q}`: "NaN or infinity",
	} {
		if got := string(p.e.Handle(context.Background(), fmt.Appendf(nil, m, swaps))); !strings.Contains(got, want) {
			t.Errorf("%s: got %s", m, got)
		}
	}
	p.refuse("NaN or infinity", `{"type":"drift","store":"bf16","program":%q}`, swaps)
}

// What is asked for in full runs beside other requests and tells how far it is; a wrong kernel costs
// the GPU its trust, and is named.
func TestCheckInFull(t *testing.T) {
	p, gpu := ailing(t)
	told := 0
	p.e.hooks.Event = func(ev Event) {
		p.events = append(p.events, ev)
		if ev.What == "check" {
			told++
		}
	}
	a := p.ask(`{"type":"check","full":true}`)
	if !a.Check.Pass || a.Check.Adapter != "a GPU" || told < 100 || p.deviceEvent() != nil {
		t.Errorf("got %+v, told %d times", a.Check, told)
	}
	gpu.Fault = faulty.Fault{Kind: faulty.Numbers, Kernel: "swiglu"}
	a = p.ask(`{"type":"check"}`)
	ev := p.deviceEvent()
	if a.Check.Pass || ev == nil || ev.What != "cpu" || ev.Refused.Kernel != "swiglu" || *ev.Refused.Worst <= *ev.Refused.Bound || !strings.Contains(ev.Refused.Shape, "mlp.act") {
		t.Fatalf("got %v, told %+v", a.Check.Pass, ev)
	}
	if a := p.ask(`{"type":"check"}`); !a.Check.Pass || a.Check.Device != "cpu" {
		t.Errorf("afterwards: %+v", a.Check)
	}
	if a := p.ask(`{"type":"seek","t":5}`); a.Step.Top[0].Word != "2" {
		t.Errorf("got %q", a.Step.Top[0].Word)
	}

	// It can be ended, and steps are answered before it is done.
	p, _ = ailing(t)
	send, replies, stop := p.live()
	defer stop()
	send(`{"id":1,"type":"check","full":true}`)
	send(`{"id":2,"type":"step"}`)
	send(`{"id":3,"type":"cancel","what":"check"}`)
	for _, want := range []int{2, 3, 1} {
		if a := p.read(wait(t, replies)); a.Re != want || a.OK != (want != 1) {
			t.Errorf("got a reply to %d: %v %s, want one to %d", a.Re, a.OK, a.Error, want)
		}
	}
}

// The kernels that the check at start leaves out are compared when there is nothing to do.
func TestProof(t *testing.T) {
	for _, kernel := range []string{"", "gdn_inputs"} {
		p, gpu := ailing(t)
		events := make(chan Event, 64)
		p.e.hooks.Event = func(ev Event) { events <- ev }
		if kernel != "" {
			gpu.Fault = faulty.Fault{Kind: faulty.Numbers, Kernel: kernel}
		}
		_, _, stop := p.live()
		want := map[string]string{"": "proven", "gdn_inputs": "device"}[kernel]
		for ev := (Event{}); ev.Event != want; {
			select {
			case ev = <-events:
			case <-time.After(20 * time.Second):
				t.Fatalf("%q: no event %s", kernel, want)
			}
			if ev.Event == "device" && (ev.What != "cpu" || ev.Refused == nil || !strings.HasPrefix(ev.Refused.Kernel, kernel+"[")) {
				t.Errorf("told %+v", ev)
			}
		}
		stop()
		if a := p.ask(`{"type":"seek","t":5}`); a.Step.Top[0].Word != "2" {
			t.Errorf("%q: got %q", kernel, a.Step.Top[0].Word)
		}
	}
}

// After a sleep the device is tested.
func TestTest(t *testing.T) {
	p, gpu := ailing(t)
	p.ask(`{"type":"test"}`)
	if len(p.opened) != 1 {
		t.Errorf("devices opened: %v", p.opened)
	}
	gpu.Fault = faulty.Fault{Kind: faulty.Numbers}
	p.ask(`{"type":"test"}`)
	if ev := p.deviceEvent(); ev == nil || ev.What != "cpu" || ev.Refused.Kernel == "" {
		t.Errorf("told %+v", ev)
	}
}

// A device that is lost over and over is given up.
func TestLostTooOften(t *testing.T) {
	p, gpu := ailing(t)
	gpu.Fault = faulty.Fault{Kind: faulty.Error, Err: webgpu.ErrDeviceLost, After: 1 << 30}
	for i := 1; i <= mostLosses; i++ {
		p.ask(`{"type":"reset"}`)
		p.ask(`{"type":"run","program":%q}`, swaps)
		gpu.Fault.After, gpu.Plays = 0, 0
		opened := p.e.hooks.Open
		p.e.hooks.Open = func(ctx context.Context, kind string) (check.Opened, error) {
			gpu.Fault.After = 1 << 30
			return opened(ctx, kind)
		}
		p.ask(`{"type":"step"}`)
		p.e.hooks.Open = opened
	}
	if ev := p.deviceEvent(); ev.What != "cpu" || !strings.Contains(ev.Refused.Error, "lost 3 times") {
		t.Errorf("told %+v", ev)
	}
	if !slices.Equal(p.opened, []string{"auto", "auto", "auto", "cpu"}) {
		t.Errorf("devices opened: %v", p.opened)
	}
}
