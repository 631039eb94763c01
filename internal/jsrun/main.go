//go:build !js

// Jsrun runs a Go program built for js/wasm in headless Chromium, as `go test -exec` wants it:
//
//	go build -o bin/jsrun ./internal/jsrun
//	GOOS=js GOARCH=wasm go test -exec "$PWD/bin/jsrun" ./shaders/
//
// The program gets its arguments, the working directory, REQUIRE_DEVICES, SHELLGAME_*, GODEBUG
// and GOTRACEBACK. It may read files of the module, and those that a SHELLGAME_* variable names;
// it may write below a folder testdata/out of the module and in os.TempDir, which is emptied
// afterwards. SHELLGAME_MODULE_URL is where the module's files can be fetched by HTTP, ranges
// included. Its output is passed on live, and jsrun ends with its exit code; a crash of the
// browser is a failure.
//
// Environment: CHROME names the browser, SHELLGAME_GPU its GPU: swiftshader (the default, on the
// CPU), hardware or none.
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"shellgame/internal/chrome"
)

// grace is how long a program may outlive its own -test.timeout, after which Go itself should
// have ended it; a program that never lets the page run cannot be ended by Go.
var grace = 15 * time.Second

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run runs args, a wasm file and its arguments, and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintln(stderr, "jsrun: got no arguments, want a wasm file and its arguments")
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	defer stop()
	code, err := runIn(ctx, args, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "jsrun: %s: %v\n", filepath.Base(args[0]), err)
	}
	return code
}

func runIn(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	limit, err := timeout(args)
	if err != nil {
		return 2, err
	}
	p, err := newProgram(args)
	if err != nil {
		return 1, err
	}
	defer p.close()
	c, err := chrome.Start(ctx, chrome.Options{GPU: os.Getenv("SHELLGAME_GPU")})
	if err != nil {
		return 3, err
	}
	defer c.Close()
	return play(ctx, c, p, limit, stdout, stderr)
}

// play runs p in the page of c and returns its exit code, or why it has none.
func play(ctx context.Context, c *chrome.Chrome, p *program, limit time.Duration, stdout, stderr io.Writer) (int, error) {
	done := make(chan error, 1)
	exit := 0
	finish := func(err error) {
		select {
		case done <- err:
		default:
		}
	}
	// The page calls the binding with a letter and what it stands for.
	err := chromedp.Listen(c.Context(), func(ev any) {
		e, ok := ev.(*runtime.EventBindingCalled)
		if !ok || e.Name != "jsrun" || e.Payload == "" {
			return
		}
		switch rest := e.Payload[1:]; e.Payload[0] {
		case 'o', 'e':
			text, err := base64.StdEncoding.DecodeString(rest)
			if err != nil {
				finish(fmt.Errorf("output of the page: %w", err))
			}
			if e.Payload[0] == 'o' {
				stdout.Write(text)
			} else {
				stderr.Write(text)
			}
		case 'x':
			var err error
			if exit, err = strconv.Atoi(rest); err != nil {
				err = fmt.Errorf("exit code of the page: %w", err)
			}
			finish(err)
		case 'f':
			finish(errors.New(rest))
		}
	})
	if err != nil {
		return 1, err
	}
	if _, err := chromedp.Call(c.Context(), runtime.AddBinding, runtime.AddBindingParams{Name: "jsrun"}); err != nil {
		return 1, err
	}
	go func() {
		// A program that is busy keeps the page from finishing to load.
		if err := c.Navigate(p.url); err != nil && c.Context().Err() == nil {
			finish(err)
		}
	}()
	var late <-chan time.Time
	if limit > 0 {
		late = time.After(limit + grace)
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		return 130, errors.New("interrupted")
	case <-c.Done():
		err = c.Err()
	case <-late:
		err = fmt.Errorf("timed out: still running after %v, want %v (-test.timeout): it may be in a loop that never lets the page run", limit+grace, limit)
	}
	if err == nil && exit == 0 {
		return 0, nil
	}
	for _, m := range c.Messages() {
		if m.IsError() || m.Level == "warning" {
			fmt.Fprintf(stderr, "jsrun: the page's console: %v\n", m)
		}
	}
	return max(exit, 1), err
}

// timeout is the value of -test.timeout among args: ten minutes if there is none, 0 for no limit.
func timeout(args []string) (time.Duration, error) {
	limit := 10 * time.Minute
	for _, a := range args[1:] {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(a, "-"), "-"), "=")
		if name != "test.timeout" {
			continue
		}
		d, err := time.ParseDuration(value)
		if err != nil {
			return 0, fmt.Errorf("%s: got %q, want a duration", a, value)
		}
		limit = d
	}
	return limit, nil
}

// config is what the page needs to know to run the program; keep in step with page.js.
type config struct {
	Argv []string          `json:"argv"`
	Env  map[string]string `json:"env"`
	Cwd  string            `json:"cwd"`
}

func newProgram(args []string) (*program, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	out, err := exec.Command("go", "env", "-json", "GOROOT", "GOMOD").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	var env struct{ GOROOT, GOMOD string }
	if err := json.Unmarshal(out, &env); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	root := cwd
	if env.GOMOD != "" && env.GOMOD != os.DevNull {
		root = filepath.Dir(env.GOMOD)
	}
	wasm, err := filepath.Abs(args[0])
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(wasm); err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "jsrun-")
	if err != nil {
		return nil, err
	}
	p := &program{
		wasm: wasm, exec: filepath.Join(env.GOROOT, "lib", "wasm", "wasm_exec.js"), root: root, tmp: tmp, read: []string{root, tmp},
		config: config{Argv: args, Cwd: cwd, Env: map[string]string{"PWD": cwd, "TMPDIR": tmp}},
	}
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasPrefix(name, "SHELLGAME_"):
			for _, path := range filepath.SplitList(value) {
				if abs, err := filepath.Abs(path); err == nil && path != "" {
					p.read = append(p.read, abs)
				}
			}
		case name != "REQUIRE_DEVICES" && name != "GODEBUG" && name != "GOTRACEBACK":
			continue
		}
		p.config.Env[name] = value
	}
	if err := p.serve(); err != nil {
		os.RemoveAll(tmp)
		return nil, err
	}
	return p, nil
}
