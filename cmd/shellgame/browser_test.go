//go:build !js

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"shellgame/internal/chrome"
	"shellgame/model/check"
	"shellgame/model/verify"
	"shellgame/task/eval"
	"shellgame/webgpu"
)

// inRepository goes to where dist/ is. Without a browser or a site the test is skipped, or fails
// where REQUIRE_DEVICES names browser.
func inRepository(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
	_, err := chrome.Find()
	if err == nil {
		_, err = os.Stat("dist/index.html")
	}
	switch {
	case err != nil && required("browser"):
		t.Fatalf("REQUIRE_DEVICES wants browser: %v: run make site", err)
	case err != nil:
		t.Skipf("no browser or no site here: %v: run make site", err)
	}
}

// --device browser gives what the page's engine computes in Chromium, in the forms of the contract.
func TestBrowser(t *testing.T) {
	inRepository(t)
	printed := func(want string, args ...string) string {
		t.Helper()
		code, out, err := command(args...)
		if code != exitOK {
			t.Fatalf("%v: exit %d: %s", args, code, err)
		}
		if got, err := form([]byte(out)); err != nil || got != want {
			t.Errorf("%v: got the form %s, %v, want %s", args, got, err, want)
		}
		return out
	}

	c := decode[check.Report](t, printed(`{"device","adapter","pass","kernels":[{"name","shape","worst","bound","pass"}]}`, "check", "--device", "browser", "--json"))
	if !c.Pass || c.Device != "browser" || len(c.Kernels) < 20 {
		t.Errorf("check: pass %v on %s, %d kernels", c.Pass, c.Device, len(c.Kernels))
	}

	// One folder by a path that an address must not take as it stands.
	odd := filepath.Join(t.TempDir(), "50% #1")
	copyFolder(t, "testdata/golden/olmo-hybrid-vheads-odd", odd)
	if err := os.Rename(filepath.Join(odd, "golden.safetensors"), filepath.Join(odd, "100% #2.safetensors")); err != nil {
		t.Fatal(err)
	}
	v := decode[verify.Report](t, printed(`{"device","adapter","pass","cases":[{"dir","pass","tensors":[{"name","worst","bound","index","got","want"}]}]}`,
		"verify", "--device", "browser", "--json", "--golden", filepath.Join(odd, "100% #2.safetensors"), odd))
	if !v.Pass || v.Device != "browser" || len(v.Cases) != 1 || v.Cases[0].Dir != odd || len(v.Cases[0].Tensors) < 20 {
		t.Errorf("verify: pass %v on %s, %d cases", v.Pass, v.Device, len(v.Cases))
	}
	code, out, _ := command("verify", "--device", "browser", "--golden", "testdata/golden/olmo-hybrid-nope/golden.safetensors", "testdata/golden/olmo-hybrid")
	if code != exitFailed || !strings.Contains(out, "FAIL testdata/golden/olmo-hybrid: ") || !strings.Contains(out, "len65.logits: worst at ") {
		t.Errorf("verify with another model's golden file: exit %d, %s", code, out)
	}
	code, out, _ = command("verify", "--device", "browser", "--golden", "testdata/golden/olmo-hybrid/golden.safetensors", "web")
	if code != exitFailed || !strings.Contains(out, "FAIL web: model") {
		t.Errorf("verify of no model: exit %d, %s", code, out)
	}

	e := decode[eval.Result](t, printed(`{"task","model","device","adapter","gen","seed","samples","levels":[{"n","accuracy","stderr"}]}`,
		"eval", "--device", "browser", "--task", "st", "--model", "web/zoo/st-constructed", "--levels", "4,64", "--samples", "8", "--seed", "3", "--json"))
	if e.Device != "browser" || e.Model != "st-constructed" || e.Seed != 3 || e.Samples != 8 || len(e.Levels) != 2 || e.Levels[1].Accuracy != 1 {
		t.Errorf("eval: got %+v", e)
	}
	code, out, err := command("eval", "--device", "browser", "--task", "st", "--model", "web/zoo/none", "--levels", "4", "--tokenizer", "web/zoo/tokenizer.json")
	if code != exitFailed || out != "" || !strings.HasPrefix(err, "shellgame: browser: ") {
		t.Errorf("eval of no model: exit %d, %q, %q", code, out, err)
	}
	oneLineOnly(t, "eval of no model", err)
}

// Without a browser, and in one without WebGPU, the device is missing.
func TestBrowserMissing(t *testing.T) {
	inRepository(t)
	t.Setenv("CHROME", filepath.Join(t.TempDir(), "none"))
	code, out, err := command("check", "--device", "browser")
	if code != exitNoDevice || out != "" || !strings.Contains(err, "no Chromium found") {
		t.Errorf("without a browser: exit %d, %q, %q", code, out, err)
	}
	oneLineOnly(t, "without a browser", err)
	if !errors.Is(missing{errors.New("x")}, webgpu.ErrNoAdapter) {
		t.Error("what a page says is missing is no missing device")
	}
}
