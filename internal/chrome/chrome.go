//go:build !js

// Package chrome starts headless Chromium for the browser legs: the kernel tests, the end-to-end
// tests and `--device browser`.
//
// Environment: CHROME names the browser's binary; without it the usual names are looked up.
package chrome

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// ErrNotFound is the error of [Start] where no Chromium is installed.
var ErrNotFound = errors.New("no Chromium found")

// ErrCrashed is the cause of every error after the page or the browser has crashed.
var ErrCrashed = errors.New("crashed")

// The values of [Options.GPU].
const (
	SwiftShader = "swiftshader" // WebGPU and WebGL on the CPU, the same everywhere
	Hardware    = "hardware"    // whatever the machine has
	None        = "none"        // no navigator.gpu at all; WebGL on the CPU
)

// Options says how the browser starts. The zero value is a 1280 by 800 page with WebGPU on the CPU.
type Options struct {
	Path          string  // the browser's binary; "" looks for it
	GPU           string  // SwiftShader (also ""), Hardware or None
	Width, Height int     // viewport in CSS pixels; 0 is 1280, 800
	Scale         float64 // device pixels per CSS pixel; 0 is 1
	Dark          bool    // prefers-color-scheme: dark, otherwise light
	ReducedMotion bool    // prefers-reduced-motion: reduce
	Network       Network
	Script        string    // JavaScript that runs first in every document and frame
	Flags         []string  // further command line switches, "name" or "name=value"
	Output        io.Writer // the browser's own stdout and stderr; nil drops them
}

// Network throttles a page. The zero value does not.
type Network struct {
	Mbit    float64       // downloads and uploads, in 10^6 bits a second; 0 is unlimited
	Latency time.Duration // added to each request
	Offline bool
}

// Message is a line of the page's console, an exception that nothing caught, or an entry of the
// browser's log such as a file that did not load.
type Message struct {
	Level string // log, info, debug, warning, error, exception, …
	Text  string
	URL   string // where it came from, if known
	Line  int    // from 1; 0 if unknown
}

func (m Message) String() string {
	if m.URL == "" {
		return m.Level + ": " + m.Text
	}
	return fmt.Sprintf("%s: %s (%s:%d)", m.Level, m.Text, m.URL, m.Line)
}

// IsError reports whether a page without faults would not have written m.
func (m Message) IsError() bool {
	return m.Level == "error" || m.Level == "exception" || m.Level == "assert"
}

// Chrome is a running browser with one page. Its profile is empty at the start and removed by
// [Chrome.Close].
type Chrome struct {
	Version string // such as Chrome/156.0.7000.1

	ctx    context.Context
	fail   context.CancelCauseFunc
	finish context.CancelFunc // ends the process and waits for it
	tmp    string             // the browser's own temporary files, which a killed one leaves behind

	mu       sync.Mutex
	messages []Message
}

