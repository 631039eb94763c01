//go:build !js

package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"shellgame/internal/chrome"
)

// What a link names and there is not is left out, named, and gone from the choices.
func TestLinkDoesNotFit(t *testing.T) {
	p := open(t, chrome.Options{Script: `
const asked = globalThis.fetched = [];
const send = globalThis.fetch;
globalThis.fetch = (...a) => { asked.push(String(a[0]?.url ?? a[0])); return send(...a); };`}, "?task=st&n=4&device=cpu")
	p.live("st-constructed")
	for _, c := range []struct{ query, fragment, notice, model, choices string }{
		{"?task=recall&model=st-gdn-neg&n=4", "", "model=st-gdn-neg (a model of state tracking, not of recall)", "recall-hybrid-neg", "s.choices.model === 'recall-hybrid-neg'"},
		{"?task=st&model=st-gdn-neg&n=4", `{"layer":77,"head":9,"t":500,"panel":"anatomy"}`, "layer=77 (want 0 to 3); head=9 (want 0 to 3). The program has no word 500: this is its last, 8", "st-gdn-neg", "s.choices.layer === -1 && s.choices.head === 0 && s.choices.t === s.t"},
		{"?task=st&model=st-gdn-neg&n=4", `{"switches":{"layers":[9],"heads":[[9,9]]}}`, "switches.layers=9 (want 0 to 3); switches.heads: layer 9 head 9 (no such head)", "st-gdn-neg", "!Object.keys(s.choices.switches).length && document.getElementById('changes').hidden"},
		{"?task=st&model=st-gdn-neg&n=4", `{"other":"nope","panel":"compare"}`, "other=nope (not in the zoo)", "st-gdn-neg", "s.choices.other === '' && document.querySelector('.beside select')?.value === ''"},
	} {
		address := served.url + c.query + "&device=cpu"
		if c.fragment != "" {
			address += "#v=1&j=" + url.PathEscape(c.fragment)
		}
		p.goTo("about:blank")
		p.goTo(address)
		p.live(c.model)
		p.wait(c.choices)
		said := eval[string](p, "[...document.querySelectorAll('#notices .notice > span:first-child')].map((n) => n.textContent).filter((n) => n.startsWith('Left out')).join(' | ')")
		if want := "Left out: " + c.notice + "."; said != want {
			t.Errorf("%s %s: the page says %q, want %q", c.query, c.fragment, said, want)
		}
		if n := eval[int](p, "fetched.concat(document.querySelector('iframe').contentWindow.fetched).filter((a) => a.includes('nope')).length"); n != 0 {
			t.Errorf("%s: %d requests for a model that is not in the zoo", c.fragment, n)
		}
	}
	p.shot("left-out")
	p.quiet()
}

// Where A and B differ is not said before both were asked, and does not depend on when they were.
func TestCompareWaits(t *testing.T) {
	p := open(t, chrome.Options{Width: 1200, Height: 1300}, "?task=sbr&model=sbr-hybrid-neg&n=8&device=cpu#v=1&j="+url.PathEscape(`{"panel":"compare","other":"sbr-gdn-pos"}`))
	p.live("sbr-hybrid-neg")
	eval[bool](p, `(globalThis.said = [], new MutationObserver(() => { const s = document.querySelector('.agree + .hint')?.textContent; if (s && s !== said.at(-1)) said.push(s); }).observe(document.getElementById('panel'), {subtree: true, childList: true, characterData: true}), true)`)
	p.click("end")
	const final = "document.querySelector('.agree + .hint').textContent"
	p.wait(final + ".startsWith('All 9 ')")
	first := eval[string](p, final)
	all := eval[[]string](p, "said")
	if n := eval[int](p, "said.filter((s) => /^asking…, [0-8] of 9 compared/.test(s)).length"); n < 2 {
		t.Errorf("while beliefs were asked the page said %q", all)
	}
	for _, s := range all[1:] {
		if !strings.HasPrefix(s, "asking") && !strings.HasPrefix(s, "All ") && !strings.HasPrefix(s, "Nothing") {
			t.Errorf("the page says %q", s)
		}
	}
	// Another B and back, step by step: the same count.
	p.choose2(".beside select", "sbr-gdn-neg")
	p.wait(final + ".startsWith('asking')")
	p.click("back")
	p.choose2(".beside select", "sbr-gdn-pos")
	p.click("step")
	p.wait(fmt.Sprintf("%s === %q", final, first)) // it may still say so of before, and ask
	p.shot("compare-waits")
	// Larger, where one architecture is left.
	p.click("harder")
	p.wait("s.n === 64 && !s.busy && s.program.split('\\n').length === 67 && document.querySelector('.easy').hidden")
	p.quiet()
}
