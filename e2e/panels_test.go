//go:build !js

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shellgame/internal/chrome"
)

// view opens a view under the picture and waits until something selected by css is in it.
func (p page) view(id, css string) {
	p.Helper()
	p.panel(id)
	p.wait(fmt.Sprintf("document.querySelector(%q)", ".view-"+id+" "+css))
}

// in is the text of the first element selected by css.
func (p page) in(css string) string {
	p.Helper()
	return eval[string](p, fmt.Sprintf("document.querySelector(%q)?.textContent ?? ''", css))
}

// press clicks the first element selected by css.
func (p page) press(css string) {
	p.Helper()
	if !eval[bool](p, fmt.Sprintf("(e => (e?.click(), !!e))(document.querySelector(%q))", css)) {
		p.Fatalf("there is no %s", css)
	}
}

// The cups hold the truth after every swap, and change places while it is read.
func TestCups(t *testing.T) {
	p := open(t, chrome.Options{}, "?task=st&model=st-constructed&n=6&seed=3&device=cpu")
	p.live("st-constructed")
	p.view("cups", "svg")
	n := eval[int](p, "shellgamePage.state().words.length")
	values := []string{"0", "1", "2", "3", "4"}
	names := "abcde"
	for i := 0; i < n; i++ {
		p.click("reset")
		eval[bool](p, fmt.Sprintf("((e) => { e.value = %d; e.dispatchEvent(new Event('input')); return true; })(document.getElementById('timeline'))", i))
		p.at(i)
		word := eval[string](p, fmt.Sprintf("shellgamePage.state().words[%d]", i))
		if len(word) == len("a,b=b,a") {
			x, y := strings.IndexByte(names, word[0]), strings.IndexByte(names, word[2])
			values[x], values[y] = values[y], values[x]
		}
		want := "holds " + values[0]
		if i == 0 {
			want = "is empty"
		}
		for k, v := range values {
			if i > 0 {
				want = "holds " + v
			}
			label := eval[string](p, "document.querySelector('.view-cups svg').getAttribute('aria-label')")
			if !strings.Contains(label, fmt.Sprintf("%c %s", names[k], want)) {
				t.Fatalf("after word %d, %s: the cups say %q, want %c %s", i, word, label, names[k], want)
			}
		}
	}
	p.quiet()
}

// A swap moves its two cups past each other in at most 400 ms and leaves the others alone; nothing
// moves after a jump, nor where motion is not wanted.
func TestCupsMove(t *testing.T) {
	for _, reduced := range []bool{false, true} {
		p := open(t, chrome.Options{ReducedMotion: reduced}, "?task=st&model=st-constructed&n=6&seed=3&device=cpu")
		p.live("st-constructed")
		p.view("cups", "svg")
		eval[bool](p, `(globalThis.watch = (id) => new Promise((done) => {
			const seen = [];
			const start = performance.now();
			document.getElementById(id).click();
			(function look() {
				const now = performance.now();
				seen.push([now - start, ...[...document.querySelectorAll(".view-cups svg > g")].flatMap((g) => [g.transform.baseVal[0].matrix.e, g.transform.baseVal[0].matrix.f])]);
				if (now - start < 1500) requestAnimationFrame(look);
				else done(seen);
			})();
		}), true)`)
		for _, c := range []struct {
			from   int
			button string
			moves  int
		}{{1, "step", 2}, {2, "back", 2}, {0, "step", 0}, {2, "end", 0}} {
			eval[bool](p, fmt.Sprintf("((e) => { e.value = %d; e.dispatchEvent(new Event('input')); return true; })(document.getElementById('timeline'))", c.from))
			p.at(c.from)
			time.Sleep(500 * time.Millisecond)
			seen := eval[[][]float64](p, fmt.Sprintf("watch(%q)", c.button))
			last := seen[len(seen)-1]
			moved := 0
			for cup := range 5 {
				for _, s := range seen {
					x, y := s[1+2*cup], s[2+2*cup]
					if y != last[2+2*cup] { // on an arc
						if x == last[1+2*cup] {
							t.Errorf("cup %d is over its place", cup)
						}
						moved++
						break
					}
				}
			}
			want := c.moves
			if reduced {
				want = 0
			}
			if moved != want {
				t.Errorf("%s from word %d, reduced motion %v: %d cups moved on arcs, want %d", c.button, c.from, reduced, moved, want)
			}
		}
		p.quiet()
	}
}