// Find returns the path of the browser's binary: CHROME if set, otherwise the first usual name
// that exists.
func Find() (string, error) {
	if p := os.Getenv("CHROME"); p != "" {
		found, err := exec.LookPath(p)
		if err != nil {
			return "", fmt.Errorf("chrome: CHROME=%s: %v: want the path of a Chromium: %w", p, err, ErrNotFound)
		}
		return found, nil
	}
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless_shell"}
	switch runtime.GOOS {
	case "darwin":
		names = append(names, "/Applications/Chromium.app/Contents/MacOS/Chromium", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
	case "windows":
		for _, base := range []string{os.Getenv("ProgramFiles"), os.Getenv("ProgramFiles(x86)"), os.Getenv("LocalAppData")} {
			names = append(names, filepath.Join(base, `Google\Chrome\Application\chrome.exe`), filepath.Join(base, `Chromium\Application\chrome.exe`))
		}
	}
	for _, name := range names {
		if found, err := exec.LookPath(name); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("chrome: looked for %s: install Chromium or name it in CHROME: %w", strings.Join(names[:4], ", "), ErrNotFound)
}

func (o Options) flags() ([]chromedp.ExecAllocatorOption, error) {
	flags := append([]chromedp.ExecAllocatorOption(nil), chromedp.DefaultExecAllocatorOptions[:]...)
	set := func(names ...string) {
		for _, f := range names {
			if name, value, ok := strings.Cut(f, "="); ok {
				flags = append(flags, chromedp.Flag(name, value))
			} else {
				flags = append(flags, chromedp.Flag(name, true))
			}
		}
	}
	set("headless=new", "no-sandbox", "disable-quic", "disable-component-update", "hide-scrollbars", "mute-audio",
		"autoplay-policy=no-user-gesture-required")
	switch o.GPU {
	case "", SwiftShader:
		set("enable-unsafe-webgpu", "use-webgpu-adapter=swiftshader", "use-gl=angle", "use-angle=swiftshader", "enable-unsafe-swiftshader")
	case None:
		set("use-gl=angle", "use-angle=swiftshader", "enable-unsafe-swiftshader")
	case Hardware:
		set("enable-unsafe-webgpu", "ignore-gpu-blocklist")
		if runtime.GOOS == "linux" {
			set("enable-features=Vulkan")
		}
	default:
		return nil, fmt.Errorf("chrome: GPU %q: want %s, %s or %s", o.GPU, SwiftShader, Hardware, None)
	}
	set(o.Flags...)
	flags = append(flags, chromedp.WindowSize(o.Width, o.Height), chromedp.ExecPath(o.Path))
	if o.Output != nil {
		flags = append(flags, chromedp.CombinedOutput(o.Output))
	}
	return flags, nil
}

// Start starts Chromium with one blank page. The browser lives until [Chrome.Close], the end of
// ctx, or the end of this process. Without a browser the error is [ErrNotFound].
func Start(ctx context.Context, o Options) (*Chrome, error) {
	if o.Path == "" {
		path, err := Find()
		if err != nil {
			return nil, err
		}
		o.Path = path
	}
	if o.Width == 0 {
		o.Width = 1280
	}
	if o.Height == 0 {
		o.Height = 800
	}
	if o.Scale == 0 {
		o.Scale = 1
	}
	flags, err := o.flags()
	if err != nil {
		return nil, err
	}
	if o.GPU == None {
		o.Script = "delete Navigator.prototype.gpu;\n" + o.Script
	}
	tmp, err := os.MkdirTemp("", "sgc-") // short: it holds a socket, whose path has at most 107 bytes
	if err != nil {
		return nil, fmt.Errorf("chrome: %w", err)
	}
	ctx, fail := context.WithCancelCause(ctx)
	alloc, finish := chromedp.NewExecAllocator(ctx, append(flags, chromedp.Env("TMPDIR="+tmp))...)
	quiet := func(string, ...any) {}
	ctx, _ = chromedp.NewContext(alloc, chromedp.WithLogf(quiet), chromedp.WithErrorf(quiet))
	c := &Chrome{ctx: ctx, fail: fail, finish: finish, tmp: tmp}
	if err := c.setUp(o); err != nil {
		c.Close()
		return nil, fmt.Errorf("chrome: starting %s: %w", o.Path, err)
	}
	return c, nil
}

func (c *Chrome) setUp(o Options) error {
	if err := chromedp.Listen(c.ctx, c.event); err != nil {
		return err
	}
	v, err := chromedp.CallBrowser(c.ctx, browser.GetVersion, cdp.Empty{})
	if err != nil {
		return err
	}
	c.Version = v.Product
	if err := c.Do(chromedp.EmulateViewport(int64(o.Width), int64(o.Height), chromedp.EmulateScale(o.Scale))); err != nil {
		return err
	}
	scheme, motion := "light", "no-preference"
	if o.Dark {
		scheme = "dark"
	}
	if o.ReducedMotion {
		motion = "reduce"
	}
	_, err = chromedp.Call(c.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: motion},
	}})
	if err != nil {
		return err
	}
	if o.Script != "" {
		_, err := chromedp.Call(c.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: o.Script})
		if err != nil {
			return err
		}
	}
	if o.Network != (Network{}) {
		return c.SetNetwork(o.Network)
	}
	return nil
}

// event runs on the goroutine that reads from the browser, in the order of the page's own events.
func (c *Chrome) event(ev any) {
	m := Message{}
	switch e := ev.(type) {
	case *inspector.EventTargetCrashed:
		go c.fail(fmt.Errorf("chrome: the page %w", ErrCrashed))
		return
	case *cdpruntime.EventConsoleAPICalled:
		m.Level = string(e.Type)
		var parts []string
		for _, a := range e.Args {
			parts = append(parts, text(a))
		}
		m.Text = strings.Join(parts, " ")
		if st := e.StackTrace; st != nil && len(st.CallFrames) > 0 {
			m.URL, m.Line = st.CallFrames[0].URL, int(st.CallFrames[0].LineNumber)+1
		}
	case *cdpruntime.EventExceptionThrown:
		d := e.ExceptionDetails
		m = Message{Level: "exception", Text: d.Text, URL: d.URL, Line: int(d.LineNumber) + 1}
		if d.Exception != nil {
			m.Text += " " + text(d.Exception)
		}
	case *log.EventEntryAdded:
		m = Message{Level: string(e.Entry.Level), Text: e.Entry.Text, URL: e.Entry.URL, Line: int(e.Entry.LineNumber)}
	default:
		return
	}
	c.mu.Lock()
	c.messages = append(c.messages, m)
	c.mu.Unlock()
}

