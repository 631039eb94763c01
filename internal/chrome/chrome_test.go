//go:build !js

package chrome_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	_ "image/png"
	"net/http"
	"net/http/httptest"
	"os"
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

const tab = `<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<style>body{margin:0;background:rgb(10,20,30)} @media (prefers-color-scheme: dark){body{background:rgb(200,0,0)}}</style>`

// site serves the page under /, and n bytes under /bytes.
func site(t *testing.T, page string, n int) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, tab+page)
		case "/bytes":
			w.Write(bytes.Repeat([]byte{7}, n))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func open(t *testing.T, o chrome.Options, url string) *chrome.Chrome {
	t.Helper()
	c := chrometest.Start(t, o)
	if err := c.Navigate(url); err != nil {
		t.Fatal(err)
	}
	return c
}

func eval[T any](t *testing.T, c *chrome.Chrome, js string) T {
	t.Helper()
	v, err := chrome.Eval[T](c, js)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestWebGPU(t *testing.T) {
	c := open(t, chrome.Options{}, site(t, "", 0))
	got := eval[string](t, c, `(async () => {
		const a = await navigator.gpu.requestAdapter();
		const d = await a.requestDevice();
		const gl = document.createElement("canvas").getContext("webgl2");
		return [a.info.vendor, a.info.architecture, d.limits.maxStorageBuffersPerShaderStage, gl !== null].join(" ");
	})()`)
	if got != "google swiftshader 8 true" {
		t.Errorf("adapter: got %q, want google swiftshader with WebGPU's default limits, and WebGL", got)
	}
	if !strings.Contains(c.Version, "Chrome/") {
		t.Errorf("version: got %q", c.Version)
	}
}

func TestNoWebGPU(t *testing.T) {
	c := open(t, chrome.Options{GPU: chrome.None}, site(t, "", 0))
	if eval[bool](t, c, `"gpu" in navigator`) {
		t.Error("navigator.gpu is there with GPU none")
	}
	if _, err := chrome.Start(t.Context(), chrome.Options{GPU: "voodoo"}); err == nil || !strings.Contains(err.Error(), "voodoo") {
		t.Errorf("an unknown GPU: got error %v", err)
	}
}

func TestView(t *testing.T) {
	c := open(t, chrome.Options{Width: 300, Height: 200, Scale: 2, Dark: true, ReducedMotion: true, Script: "globalThis.first = document.readyState"}, site(t, "", 0))
	if got := eval[string](t, c, `[innerWidth, innerHeight, devicePixelRatio, matchMedia("(prefers-reduced-motion: reduce)").matches, first].join(" ")`); got != "300 200 2 true loading" {
		t.Errorf("view: got %q, want 300 200 2 true loading", got)
	}
	path := filepath.Join(t.TempDir(), "new", "shot.png")
	if err := c.Screenshot(path); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, kind, err := image.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	if b := img.Bounds(); kind != "png" || b.Dx() != 600 || b.Dy() != 400 {
		t.Errorf("screenshot: got %s %v, want a 600 by 400 png", kind, b)
	}
	if got := color.RGBAModel.Convert(img.At(300, 200)); got != (color.RGBA{200, 0, 0, 255}) {
		t.Errorf("screenshot: got %v, want the dark scheme's red", got)
	}
}

func TestMessages(t *testing.T) {
	c := open(t, chrome.Options{}, site(t, `<script>
		console.log("hello", 3, {a: 1}); console.warn("careful"); console.error("broken", new Error("inside"));
		setTimeout(() => { throw new TypeError("thrown late") });
		Promise.reject(new Error("nobody caught"));
		</script><iframe srcdoc="<script>console.error('from the frame')</script>"></iframe><img src="/missing.png">`, 0))
	if err := c.Wait("new Promise(r => setTimeout(() => r(true), 100))", 5*time.Second); err != nil {
		t.Fatal(err)
	}
	var all, errs []string
	for _, m := range c.Messages() {
		all = append(all, m.String())
	}
	for _, m := range c.Errors() {
		errs = append(errs, m.String())
	}
	text := strings.Join(all, "\n")
	for _, want := range []string{"log: hello 3 {a: 1}", "warning: careful"} {
		if !strings.Contains(text, want) || strings.Contains(strings.Join(errs, "\n"), want) {
			t.Errorf("%q is missing, or counted as an error, in\n%s", want, text)
		}
	}
	text = strings.Join(errs, "\n")
	for _, want := range []string{"error: broken Error: inside", "exception: Uncaught TypeError: thrown late", "nobody caught", "from the frame", "404"} {
		if !strings.Contains(text, want) {
			t.Errorf("error %q is missing in\n%s", want, text)
		}
	}
	c.Forget()
	if got := c.Messages(); len(got) != 0 {
		t.Errorf("after Forget: got %v", got)
	}
	if err := c.Navigate(site(t, "", 0)); err != nil {
		t.Fatal(err)
	}
	if got := c.Messages(); len(got) != 0 {
		t.Errorf("a quiet page wrote %v", got)
	}
}

func TestNetwork(t *testing.T) {
	const n = 250_000 // a tenth of a second at 20 Mbit/s
	c := open(t, chrome.Options{Network: chrome.Network{Mbit: 20}}, site(t, "", n))
	const load = `(async () => { const t = performance.now(); const b = await (await fetch("/bytes?" + t)).arrayBuffer(); return performance.now() - t + 1e-9 * b.byteLength })()`
	if ms := eval[float64](t, c, load); ms < 80 {
		t.Errorf("20 Mbit/s: %d bytes took %.0f ms, want at least 80", n, ms)
	}
	if err := c.SetNetwork(chrome.Network{Offline: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := chrome.Eval[float64](c, load); err == nil || !strings.Contains(err.Error(), "Failed to fetch") {
		t.Errorf("offline: got error %v, want Failed to fetch", err)
	}
	if eval[bool](t, c, "navigator.onLine") {
		t.Error("offline: navigator.onLine is true")
	}
	if err := c.SetNetwork(chrome.Network{}); err != nil {
		t.Fatal(err)
	}
	eval[float64](t, c, load)
}

func TestErrors(t *testing.T) {
	c := open(t, chrome.Options{}, site(t, "", 0))
	if _, err := chrome.Eval[int](c, `(() => { throw new Error("no shells") })()`); err == nil || !strings.Contains(err.Error(), "no shells") {
		t.Errorf("a throw: got error %v", err)
	}
	if err := c.Wait("document.title == 'never'", 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "last got false") {
		t.Errorf("a wait in vain: got error %v", err)
	}
	if err := c.Wait("1", time.Second); err != nil {
		t.Errorf("a wait for what is true: %v", err)
	}
	if err := c.Navigate("http://127.0.0.1:1/"); err == nil {
		t.Error("a dead address was opened")
	}
	_, err := chromedp.Call(c.Context(), page.Crash, cdp.Empty{})
	select {
	case <-c.Done():
	case <-time.After(20 * time.Second):
		t.Fatalf("a crashed page was not noticed (crashing it gave %v)", err)
	}
	if !errors.Is(c.Err(), chrome.ErrCrashed) {
		t.Errorf("after a crash: got %v", c.Err())
	}
	if _, err := chrome.Eval[int](c, "1"); !errors.Is(err, chrome.ErrCrashed) {
		t.Errorf("using a crashed page: got %v", err)
	}
}

func TestNotFound(t *testing.T) {
	t.Setenv("CHROME", filepath.Join(t.TempDir(), "chromium"))
	if _, err := chrome.Start(t.Context(), chrome.Options{}); !errors.Is(err, chrome.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

func TestProfileIsRemoved(t *testing.T) {
	tmp, err := os.MkdirTemp("", "own") // not t.TempDir, whose long name leaves no room for a socket's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	first := chrometest.Start(t, chrome.Options{})
	second, err := chrome.Start(ctx, chrome.Options{})
	if err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) < 2 {
		t.Fatalf("two running browsers have %v in their temporary folder, %v", left, err)
	}
	first.Close()
	cancel() // as good as closing
	second.Close()
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
