//go:build !js

// Package e2e drives the built page in real Chromium: `make site` must have filled dist/. The
// screenshots go to testdata/out.
package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"shellgame/internal/chrome"
	"shellgame/internal/chrome/chrometest"
)

const root = ".."

// served is the command that serves the built site, with the folders of broken checkpoints.
var served struct {
	sync.Once
	dir, bin, url string
	server        *exec.Cmd
	err           error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if served.server != nil {
		served.server.Process.Kill()
		served.server.Wait()
	}
	os.RemoveAll(served.dir)
	os.Exit(code)
}

// site returns the address of the site, served by the real command.
func site(t testing.TB) string {
	t.Helper()
	served.Do(func() { served.err = start() })
	if served.err != nil {
		t.Fatal(served.err)
	}
	return served.url
}

func start() (err error) {
	if _, err := os.Stat(filepath.Join(root, "dist", "index.html")); err != nil {
		return fmt.Errorf("the page is not built: run make site: %w", err)
	}
	if served.dir, err = os.MkdirTemp("", "sge2e"); err != nil {
		return err
	}
	served.bin = filepath.Join(served.dir, "shellgame")
	build := exec.Command("go", "build", "-o", served.bin, "./cmd/shellgame")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building shellgame: %w\n%s", err, out)
	}
	models := filepath.Join(served.dir, "models")
	if err := breakCheckpoints(models); err != nil {
		return err
	}
	if err := writeRandomQwen(models); err != nil {
		return err
	}
	s := exec.Command(served.bin, "serve", "--addr", "localhost:0", "--models", models)
	s.Dir = root
	var log bytes.Buffer
	s.Stderr = &log
	out, err := s.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return err
	}
	served.server = s
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("serve printed %q and %s: %w", line, &log, err)
	}
	for _, word := range strings.Fields(line) {
		if strings.HasPrefix(word, "http://") {
			served.url = word
			return nil
		}
	}
	return errors.New("serve printed no address: " + line)
}

// page is a browser at the page.
type page struct {
	testing.TB
	*chrome.Chrome
}

// open opens the page with a query such as "?task=st"; it waits for nothing.
func open(t testing.TB, o chrome.Options, query string) page {
	t.Helper()
	if _, err := chrome.Find(); err != nil {
		chrometest.Start(t, o) // skips, or fails where a browser is required
	}
	url := site(t)
	p := page{t, chrometest.Start(t, o)}
	p.goTo(url + query)
	return p
}

func (p page) goTo(url string) {
	p.Helper()
	if err := p.Navigate(url); err != nil {
		p.Fatal(err)
	}
}

// whole says that all is to be run, as `make accept` does. The gate takes a part of what takes
// minutes: the first and the last page of each lesson, one device where both do the same.
var whole = os.Getenv("E2E") == "whole"

// some are all cases where the whole is run, else the first n.
func some[T any](n int, cases []T) []T {
	if whole {
		return cases
	}
	return cases[:n]
}

// wait waits for a JavaScript condition, in which s is the page's state.
func (p page) wait(condition string) {
	p.Helper()
	if err := p.Wait("globalThis.shellgamePage && (s => "+condition+")(shellgamePage.state())", time.Minute); err != nil {
		state, _ := chrome.Eval[string](p.Chrome, "JSON.stringify(globalThis.shellgamePage?.state() ?? null)")
		notices, _ := chrome.Eval[string](p.Chrome, "document.getElementById('notices')?.innerText ?? ''")
		p.Fatalf("%v\nstate: %s\nnotices: %s\nconsole: %v", err, state, notices, p.Messages())
	}
}

func eval[T any](p page, js string) T {
	p.Helper()
	v, err := chrome.Eval[T](p.Chrome, js)
	if err != nil {
		p.Fatalf("%s: %v", js, err)
	}
	return v
}

// text is what an element shows.
func (p page) text(id string) string {
	p.Helper()
	return eval[string](p, fmt.Sprintf("document.getElementById(%q).textContent", id))
}

