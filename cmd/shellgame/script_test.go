//go:build !js

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"shellgame/webgpu"
)

// The command line as scripts see it. Beside testscript's own commands there are
//
//	exits CODE command...         run it, expect that exit code
//	interrupts TEXT command...    run it until it has printed TEXT, send SIGINT, expect 130
//	jsonform FORM                 stdout is one JSON object of that form, see form
//	lines stdout|stderr N         so many lines
//
// and the condition vulkan, which REQUIRE_DEVICES makes a must.
func TestScripts(t *testing.T) {
	abs := func(path string) string {
		p, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	models := bpeModels(t, t.TempDir())
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("ZOO", abs(zoo))
			e.Setenv("GOLDEN", abs(golden))
			e.Setenv("BPE", models)
			for _, name := range []string{"VK_ICD_FILENAMES", "VK_DRIVER_FILES"} {
				if value, ok := os.LookupEnv(name); ok {
					e.Setenv(name, value)
				}
			}
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond != "vulkan" {
				return false, fmt.Errorf("unknown condition %s", cond)
			}
			err := vulkan()
			if err != nil && required("vulkan") {
				return false, fmt.Errorf("REQUIRE_DEVICES wants vulkan: %w", err)
			}
			return err == nil, nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":      exits,
			"interrupts": interrupts,
			"jsonform": func(ts *testscript.TestScript, _ bool, args []string) {
				got, err := form([]byte(ts.ReadFile("stdout")))
				ts.Check(err)
				if got != args[0] {
					ts.Fatalf("got the form\n%s, want\n%s", got, args[0])
				}
			},
			"lines": func(ts *testscript.TestScript, _ bool, args []string) {
				if got := strconv.Itoa(strings.Count(ts.ReadFile(args[0]), "\n")); got != args[1] {
					ts.Fatalf("%s: got %s lines, want %s", args[0], got, args[1])
				}
			},
		},
	})
}

func required(device string) bool {
	return slices.Contains(strings.Split(os.Getenv("REQUIRE_DEVICES"), ","), device)
}

var vulkan = sync.OnceValue(func() error {
	d, err := webgpu.OpenGPU(context.Background(), "vulkan")
	if err == nil {
		d.Close()
	}
	return err
})

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE command...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		code = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("got exit code %d, want %s", code, args[0])
	}
}

func interrupts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: interrupts TEXT command...")
	}
	path, err := exec.LookPath(args[1])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args[2:]...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = append(os.Environ(), "VK_ICD_FILENAMES="+ts.Getenv("VK_ICD_FILENAMES"), "VK_DRIVER_FILES="+ts.Getenv("VK_ICD_FILENAMES"))
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	ts.Check(cmd.Start())
	var all bytes.Buffer
	seen, done := make(chan bool, 1), make(chan bool)
	go func() {
		defer close(done)
		for s := bufio.NewScanner(r); s.Scan(); {
			all.WriteString(s.Text() + "\n")
			if strings.Contains(s.Text(), args[0]) {
				select {
				case seen <- true:
				default:
				}
			}
		}
	}()
	exited := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		w.Close()
		exited <- err
	}()
	select {
	case <-seen:
		ts.Check(cmd.Process.Signal(os.Interrupt))
		<-exited
	case <-exited:
	}
	<-done
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || !strings.HasSuffix(all.String(), "shellgame: interrupted\n") {
		ts.Fatalf("got exit code %d and\n%s, want %d and: interrupted", code, all.String(), exitInterrupted)
	}
}

// form writes down what a JSON object is made of: its keys in their order, and for arrays the form
// of the elements, which must be the same for all. Plain values are left out. There must be one
// object, on one line, and nothing else.
func form(data []byte) (string, error) {
	if bytes.Count(data, []byte("\n")) != 1 || !bytes.HasPrefix(data, []byte("{")) || !bytes.HasSuffix(data, []byte("}\n")) || !json.Valid(data) {
		return "", fmt.Errorf("got %.80q, want one JSON object on one line", data)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	f, err := formOf(d)
	return strings.TrimPrefix(f, ":"), err
}

func formOf(d *json.Decoder) (string, error) {
	tok, err := d.Token()
	if err != nil {
		return "", err
	}
	switch tok {
	case json.Delim('{'):
		var keys []string
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return "", err
			}
			f, err := formOf(d)
			if err != nil {
				return "", err
			}
			keys = append(keys, fmt.Sprintf("%q", key)+f)
		}
		_, err := d.Token()
		return ":{" + strings.Join(keys, ",") + "}", err
	case json.Delim('['):
		first, n := "", 0
		for ; d.More(); n++ {
			f, err := formOf(d)
			if err != nil {
				return "", err
			}
			if n > 0 && f != first {
				return "", fmt.Errorf("element %d has the form %s, those before it %s", n, f, first)
			}
			first = f
		}
		if _, err := d.Token(); err != nil {
			return "", err
		}
		if n == 0 {
			return "", errors.New("got an empty array, whose form cannot be seen")
		}
		return ":[" + strings.TrimPrefix(first, ":") + "]", nil
	}
	return "", nil
}

func TestForm(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1,"b":[{"c":"x"},{"c":null}],"d":{"e":[1,2]}}` + "\n": `{"a","b":[{"c"}],"d":{"e":[]}}`,
		`{"a":[{"b":1},{"c":1}]}` + "\n":                            "",
		`{"a":[]}` + "\n":                                           "",
		"{}\n{}\n":                                                  "",
		"{}":                                                        "",
		"note\n{}\n":                                                "",
	} {
		got, err := form([]byte(in))
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", in, got, err, want)
		}
	}
}
