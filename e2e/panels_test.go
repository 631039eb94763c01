//go:build !js

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"shellgame/internal/chrome"
)

// view opens a view under the picture and waits until something selected by css is in it.
func (p page) view(id, css string) {
	p.Helper()
	p.panel(id)
	p.wait(fmt.Sprintf("document.querySelector(%q)", ".view-"+id+" "+css))
}

// in is the text of the first element selected by css.
func (p page) in(css string) string {
	p.Helper()
	return eval[string](p, fmt.Sprintf("document.querySelector(%q)?.textContent ?? ''", css))
}

// press clicks the first element selected by css.
func (p page) press(css string) {
	p.Helper()
	if !eval[bool](p, fmt.Sprintf("(e => (e?.click(), !!e))(document.querySelector(%q))", css)) {
		p.Fatalf("there is no %s", css)
	}
}

// The cups hold the truth after every swap, and change places while it is read.
func TestCups(t *testing.T) {
	p := open(t, chrome.Options{}, "?task=st&model=st-constructed&n=6&seed=3&device=cpu")
	p.live("st-constructed")
	p.view("cups", "svg")
	n := eval[int](p, "shellgamePage.state().words.length")
	values := []string{"0", "1", "2", "3", "4"}
	names := "abcde"
	for i := 0; i < n; i++ {
		p.click("reset")
		eval[bool](p, fmt.Sprintf("((e) => { e.value = %d; e.dispatchEvent(new Event('input')); return true; })(document.getElementById('timeline'))", i))
		p.at(i)
		word := eval[string](p, fmt.Sprintf("shellgamePage.state().words[%d]", i))
		if len(word) == len("a,b=b,a") {
			x, y := strings.IndexByte(names, word[0]), strings.IndexByte(names, word[2])
			values[x], values[y] = values[y], values[x]
		}
		want := "holds " + values[0]
		if i == 0 {
			want = "is empty"
		}
		for k, v := range values {
			if i > 0 {
				want = "holds " + v
			}
			label := eval[string](p, "document.querySelector('.view-cups svg').getAttribute('aria-label')")
			if !strings.Contains(label, fmt.Sprintf("%c %s", names[k], want)) {
				t.Fatalf("after word %d, %s: the cups say %q, want %c %s", i, word, label, names[k], want)
			}
		}
	}
	// One step on, the cups are on their way; soon after they stand at their places, in order.
	p.click("reset")
	p.at(-1)
	for range 2 {
		p.click("step")
	}
	p.at(1)
	p.click("step")
	p.at(2)
	xs := "[...document.querySelectorAll('.view-cups svg > g')].map((g) => Math.round(g.transform.baseVal[0].matrix.e)).sort((a, b) => a - b)"
	apart := fmt.Sprintf("(x => x.length === 5 && new Set(x.slice(1).map((v, i) => Math.round((v - x[i]) / 3))).size === 1)(%s)", xs)
	p.wait(apart)
	p.quiet()
}

// What the model believes is asked while it reads: a model that loses track is found out, the first
// wrong step is one click away, and the constructed model is never wrong.
func TestBeliefPanel(t *testing.T) {
	p := open(t, chrome.Options{Width: 1400, Height: 1000}, "?task=st&model=st-gdn-pos&n=64&seed=2&device=cpu")
	p.live("st-gdn-pos")
	p.view("belief", ".sheet svg")
	p.press(".view-belief button:last-of-type")
	p.wait("s.t === s.words.length - 2 && !s.busy")
	const all = "document.querySelector('.view-belief .lead').textContent.includes(' of 325 beliefs')" // start and 64 swaps, five variables
	p.wait(all)
	right := eval[int](p, "parseInt(document.querySelector('.view-belief .lead').textContent)")
	if right < 30 || right > 300 {
		t.Errorf("%d of 325 beliefs are right: want a model that loses track on the way", right)
	}
	label := p.in(".view-belief button.small")
	var word int
	if _, err := fmt.Sscanf(label, "Go to the first wrong step: word %d", &word); err != nil || word < 2 {
		t.Fatalf("the button says %q, want a first wrong step after the start", label)
	}
	if n := eval[int](p, "document.querySelectorAll('#marks line').length"); n < 20 {
		t.Errorf("%d marks over the timeline, want one for each step with a wrong belief", n)
	}
	p.shot("belief-wrong")
	p.press(".view-belief button.small")
	p.at(word)
	// The cups of that moment: one of them is believed to hold something else.
	p.view("cups", "svg")
	p.wait("/✗/.test(document.querySelector('.view-cups svg').textContent)")
	p.shot("cups-wrong")
	p.click("back")
	p.at(word - 1)
	p.wait("!/✗/.test(document.querySelector('.view-cups svg').textContent) && /✓/.test(document.querySelector('.view-cups svg').textContent)")

	p.choose("model", "st-constructed")
	p.live("st-constructed")
	p.click("end")
	p.view("belief", ".sheet svg")
	p.wait(all)
	if got := p.in(".view-belief .lead"); !strings.HasPrefix(got, "325 of 325 ") {
		t.Errorf("the constructed model: %q, want that all are right", got)
	}
	// The keyboard reads the cells and goes to their words.
	p.press(".view-belief .sheet")
	eval[bool](p, "(document.querySelector('.view-belief .sheet').focus(), true)")
	for range 3 {
		p.key("ArrowRight")
	}
	want := eval[string](p, "`after word 3 \"${shellgamePage.state().words[3]}\": asked for a the model says `")
	if got := p.in(".view-belief .tip"); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "which is right") {
		t.Errorf("under the cursor: %q, want %q …", got, want)
	}
	p.key("Enter")
	p.at(3)
	p.quiet()
}