// live waits until the engine runs a model.
func (p page) live(model string) {
	p.Helper()
	p.wait(fmt.Sprintf("s.phase === 'live' && s.model === %q && !s.busy", model))
}

func (p page) click(id string) {
	p.Helper()
	eval[bool](p, fmt.Sprintf("(document.getElementById(%q).click(), true)", id))
}

// choose sets a control of the form, as somebody at the page would.
func (p page) choose(id, value string) {
	p.Helper()
	eval[bool](p, fmt.Sprintf(`((e) => { e.value = %q; e.dispatchEvent(new Event("input", {bubbles: true})); e.dispatchEvent(new Event("change", {bubbles: true})); return true; })(document.getElementById(%q))`, value, id))
}

func (p page) task(name string) {
	p.Helper()
	eval[bool](p, fmt.Sprintf("(document.querySelector('input[name=task][value=%s]').click(), true)", name))
}

// write types a program of one's own and runs it.
func (p page) write(program string) {
	p.Helper()
	eval[bool](p, fmt.Sprintf(`((e) => { e.value = %q; e.dispatchEvent(new Event("input", {bubbles: true})); document.getElementById("run").click(); return true; })(document.getElementById("program"))`, program))
}

// at waits until the page stands at word t.
func (p page) at(t int) {
	p.Helper()
	p.wait(fmt.Sprintf("s.t === %d", t))
}

// ask goes to the question and returns what the page says of the answer.
func (p page) ask() string {
	p.Helper()
	p.click("end")
	p.wait("s.answer")
	return p.text("answer")
}

// key presses and releases a key.
func (p page) key(name string) {
	p.Helper()
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeRawKeyDown, input.DispatchKeyEventTypeKeyUp} {
		if _, err := chromedp.Call(p.Chrome.Context(), input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: name, Code: name}); err != nil {
			p.Fatal(err)
		}
	}
}

// mouse moves the pointer to a point of the viewport, and presses there if asked to.
func (p page) mouse(x, y float64, press bool) {
	p.Helper()
	kinds := []input.DispatchMouseEventType{input.DispatchMouseEventTypeMouseMoved}
	if press {
		kinds = append(kinds, input.DispatchMouseEventTypeMousePressed, input.DispatchMouseEventTypeMouseReleased)
	}
	for _, kind := range kinds {
		e := input.DispatchMouseEventParams{Type: kind, X: x, Y: y}
		if kind != input.DispatchMouseEventTypeMouseMoved {
			e.Button, e.ClickCount = input.MouseButtonLeft, 1
		}
		if _, err := chromedp.Call(p.Chrome.Context(), input.DispatchMouseEvent, e); err != nil {
			p.Fatal(err)
		}
	}
}

// request sends a message to the engine as the page does and returns its answer as JSON.
func (p page) request(message string) string {
	p.Helper()
	return eval[string](p, fmt.Sprintf(`new Promise((resolve) => {
		const frame = document.querySelector("iframe").contentWindow;
		const id = 1e6 + Math.floor(Math.random() * 1e6);
		addEventListener("message", function f(e) { if (e.data?.re === id) { removeEventListener("message", f); resolve(JSON.stringify(e.data)); } });
		frame.postMessage({sg: 1, id, ...%s}, location.origin);
	})`, message))
}

// shot keeps a screenshot.
func (p page) shot(name string) {
	p.Helper()
	// The stage draws at the browser's next frame.
	eval[bool](p, "new Promise((r) => requestAnimationFrame(() => setTimeout(() => r(true), 250)))")
	if err := p.Screenshot(filepath.Join("testdata", "out", name+".png")); err != nil {
		p.Error(err)
	}
}

// quiet fails the test for every error in the console.
func (p page) quiet() {
	p.Helper()
	for _, m := range p.Errors() {
		p.Errorf("console: %v", m)
	}
}
