//go:build !js

package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"shellgame/internal/chrome"
)

// panel opens a panel and waits until it is there.
func (p page) panel(id string) {
	p.Helper()
	if !eval[bool](p, fmt.Sprintf("document.getElementById('tab-%s').ariaSelected === 'true'", id)) {
		p.click("tab-" + id)
	}
	p.wait(fmt.Sprintf("!!document.querySelector('.view-%s')", id))
}

// betas are the largest write strengths of the delta-rule layers at word t.
func (p page) betas(t int) []float64 {
	p.Helper()
	var a struct {
		Steps []struct{ Layers []struct{ Beta []float64 } }
	}
	if err := json.Unmarshal([]byte(p.request(fmt.Sprintf(`{type: "steps", from: %d, to: %d}`, t, t))), &a); err != nil || len(a.Steps) != 1 {
		p.Fatalf("%d steps at %d: %v", len(a.Steps), t, err)
	}
	var out []float64
	for _, l := range a.Steps[0].Layers {
		if len(l.Beta) > 0 {
			most := 0.0
			for _, b := range l.Beta {
				most = max(most, b)
			}
			out = append(out, most)
		}
	}
	return out
}

// A switch changes the run at once, at the same word, beside the picture stands what is changed,
// and one click brings the model back.
func TestSwitches(t *testing.T) {
	for _, c := range some(1, []struct {
		name   string
		width  int
		dark   bool
		device string
	}{{"800-dark", 800, true, "cpu"}, {"1400", 1400, false, "webgpu"}, {"390", 390, false, "cpu"}}) {
		t.Run(c.name, func(t *testing.T) {
			p := open(t, chrome.Options{Width: c.width, Height: 1500, Dark: c.dark}, "?task=st&model=st-hybrid-neg&n=8&device="+c.device)
			p.live("st-hybrid-neg")
			if said := p.ask(); !strings.Contains(said, "right") {
				t.Fatalf("as trained the page says %q", said)
			}
			at := eval[int](p, "shellgamePage.state().t")
			same := fmt.Sprintf("s.t === %d && !s.busy", at)
			if b := p.betas(4); b[0] <= 1.5 {
				t.Errorf("beta of a swap as trained: %v, want near 2", b)
			}
			p.panel("switches")
			p.press(".view-switches input[value=clamp]")
			p.wait("!document.getElementById('changes').hidden && " + same)
			if got, want := p.text("changes-text"), "changed: beta clamped at 1"; got != want {
				t.Errorf("beside the picture: %q, want %q", got, want)
			}
			for _, b := range p.betas(4) {
				if b > 1 {
					t.Errorf("a beta of %g with beta clamped at 1", b)
				}
			}
			p.press(".cell.layer-cell[data-layer='2']")
			p.wait("document.getElementById('changes-text').textContent.includes('layer 2 off') && " + same)
			p.press(".cell[data-layer='0'][data-head='1']")
			p.wait("document.getElementById('changes-text').textContent === 'changed: beta clamped at 1; layer 2 off; head 1 of layer 0 off' && " + same)
			p.press(".toggle input")
			p.wait("document.getElementById('changes-text').textContent.includes('decay off') && " + same)
			p.shot("switches-" + c.name)
			p.click("changes-reset")
			p.wait("document.getElementById('changes').hidden && s.answer?.right && " + same)
			if b := p.betas(4); b[0] <= 1.5 {
				t.Errorf("beta of a swap after the reset: %v, want near 2", b)
			}

			// The state wiped near the end: the model has forgotten, until the patch is removed.
			p.choose2(".patch-form input", "9")
			p.click("patch-add")
			p.wait("document.getElementById('changes-text').textContent === 'changed: state set to zero after word 9' && s.answer && !s.answer.right && " + same)
			p.press(".patches button")
			p.wait("document.getElementById('changes').hidden && s.answer?.right && " + same)

			p.press("button[data-store=bf16]")
			p.wait("!!document.querySelector('.drift svg') || !!document.querySelector('.drift .error')")
			if got := eval[string](p, "document.querySelector('.drift .error')?.textContent ?? ''"); got != "" {
				t.Fatal(got)
			}
			if n := eval[int](p, "document.querySelectorAll('.drift .series .line').length"); n != 4 {
				t.Errorf("the drift has %d lines, want three layers and the next word", n)
			}
			eval[bool](p, "(document.querySelector('.drift').scrollIntoView({block: 'end'}), true)")
			p.shot("drift-" + c.name)
			p.fits()
			p.quiet()
		})
	}
}

