//go:build !js

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"shellgame/internal/chrome"
)

// address is the page's address once it says what a condition on its choices c wants.
func (p page) address(condition string) string {
	p.Helper()
	// The address follows the choices within half a second.
	p.wait("(c => " + condition + ")(s.choices)")
	time.Sleep(700 * time.Millisecond)
	return eval[string](p, "location.href")
}

// notice is the text of a notice, "" where there is none.
func (p page) notice(key string) string {
	p.Helper()
	return eval[string](p, fmt.Sprintf("document.querySelector('#notice-%s > span')?.textContent ?? ''", key))
}

// A link opened elsewhere shows the same picture: program, word, panel, head and switches.
func TestLink(t *testing.T) {
	p := open(t, chrome.Options{}, "?device=cpu")
	p.live("st-constructed")
	if got := eval[string](p, "location.search + location.hash"); got != "?device=cpu" {
		t.Errorf("before anything was chosen the address says %q", got)
	}
	p.write("a,b,c,d,e=range(5)\na,c = c,a\nb,c=c,b\nassert b==")
	p.wait("s.words.length === 6 && !s.busy")
	p.click("step")
	p.click("step")
	p.at(2)
	p.click("tab-maps")
	eval[bool](p, `(document.getElementById("program").value += " # unfinished", document.getElementById("program").dispatchEvent(new Event("input")), true)`)
	link := p.address("c.t === 2 && c.panel === 'maps' && c.draft")
	for _, want := range []string{"task=st", "model=st-constructed", "device=cpu", "#v=1&z="} {
		if !strings.Contains(link, want) {
			t.Errorf("the address %s does not say %s", link, want)
		}
	}
	if strings.Contains(link, "seed=") {
		t.Errorf("the address %s names a seed, but the program was typed", link)
	}
	copied := eval[string](p, `(navigator.clipboard.writeText = async (s) => { globalThis.copied = s; }, document.getElementById("copy-link").click(), new Promise((r) => setTimeout(() => r(globalThis.copied), 200)))`)
	if copied != link {
		t.Errorf("the button copies %q, want the address %q", copied, link)
	}
	p.quiet()

	q := open(t, chrome.Options{}, strings.TrimPrefix(link, site(t)))
	q.live("st-constructed")
	q.at(2)
	if got, want := eval[string](q, "JSON.stringify(shellgamePage.state().choices)"), eval[string](p, "JSON.stringify(shellgamePage.state().choices)"); got != want {
		t.Errorf("the link opens\n%s, want\n%s", got, want)
	}
	if got, want := eval[string](q, "JSON.stringify(shellgamePage.state().top)"), eval[string](p, "JSON.stringify(shellgamePage.state().top)"); got != want {
		t.Errorf("the model says %s, want %s", got, want)
	}
	if got := eval[string](q, "document.getElementById('program').value"); !strings.HasSuffix(got, "# unfinished") {
		t.Errorf("the editor holds %q, want what was typed and not run", got)
	}
	if got := eval[string](q, "document.querySelector('[role=tab][aria-selected=true]').id"); got != "tab-maps" {
		t.Errorf("the open panel is %s, want maps", got)
	}
	if got := q.notice("link"); got != "" {
		t.Errorf("the page says %q of its own link", got)
	}
	q.quiet()
}

// Back and forward go through models, programs and panels.
func TestHistory(t *testing.T) {
	p := open(t, chrome.Options{}, "?task=st&model=st-constructed&n=4&seed=3&device=cpu")
	p.live("st-constructed")
	first := eval[string](p, "shellgamePage.state().program")
	p.click("step")
	p.at(1)
	p.address("c.t === 1")
	p.choose("seed", "4")
	p.wait("s.seed === 4 && !s.busy && s.t === 0")
	p.address("c.seed === 4")
	p.choose("model", "st-gdn-pos")
	p.live("st-gdn-pos")
	p.address("c.model === 'st-gdn-pos'")
	p.click("tab-cups")
	p.address("c.panel === 'cups'")
	back := func(condition string) {
		t.Helper()
		eval[bool](p, "(history.back(), true)")
		p.wait(condition + " && !s.busy")
	}
	back("s.choices.panel === '' && s.model === 'st-gdn-pos'")
	back("s.model === 'st-constructed' && s.seed === 4")
	back("s.seed === 3 && s.t === 1")
	if got := eval[string](p, "shellgamePage.state().program"); got != first {
		t.Errorf("two steps back the program is %q, want %q", got, first)
	}
	eval[bool](p, "(history.forward(), true)")
	p.wait("s.seed === 4 && s.model === 'st-constructed' && !s.busy")
	p.quiet()
}

// What makes no sense in a link is named, and the page opens without it.
func TestBadLink(t *testing.T) {
	p := open(t, chrome.Options{}, "?task=zzz&n=9999&device=cpu&utm_source=x#v=1&j="+`{"panel":"nowhere","t":2,"switches":{"beta":"clamp","warp":1}}`)
	p.live("st-constructed")
	got := p.notice("link")
	for _, want := range []string{"task=zzz (want st, recall or sbr)", "n=9999", "panel=nowhere", "switches.warp=1"} {
		if !strings.Contains(got, want) {
			t.Errorf("the notice %q does not name %s", got, want)
		}
	}
	if strings.Contains(got, "utm") {
		t.Errorf("the notice %q names a key that is not ours", got)
	}
	p.at(2)
	if got := eval[string](p, "JSON.stringify(shellgamePage.state().choices.switches)"); got != `{"beta":"clamp"}` {
		t.Errorf("switches: got %s, want the one that exists", got)
	}
	p.shot("bad-link")
	p.quiet()
}