// Every panel at three widths in both themes: nothing is wider than the window.
func TestPanelSizes(t *testing.T) {
	for _, c := range []struct {
		name          string
		width, height int
		dark          bool
	}{
		{"1400", 1400, 1500, false},
		{"1400-dark", 1400, 1500, true},
		{"800", 800, 1700, false},
		{"800-dark", 800, 1700, true},
		{"390", 390, 2400, false},
		{"390-dark", 390, 2400, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := open(t, chrome.Options{Width: c.width, Height: c.height, Dark: c.dark}, "?task=sbr&model=sbr-hybrid-neg&n=8&seed=2&device=cpu")
			p.live("sbr-hybrid-neg")
			p.click("end")
			p.wait("s.answer && !s.busy")
			for _, v := range [][2]string{{"cups", "svg"}, {"anatomy", ".verdict-chip.good"}, {"maps", ".verdict-chip.good"}, {"belief", ".sheet svg"}} {
				p.view(v[0], v[1])
				if wide := eval[int](p, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
					t.Errorf("%s: the page is %d pixels wider than its window", v[0], wide)
				}
				p.shot("panel-" + v[0] + "-" + c.name)
			}
			p.quiet()
		})
	}
}

// At 512 swaps a step with a view open costs its drawing at most 10 ms.
func TestPanelSpeed(t *testing.T) {
	p := open(t, chrome.Options{Width: 1400, Height: 1000, Script: `globalThis.drawn = []; new PerformanceObserver((l) => { for (const e of l.getEntries()) if (e.name === "shellgame-panel") drawn.push(e.duration); }).observe({type: "measure"});`}, "?task=st&model=st-hybrid-neg&n=512&seed=2&device=cpu")
	p.live("st-hybrid-neg")
	p.click("end")
	p.wait("s.t === s.words.length - 2 && !s.busy")
	for _, v := range [][2]string{{"anatomy", ".verdict-chip.good"}, {"maps", ".verdict-chip.good"}, {"cups", "svg"}, {"belief", ".sheet svg"}} {
		p.view(v[0], v[1])
		for i := range 10 {
			p.click("back")
			p.at(515 - 1 - i)
		}
		eval[bool](p, "(drawn.length = 0, true)")
		for i := range 10 {
			p.click("step")
			p.at(515 - 10 + i + 1)
		}
		times := eval[[]float64](p, "new Promise((r) => setTimeout(() => r(drawn.sort((a, b) => a - b)), 300))")
		if len(times) < 10 {
			t.Fatalf("%s: %d drawings measured, want one for each step", v[0], len(times))
		}
		median := times[len(times)/2]
		t.Logf("%s at 512 swaps: %d drawings, median %.1f ms, longest %.1f ms", v[0], len(times), median, times[len(times)-1])
		if median > 10 {
			t.Errorf("%s takes %.1f ms a step, want at most 10", v[0], median)
		}
		t.Log(p.in(".view-belief .lead"))
		p.shot("panel-512-" + v[0])
	}
	p.quiet()
}