// A state taken from another program, or another model, is what the answer comes from.
func TestPatches(t *testing.T) {
	p := open(t, chrome.Options{}, "?task=st&model=st-constructed&n=8&device=cpu")
	p.live("st-constructed")
	p.ask()
	p.panel("switches")
	p.choose2(".patch-form input", "9")
	p.choose2(".patch-form label:nth-of-type(4) select", "program")
	p.choose2(".patch-program textarea", "a,b,c,d,e=range(5)\na,b=b,a\nassert a==")
	p.choose2(".patch-program input", "2")
	p.click("patch-add")
	p.wait("s.answer?.word === '0' && !s.answer.right && !s.busy") // b of the other program
	if got, want := p.text("changes-text"), "changed: state taken from another program, word 2 after word 9"; got != want {
		t.Errorf("beside the picture: %q, want %q", got, want)
	}
	p.press(".patches button")
	p.wait("s.answer?.right && !s.busy")

	p.choose("model", "st-gdn-neg")
	p.live("st-gdn-neg")
	p.ask()
	p.choose2(".patch-form input", "9")
	p.choose2(".patch-form label:nth-of-type(2) select", "1")
	p.choose2(".patch-form label:nth-of-type(4) select", "model/st-gdn-pos")
	p.click("patch-add")
	p.wait("document.getElementById('changes-text').textContent === 'changed: state of layer 1 taken from st-gdn-pos after word 9' && s.answer && !s.busy")
	if got := p.notice("switches"); got != "" {
		t.Error(got)
	}
	p.quiet()
}

// choose2 sets a control that a selector finds.
func (p page) choose2(selector, value string) {
	p.Helper()
	eval[bool](p, fmt.Sprintf(`((e) => { e.value = %q; e.dispatchEvent(new Event("input", {bubbles: true})); e.dispatchEvent(new Event("change", {bubbles: true})); return true; })(document.querySelector(%q))`, value, selector))
}

// fits fails the test where something is wider than the window.
func (p page) fits() {
	p.Helper()
	if wide := eval[int](p, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
		p.Errorf("the page is %d pixels wider than its window", wide)
	}
}

// All five architectures answer; a second model follows the first, word by word, and says what it
// says alone; where they differ can be seen and gone to.
func TestCompare(t *testing.T) {
	for _, c := range some(1, []struct {
		name  string
		width int
		dark  bool
	}{{"1400-dark", 1400, true}, {"800", 800, false}, {"390-dark", 390, true}}) {
		t.Run(c.name, func(t *testing.T) {
			p := open(t, chrome.Options{Width: c.width, Height: 1500, Dark: c.dark}, "?task=st&model=st-hybrid-neg&n=16&seed=3&device=cpu")
			p.live("st-hybrid-neg")
			p.ask()
			p.panel("compare")
			p.click("ask-all")
			p.wait("document.querySelectorAll('.card-arch .verdict-chip').length === 5")
			five := eval[[]string](p, "[...document.querySelectorAll('.card-arch')].map((c) => c.querySelector('h3').firstChild.textContent + ': ' + c.querySelector('.verdict-chip').textContent)")
			for i, want := range []string{"transformer", "GDN (−): ✓ right", "GDN (+)", "hybrid (−): ✓ right", "hybrid (+)"} {
				if !strings.HasPrefix(five[i], want) {
					t.Errorf("answers: %q, want %d to begin with %q", five, i, want)
				}
			}
			p.press("[aria-label='compare with GDN (+)']")
			p.wait("document.querySelectorAll('.both .verdict-chip').length === 2")
			says := eval[[]string](p, "[...document.querySelectorAll('.both .says')].map((s) => s.textContent)")
			card := eval[string](p, "[...document.querySelectorAll('.card-arch')][2].querySelector('.says').textContent")
			if !strings.HasPrefix(says[1], "says "+card) {
				t.Errorf("beside the first it says %q, asked alone %q", says[1], card)
			}
			p.wait("document.querySelectorAll('.agree .differs').length >= 8") // beliefs come as there is time
			p.wait("document.querySelectorAll('.view-compare .sheet canvas').length === 3")
			p.shot("compare-" + c.name)

			// The second follows, back and forth.
			p.click("back")
			p.click("back")
			p.wait("s.t === 17 && document.querySelectorAll('.both .verdict-chip').length === 0")
			p.press(".agree .differs:not(:last-child) button")
			p.wait("document.querySelector('.agree .now').parentElement.classList.contains('differs')")

			for _, show := range []string{"b", "diff"} {
				p.press(".stage-choice input[value=" + show + "]")
				p.wait("!document.getElementById('shown').hidden")
				p.shot("compare-" + show + "-" + c.name)
			}
			if got := p.text("shown-text"); !strings.Contains(got, "st-hybrid-neg less st-gdn-pos") {
				t.Errorf("beside the picture: %q", got)
			}
			p.click("shown-reset")
			p.wait("document.getElementById('shown').hidden")

			// The same model with other switches.
			p.ask()
			p.choose2(".beside select", "st-hybrid-neg")
			p.wait("document.querySelectorAll('.both .verdict-chip').length === 2 && [...document.querySelectorAll('.both .verdict-chip')].every((v) => v.classList.contains('good'))")
			p.press(".rest details summary")
			p.press(".rest input[value=clamp]")
			p.wait("document.querySelector('.both .flag')?.textContent === 'changed: beta clamped at 1' && document.querySelectorAll('.both .verdict-chip')[1]?.classList.contains('bad')")
			if !eval[bool](p, "document.getElementById('changes').hidden && shellgamePage.state().answer.right") {
				t.Error("the switches of the second changed the first")
			}
			p.fits()
			p.quiet()
		})
	}
}

