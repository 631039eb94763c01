//go:build !js

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// scripts/node-dawn.mjs keeps to what it says, without a GPU. Without Node the test is skipped,
// or fails if REQUIRE_DEVICES names node.
func TestNode(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil && !strings.Contains(os.Getenv("REQUIRE_DEVICES"), "node") {
		t.Skipf("no Node here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	wasm := probe(t)
	for _, c := range []struct {
		args           []string
		dawn           string
		code           int
		stdout, stderr string
	}{
		{[]string{wasm, "exit", "a b", "ü"}, "off", 7, "to stdout [a b ü] passed on ", "to stderr: \x00\xff é\n"},
		{[]string{wasm, "long"}, "off", 0, strings.Repeat("0123456789", 10_000), ""},
		{[]string{wasm, "panic"}, "off", 2, "", "panic: the pea is gone\n\ngoroutine 1"},
		{[]string{wasm, "deadlock"}, "off", 2, "", "all goroutines are asleep"},
		{nil, "off", 2, "", "want a wasm file and its arguments"},
		{[]string{"missing.wasm"}, "off", 2, "", "missing.wasm: no such file"},
		{[]string{"jsrun_test.go"}, "off", 1, "", "WebAssembly"},
		{[]string{wasm, "long"}, "", 3, "", "nowhere: no such file or folder"},
	} {
		cmd := exec.Command(node, append([]string{"../../scripts/node-dawn.mjs"}, c.args...)...)
		cmd.Env = append(os.Environ(), "SHELLGAME_DAWN="+c.dawn, "SHELLGAME_PROBE=passed on", "NODE_WEBGPU=nowhere")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		code := cmd.ProcessState.ExitCode()
		if code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%v: got %d, stdout %.200q, stderr %.1000q\nwant %d, %.200q, %q", c.args, code, &stdout, &stderr, c.code, c.stdout, c.stderr)
		}
	}
}
