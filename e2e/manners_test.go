//go:build !js

package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"shellgame/internal/chrome"
)

// axe is axe-core 4.14.1, axe.min.js of the npm package, compressed; MPL 2.0, see
// testdata/axe-core-LICENSE.
func axe(t *testing.T) string {
	t.Helper()
	packed, err := os.ReadFile(filepath.Join("testdata", "axe-core-4.14.1.min.js.gz"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	script, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

type finding struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

// accessible fails the test for each finding of axe in the page as it stands but minor ones.
func (p page) accessible(script, what string) {
	p.Helper()
	if !eval[bool](p, "typeof globalThis.axe === 'object'") {
		eval[bool](p, script+"; true")
	}
	out := eval[string](p, "axe.run(document, {iframes: false, resultTypes: ['violations']}).then((r) => JSON.stringify(r.violations))")
	var found []finding
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		p.Fatal(err)
	}
	for _, f := range found {
		if f.Impact == "minor" {
			p.Logf("%s: %s: %s (%d)", what, f.Impact, f.Help, len(f.Nodes))
			continue
		}
		for _, n := range f.Nodes {
			p.Errorf("%s: %s: %s: %s: %s: %s", what, f.Impact, f.ID, f.Help, n.HTML, strings.Join(strings.Fields(n.FailureSummary), " "))
		}
	}
}

// axe finds nothing beyond the minor: in the page, with each view and each dialog open, in both themes, on a
// phone; and it does find something in a page that has it.
func TestAccessible(t *testing.T) {
	script := axe(t)
	for _, c := range some(1, []struct {
		name          string
		width, height int
		dark          bool
	}{{"light", 1280, 900, false}, {"phone-dark", 390, 844, true}}) {
		t.Run(c.name, func(t *testing.T) {
			p := open(t, chrome.Options{Width: c.width, Height: c.height, Dark: c.dark, ReducedMotion: true}, "?task=sbr&model=sbr-hybrid-neg&n=4&device=cpu")
			p.live("sbr-hybrid-neg")
			p.accessible(script, "fresh")
			p.ask()
			for _, id := range eval[[]string](p, "[...document.querySelectorAll('[role=tab]')].map((t) => t.id.slice(4))") {
				p.panel(id)
				p.wait("!s.busy")
				eval[bool](p, "(document.querySelectorAll('#panel details').forEach((d) => { d.open = true; }), new Promise((r) => setTimeout(() => r(true), 400)))")
				p.accessible(script, id)
			}
			for _, id := range []string{"help-box", "glossary-box", "device-box", "card-box"} {
				switch id {
				case "device-box":
					p.click("device")
				case "card-box":
					p.click("card")
					p.wait("document.querySelectorAll('#card-text table').length === 2 && document.querySelectorAll('#card-text h2').length > 2")
				default:
					eval[bool](p, fmt.Sprintf("(document.getElementById(%q).showModal(), true)", id))
				}
				p.accessible(script, id)
				p.shot(fmt.Sprintf("dialog-%s-%s", id, c.name))
				eval[bool](p, fmt.Sprintf("(document.getElementById(%q).close(), true)", id))
			}
			p.quiet()
			if c.name != "light" {
				return
			}
			eval[bool](p, "(document.querySelector('main').append(Object.assign(document.createElement('img'), {src: 'favicon.svg'})), true)")
			out := eval[string](p, "axe.run(document, {iframes: false}).then((r) => r.violations.map((v) => v.id).join())")
			if !strings.Contains(out, "image-alt") {
				t.Errorf("axe finds %q in a picture without a text, want image-alt", out)
			}
		})
	}
}

// The modifiers of a key, as the browser counts them.
const (
	ctrl  = 2
	shift = 8
)

var keyCodes = map[string]int64{"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40, "a": 65}

// hit presses a key as a keyboard does, so that the browser does what it does by itself.
func (p page) hit(key string, with int64) {
	p.Helper()
	text := map[string]string{"Enter": "\r", " ": " "}[key]
	if keyCodes[key] == 0 && len(key) == 1 {
		text = key
	}
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		e := input.DispatchKeyEventParams{Type: kind, Key: key, Code: key, WindowsVirtualKeyCode: keyCodes[key], Modifiers: with}
		if kind == input.DispatchKeyEventTypeKeyDown && with == 0 {
			e.Text = text
		}
		if key == "a" && with == ctrl {
			e.Commands = []string{"selectAll"}
		}
		if _, err := chromedp.Call(p.Chrome.Context(), input.DispatchKeyEvent, e); err != nil {
			p.Fatal(err)
		}
	}
}

const here = "((e) => e.id || e.name || e.dataset.opens || e.className || e.nodeName)(document.activeElement)"

// tab goes on with Tab until the focus is on what a selector names. Whatever it passes must be seen
// to have the focus.
func (p page) tab(selector string) {
	p.Helper()
	var passed []string
	for range 120 {
		p.hit("Tab", 0)
		at := eval[string](p, here)
		if eval[bool](p, fmt.Sprintf("document.activeElement.matches(%q)", selector)) {
			return
		}
		passed = append(passed, at)
		if !eval[bool](p, `((e) => {
			const seen = (x) => { const s = getComputedStyle(x); return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0; };
			return ["IFRAME", "BODY", "HTML"].includes(e.nodeName) || seen(e) || !!e.nextElementSibling && seen(e.nextElementSibling);
		})(document.activeElement)`) {
			p.Errorf("the focus on %s cannot be seen", at)
		}
	}
	p.Fatalf("Tab never comes to %s, it passed %v", selector, passed)
}

// The whole visit without a pointer: choose, run, step, open a view, pass the stage, come back.
func TestKeyboard(t *testing.T) {
	p := open(t, chrome.Options{Width: 1280, Height: 900}, "?device=cpu")
	p.live("st-constructed")
	p.tab(".skip")
	p.hit("Enter", 0)
	p.wait("document.activeElement.id === 'picture'")
	p.hit("ArrowRight", 0)
	p.at(2)
	eval[bool](p, "(document.activeElement.blur(), scrollTo(0, 0), true)")
	p.tab("input[name=task]")
	p.hit("ArrowRight", 0)
	p.hit("ArrowRight", 0)
	p.live("sbr-hybrid-neg")
	p.tab("#model")
	for range 20 {
		if eval[string](p, "document.getElementById('model').value") == "sbr-constructed" {
			break
		}
		p.hit("ArrowDown", 0)
	}
	p.live("sbr-constructed")
	p.tab("#program")
	p.hit("a", ctrl)
	if _, err := chromedp.Call(p.Chrome.Context(), input.InsertText, input.InsertTextParams{Text: "bits=[0,1] a=1 assert bits[a]=="}); err != nil {
		t.Fatal(err)
	}
	p.wait("!document.getElementById('edited').hidden && document.getElementById('answer').classList.contains('stale')")
	p.shot("edited")
	p.hit("Enter", ctrl)
	p.wait("s.words.length === 9 && !s.busy && document.getElementById('edited').hidden")
	p.tab("#step")
	at := eval[int](p, "shellgamePage.state().t")
	p.hit("Enter", 0)
	p.at(at + 1)
	p.hit("End", 0)
	p.wait("s.top[0]?.word === '1' && s.t === s.words.length - 1")
	speed := eval[string](p, "document.getElementById('speed').value")
	p.hit("]", 0)
	p.wait(fmt.Sprintf("document.getElementById('speed').value !== %q", speed))
	p.hit("[", 0)
	p.wait(fmt.Sprintf("document.getElementById('speed').value === %q", speed))
	p.tab("[role=tab]")
	p.hit("ArrowRight", 0)
	p.hit("Enter", 0)
	p.wait("!!document.querySelector('.view-anatomy')")
	p.hit("6", 0)
	p.wait("!!document.querySelector('.view-switches') && document.activeElement.id === 'tab-anatomy'")
	p.tab(".view-switches .cell")
	p.hit(" ", 0)
	p.wait("document.getElementById('changes-text').textContent === 'changed: layer 0 off' && !s.busy")
	p.hit(" ", 0)
	p.wait("document.getElementById('changes').hidden && !s.busy")
	// Through the frame, to the end of the page, and back through it.
	p.tab("#frame iframe, #picture canvas, footer button")
	if got := eval[string](p, "document.activeElement.nodeName"); got != "IFRAME" {
		t.Errorf("Tab passed %s, want the frame as a stop of its own", got)
	}
	p.tab("[data-opens=glossary-box]")
	p.hit("Enter", 0)
	p.wait("document.getElementById('glossary-box').open")
	p.hit("Escape", 0)
	p.wait("!document.getElementById('glossary-box').open && document.activeElement.dataset.opens === 'glossary-box'")
	back := false
	for range 120 {
		p.hit("Tab", shift)
		if back = eval[bool](p, "document.activeElement.id === 'toggle'"); back {
			break
		}
	}
	if !back {
		t.Error("Shift+Tab does not come back through the frame")
	}
	p.hit("?", 0)
	p.wait("document.getElementById('help-box').open")
	p.hit("Escape", 0)
	p.wait("!document.getElementById('help-box').open")
	p.quiet()
}

// On a phone the answer is seen without scrolling, and what is touched is large enough.
func TestPhone(t *testing.T) {
	p := open(t, chrome.Options{Width: 390, Height: 844, Scale: 2}, "?task=sbr&model=sbr-hybrid-neg&n=8&device=cpu")
	p.live("sbr-hybrid-neg")
	p.ask()
	eval[bool](p, "(scrollTo(0, 0), true)")
	p.shot("phone-answer")
	if box := eval[[]float64](p, "((r) => [r.top, r.bottom, innerHeight])(document.getElementById('answer').getBoundingClientRect())"); box[0] < 0 || box[1] > box[2] {
		t.Errorf("the answer is at %v of a window of %v", box[:2], box[2])
	}
	small := eval[[]string](p, `[...document.querySelectorAll("#play button, #play select, .tabs button, .tools button")].filter((b) => b.offsetParent && b.getBoundingClientRect().height < 39.5).map((b) => b.id || b.textContent)`)
	if len(small) > 0 {
		t.Errorf("too small to touch: %v", small)
	}
	p.fits()
	p.quiet()
}

// A lecture sees the picture larger, without the setup; the choice is in the link.
func TestProjector(t *testing.T) {
	for _, dark := range []bool{false, true} {
		p := open(t, chrome.Options{Width: 1400, Height: 900, Dark: dark}, "?task=st&model=st-constructed&n=8&device=cpu")
		p.live("st-constructed")
		p.ask()
		size := eval[float64](p, "document.getElementById('answer').getBoundingClientRect().height")
		p.click("projector")
		p.wait("!document.getElementById('setup').checkVisibility()")
		if now := eval[float64](p, "document.getElementById('answer').getBoundingClientRect().height"); now < 1.2*size {
			t.Errorf("the answer is %g high, %g with a projector", size, now)
		}
		p.shot(fmt.Sprintf("projector-dark-%v", dark))
		p.accessible(axe(t), "projector")
		p.fits()
		p.wait("location.hash.length > 4")
		p.goTo(eval[string](p, "location.href"))
		p.live("st-constructed")
		if !eval[bool](p, "document.documentElement.hasAttribute('data-projector')") {
			t.Error("a link does not keep the projector")
		}
		p.click("projector")
		p.wait("document.getElementById('setup').checkVisibility()")
		p.quiet()
	}
}

// A program that says what is not true runs, and the page says where.
func TestUntrueAssert(t *testing.T) {
	p := open(t, chrome.Options{}, "?task=st&model=st-constructed&device=cpu")
	p.live("st-constructed")
	p.write("a,b,c,d,e=range(5)\na,c=c,a\nassert a== 3\nassert b==")
	p.wait("s.words.length === 8 && !s.busy")
	if got := p.notice("warning"); !strings.HasPrefix(got, "line 3, column ") {
		t.Errorf("the page says %q, want line and column of what is not true", got)
	}
	p.write("a,b,c,d,e=range(5)\nassert b==")
	p.wait("s.words.length === 4 && !s.busy")
	if got := p.notice("warning"); got != "" {
		t.Errorf("of a program without faults the page says %q", got)
	}
	p.quiet()
}

// What a first visit stumbled over: nothing is said of a run that is left, nothing moves under the
// reader's eyes, a program of one's own is not lost, and no preference is no answer.
func TestFirstVisit(t *testing.T) {
	p := open(t, chrome.Options{Width: 1280, Height: 800}, "?task=sbr&model=sbr-hybrid-neg&n=32&seed=7&device=cpu")
	p.live("sbr-hybrid-neg")
	p.click("reset")
	p.choose("speed", "0")
	p.click("toggle")
	p.wait("s.t >= 2")
	p.choose("model", "sbr-constructed")
	p.live("sbr-constructed")
	if said := p.notice("step"); said != "" {
		t.Errorf("after another model was chosen in the middle of a run the page says %q", said)
	}
	const top = "document.getElementById('picture').getBoundingClientRect().top + scrollY"
	before := eval[float64](p, top)
	p.ask()
	p.shot("first-visit")
	eval[bool](p, "(navigator.clipboard.writeText = async () => {}, document.getElementById('copy-link').click(), true)")
	p.wait("document.getElementById('copied').textContent === 'Link copied'")
	p.shot("copied")
	if after := eval[float64](p, top); after != before {
		t.Errorf("the answer and the copied link move the picture from %g to %g", before, after)
	}
	// A tab that was clicked leaves the arrows to the program.
	at := eval[[]float64](p, "((r) => [r.x + 9, r.y + 9, shellgamePage.state().t])(document.getElementById('tab-anatomy').getBoundingClientRect())")
	p.mouse(at[0], at[1], true)
	p.wait("!!document.querySelector('.view-anatomy')")
	p.hit("ArrowLeft", 0)
	p.at(int(at[2]) - 1)
	p.hit("1", 0)
	p.wait("!!document.querySelector('.view-cups')")

	p.task("st")
	p.live("st-constructed")
	const own = "bits=[ 0, 1, 1, ]\nb= 2\nassert bits[b]=="
	p.write(own)
	p.wait("s.words.length === 10 && !s.busy")
	if got := p.text("program-hint"); !strings.HasPrefix(got, "Your own program") {
		t.Errorf("beside a program of one's own the page says %q", got)
	}
	if got := p.text("answer"); strings.Contains(got, "pad") {
		t.Errorf("the page says %q", got)
	}
	p.click("end")
	p.wait("s.t === 9 && document.getElementById('live').textContent.includes('; no preference')")
	p.wait("document.querySelector('.view-cups .lead').textContent.endsWith('The model has no preference.') && !document.querySelector('.view-cups').textContent.includes('pad')")
	p.shot("no-preference")
	p.choose("n", "4")
	p.wait("s.words.length < 10 && !s.busy && document.getElementById('notice-own')")
	eval[bool](p, "(document.querySelector('#notice-own button').click(), true)")
	p.wait(fmt.Sprintf("s.program === %q && !s.busy && !document.getElementById('notice-own')", own))
	p.write("x=3")
	p.wait("!document.getElementById('program-error').hidden")
	if !eval[bool](p, "document.getElementById('edited').hidden") {
		t.Error("beside its error the page says that a program waits to be run")
	}
	eval[bool](p, "((e) => { e.value += ' '; e.dispatchEvent(new Event('input')); return true; })(document.getElementById('program'))")
	p.wait("document.getElementById('program-error').hidden && !document.getElementById('edited').hidden")
	p.quiet()
}
