//go:build !js

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"shellgame/internal/chrome"
	"shellgame/internal/chrome/chrometest"
)

// probe builds testdata/probe for js/wasm. Without a browser the test is skipped, or fails if
// REQUIRE_DEVICES names browser.
func probe(t *testing.T) string {
	t.Helper()
	if _, err := chrome.Find(); errors.Is(err, chrome.ErrNotFound) && !strings.Contains(os.Getenv("REQUIRE_DEVICES"), "browser") {
		t.Skipf("no browser here: %v", err)
	}
	path := filepath.Join(t.TempDir(), "probe.wasm")
	cmd := exec.Command("go", "build", "-o", path, "./testdata/probe")
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

func TestRun(t *testing.T) {
	wasm := probe(t)
	t.Setenv("SHELLGAME_PROBE", "passed on")
	grace = time.Second
	long := strings.Repeat("0123456789", 10_000)
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string // contained in it
	}{
		{[]string{"exit", "a b", "ü"}, 7, "to stdout [a b ü] passed on \n", "to stderr: \x00\xff é\n"},
		{[]string{"long"}, 0, long, ""},
		{[]string{"panic"}, 2, "", "panic: the pea is gone\n\ngoroutine 1"},
		{[]string{"console"}, 1, "", "the page's console: error: written to the console"},
		{[]string{"hang", "-test.timeout=1s"}, 1, "", "timed out: still running after 2s, want 1s"},
		{[]string{"exit", "-test.timeout=soon"}, 2, "", `got "soon", want a duration`},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(append([]string{wasm}, c.args...), &stdout, &stderr)
			if code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("%v: got %d, stdout %.200q, stderr %.2000q\nwant %d, %.200q, %q", c.args, code, &stdout, &stderr, c.code, c.stdout, c.stderr)
			}
			if c.code == 0 && stdout.String() != c.stdout {
				t.Errorf("%v: got %d bytes of output, want %d, exactly", c.args, stdout.Len(), len(c.stdout))
			}
		})
	}
}

// watcher calls then when something is written.
type watcher struct {
	bytes.Buffer
	then func()
}

func (w *watcher) Write(p []byte) (int, error) {
	defer w.then()
	return w.Buffer.Write(p)
}

func TestCrash(t *testing.T) {
	p, err := newProgram([]string{probe(t), "sleep"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	c := chrometest.Start(t, chrome.Options{})
	w := &watcher{then: func() { go chromedp.Call(c.Context(), page.Crash, cdp.Empty{}) }}
	code, err := play(t.Context(), c, p, time.Minute, w, os.Stderr)
	if code != 1 || !errors.Is(err, chrome.ErrCrashed) {
		t.Errorf("got %d, %v; want 1 and that the page crashed", code, err)
	}
}

// Output arrives while the program runs, and an interrupt ends it.
func TestInterrupt(t *testing.T) {
	wasm := probe(t)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	w := &watcher{then: cancel}
	code, err := runIn(ctx, []string{wasm, "sleep"}, w, os.Stderr)
	if code != 130 || err == nil || w.String() != "asleep\n" || errors.Is(ctx.Err(), context.DeadlineExceeded) {
		t.Errorf("got %d, %v, output %q, %v; want 130 after the first line", code, err, w, ctx.Err())
	}
}

func TestBadInput(t *testing.T) {
	for _, args := range [][]string{nil, {filepath.Join(t.TempDir(), "missing.wasm")}} {
		var stderr bytes.Buffer
		if code := run(args, os.Stdout, &stderr); code == 0 || !strings.HasPrefix(stderr.String(), "jsrun: ") || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%v: got %d, %q", args, code, &stderr)
		}
	}
	text := filepath.Join(t.TempDir(), "text.wasm")
	if err := os.WriteFile(text, []byte("not wasm"), 0o666); err != nil {
		t.Fatal(err)
	}
	probe(t)
	var stderr bytes.Buffer
	if code := run([]string{text}, os.Stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "WebAssembly") {
		t.Errorf("a text file: got %d, %q", code, &stderr)
	}
}

// The tests of page_js_test.go, run as a user runs them. One of them fails on purpose.
func TestGoTest(t *testing.T) {
	probe(t)
	self := filepath.Join(t.TempDir(), "jsrun")
	if out, err := exec.Command("go", "build", "-o", self, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	t.Cleanup(func() { os.RemoveAll("testdata/out") })
	test := func(run string) (string, error) {
		cmd := exec.Command("go", "test", "-count=1", "-v", "-exec", self, "-run", run, ".")
		cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "SHELLGAME_FAIL=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := test("^TestPage"); err != nil || !strings.Contains(out, "--- PASS: TestPageFiles") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := test("^TestFails"); err == nil || !strings.Contains(out, "--- FAIL: TestFails") {
		t.Errorf("a failing test: got %v\n%s", err, out)
	}
	if left, err := os.ReadFile("testdata/out/kept.txt"); err != nil || string(left) != "kept" {
		t.Errorf("written by the page: got %q, %v", left, err)
	}
}
