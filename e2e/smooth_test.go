//go:build !js

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/tracing"
	"github.com/chromedp/chromedp"

	"shellgame/internal/chrome"
)

// traced is an event of Chromium's own trace.
type traced struct {
	Name string
	Cat  string
	Ph   string
	Pid  int
	Tid  int
	Ts   float64
	Dur  float64
	TDur float64 // of the processor, in microseconds
	Args map[string]any
}

// tasks runs f and returns the tasks of the page's main thread, which its frame shares, and what
// was in them, longest first.
func (p page) tasks(f func()) (tasks []traced, in func(traced) []string) {
	p.Helper()
	var mu sync.Mutex
	var all []traced
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(p.Chrome.Context())
	defer cancel()
	err := chromedp.Listen(ctx, func(ev any) {
		switch e := ev.(type) {
		case *tracing.EventDataCollected:
			mu.Lock()
			for _, v := range e.Value {
				var t traced
				if json.Unmarshal(v, &t) == nil {
					all = append(all, t)
				}
			}
			mu.Unlock()
		case *tracing.EventTracingComplete:
			close(done)
		}
	})
	if err == nil {
		_, err = chromedp.Call(p.Chrome.Context(), tracing.Start, tracing.StartParams{TraceConfig: &tracing.TraceConfig{IncludedCategories: []string{"toplevel", "devtools.timeline", "v8"}, ExcludedCategories: []string{"*"}}})
	}
	if err != nil {
		p.Fatal(err)
	}
	f()
	if _, err := chromedp.Call(p.Chrome.Context(), tracing.End, cdp.Empty{}); err != nil {
		p.Fatal(err)
	}
	select {
	case <-done:
	case <-time.After(time.Minute):
		p.Fatal("Chromium's trace did not end")
	}
	main := map[[2]int]bool{}
	for _, e := range all {
		if e.Name == "thread_name" && e.Args["name"] == "CrRendererMain" {
			main[[2]int{e.Pid, e.Tid}] = true
		}
	}
	for _, e := range all {
		if main[[2]int{e.Pid, e.Tid}] && strings.HasSuffix(e.Name, "RunTask") && e.Cat == "toplevel" {
			tasks = append(tasks, e)
		}
	}
	slices.SortFunc(tasks, func(a, b traced) int { return int(b.TDur - a.TDur) })
	return tasks, func(t traced) (list []string) {
		for _, e := range all {
			if e.Pid == t.Pid && e.Tid == t.Tid && e.Ts >= t.Ts && e.Ts+e.Dur <= t.Ts+t.Dur && e.TDur > t.TDur/4 {
				list = append(list, fmt.Sprintf("%s %.0f ms", e.Name, e.TDur/1000))
			}
		}
		return list
	}
}

// No task keeps the page's thread busy for longer than 100 ms while it steps, draws its views or
// measures accuracy, whatever computes. Processor time is counted, so that a busy machine makes no
// difference.
func TestSmooth(t *testing.T) {
	if !whole {
		t.Skip("takes a minute: E2E=whole")
	}
	const bound = 100e3 // microseconds
	for _, device := range []string{"cpu", "webgpu"} {
		t.Run(device, func(t *testing.T) {
			p := open(t, chrome.Options{Width: 1280, Height: 1000}, "?task=sbr&model=sbr-hybrid-neg&n=32&seed=3&device="+device)
			p.live("sbr-hybrid-neg")
			if got := eval[string](p, "shellgamePage.state().device.device"); got != device {
				t.Fatalf("the page computes on %s, want %s", got, device)
			}
			busy := "new Promise((r) => setTimeout(() => { let x = 1; for (let i = 0; i < 2e8; i++) x = (x * 1.0001 + i) % 1e9; setTimeout(() => r(x > 0)); }))"
			if tasks, _ := p.tasks(func() { eval[bool](p, busy) }); len(tasks) == 0 || tasks[0].TDur < bound {
				t.Fatalf("a task that is too long is not among the %d found", len(tasks))
			}
			phase := func(name string, f func()) {
				start := time.Now()
				tasks, in := p.tasks(f)
				if len(tasks) < 10 {
					t.Errorf("%s: found %d tasks", name, len(tasks))
					return
				}
				t.Logf("%s: %d tasks in %.1f s, the longest %.0f ms of the processor", name, len(tasks), time.Since(start).Seconds(), tasks[0].TDur/1000)
				for _, e := range tasks {
					if e.TDur > bound {
						t.Errorf("%s: a task of %.0f ms: %v", name, e.TDur/1000, in(e))
					}
				}
			}
			phase("steps", func() {
				for range 5 {
					n := eval[int](p, "shellgamePage.state().t")
					p.click("step")
					p.at(n + 1)
				}
				p.click("end")
				p.wait("s.answer")
			})
			phase("views", func() {
				for _, v := range [][2]string{{"cups", "svg"}, {"anatomy", ".verdict-chip.good"}, {"maps", ".verdict-chip.good"}, {"belief", ".sheet svg"}, {"inspect", ".inspect-layers .sheet"}} {
					p.view(v[0], v[1])
					n := eval[int](p, "shellgamePage.state().t")
					p.click("back")
					p.at(n - 1)
				}
			})
			p.panel("curve")
			p.wait("document.querySelector('.curve-form + .hint').textContent.includes('This takes about')")
			if hint, n := p.in(".curve-form + .hint"), eval[int](p, "Number(document.getElementById('curve-samples').value)"); !strings.Contains(hint, "is slow: few programs and small sizes are set") || n > 32 {
				t.Errorf("on a slow device the view sets %d programs and says %q", n, hint)
			}
			phase("accuracy", func() {
				p.click("curve-start")
				p.wait("document.querySelector('.view-curve progress').value > 0.02")
				n := eval[int](p, "shellgamePage.state().t")
				p.click("back")
				p.at(n - 1)
				p.click("curve-cancel")
				p.wait("document.getElementById('curve-status').textContent.startsWith('Cancelled')")
			})
			p.quiet()
		})
	}
}
