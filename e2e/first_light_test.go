//go:build !js

// Package e2e drives the built page in real Chromium: `make site` must have filled dist/.
package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shellgame/internal/chrome"
)

const root = ".."

// serve serves the built site.
func serve(t *testing.T) string {
	t.Helper()
	dist := filepath.Join(root, "dist")
	if _, err := os.Stat(filepath.Join(dist, "shellgame.wasm")); err != nil {
		t.Fatalf("the page is not built: run make site: %v", err)
	}
	s := httptest.NewServer(http.FileServer(http.Dir(dist)))
	t.Cleanup(s.Close)
	return s.URL + "/"
}

func open(t *testing.T, o chrome.Options, url string) *chrome.Chrome {
	t.Helper()
	c, err := chrome.Start(context.Background(), o)
	if errors.Is(err, chrome.ErrNotFound) && !strings.Contains(os.Getenv("REQUIRE_DEVICES"), "browser") {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Navigate(url); err != nil {
		t.Fatal(err)
	}
	return c
}

func wait(t *testing.T, c *chrome.Chrome, js string) {
	t.Helper()
	if err := c.Wait("globalThis.shellgamePage && ("+js+")", time.Minute); err != nil {
		state, _ := chrome.Eval[string](c, "JSON.stringify(globalThis.shellgamePage?.state() ?? null)")
		t.Fatalf("%v\nstate: %s\nconsole: %v", err, state, c.Messages())
	}
}

func eval[T any](t *testing.T, c *chrome.Chrome, js string) T {
	t.Helper()
	v, err := chrome.Eval[T](c, js)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func click(t *testing.T, c *chrome.Chrome, id string) {
	t.Helper()
	eval[bool](t, c, fmt.Sprintf("(document.getElementById(%q).click(), true)", id))
}

// live waits until the engine runs the chosen model.
func live(t *testing.T, c *chrome.Chrome, model string) {
	t.Helper()
	wait(t, c, fmt.Sprintf("shellgamePage.state().phase === 'live' && shellgamePage.state().model === %q && !shellgamePage.state().busy", model))
}

func shot(t *testing.T, c *chrome.Chrome, name string) {
	t.Helper()
	if err := c.Screenshot(filepath.Join("testdata", "out", name+".png")); err != nil {
		t.Error(err)
	}
}

func quiet(t *testing.T, c *chrome.Chrome) {
	t.Helper()
	for _, m := range c.Errors() {
		t.Errorf("console: %v", m)
	}
}

// The main job: open the page, read a program with the trained hybrid, word by word and back, and
// get the right bit. The first picture is there before the engine.
func TestHybridReadsAProgram(t *testing.T) {
	for _, device := range []string{"webgpu", "cpu"} {
		t.Run(device, func(t *testing.T) {
			c := open(t, chrome.Options{}, serve(t)+"?task=sbr&model=sbr-hybrid-neg&n=8&device="+device)
			wait(t, c, "document.querySelector('#views svg, #views canvas') || shellgamePage.state().phase === 'live'")
			live(t, c, "sbr-hybrid-neg")
			if d := eval[string](t, c, "shellgamePage.state().device.device"); d != device {
				t.Errorf("the page computes on %s, want %s", d, device)
			}
			click(t, c, "reset")
			wait(t, c, "shellgamePage.state().t === -1")
			for i := range 4 {
				click(t, c, "step")
				wait(t, c, fmt.Sprintf("shellgamePage.state().t === %d", i))
			}
			click(t, c, "back")
			wait(t, c, "shellgamePage.state().t === 2")
			click(t, c, "end")
			wait(t, c, "shellgamePage.state().answer")
			if text := eval[string](t, c, "document.getElementById('answer').textContent"); !strings.Contains(text, "right") {
				t.Errorf("the answer line says %q, want a right answer", text)
			}
			shot(t, c, "hybrid-"+device)
			quiet(t, c)
		})
	}
}

// A model without negative eigenvalues loses track, and the page says so.
func TestLosesTrack(t *testing.T) {
	c := open(t, chrome.Options{Dark: true}, serve(t)+"?task=st&model=st-gdn-pos&n=64&device=cpu")
	live(t, c, "st-gdn-pos")
	click(t, c, "end")
	wait(t, c, "shellgamePage.state().answer")
	if text := eval[string](t, c, "document.getElementById('answer').textContent"); !strings.Contains(text, "wrong") {
		t.Errorf("the answer line says %q, want a wrong answer", text)
	}
	shot(t, c, "loses-track-dark")
	quiet(t, c)
}

// A program of one's own runs; a bad one gets its line and column and leaves the page usable.
func TestOwnProgram(t *testing.T) {
	c := open(t, chrome.Options{Width: 390, Height: 844, Scale: 2}, serve(t)+"?task=st&model=st-constructed&device=cpu")
	live(t, c, "st-constructed")
	write := func(src string) {
		eval[bool](t, c, fmt.Sprintf("(document.getElementById('program').value = %q, document.getElementById('program').dispatchEvent(new Event('input', {bubbles: true})), document.getElementById('run').click(), true)", src))
	}
	write("a,b,c,d,e=range(5)\na,c = c,a\nx = 3\n")
	wait(t, c, "!document.getElementById('program-error').hidden")
	if text := eval[string](t, c, "document.getElementById('program-error').textContent"); !strings.Contains(text, "ine 3") {
		t.Errorf("the error says %q, want line 3", text)
	}
	write("a,b,c,d,e=range(5)\na,c = c,a\nassert a==")
	wait(t, c, "document.getElementById('program-error').hidden && shellgamePage.state().words.length === 5 && !shellgamePage.state().busy")
	click(t, c, "end")
	wait(t, c, "shellgamePage.state().top[0]?.word === '2'")
	if wide := eval[bool](t, c, "document.documentElement.scrollWidth > innerWidth"); wide {
		t.Error("the page is wider than a phone")
	}
	shot(t, c, "own-program-phone")
	quiet(t, c)
}

// Whatever navigator.gpu is, the page computes on the CPU and says why.
func TestWithoutWebGPU(t *testing.T) {
	for name, script := range map[string]string{
		"missing":  "delete Navigator.prototype.gpu;",
		"null":     "Object.defineProperty(Navigator.prototype, 'gpu', {get: () => null, configurable: true});",
		"throwing": "Object.defineProperty(Navigator.prototype, 'gpu', {get: () => { throw new Error('no GPU for you'); }, configurable: true});",
		"refusing": "Object.defineProperty(Navigator.prototype, 'gpu', {get: () => ({requestAdapter: () => { throw new Error('refused'); }}), configurable: true});",
		"empty":    "Object.defineProperty(Navigator.prototype, 'gpu', {get: () => ({requestAdapter: async () => null}), configurable: true});",
		"stuck":    "Object.defineProperty(Navigator.prototype, 'gpu', {get: () => ({requestAdapter: () => new Promise(() => {})}), configurable: true});",
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, chrome.Options{Script: script}, serve(t)+"?task=st&model=st-constructed&n=4")
			live(t, c, "st-constructed")
			if d := eval[string](t, c, "shellgamePage.state().device.device"); d != "cpu" {
				t.Errorf("the page computes on %s, want cpu", d)
			}
			reason := eval[string](t, c, "shellgamePage.state().device.reason ?? ''")
			if reason == "" {
				t.Error("the page does not say why it uses the CPU")
			}
			t.Log(reason)
			click(t, c, "end")
			wait(t, c, "shellgamePage.state().answer")
			quiet(t, c)
		})
	}
}
