//go:build !js

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"

	"shellgame/internal/chrome"
)

// The first picture is there, and can be stepped, while the wasm is still on its way; the engine
// then takes over at the same word.
func TestFirstPicture(t *testing.T) {
	p := open(t, chrome.Options{Network: chrome.Network{Mbit: 16}}, "")
	p.wait("s.phase === 'first'")
	if n := eval[int](p, "document.querySelectorAll('#views .tiles rect').length"); n != 25 {
		t.Errorf("the first picture has %d tiles, want the state's 25", n)
	}
	p.wait("document.querySelector('.view-cups svg')")
	if eval[bool](p, "document.getElementById('picture').classList.contains('live')") {
		t.Error("the frame is shown before the engine is ready")
	}
	p.click("step")
	p.click("step")
	p.at(3)
	p.shot("first-picture")
	if got := eval[string](p, "shellgamePage.state().phase"); got != "first" {
		t.Fatalf("the engine was there before the picture was stepped (%s): the network is not slow enough to tell", got)
	}
	p.live("st-constructed")
	p.at(3)
	marks := eval[[]float64](p, "['shellgame-first', 'shellgame-live'].map((m) => performance.getEntriesByName(m)[0].startTime)")
	t.Logf("first picture after %.0f ms, live after %.0f ms", marks[0], marks[1])
	if marks[0] >= marks[1] {
		t.Errorf("first picture after %.0f ms, live after %.0f ms", marks[0], marks[1])
	}
	p.quiet()
}

// The main job: choose task, model, size and seed, read the program word by word and back, and get
// the right bit. What the page holds is what the terminal prints.
func TestHybridReadsAProgram(t *testing.T) {
	for _, device := range []string{"webgpu", "cpu"} {
		t.Run(device, func(t *testing.T) {
			p := open(t, chrome.Options{}, "?device="+device)
			p.live("st-constructed")
			p.task("sbr")
			p.live("sbr-hybrid-neg")
			p.choose("n", "6")
			p.choose("seed", "5")
			p.wait("s.n === 6 && s.seed === 5 && !s.busy && s.program.startsWith('bits=[') && s.program.split('\\n').length === 9")
			if got := eval[string](p, "shellgamePage.state().device.device"); got != device {
				t.Errorf("the page computes on %s, want %s", got, device)
			}
			p.click("reset")
			p.at(-1)
			for i := range 3 {
				p.click("step")
				p.at(i)
			}
			p.click("back")
			p.at(1)
			p.key("ArrowRight")
			p.at(2)
			p.key("ArrowLeft")
			p.at(1)
			p.key("Home")
			p.at(-1)
			if said := p.ask(); !strings.Contains(said, "right") {
				t.Errorf("the page says %q, want a right answer", said)
			}
			if got, want := p.text("where"), "word 22 of 23"; got != want {
				t.Errorf("at the question: got %q, want %q", got, want)
			}
			p.quiet()
			asTheTerminal(p, "sbr-hybrid-neg")
			p.shot("hybrid-" + device)
			if device == "webgpu" {
				hovers(p)
			}
			p.quiet()
		})
	}
}

// asTheTerminal compares every number of the page's trace with what the command prints.
func asTheTerminal(p page, model string) {
	p.Helper()
	var got struct{ Trace map[string]any }
	if err := json.Unmarshal([]byte(p.request(`{type: "trace"}`)), &got); err != nil {
		p.Fatal(err)
	}
	program, _ := got.Trace["program"].(string)
	want := command(p, "trace", "--device", "cpu", "--model", "web/zoo/"+model, program)
	steps, _ := got.Trace["steps"].([]any)
	all, _ := want["steps"].([]any)
	if len(steps) < 20 || len(steps) > len(all) {
		p.Fatalf("the page's trace has %d steps, the command's %d", len(steps), len(all))
	}
	numbers := 0
	compare(p, "steps", steps, all[:len(steps)], &numbers)
	if numbers < 100_000 {
		p.Errorf("compared %d numbers, want the states of %d steps", numbers, len(steps))
	}
}

// command is what the command prints, as JSON.
func command(p page, args ...string) map[string]any {
	p.Helper()
	c := exec.Command(served.bin, args...)
	c.Dir = root
	out, err := c.Output()
	if err != nil {
		p.Fatalf("shellgame %v: %v", args, err)
	}
	var v map[string]any
	if err := json.Unmarshal(out, &v); err != nil {
		p.Fatal(err)
	}
	return v
}

