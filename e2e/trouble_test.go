//go:build !js

package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/x448/float16"

	"shellgame/internal/chrome"
	"shellgame/model/safetensors"
)

// gpu replaces navigator.gpu as the page's query says, in page and frame.
const gpu = `
const gpuCase = new URLSearchParams(top.location.search).get("case");
const define = (get) => Object.defineProperty(Navigator.prototype, "gpu", { get, configurable: true });
switch (gpuCase) {
  case "missing": delete Navigator.prototype.gpu; break;
  case "null": define(() => null); break;
  case "throwing": define(() => { throw new Error("no GPU for you"); }); break;
  case "refusing": define(() => ({ requestAdapter: () => { throw new Error("refused"); } })); break;
  case "rejecting": define(() => ({ requestAdapter: () => Promise.reject(new Error("rejected")) })); break;
  case "empty": define(() => ({ requestAdapter: async () => null })); break;
  case "no device": GPUAdapter.prototype.requestDevice = async () => { throw new DOMException("no device for you", "OperationError"); }; break;
  case "stuck": define(() => ({ requestAdapter: () => new Promise(() => {}) })); break;
}`

// Whatever navigator.gpu is, the page computes on the CPU, and says so and why.
func TestWithoutWebGPU(t *testing.T) {
	p := open(t, chrome.Options{Script: gpu}, "?device=cpu")
	for _, name := range []string{"missing", "null", "throwing", "refusing", "rejecting", "empty", "no device", "stuck"} {
		t.Run(name, func(t *testing.T) {
			p.TB = t
			from := time.Now()
			p.goTo(served.url + "?task=st&model=st-constructed&n=4&case=" + strings.ReplaceAll(name, " ", "%20"))
			p.live("st-constructed")
			if took := time.Since(from); name == "stuck" && took > 16*time.Second {
				t.Errorf("the page waited %v for an adapter", took)
			}
			if d := eval[string](p, "shellgamePage.state().device.device"); d != "cpu" {
				t.Errorf("the page computes on %s, want cpu", d)
			}
			badge, why := p.text("device-text"), eval[string](p, "document.getElementById('device').title")
			notice := eval[string](p, "document.querySelector('#notice-device > span')?.textContent ?? ''")
			t.Logf("%s | %s | %s", badge, why, notice)
			if !strings.HasPrefix(badge, "CPU") || len(why) < 10 || !strings.HasPrefix(notice, "Running on the CPU: ") {
				t.Errorf("badge %q with %q and notice %q, want that it is the CPU, and why", badge, why, notice)
			}
			if said := p.ask(); !strings.Contains(said, "right") {
				t.Errorf("the page says %q, want a right answer", said)
			}
			if name == "stuck" {
				p.shot("no-webgpu")
			}
			p.quiet()
		})
	}
}

// A GPU that goes away in the middle of a run: the step is repeated on what can be had, the
// program stays, and the page says what happened.
func TestDeviceLost(t *testing.T) {
	const keep = `
if (globalThis.GPUAdapter) {
  const request = GPUAdapter.prototype.requestDevice;
  GPUAdapter.prototype.requestDevice = async function (...a) { return (globalThis.lastDevice = await request.apply(this, a)); };
  const adapter = GPU.prototype.requestAdapter;
  GPU.prototype.requestAdapter = async function (...a) { return globalThis.noAdapter ? null : adapter.apply(this, a); };
}`
	p := open(t, chrome.Options{Script: keep}, "?task=sbr&model=sbr-hybrid-neg&n=4")
	for _, c := range []struct{ name, before, device string }{
		{"comes back", "", "webgpu"},
		{"stays away", "frame.noAdapter = true;", "cpu"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.TB = t
			p.goTo(served.url + "?task=sbr&model=sbr-hybrid-neg&n=4&seed=2")
			p.live("sbr-hybrid-neg")
			p.click("reset")
			p.choose("speed", "0")
			p.click("toggle")
			p.wait("s.t >= 3")
			eval[bool](p, "((frame) => { "+c.before+" frame.lastDevice.destroy(); return true; })(document.querySelector('iframe').contentWindow)")
			p.wait("s.lost && s.answer && !s.playing")
			said := p.text("answer")
			if !strings.Contains(said, "right") {
				t.Errorf("the page says %q, want a right answer", said)
			}
			if d := eval[string](p, "shellgamePage.state().device.device"); d != c.device {
				t.Errorf("the page goes on with %s, want %s", d, c.device)
			}
			if !eval[bool](p, "shellgamePage.state().program === document.getElementById('program').value && shellgamePage.state().program.startsWith('bits=[')") {
				t.Error("the program was lost")
			}
			badge, notice := p.text("device-text"), eval[string](p, "document.querySelector('#notice-device > span').textContent")
			t.Logf("%s | %s", badge, notice)
			if !strings.Contains(badge, "after a loss") || !strings.Contains(notice, "The step was repeated") {
				t.Errorf("badge %q and notice %q, want what happened", badge, notice)
			}
			p.shot("device-lost-" + c.device)
			p.click("reset")
			p.at(-1)
			p.ask()
			p.quiet()
		})
	}
}