// text renders a console argument: strings as they are, objects by their description.
func text(o *cdpruntime.RemoteObject) string {
	switch {
	case o.Type == cdpruntime.RemoteObjectTypeString:
		var s string
		if json.Unmarshal(o.Value, &s) != nil {
			return string(o.Value)
		}
		return s
	case o.UnserializableValue != "":
		return string(o.UnserializableValue)
	case o.Preview != nil && o.Description == "Object":
		var parts []string
		for _, p := range o.Preview.Properties {
			parts = append(parts, p.Name+": "+p.Value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case o.Description != "":
		return o.Description
	case len(o.Value) > 0:
		return string(o.Value)
	}
	return string(o.Type)
}

// Context is the page's context, for chromedp's own functions. Prefer [Chrome.Do] and [Eval],
// whose errors say when the page has crashed.
func (c *Chrome) Context() context.Context { return c.ctx }

// Done is closed when the page or the browser has ended.
func (c *Chrome) Done() <-chan struct{} { return c.ctx.Done() }

// Err says why the page or the browser has ended, nil while it runs.
func (c *Chrome) Err() error {
	if c.ctx.Err() == nil {
		return nil
	}
	cause := context.Cause(c.ctx)
	if errors.Is(cause, ErrCrashed) {
		return cause
	}
	return fmt.Errorf("chrome: the browser ended: %w", cause)
}

// why replaces the error of a command by the reason that the browser has ended, if it has.
func (c *Chrome) why(err error) error {
	if err == nil {
		return nil
	}
	var js *chromedp.ExceptionError
	if errors.As(err, &js) {
		d := js.ExceptionDetails
		if d.Exception != nil {
			return fmt.Errorf("chrome: %s %s", d.Text, text(d.Exception))
		}
		return fmt.Errorf("chrome: %s", d.Text)
	}
	if ended := c.Err(); ended != nil {
		return ended
	}
	return fmt.Errorf("chrome: %w", err)
}

// Do runs chromedp actions on the page, in order, up to the first error.
func (c *Chrome) Do(actions ...chromedp.Action[chromedp.Void]) error {
	return c.why(chromedp.Do(c.ctx, actions...))
}

// Navigate opens url and waits for its load event.
func (c *Chrome) Navigate(url string) error { return c.Do(chromedp.Navigate(url)) }

// Eval evaluates a JavaScript expression in the page, waits for it where it is a promise, and
// decodes its value as JSON. A thrown value is an error with its text.
func Eval[T any](c *Chrome, js string) (T, error) {
	v, err := chromedp.Run(c.ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
	return v, c.why(err)
}

// Wait polls a JavaScript expression until it is truthy. The error of running out of time holds
// the expression and its last value.
func (c *Chrome) Wait(js string, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		ok, err := Eval[bool](c, "Promise.resolve("+js+").then(Boolean)")
		if err == nil && ok {
			return nil
		}
		if ended := c.Err(); ended != nil {
			return ended
		}
		if time.Now().After(deadline) {
			if err != nil {
				return fmt.Errorf("chrome: waited %v for %s: %w", timeout, js, err)
			}
			last, _ := Eval[string](c, "Promise.resolve("+js+").then(String)")
			return fmt.Errorf("chrome: waited %v for %s: last got %s", timeout, js, last)
		}
		select {
		case <-time.After(30 * time.Millisecond):
		case <-c.ctx.Done():
		}
	}
}

// Messages returns what the page has written so far, oldest first.
func (c *Chrome) Messages() []Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Message(nil), c.messages...)
}

// Errors returns those of [Chrome.Messages] that are errors or uncaught exceptions.
func (c *Chrome) Errors() []Message {
	var errs []Message
	for _, m := range c.Messages() {
		if m.IsError() {
			errs = append(errs, m)
		}
	}
	return errs
}

// Forget drops the messages so far.
func (c *Chrome) Forget() {
	c.mu.Lock()
	c.messages = nil
	c.mu.Unlock()
}

// SetNetwork changes the page's network from now on; the zero value lifts all limits.
func (c *Chrome) SetNetwork(n Network) error {
	rate := -1.0
	if n.Mbit > 0 {
		rate = n.Mbit * 1e6 / 8
	}
	latency := float64(n.Latency) / float64(time.Millisecond)
	if _, err := chromedp.Call(c.ctx, network.Enable, network.EnableParams{}); err != nil {
		return c.why(err)
	}
	conditions := &network.Conditions{Latency: latency, DownloadThroughput: rate, UploadThroughput: rate, Offline: n.Offline}
	_, err := chromedp.Call(c.ctx, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{
		MatchedNetworkConditions: []*network.Conditions{conditions},
	})
	if err != nil {
		return c.why(err)
	}
	_, err = chromedp.Call(c.ctx, network.OverrideNetworkState, network.OverrideNetworkStateParams{
		Offline: n.Offline, Latency: latency, DownloadThroughput: rate, UploadThroughput: rate,
	})
	return c.why(err)
}

// Screenshot writes the viewport as a PNG to path, making its folder.
func (c *Chrome) Screenshot(path string) error {
	png, err := chromedp.Run(c.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return c.why(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return fmt.Errorf("chrome: screenshot: %w", err)
	}
	if err := os.WriteFile(path, png, 0o666); err != nil {
		return fmt.Errorf("chrome: screenshot: %w", err)
	}
	return nil
}

// Close ends the browser, waits for its process and removes its profile.
func (c *Chrome) Close() {
	if c.ctx.Err() == nil {
		// A graceful end may fail where the browser is ending anyway; finish kills what is left.
		_ = chromedp.Cancel(c.ctx)
	}
	c.fail(context.Canceled)
	c.finish()
	// Nobody needs these files, so failing to remove one is no error.
	_ = os.RemoveAll(c.tmp)
}