func compare(p page, at string, got, want any, numbers *int) {
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for k, v := range w {
			if k == "span" { // the page keeps the lines of its editor
				continue
			}
			compare(p, at+"."+k, g[k], v, numbers)
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			p.Fatalf("%s: got %d values, want %d", at, len(g), len(w))
		}
		for i, v := range w {
			if strings.HasSuffix(at, ".top") && i > 0 {
				break // those that are equally improbable may change places
			}
			compare(p, fmt.Sprintf("%s[%d]", at, i), g[i], v, numbers)
		}
	case float64:
		g, ok := got.(float64)
		if !ok || math.Abs(g-w) > 1e-3 {
			p.Fatalf("%s: got %v, want %g within 1e-3", at, got, w)
		}
		*numbers++
	default:
		if got != want {
			p.Fatalf("%s: got %v, want %v", at, got, want)
		}
	}
}

// hovers finds a heat map of the stage and reads the number under the pointer; a click on a head
// shows it alone, a click on a word goes there.
func hovers(p page) {
	p.Helper()
	box := eval[[]float64](p, "(r => [r.x, r.y, r.width, r.height])(document.querySelector('iframe').getBoundingClientRect())")
	seen := ""
	find := func(want string, x, y, dx, dy float64) (float64, float64) {
		p.Helper()
		for x, y = box[0]+x, box[1]+y; x < box[0]+box[2] && y < box[1]+box[3]; x, y = x+dx, y+dy {
			p.mouse(x, y, false)
			time.Sleep(40 * time.Millisecond)
			seen = p.text("hover")
			if strings.Contains(seen, want) {
				return x, y
			}
		}
		p.Fatalf("nothing in the stage says %q, last %q", want, seen)
		return 0, 0
	}
	find("state[k=", 40, 90, 0, 12)
	if err := p.Wait("/^layer 0 head \\d state\\[k=\\d+,v=\\d+\\] = -?[\\d.e-]+$/.test(document.getElementById('hover').textContent)", 5*time.Second); err != nil {
		p.Error(err)
	}
	p.shot("hover")
	x, y := find("alpha = ", 30, 90, 0, 6)
	p.mouse(x, y, true)
	time.Sleep(300 * time.Millisecond)
	p.shot("head-alone")
	x, y = find("word 3 of", 20, 44, 8, 0)
	p.mouse(x, y, true)
	p.at(3)
}

// Each task with a model that can do it, and one that cannot: the page shows answer and truth.
func TestAnswers(t *testing.T) {
	p := open(t, chrome.Options{}, "?task=st&model=st-constructed&n=64&device=cpu")
	for _, c := range []struct{ task, model, n, says string }{
		{"st", "st-constructed", "64", "right"},
		{"st", "st-gdn-pos", "64", "wrong"},
		{"recall", "recall-transformer", "16", "right"},
		{"sbr", "sbr-hybrid-neg", "8", "right"},
		{"sbr", "sbr-constructed", "8", "right"},
	} {
		t.Run(c.model, func(t *testing.T) {
			p.TB = t
			p.wait("s.phase === 'live' && !s.busy")
			if eval[string](p, "shellgamePage.state().task") != c.task {
				p.task(c.task)
				p.wait(fmt.Sprintf("s.task === %q && !s.busy", c.task))
			}
			p.choose("model", c.model)
			p.live(c.model)
			p.choose("n", c.n)
			p.wait(fmt.Sprintf("s.n === %s && !s.busy", c.n))
			said := p.ask()
			if !strings.Contains(said, c.says+", truth ") {
				t.Errorf("the page says %q, want that it is %s, and the truth", said, c.says)
			}
			a := eval[map[string]any](p, "shellgamePage.state().answer")
			if (a["word"] == a["truth"]) != (c.says == "right") {
				t.Errorf("answer %v, truth %v, but the page says %q", a["word"], a["truth"], said)
			}
			p.shot("answer-" + c.model)
			p.quiet()
		})
	}
}

// A program of one's own runs; a bad one gets its line and column, the caret stands there, and the
// page goes on.
func TestOwnProgram(t *testing.T) {
	p := open(t, chrome.Options{}, "?task=st&model=st-constructed&device=cpu")
	p.live("st-constructed")
	p.write("a,b,c,d,e=range(5)\na,c = c,a\nassert a==")
	p.wait("s.words.length === 5 && !s.busy")
	p.ask2("2")
	for _, c := range []struct {
		program, want string
		caret         int
	}{
		{"a,b,c,d,e=range(5)\na,c = c,a\nx = 3\n", "line 3, column 1: ", 29},
		{"a,b,c,d,e=range(5)\na,c = c,d\n", "line 2, column ", -1},
		{"a,c=c,a", "line 1, column ", -1},
		{"é = 1", "line 1, column 1: ", 0},
	} {
		p.write(c.program)
		p.wait("!document.getElementById('program-error').hidden")
		got := p.text("program-error")
		if !strings.HasPrefix(got, c.want) || len(got) < len(c.want)+8 || strings.Contains(got, "\n") {
			t.Errorf("%q: the page says %q, want one line that begins with %q", c.program, got, c.want)
		}
		if caret := eval[int](p, "document.activeElement.id === 'program' ? document.activeElement.selectionStart : -2"); c.caret >= 0 && caret != c.caret {
			t.Errorf("%q: the caret is at %d, want %d", c.program, caret, c.caret)
		}
		if c.caret == 29 {
			p.shot("bad-program")
		}
	}
	// The run before is still there, and the next one works.
	p.click("back")
	p.at(3)
	p.write("a,b,c,d,e=range(5) b,c=c,b assert c==")
	p.wait("document.getElementById('program-error').hidden && !s.busy")
	p.ask2("1")
	p.write("<img src=x onerror=alert(1)>")
	p.wait("!document.getElementById('program-error').hidden")
	if eval[int](p, "document.querySelectorAll('img[src=x]').length") != 0 {
		t.Error("the program's text was read as HTML")
	}
	p.quiet()
}