// Accuracy is computed here as the command computes it, can be stepped beside and cancelled, and
// stays when the view is closed.
func TestCurve(t *testing.T) {
	for _, c := range some(1, []struct {
		name  string
		width int
		dark  bool
	}{{"1400", 1400, false}, {"800-dark", 800, true}, {"390-dark", 390, true}}) {
		t.Run(c.name, func(t *testing.T) {
			p := open(t, chrome.Options{Width: c.width, Height: 1400, Dark: c.dark}, "?task=st&model=st-hybrid-neg&n=8&device=cpu")
			p.live("st-hybrid-neg")
			p.panel("curve")
			if n := eval[int](p, "document.querySelectorAll('.picture .series .mark').length"); n != 30 {
				t.Errorf("the shipped curve has %d marks, want five models at six sizes", n)
			}
			if n := eval[int](p, "document.querySelectorAll('.picture .dotted').length"); n != 5 {
				t.Errorf("%d dotted curves, want the paper's five", n)
			}
			p.shot("curve-" + c.name)
			p.choose("curve-samples", "16")
			for i, on := range []bool{true, false, true, false, false, false} {
				eval[bool](p, fmt.Sprintf("((b) => { if (b.checked !== %v) b.click(); return true; })(document.querySelectorAll('.view-curve [aria-label=models] input')[%d])", on, i))
			}
			for i := range 8 {
				eval[bool](p, fmt.Sprintf("((b) => { if (b.checked !== %v) b.click(); return true; })(document.querySelectorAll('.view-curve [aria-label=sizes] input')[%d])", i < 2, i))
			}
			p.click("curve-start")
			p.wait("document.getElementById('curve-status').textContent.startsWith('Done')")
			p.press(".view-curve")
			rows := eval[[][]string](p, "(document.querySelector('#panel .numbers').open = true, new Promise((r) => setTimeout(() => r([...document.querySelectorAll('#panel .numbers tbody tr')].map((tr) => [...tr.cells].map((c) => c.textContent))), 300)))")
			got := map[string]string{}
			for _, r := range rows {
				if r[2] != "" {
					got[r[0]+" "+r[1]] = r[2]
				}
			}
			for name, model := range map[string]string{"transformer": "st-transformer", "GDN (+)": "st-gdn-pos"} {
				e := exec.Command(served.bin, "eval", "--json", "--device", "cpu", "--task", "st", "--levels", "4,8", "--samples", "16", "--seed", "1", "--model", "web/zoo/"+model)
				e.Dir = root
				out, err := e.Output()
				if err != nil {
					t.Fatalf("shellgame eval: %v", err)
				}
				var want struct {
					Levels []struct {
						N        int
						Accuracy float64
					}
				}
				if err := json.Unmarshal(out, &want); err != nil {
					t.Fatal(err)
				}
				for _, l := range want.Levels {
					if a := got[fmt.Sprintf("%s %d", name, l.N)]; a != strconv.FormatFloat(l.Accuracy, 'f', 4, 64) {
						t.Errorf("%s at %d: %s here, %.4f of the command", model, l.N, a, l.Accuracy)
					}
				}
			}
			if len(got) != 4 {
				t.Errorf("measured %v, want two models at two sizes", got)
			}
			if n := eval[int](p, "document.querySelectorAll('.picture .dotted').length"); n != 2 {
				t.Errorf("%d dotted curves beside what was measured, want those of the two models", n)
			}
			if got := eval[string](p, "document.querySelector('.curve-form + .hint').textContent"); !strings.HasPrefix(got, "This takes about ") {
				t.Errorf("before measuring the view says %q, want how long it takes", got)
			}
			p.shot("curve-here-" + c.name)

			// A long one leaves the page alive, and ends when told to.
			p.choose("curve-samples", "2000")
			p.click("curve-start")
			p.wait("document.querySelector('.view-curve progress').value > 0")
			if n := eval[int](p, "[...document.querySelectorAll('.view-curve fieldset input:disabled')].filter((i) => getComputedStyle(i).opacity === '0').length"); n != 3 {
				t.Errorf("while measuring %d tasks cannot be chosen and show no circle, want 3", n)
			}
			p.click("step")
			p.wait("s.t === 1")
			p.click("curve-cancel")
			p.wait("document.getElementById('curve-status').textContent.startsWith('Cancelled')")
			p.click("tab-curve")
			p.wait("!document.querySelector('.view-curve')")
			p.panel("curve")
			if !eval[bool](p, "document.querySelectorAll('.picture .series .mark').length > 0 && document.querySelector('.view-curve input[value=here]').checked") {
				t.Error("what was measured is gone after the view was closed")
			}
			p.fits()
			p.quiet()
		})
	}
}