// What the model believes is asked while it reads: a model that loses track is found out, the first
// wrong step is one click away, and the constructed model is never wrong.
func TestBeliefPanel(t *testing.T) {
	p := open(t, chrome.Options{Width: 1400, Height: 1000}, "?task=st&model=st-gdn-pos&n=64&seed=2&device=cpu")
	p.live("st-gdn-pos")
	p.view("belief", ".sheet svg")
	p.press(".view-belief button:last-of-type")
	p.wait("s.t === s.words.length - 2 && !s.busy")
	const all = "document.querySelector('.view-belief .lead').textContent.includes(' of 325 beliefs')" // start and 64 swaps, five variables
	p.wait(all)
	right := eval[int](p, "parseInt(document.querySelector('.view-belief .lead').textContent)")
	if right < 30 || right > 300 {
		t.Errorf("%d of 325 beliefs are right: want a model that loses track on the way", right)
	}
	label := p.in(".view-belief button.small")
	var word int
	if _, err := fmt.Sscanf(label, "Go to the first wrong step: word %d", &word); err != nil || word < 2 {
		t.Fatalf("the button says %q, want a first wrong step after the start", label)
	}
	if n := eval[int](p, "document.querySelectorAll('#marks line').length"); n < 20 {
		t.Errorf("%d marks over the timeline, want one for each step with a wrong belief", n)
	}
	p.shot("belief-wrong")
	p.press(".view-belief button.small")
	p.at(word)
	// The cups of that moment: one of them is believed to hold something else.
	p.view("cups", "svg")
	p.wait("/✗/.test(document.querySelector('.view-cups svg').textContent)")
	p.shot("cups-wrong")
	p.click("back")
	p.at(word - 1)
	p.wait("!/✗/.test(document.querySelector('.view-cups svg').textContent) && /✓/.test(document.querySelector('.view-cups svg').textContent)")

	p.choose("model", "st-constructed")
	p.live("st-constructed")
	p.click("end")
	p.view("belief", ".sheet svg")
	p.wait(all)
	if got := p.in(".view-belief .lead"); !strings.HasPrefix(got, "325 of 325 ") {
		t.Errorf("the constructed model: %q, want that all are right", got)
	}
	// The keyboard reads the cells and goes to their words.
	p.press(".view-belief .sheet")
	eval[bool](p, "(document.querySelector('.view-belief .sheet').focus(), true)")
	for range 3 {
		p.key("ArrowRight")
	}
	want := eval[string](p, "`after word 3 \"${shellgamePage.state().words[3]}\": asked for a the model says `")
	if got := p.in(".view-belief .tip"); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "which is right") {
		t.Errorf("under the cursor: %q, want %q …", got, want)
	}
	p.key("Enter")
	p.at(3)
	p.quiet()
}

// numbers reads the open view's table as {name of the row: its cells}.
func (p page) numbers(view string) map[string][]string {
	p.Helper()
	eval[bool](p, "((d) => (d.open = false, d.open = true))(document.querySelector('#panel .numbers'))")
	p.wait("document.querySelector('#panel .numbers tbody tr')")
	return eval[map[string][]string](p, `Object.fromEntries([...document.querySelectorAll("#panel .numbers tbody tr")].map((r) => {
		const c = [...r.cells].map((x) => x.textContent);
		return [c[0] + (`+fmt.Sprint(view == "maps")+` ? " " + c[1] : ""), c.slice(`+fmt.Sprint(map[bool]int{false: 1, true: 2}[view == "maps"])+`)];
	}))`)
}

// head is what the page's trace holds of a head at a step.
type head struct {
	Word  string
	Q, K  []float64
	V     []float64
	Alpha float64
	Beta  float64
	State [][]float64
}