// ask2 goes to the question of a program that leaves its answer open, and checks the likeliest word.
func (p page) ask2(want string) {
	p.Helper()
	p.click("end")
	p.wait(fmt.Sprintf("s.top[0]?.word === %q && s.t === s.words.length - 1", want))
}

// The page's own drawings, where the stage is not wanted or cannot be.
func TestWithoutStage(t *testing.T) {
	noWebGL := "const get = HTMLCanvasElement.prototype.getContext; HTMLCanvasElement.prototype.getContext = function (kind, ...a) { return /webgl/.test(kind) ? null : get.call(this, kind, ...a); };"
	for name, c := range map[string]struct{ query, script string }{
		"asked":    {"?stage=no&task=sbr&model=sbr-hybrid-neg&n=8&device=cpu", ""},
		"no WebGL": {"?task=sbr&model=sbr-hybrid-neg&n=8&device=cpu", noWebGL},
	} {
		t.Run(name, func(t *testing.T) {
			p := open(t, chrome.Options{Script: c.script}, c.query)
			p.live("sbr-hybrid-neg")
			if said := p.ask(); !strings.Contains(said, "right") {
				t.Errorf("the page says %q, want a right answer", said)
			}
			if n := eval[int](p, "document.querySelectorAll('#views canvas').length"); n != 16 {
				t.Errorf("the page draws %d maps, want 16 heads", n)
			}
			if !eval[bool](p, "shellgamePage.state().noStage") {
				t.Error("the page does not know that there is no stage")
			}
			p.wait("document.querySelector('#views .vars').textContent.includes('belief')")
			at := eval[[]float64](p, "(r => [r.x + 9, r.y + 9])(document.querySelector('#views canvas').getBoundingClientRect())")
			p.mouse(at[0], at[1], false)
			if got := p.text("hover"); !strings.HasPrefix(got, "layer 0 head 0 state[k=") {
				t.Errorf("under the pointer: got %q, want a number of the state", got)
			}
			p.shot("no-stage-" + strings.ReplaceAll(name, " ", "-"))
			p.quiet()
		})
	}
}

// Nothing is wider than the window, in both themes, on phones and small laptops.
func TestSizes(t *testing.T) {
	for _, c := range some(3, []struct {
		name          string
		width, height int
		scale         float64
		dark          bool
		query         string
	}{
		{"phone", 390, 844, 2, false, "?task=sbr&model=sbr-hybrid-neg&n=8&device=cpu"},
		{"small-phone-dark", 320, 568, 2, true, "?task=st&model=st-gdn-pos&n=64&device=cpu"},
		{"tablet", 820, 1100, 1, false, "?task=recall&model=recall-transformer&n=16&device=cpu"},
		{"page", 1280, 800, 1, false, "?task=sbr&model=sbr-hybrid-neg&n=8&device=cpu"},
		{"page-dark", 1280, 800, 1, true, "?task=sbr&model=sbr-hybrid-neg&n=8&device=cpu"},
		{"wide-dark", 1920, 1080, 1, true, "?task=sbr&model=sbr-constructed&n=8&device=cpu"},
	}) {
		t.Run(c.name, func(t *testing.T) {
			p := open(t, chrome.Options{Width: c.width, Height: c.height, Scale: c.scale, Dark: c.dark}, c.query)
			p.wait("s.phase === 'live' && s.model && !s.busy")
			p.ask()
			p.shot("size-" + c.name)
			if wide := eval[int](p, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
				t.Errorf("the page is %d pixels wider than its window", wide)
			}
			if got, want := eval[string](p, "document.documentElement.dataset.theme"), map[bool]string{false: "light", true: "dark"}[c.dark]; got != want {
				t.Errorf("theme: got %s, want %s", got, want)
			}
			p.quiet()
		})
	}
}
