//go:build !js

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"shellgame/model/check"
	"shellgame/model/verify"
	"shellgame/task/eval"
)

type nodeCommand func(args ...string) (code int, stdout, stderr string)

func TestNode(t *testing.T) {
	node := underNode(t)
	t.Run("same", func(t *testing.T) { nodeIsTheSame(t, node) })
	t.Run("exit codes", func(t *testing.T) { nodeExitCodes(t, node) })
}

// underNode returns how to run the same command, built for js/wasm, under Node without a GPU.
// Without Node the test is skipped, or fails where REQUIRE_DEVICES names node.
func underNode(t *testing.T) nodeCommand {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		if required("node") {
			t.Fatalf("REQUIRE_DEVICES wants node: %v", err)
		}
		t.Skipf("no Node here: %v", err)
	}
	wasm := filepath.Join(t.TempDir(), "shellgame.wasm")
	build := exec.Command("go", "build", "-o", wasm, ".")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s%v", out, err)
	}
	return func(args ...string) (int, string, string) {
		t.Helper()
		cmd := exec.Command(node, append([]string{"--stack-size=8192", "../../scripts/node-dawn.mjs", wasm}, args...)...)
		cmd.Env = append(os.Environ(), "SHELLGAME_DAWN=off")
		var out, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &stderr
		err := cmd.Run()
		var failed *exec.ExitError
		if err != nil && !errors.As(err, &failed) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), out.String(), stderr.String()
	}
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	oneLineOnly(t, "stdout", text)
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Under Node the command computes what it computes here: the same answers, and numbers within a
// millionth, since the two machines' exp and the like differ in the last bit.
func nodeIsTheSame(t *testing.T, node nodeCommand) {
	both := func(args ...string) (native, js string) {
		t.Helper()
		code, native, err := command(args...)
		if code != exitOK {
			t.Fatalf("%v: exit %d: %s", args, code, err)
		}
		code, js, err = node(args...)
		if code != exitOK {
			t.Fatalf("%v under Node: exit %d: %s", args, code, err)
		}
		return native, js
	}

	a, b := both("check", "--device", "cpu", "--json")
	native, js := decode[check.Report](t, a), decode[check.Report](t, b)
	if !js.Pass || len(js.Kernels) != len(native.Kernels) || js.Adapter != "plain Go (js/wasm)" {
		t.Errorf("check on %s: pass %v, %d kernels, want %d", js.Adapter, js.Pass, len(js.Kernels), len(native.Kernels))
	}

	a, b = both("verify", "--device", "cpu", "--json", filepath.Join(golden, "olmo-hybrid"), filepath.Join(golden, "olmo-hybrid-rope-gqa-poseig"), filepath.Join(golden, "olmo3-sliding-yarn"))
	nv, jv := decode[verify.Report](t, a), decode[verify.Report](t, b)
	if !jv.Pass || len(jv.Cases) != 3 {
		t.Fatalf("verify: pass %v, %d cases", jv.Pass, len(jv.Cases))
	}
	for i, c := range jv.Cases {
		for k, r := range c.Tensors {
			n := nv.Cases[i].Tensors[k]
			if r.Name != n.Name || r.Bound != n.Bound || math.Abs(float64(r.Worst-n.Worst)) > 0.02*float64(n.Bound) {
				t.Errorf("verify %s: %s is off by %v of %v, natively %s by %v", c.Dir, r.Name, r.Worst, r.Bound, n.Name, n.Worst)
			}
		}
	}

	a, b = both("eval", "--device", "cpu", "--task", "sbr", "--model", filepath.Join(zoo, "sbr-gdn-pos"), "--levels", "4,8", "--samples", "12", "--json")
	ne, je := decode[eval.Result](t, a), decode[eval.Result](t, b)
	je.Adapter = ne.Adapter
	if x, y := toJSON(t, ne), toJSON(t, je); x != y {
		t.Errorf("eval: got %s, natively %s", y, x)
	}

	a, b = both("trace", "--device", "cpu", "--model", filepath.Join(zoo, "sbr-hybrid-neg"), traceProgram)
	sameNumbers(t, a, b)
	a, b = both("trace", "--device", "cpu", "--model", filepath.Join(zoo, "st-constructed"), "--state", "every=2", "a,b,c,d,e=range(5) a,c=c,a assert a==")
	sameNumbers(t, a, b)

	code, out, err := node("run", "--device", "cpu", "--model", filepath.Join(zoo, "st-constructed"), "--max-new", "1", "a,b,c,d,e=range(5) a,c=c,a assert a==")
	if code != exitOK || out != "2\n" || !strings.HasPrefix(err, "cpu, plain Go (js/wasm): prefill 5 tokens at ") {
		t.Errorf("run: exit %d, %q, %q", code, out, err)
	}
	dir := filepath.Join(t.TempDir(), "st")
	if code, _, err := node("construct", "st", dir); code != exitOK || !bytes.Equal(read(t, filepath.Join(dir, "model.safetensors")), read(t, filepath.Join(zoo, "st-constructed", "model.safetensors"))) {
		t.Errorf("construct: exit %d, %s", code, err)
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var number = regexp.MustCompile(`-?[0-9]+\.?[0-9]*(e[-+]?[0-9]+)?`)

// sameNumbers fails where two texts differ in anything but the platform's name and numbers, where
// one number in a thousand differs, or one by more than a millionth of max(1, its size).
func sameNumbers(t *testing.T, native, js string) {
	t.Helper()
	native = strings.ReplaceAll(native, platform(t, native), "plain Go (js/wasm)")
	if number.ReplaceAllString(native, "#") != number.ReplaceAllString(js, "#") {
		t.Error("the traces differ in more than numbers")
		return
	}
	a, b := number.FindAllString(native, -1), number.FindAllString(js, -1)
	equal, worst := 0, 0.0
	for i := range a {
		if a[i] == b[i] {
			equal++
			continue
		}
		x, y := float(t, a[i]), float(t, b[i])
		worst = math.Max(worst, math.Abs(x-y)/math.Max(1, math.Abs(x)))
	}
	t.Logf("%d of %d numbers are equal, the others differ by up to %.2g", equal, len(a), worst)
	if !(worst <= 1e-6) || 1000*(len(a)-equal) > len(a) {
		t.Errorf("%d of %d numbers differ, by up to %v, want one in 1000 and 1e-6", len(a)-equal, len(a), worst)
	}
}

func platform(t *testing.T, text string) string {
	t.Helper()
	p := regexp.MustCompile(`plain Go \([a-z0-9/]+\)`).FindString(text)
	if p == "" {
		t.Fatal("no platform in the trace")
	}
	return p
}

func float(t *testing.T, text string) float64 {
	t.Helper()
	v, err := json.Number(text).Float64()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Errors and exit codes under Node are those of the contract, too.
func nodeExitCodes(t *testing.T, node nodeCommand) {
	model := filepath.Join(zoo, "st-constructed")
	for _, test := range []struct {
		code int
		want string // in the one line on stderr
		args []string
	}{
		{exitUsage, "--device must be one of", []string{"check", "--device", "abacus"}},
		{exitUsage, `--levels: got "x"`, []string{"eval", "--device", "cpu", "--task", "st", "--model", model, "--levels", "x"}},
		{exitNoDevice, "no WebGPU adapter", []string{"check", "--device", "browser"}},
		{exitFailed, "serve: this build runs inside JavaScript", []string{"serve"}},
		{exitFailed, "window: this build has no window", []string{"window", "--model", model}},
		{exitFailed, "found no config.json, want it beside the weights", []string{"run", "--device", "cpu", "--model", zoo, "a=1"}},
		{exitFailed, "program: line 1, column 5: `c` has no value yet", []string{"trace", "--device", "cpu", "--model", model, "a,c=c,a"}},
	} {
		code, out, err := node(test.args...)
		if code != test.code || out != "" || !strings.Contains(err, test.want) {
			t.Errorf("%v: exit %d, stdout %q, stderr %q, want %d and %s", test.args, code, out, err, test.code, test.want)
		}
		oneLineOnly(t, strings.Join(test.args, " "), err)
	}
	code, out, err := node("eval", "--task", "st", "--model", model, "--levels", "4", "--samples", "2", "--json")
	if code != exitOK || !strings.Contains(out, `"device":"cpu"`) || !strings.HasPrefix(err, "shellgame: using the CPU: ") {
		t.Errorf("auto: exit %d, %q, %q", code, out, err)
	}
}