// checkpoints are folders below /models/ and what the page says of them.
var checkpoints = []struct {
	name   string
	damage func(dir string) error // of a copy of st-constructed; nil: there is no folder
	want   string
}{
	{"gone", nil, "config.json"},
	{"html", func(dir string) error {
		return os.WriteFile(filepath.Join(dir, "model.safetensors"), []byte("<!DOCTYPE html>\n<html><body>404</body></html>"), 0o666)
	}, "got an HTML page, want a safetensors file"},
	{"truncated", func(dir string) error {
		return os.Truncate(filepath.Join(dir, "model.safetensors"), 20_000)
	}, "the file is cut short"},
	{"no-weights", func(dir string) error { return os.Remove(filepath.Join(dir, "model.safetensors")) }, "model.safetensors"},
	{"shape", func(dir string) error {
		return edit(filepath.Join(dir, "config.json"), `"linear_key_head_dim": 5`, `"linear_key_head_dim": 6`)
	}, "shape"},
	{"shard", func(dir string) error {
		if err := os.Remove(filepath.Join(dir, "model.safetensors")); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), []byte(`{"metadata":{},"weight_map":{"model.embed_tokens.weight":"model-00001-of-00002.safetensors"}}`), 0o666)
	}, "model-00001-of-00002.safetensors"},
	{"nan", func(dir string) error {
		path := filepath.Join(dir, "model.safetensors")
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := safetensors.Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return err
		}
		for _, name := range f.Names() {
			if x, _ := f.Tensor(name); strings.HasSuffix(name, "q_proj.weight") {
				binary.LittleEndian.PutUint16(data[x.Offset:], 0x7e00)
				return os.WriteFile(path, data, 0o666)
			}
		}
		return fmt.Errorf("no q_proj in %v", f.Names())
	}, "NaN"},
}

// breakCheckpoints makes the folders, and a good one.
func breakCheckpoints(models string) error {
	good := os.DirFS(filepath.Join(root, "web", "zoo", "st-constructed"))
	if err := os.CopyFS(filepath.Join(models, "a good one"), good); err != nil {
		return err
	}
	if err := overflow(filepath.Join(models, "overflow"), good); err != nil {
		return err
	}
	for _, c := range checkpoints {
		if c.damage == nil {
			continue
		}
		dir := filepath.Join(models, c.name)
		if err := os.CopyFS(dir, good); err != nil {
			return err
		}
		if err := c.damage(dir); err != nil {
			return fmt.Errorf("breaking %s: %w", c.name, err)
		}
	}
	return nil
}

// overflow is a checkpoint of finite weights whose state is infinite after a word or two.
func overflow(dir string, good fs.FS) error {
	if err := os.CopyFS(dir, good); err != nil {
		return err
	}
	path := filepath.Join(dir, "model.safetensors")
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := safetensors.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	var entries []safetensors.Entry
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		factor := float32(1)
		switch {
		case strings.HasSuffix(name, "v_proj.weight"):
			factor = 1e35
		case strings.HasSuffix(name, "attention_layer_norm.weight"):
			factor = 1e5
		}
		v := make([]float32, x.Elems())
		for i := range v {
			v[i] = factor * float16.Frombits(binary.LittleEndian.Uint16(data[int(x.Offset)+2*i:])).Float32()
		}
		e, err := safetensors.EntryF32(name, safetensors.F32, x.Shape, v)
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	return safetensors.Write(out, entries, nil)
}

func edit(path, old, new string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Contains(data, []byte(old)) {
		return fmt.Errorf("%s has no %s", path, old)
	}
	return os.WriteFile(path, bytes.Replace(data, []byte(old), []byte(new), 1), 0o666)
}

// A broken checkpoint that a link names gives one clear line, and the page goes on.
func TestBrokenCheckpoints(t *testing.T) {
	p := open(t, chrome.Options{}, "?device=cpu")
	for _, c := range checkpoints {
		t.Run(c.name, func(t *testing.T) {
			p.TB = t
			p.goTo(served.url + "?device=cpu&model=models/" + c.name)
			p.wait("s.phase === 'live' && !s.busy && document.querySelector('#notices .bad')")
			said := eval[string](p, "[...document.querySelectorAll('#notices .bad > span:first-child')].map((n) => n.textContent).join('\\n')")
			t.Log(said)
			if !strings.Contains(said, c.want) || strings.Contains(said, "\n") || len(said) > 400 {
				t.Errorf("the page says %q, want one line with %q", said, c.want)
			}
			if c.name == "html" {
				p.shot("broken-checkpoint")
			}
			if got := eval[string](p, "[shellgamePage.state().model, document.getElementById('model').value].join()"); got != "st-constructed,st-constructed" || !strings.HasSuffix(said, "This is st-constructed instead.") {
				t.Errorf("then model and choice are %s, and the page says %q", got, said)
			}
			if said := p.ask(); !strings.Contains(said, "right") {
				t.Errorf("then: the page says %q, want a right answer", said)
			}
			for _, m := range p.Errors() {
				if !strings.Contains(m.Text, "404") { // the browser's own line about a file that is not there
					t.Errorf("console: %v", m)
				}
			}
			p.Forget()
		})
	}
	t.Run("a good one", func(t *testing.T) {
		p.TB = t
		p.goTo(served.url + "?device=cpu&n=4&model=models/a%2520good%2520one/")
		p.live("a good one")
		if got := eval[string](p, "document.getElementById('model').selectedOptions[0].textContent"); got != "a good one (from the link)" {
			t.Errorf("the list shows %q", got)
		}
		if said := p.ask(); !strings.Contains(said, "right") {
			t.Errorf("the page says %q, want a right answer", said)
		}
		p.quiet()
	})
}
