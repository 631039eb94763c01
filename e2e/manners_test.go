//go:build !js

package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	json "github.com/goccy/go-json"

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

// accessible fails the test for each serious or critical finding of axe in the page as it stands.
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
		if f.Impact != "serious" && f.Impact != "critical" {
			p.Logf("%s: %s: %s (%d)", what, f.Impact, f.Help, len(f.Nodes))
			continue
		}
		for _, n := range f.Nodes {
			p.Errorf("%s: %s: %s: %s: %s: %s", what, f.Impact, f.ID, f.Help, n.HTML, strings.Join(strings.Fields(n.FailureSummary), " "))
		}
	}
}

// axe finds nothing serious: in the page, with each view and each dialog open, in both themes, on a
// phone; and it does find something in a page that has it.
func TestAccessible(t *testing.T) {
	script := axe(t)
	for _, c := range []struct {
		name          string
		width, height int
		dark          bool
	}{{"light", 1280, 900, false}, {"dark", 1280, 900, true}, {"phone", 390, 844, false}, {"phone-dark", 390, 844, true}} {
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
					p.wait("document.getElementById('card-text').textContent.length > 200")
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