// keep makes the page keep what it would save; saved returns the name and the bytes of the last.
const keepFiles = `(globalThis.files = [], globalThis.blobs = new Map(), ((make) => {
	URL.createObjectURL = (b) => { const u = make.call(URL, b); blobs.set(u, b); return u; };
	HTMLAnchorElement.prototype.click = function () { files.push(Promise.resolve({ name: this.download, blob: blobs.get(this.href) })); };
})(URL.createObjectURL), true)`

func (p page) saved(n int) (name string, data []byte) {
	p.Helper()
	p.wait(fmt.Sprintf("files.length >= %d", n))
	f := eval[[]string](p, fmt.Sprintf(`files[%d].then(async (f) => { const b = new Uint8Array(await f.blob.arrayBuffer()); let s = ""; for (let i = 0; i < b.length; i += 8192) s += String.fromCharCode(...b.subarray(i, i + 8192)); return [f.name, btoa(s)]; })`, n-1))
	data, err := base64.StdEncoding.DecodeString(f[1])
	if err != nil {
		p.Fatal(err)
	}
	return f[0], data
}

// A link to the view Export opens it before there is a model, and draws once there is.
func TestExportLink(t *testing.T) {
	p := open(t, chrome.Options{}, `?task=st&n=8&seed=1&device=cpu#v=1&j={"panel":"export","t":3}`)
	p.live("st-constructed")
	p.wait("s.t === 3 && !s.busy && !!document.querySelector('.view-export .sheet svg')")
	p.quiet()
}