func (p page) heads(layer, h int) []head {
	p.Helper()
	var r struct {
		Trace struct {
			Steps []struct {
				Word   string
				Layers []struct {
					Q, K, V     [][]float64
					Alpha, Beta []float64
					State       [][][]float64
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(p.request(`{type: "trace"}`)), &r); err != nil {
		p.Fatal(err)
	}
	var out []head
	for _, s := range r.Trace.Steps {
		l := s.Layers[layer]
		out = append(out, head{s.Word, l.Q[h], l.K[h], l.V[h], l.Alpha[h], l.Beta[h], l.State[h]})
	}
	return out
}

// floats reads numbers of a table, which have at least two digits that count.
func (p page) floats(cells []string) []float64 {
	p.Helper()
	out := make([]float64, len(cells))
	for i, c := range cells {
		f, err := strconv.ParseFloat(strings.ReplaceAll(c, "\u2212", "-"), 64)
		if err != nil {
			p.Fatalf("%q: %v", c, err)
		}
		out[i] = f
	}
	return out
}

// near fails for a number of the page that is not the one wanted, as far as it is printed.
func near(t testing.TB, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 6e-4+1e-3*math.Abs(want)) { // three decimals, and the trace is float32
		t.Errorf("%s: got %g, want %g", what, got, want)
	}
}

// One step of a trained model taken apart: the page's numbers are those of its trace, in the order
// of the delta rule, and the dial shows the eigenvalue.
func TestAnatomyPanel(t *testing.T) {
	const layer, h = 1, 2
	p := open(t, chrome.Options{Width: 1400, Height: 1000}, "?task=sbr&model=sbr-hybrid-neg&n=8&seed=2&device=cpu")
	p.live("sbr-hybrid-neg")
	p.click("end")
	p.wait("s.answer && !s.busy")
	p.view("anatomy", ".verdict-chip.good")
	pick := func(nth int, value int) {
		t.Helper()
		eval[bool](p, fmt.Sprintf("((s) => { s.value = %d; s.dispatchEvent(new Event('change')); return true; })(document.querySelectorAll('.view-anatomy select')[%d])", value, nth))
	}
	pick(0, layer)
	p.wait(fmt.Sprintf("document.querySelector('.view-anatomy .lead').textContent.includes('layer %d, head 0')", layer))
	pick(1, h)
	heads := p.heads(layer, h)
	for _, at := range []int{17, 18, 0} { // a swap, another, the first word
		eval[bool](p, fmt.Sprintf("((e) => { e.value = %d; e.dispatchEvent(new Event('input')); return true; })(document.getElementById('timeline'))", at))
		p.at(at)
		now := heads[at]
		p.wait(fmt.Sprintf("document.querySelector('.view-anatomy .lead').textContent.startsWith('%s at layer %d, head %d:') && !document.querySelector('.view-anatomy .lead').closest('[hidden]')", now.Word, layer, h))
		p.wait("document.querySelector('.view-anatomy .verdict-chip.good')")
		before := make([][]float64, len(now.K))
		if at > 0 {
			before = heads[at-1].State
		} else {
			for i := range before {
				before[i] = make([]float64, len(now.V))
			}
		}
		table := p.numbers("anatomy")
		out := make([]float64, len(now.V))
		read := make([]float64, len(now.V))
		length := 0.0
		for i, k := range now.K {
			length += k * k
			for j := range now.V {
				read[j] += k * now.Alpha * before[i][j]
				out[j] += now.Q[i] * now.State[i][j]
			}
		}
		for i, k := range now.K {
			rows := map[string][]float64{}
			for _, name := range []string{"before", "decayed", "erase", "erased", "write", "written"} {
				rows[name] = p.floats(table[fmt.Sprintf("%s[k=%d]", name, i)])
			}
			for j, v := range now.V {
				decayed := now.Alpha * before[i][j]
				for name, want := range map[string]float64{
					"before": before[i][j], "decayed": decayed, "erase": -now.Beta * k * read[j], "erased": decayed - now.Beta*k*read[j],
					"write": now.Beta * k * v, "written": now.State[i][j],
				} {
					near(t, fmt.Sprintf("word %d: %s[%d,%d]", at, name, i, j), rows[name][j], want)
				}
			}
		}
		for j, got := range p.floats(table["read before write"]) {
			near(t, fmt.Sprintf("word %d: read[%d]", at, j), got, read[j])
		}
		for j, got := range p.floats(table["output"]) {
			near(t, fmt.Sprintf("word %d: output[%d]", at, j), got, out[j])
		}
		eigenvalue := now.Alpha * (1 - now.Beta*length)
		label := eval[string](p, "document.querySelector('.dial svg').getAttribute('aria-label')")
		if want := strings.ReplaceAll(fmt.Sprintf("Eigenvalues of the step: %.2f along k, %.2f in 31 other directions", eigenvalue, now.Alpha), "-", "\u2212"); label != want {
			t.Errorf("word %d: the dial says %q, want %q", at, label, want)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	p.click("step")
	p.at(1)
	p.wait("document.querySelector('#panel .numbers caption').textContent.startsWith('Word 1, ')") // the open table follows
	// The stages one after the other, by play, and by hand.
	stage := func(n int) string {
		return fmt.Sprintf("document.querySelectorAll('.stage-card')[%d].hasAttribute('aria-current')", n)
	}
	p.wait(stage(0))
	eval[bool](p, "([...document.querySelectorAll('.stage-buttons button')].find((b) => b.textContent === 'Play').click(), true)")
	for n := range 5 {
		p.wait(stage(n))
	}
	p.press(".stage-card:nth-child(3)")
	p.wait(stage(2))
	if got := p.in(".view-anatomy .formula"); !strings.HasPrefix(got, "S \u2190 S \u2212 β·k (kᵀS) = S \u2212 ") {
		t.Errorf("the formula of erasing: %q", got)
	}
	p.shot("anatomy")
	// A model without a state says so.
	p.choose("model", "sbr-transformer")
	p.live("sbr-transformer")
	p.wait("document.querySelector('.view-anatomy').textContent.includes('sbr-transformer has no delta-rule layer')")
	p.quiet()
}

// The delta rule's map is what its state holds: with the values v it gives qᵀS; attention's is the
// softmax of the trace. One layer in common with the other views.
func TestMapsPanel(t *testing.T) {
	for _, device := range some(1, []string{"cpu", "webgpu"}) {
		t.Run(device, func(t *testing.T) { mapsPanel(t, device) })
	}
}

func mapsPanel(t *testing.T, device string) {
	const layer, h = 2, 1
	p := open(t, chrome.Options{Width: 1400, Height: 1000}, "?task=sbr&model=sbr-hybrid-neg&n=8&seed=2&device="+device)
	p.live("sbr-hybrid-neg")
	p.click("end")
	p.wait("s.answer && !s.busy")
	p.view("maps", ".map-pane:first-child .verdict-chip.good")
	p.wait("document.querySelectorAll('.view-maps .verdict-chip.good').length === 2")
	if got := p.in(".map-pane:first-child .verdict-chip"); !strings.Contains(got, "map × V equals the kernel's output: worst error ") {
		t.Errorf("the check says %q", got)
	}
	for nth, value := range []int{layer, h} {
		eval[bool](p, fmt.Sprintf("((s) => { s.value = %d; s.dispatchEvent(new Event('change')); return true; })(document.querySelectorAll('.map-pane:first-child select')[%d])", value, nth))
	}
	p.wait(fmt.Sprintf("document.querySelector('.map-pane .sheet').getAttribute('aria-label').includes('layer %d, head %d:')", layer, h))
	heads := p.heads(layer, h)
	at := eval[int](p, "shellgamePage.state().t")
	table := p.numbers("maps")
	if len(table) != 2*(at+1) {
		t.Fatalf("the table has %d rows, want %d for each map", len(table), at+1)
	}
	for i := 0; i <= at; i++ {
		row := p.floats(table[fmt.Sprintf("delta rule, layer %d head %d %d %s", layer, h, i, heads[i].Word)][:i+1])
		for c := range heads[i].V {
			got, want := 0.0, 0.0
			for j, w := range row {
				got += w * heads[j].V[c]
			}
			for k, q := range heads[i].Q {
				want += q * heads[i].State[k][c]
			}
			if math.Abs(got-want) > 2e-3 {
				t.Fatalf("word %d: map × V [%d] is %g, qᵀS %g", i, c, got, want)
			}
		}
		sum := 0.0
		for _, w := range p.floats(table[fmt.Sprintf("attention, layer 3 head 0 %d %s", i, heads[i].Word)][:i+1]) {
			sum += w
		}
		if math.Abs(sum-1) > 0.01 {
			t.Fatalf("word %d: attention adds up to %g", i, sum)
		}
	}
	p.view("anatomy", ".verdict-chip.good")
	if got := p.in(".view-anatomy .lead"); !strings.Contains(got, fmt.Sprintf("layer %d, head %d", layer, h)) {
		t.Errorf("the other view stands at %q, want layer %d, head %d", got, layer, h)
	}
	// Back and on again: the rows known are not asked for twice, those beyond are taken off.
	p.view("maps", ".verdict-chip.good")
	p.click("back")
	p.at(at - 1)
	if got := len(p.numbers("maps")); got != 2*at {
		t.Errorf("one word back the table has %d rows, want %d", got, 2*at)
	}
	p.shot("maps")
	for model, says := range map[string]string{"sbr-transformer": "sbr-transformer has no delta rule layer", "sbr-gdn-neg": "sbr-gdn-neg has no attention layer"} {
		p.choose("model", model)
		p.live(model)
		p.wait(fmt.Sprintf("document.querySelector('.view-maps').textContent.includes(%q)", says))
		p.wait("document.querySelectorAll('.view-maps .verdict-chip.good').length > 0")
	}
	p.quiet()
}

// Each view can be saved as PNG, SVG and CSV, and while none is open nothing is asked for one.
func TestPanelFiles(t *testing.T) {
	p := open(t, chrome.Options{
		Script: `
		globalThis.files = [];
		const make = URL.createObjectURL;
		URL.createObjectURL = (b) => { if (top === window) b.text().then((text) => files.push({type: b.type, size: b.size, text: text.slice(0, 200000)})); return make.call(URL, b); };
		globalThis.asked = [];
		if (top !== window) addEventListener("message", (e) => { if (e.data?.type) top.asked.push(e.data.type); });`,
	}, "?task=sbr&model=sbr-hybrid-neg&n=4&seed=2&device=cpu")
	p.live("sbr-hybrid-neg")
	p.click("end")
	p.wait("s.answer && !s.busy")
	for _, v := range [][2]string{{"cups", "svg"}, {"anatomy", ".verdict-chip.good"}, {"maps", ".verdict-chip.good"}, {"belief", ".sheet svg"}, {"inspect", ".inspect-layers .sheet"}} {
		p.view(v[0], v[1])
		eval[bool](p, "(files.length = 0, true)")
		for i, kind := range []string{"PNG", "SVG", "CSV"} {
			eval[bool](p, fmt.Sprintf("([...document.querySelectorAll('#panel .panel-tools button')].find((b) => b.textContent === %q).click(), true)", kind))
			p.wait(fmt.Sprintf("files.length === %d", i+1))
		}
		type file struct {
			Type, Text string
			Size       int
		}
		got := eval[[]file](p, "files")
		if got[0].Type != "image/png" || got[0].Size < 2000 {
			t.Errorf("%s: %s of %d bytes, want a picture", v[0], got[0].Type, got[0].Size)
		}
		if text := got[1].Text; !strings.HasPrefix(text, "<svg") || strings.Contains(text, "var(--") || strings.Contains(strings.ReplaceAll(text, "http://www.w3.org", ""), "http") {
			t.Errorf("%s: the SVG does not stand alone: %.200s", v[0], text)
		}
		lines := strings.Split(strings.TrimSpace(got[2].Text), "\r\n")
		if len(lines) < 4 || strings.Count(lines[1], ",") < 3 {
			t.Errorf("%s: the CSV has %d lines, the second %q", v[0], len(lines), lines[min(1, len(lines)-1)])
		}
	}
	if got := eval[string](p, "asked.join(' ')"); !strings.Contains(got, "anatomy") || !strings.Contains(got, "maps") {
		t.Errorf("the open views asked for %s, want anatomy and maps among it", got)
	}
	p.click("tab-inspect") // closes it
	p.wait("document.getElementById('panel').hidden")
	eval[bool](p, "(asked.length = 0, true)")
	p.click("back")
	p.wait("s.t === s.words.length - 3")
	for _, a := range eval[[]string](p, "asked") {
		if a == "anatomy" || a == "maps" || a == "inspect" {
			t.Errorf("%s was asked for while no view is open", a)
		}
	}
	p.quiet()
}

// Every panel at three widths in both themes: nothing is wider than the window.
func TestPanelSizes(t *testing.T) {
	for _, c := range some(2, []struct {
		name          string
		width, height int
		dark          bool
	}{
		{"1400", 1400, 1000, false},
		{"390-dark", 390, 1300, true},
		{"1400-dark", 1400, 1000, true},
		{"800", 800, 1100, false},
		{"800-dark", 800, 1100, true},
		{"390", 390, 1300, false},
	}) {
		t.Run(c.name, func(t *testing.T) {
			p := open(t, chrome.Options{Width: c.width, Height: c.height, Dark: c.dark}, "?task=sbr&model=sbr-hybrid-neg&n=8&seed=2&device=cpu")
			p.live("sbr-hybrid-neg")
			p.click("end")
			p.wait("s.answer && !s.busy")
			for _, v := range [][2]string{{"cups", "svg"}, {"anatomy", ".verdict-chip.good"}, {"maps", ".verdict-chip.good"}, {"belief", ".sheet svg"}, {"inspect", ".inspect-layers .sheet"}} {
				p.view(v[0], v[1])
				if wide := eval[int](p, "document.documentElement.scrollWidth - innerWidth"); wide > 0 {
					t.Errorf("%s: the page is %d pixels wider than its window", v[0], wide)
				}
				p.shot("panel-" + v[0] + "-" + c.name)
			}
			p.quiet()
		})
	}
}

// At 512 swaps a step with a view open costs its drawing at most 10 ms.
func TestPanelSpeed(t *testing.T) {
	p := open(t, chrome.Options{Width: 1400, Height: 1000, Script: `globalThis.drawn = []; new PerformanceObserver((l) => { for (const e of l.getEntries()) if (e.name === "shellgame-panel") drawn.push(e.duration); }).observe({type: "measure"});`}, "?task=st&model=st-hybrid-neg&n=512&seed=2&device=cpu")
	p.live("st-hybrid-neg")
	p.click("end")
	p.wait("s.t === s.words.length - 2 && !s.busy")
	for _, v := range some(2, [][2]string{{"maps", ".verdict-chip.good"}, {"belief", ".sheet svg"}, {"anatomy", ".verdict-chip.good"}, {"cups", "svg"}, {"inspect", ".inspect-layers .sheet"}}) {
		p.view(v[0], v[1])
		for i := range 10 {
			p.click("back")
			p.at(515 - 1 - i)
		}
		var steps []float64
		for i := range 10 {
			eval[bool](p, "(drawn.length = 0, true)")
			p.click("step")
			p.at(515 - 10 + i + 1)
			steps = append(steps, eval[float64](p, "new Promise((r) => setTimeout(() => r(drawn.reduce((s, x) => s + x, 0)), 150))"))
		}
		slices.Sort(steps)
		if steps[0] == 0 {
			t.Fatalf("%s: a step's drawing was not measured", v[0])
		}
		// The clock runs on while others have the processor, so the quicker steps tell.
		t.Logf("%s at 512 swaps: a quarter of the steps within %.1f ms, half %.1f ms, all %.1f ms", v[0], steps[2], steps[5], steps[9])
		if steps[2] > 10 {
			t.Errorf("%s takes %.1f ms a step, want at most 10", v[0], steps[2])
		}
		p.shot("panel-512-" + v[0])
	}
	p.quiet()
}
