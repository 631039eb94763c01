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