// What the page saves is what the command prints: the same keys in the same order, numbers written
// alike and within the device's bounds. Pictures are pictures, tables hold the numbers, and the
// program runs in Python.
func TestExport(t *testing.T) {
	devices := map[string]int{"cpu": 390}
	if whole {
		devices["webgpu"] = 1400
	}
	for device, width := range devices {
		t.Run(device, func(t *testing.T) {
			p := open(t, chrome.Options{Width: width, Height: 1500, Dark: device == "cpu"}, "?task=sbr&model=sbr-hybrid-neg&n=4&device="+device)
			p.live("sbr-hybrid-neg")
			p.ask()
			p.click("step")
			p.wait("s.t === s.words.length - 1")
			eval[bool](p, keepFiles)
			p.panel("export")
			p.wait("document.querySelectorAll('.view-export .sheet canvas').length === 12")
			if n := eval[int](p, "document.querySelectorAll('.view-export .sheet svg > g').length"); n != 3 {
				t.Errorf("%d colour bars, want one a layer", n)
			}
			p.shot("export-" + device)

			p.click("export")
			name, page := p.saved(1)
			if name != "sbr-hybrid-neg-trace.json" {
				t.Errorf("the trace is called %s", name)
			}
			var doc struct{ Source string }
			if err := json.Unmarshal(page, &doc); err != nil {
				t.Fatal(err)
			}
			trace := exec.Command(served.bin, "trace", "--device", "cpu", "--belief", "--model", "web/zoo/sbr-hybrid-neg", doc.Source)
			trace.Dir = root
			command, err := trace.Output()
			if err != nil {
				t.Fatalf("shellgame trace: %v", err)
			}
			alike(p, string(page), string(command))

			p.press(".panel-tools button:nth-of-type(1)")
			if name, png := p.saved(2); !strings.HasSuffix(name, ".png") || !strings.HasPrefix(string(png), "\x89PNG") || len(png) < 20_000 {
				t.Errorf("%s: %d bytes, want a picture", name, len(png))
			} else if err := os.WriteFile(filepath.Join("testdata", "out", "exported-"+device+".png"), png, 0o644); err != nil {
				t.Error(err)
			}
			p.press(".panel-tools button:nth-of-type(2)")
			if name, svg := p.saved(3); !strings.HasSuffix(name, ".svg") || strings.Count(string(svg), "<image") != 12 || strings.Contains(string(svg), "style=") {
				t.Errorf("%s: %d bytes with %d images, want twelve heads without styles", name, len(svg), strings.Count(string(svg), "<image"))
			}
			p.press(".panel-tools button:nth-of-type(3)")
			name, csv := p.saved(4)
			lines := strings.Split(strings.TrimSpace(string(csv)), "\r\n")
			if !strings.HasSuffix(name, ".csv") || lines[0] != "layer,head,k,v,state" || len(lines) != 1+3*4*32*64 {
				t.Errorf("%s: %d lines that begin with %q, want the numbers of 12 heads", name, len(lines), lines[0])
			}
			for _, what := range []string{"state", "attention", "next"} {
				p.choose2(".view-export .pick select", what)
				eval[bool](p, "(document.querySelector('#panel .numbers').open = false, new Promise((r) => setTimeout(() => { document.querySelector('#panel .numbers').open = true; setTimeout(() => r(true), 300); }, 100)))")
				want := map[string][]int{"state": {32, 65}, "attention": {eval[int](p, "shellgamePage.state().t") + 1, 6}, "next": {8, 2}}[what]
				if got := eval[[]int](p, "((t) => [t.tBodies[0].rows.length, t.rows[0].cells.length])(document.querySelector('#panel .numbers table'))"); got[0] != want[0] || got[1] != want[1] {
					t.Errorf("the table of %s is %v, want %v", what, got, want)
				}
				p.shot("export-" + what + "-" + device)
			}

			eval[bool](p, "(globalThis.copied = '', navigator.clipboard.writeText = async (s) => { copied = s; }, true)")
			p.click("copy-python")
			p.wait("copied.startsWith('bits=[')")
			script := exec.Command("python3", "-c", eval[string](p, "copied"))
			out, err := script.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "every assert holds") {
				t.Errorf("python3: %v\n%s", err, out)
			}
			p.click("copy-bibtex")
			p.wait("copied.startsWith('@article{merrill2026olmohybrid')")
			p.fits()
			p.quiet()
		})
	}
}

var numberText = regexp.MustCompile(`-?\d+(\.\d+)?([eE][-+]?\d+)?`)

// alike compares two traces as text: all that is no number must be the same, and numbers near.
func alike(p page, got, want string) {
	p.Helper()
	device := regexp.MustCompile(`"(device|adapter)":"[^"]*"`)
	top := regexp.MustCompile(`"top":\[\{.*?\}\]`) // those that are equally improbable may change places
	clean := func(s string) string {
		return top.ReplaceAllStringFunc(device.ReplaceAllString(s, `"$1":""`), func(t string) string { return t[:strings.Index(t, "}")] + "}]" })
	}
	got, want = clean(got), clean(want)
	plain := func(s string) string { return numberText.ReplaceAllString(s, "#") }
	g, w := plain(got), plain(want)
	if g != w {
		at := 0
		for at < min(len(g), len(w)) && g[at] == w[at] {
			at++
		}
		p.Fatalf("the traces differ in more than numbers:\npage    %.200s\ncommand %.200s", g[max(at-60, 0):], w[max(at-60, 0):])
	}
	a, b := numberText.FindAllString(got, -1), numberText.FindAllString(want, -1)
	if len(a) < 100_000 {
		p.Errorf("compared %d numbers, want the states of all words", len(a))
	}
	for i := range a {
		x, err1 := strconv.ParseFloat(a[i], 64)
		y, err2 := strconv.ParseFloat(b[i], 64)
		if err1 != nil || err2 != nil || math.Abs(x-y) > 1e-3 {
			p.Fatalf("number %d: got %s, want %s within 1e-3", i, a[i], b[i])
		}
		// Each is the shortest decimal of its float32, in JSON's form.
		text, err := json.Marshal(float32(x))
		if err != nil || string(text) != a[i] && a[i] != strconv.Itoa(int(x)) {
			p.Fatalf("number %d: the page writes %s, the command would write %s", i, a[i], text)
		}
	}
}
