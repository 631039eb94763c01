//go:build !js

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/cdproto/systeminfo"
	"github.com/chromedp/chromedp"

	"shellgame/internal/chrome"
)

// Nobody looks: the playback stands still and goes on when somebody does.
func TestHidden(t *testing.T) {
	p := open(t, chrome.Options{Script: `
		let hidden = false;
		Object.defineProperty(Document.prototype, "hidden", { get: () => hidden });
		globalThis.hide = (v) => { hidden = v; document.dispatchEvent(new Event("visibilitychange")); };`}, "?task=st&model=st-constructed&n=64&device=cpu")
	p.live("st-constructed")
	p.click("reset")
	p.choose("speed", "10")
	p.click("toggle")
	p.wait("s.t >= 2 && s.playing")
	eval[bool](p, "(hide(true), true)")
	p.wait("!s.playing")
	time.Sleep(300 * time.Millisecond)
	at := eval[int](p, "shellgamePage.state().t")
	time.Sleep(700 * time.Millisecond)
	if now := eval[int](p, "shellgamePage.state().t"); now != at {
		t.Errorf("hidden, it reads on from word %d to %d", at, now)
	}
	eval[bool](p, "(hide(false), true)")
	p.wait(fmt.Sprintf("s.playing && s.t > %d", at+1))
	p.click("toggle")
	eval[bool](p, "(hide(true), hide(false), true)")
	if eval[bool](p, "shellgamePage.state().playing") {
		t.Error("what was paused plays after it was hidden")
	}
	p.quiet()
}

// After a sleep the GPU is tested before somebody relies on it.
func TestSleep(t *testing.T) {
	if !whole {
		t.Skip("E2E=whole")
	}
	p := open(t, chrome.Options{Script: faults + `
		const now = Date.now;
		let skew = 0;
		Date.now = () => now() + skew;
		globalThis.sleep = (ms) => { skew += ms; };`}, "?task=st&model=st-constructed&armed&fault=nan")
	p.live("st-constructed")
	p.write(own)
	p.wait("s.words.length === 7 && !s.busy")
	p.click("step")
	p.at(1)
	eval[bool](p, "(sleep(3 * 3600e3), true)")
	time.Sleep(6 * time.Second)
	if d := eval[string](p, "shellgamePage.state().device.device"); d != "webgpu" {
		t.Fatalf("a good GPU was refused after a sleep: %s", p.notice("device"))
	}
	eval[bool](p, "(document.querySelector('iframe').contentWindow.arm(), sleep(3600e3), true)")
	p.wait("s.device.device === 'cpu' && s.t === 1 && !s.busy && !document.getElementById('notice-device').textContent.includes('Reading')")
	p.onCPU("CPU \u00b7 GPU refused: wrong numbers", "is off by not a number")
	p.quiet()
}

// The browser's GPU process is killed for real: WebGPU and WebGL go with it.
func TestGPUProcessGone(t *testing.T) {
	if !whole {
		t.Skip("E2E=whole")
	}
	p := open(t, chrome.Options{}, "?task=st&model=st-constructed")
	p.live("st-constructed")
	p.write(own)
	p.wait("s.words.length === 7 && !s.busy")
	p.click("step")
	p.at(1)
	processes, err := chromedp.CallBrowser(p.Chrome.Context(), systeminfo.GetProcessInfo, cdp.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, info := range processes.ProcessInfo {
		if info.Type != "GPU" {
			continue
		}
		process, err := os.FindProcess(int(info.ID))
		if err == nil {
			err = process.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
		killed++
	}
	if killed != 1 {
		t.Fatalf("killed %d GPU processes of %v", killed, processes.ProcessInfo)
	}
	// Both take a while to be noticed, the drawings by the browser, the device by the next step.
	p.wait("s.noStage && !s.busy")
	p.click("step")
	p.wait("s.lost && s.t === 2 && !s.busy")
	badge, notice := p.text("device-text"), p.text("notices")
	t.Logf("%s | %s", badge, notice)
	p.ask2("4")
	if got := eval[string](p, "shellgamePage.state().program"); got != own {
		t.Errorf("the program is %q", got)
	}
	compareSteps(p)
	p.shot("gpu-process-gone")
}

// No storage of any kind, and full storage: the page does all but keep.
func TestNoStorage(t *testing.T) {
	if !whole {
		t.Skip("E2E=whole")
	}
	forbid := `
		const no = () => { throw new DOMException("The operation is insecure.", "SecurityError"); };
		for (const name of ["localStorage", "sessionStorage", "indexedDB", "caches", "cookieStore"]) Object.defineProperty(globalThis, name, { get: no });
		for (const name of ["serviceWorker", "storage", "locks"]) Object.defineProperty(Navigator.prototype, name, { get: no });
		Object.defineProperty(Document.prototype, "cookie", { get: no, set: no });`
	for _, c := range []struct{ name, script string }{
		{"forbidden", forbid},
		{"missing", `for (const name of ["localStorage", "sessionStorage", "indexedDB", "caches"]) Object.defineProperty(globalThis, name, { value: undefined });
			Object.defineProperty(Navigator.prototype, "serviceWorker", { value: undefined });`},
		{"full", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := publish(t)
			p := open(t, chrome.Options{Script: c.script}, "embed.html")
			address := h.srv.URL + "/course/game/"
			if c.name == "full" {
				if _, err := chromedp.Call(p.Chrome.Context(), storage.OverrideQuotaForOrigin, storage.OverrideQuotaForOriginParams{Origin: h.srv.URL, QuotaSize: new(1.0)}); err != nil {
					t.Fatal(err)
				}
			}
			p.goTo(address + "?task=st&model=st-constructed&device=cpu")
			p.live("st-constructed")
			p.write(own)
			p.wait("s.words.length === 7 && !s.busy")
			p.ask2("4")
			time.Sleep(3500 * time.Millisecond) // the worker would be registered
			p.choose("model", "st-hybrid-neg")
			p.live("st-hybrid-neg")
			p.ask2("4")
			if said := p.text("notices"); said != "" {
				t.Errorf("the page says %q", said)
			}
			for _, m := range p.Errors() {
				if c.name != "full" || !strings.Contains(m.Text, "uota") {
					t.Errorf("console: %v", m)
				}
			}
		})
	}
}

// cutter is a host of the built site that breaks the connection in the middle of some files.
type cutter struct {
	mu   sync.Mutex
	path *regexp.Regexp
	left int // how many more times
	cuts int
}

func (c *cutter) set(path string, times int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.path, c.left, c.cuts = regexp.MustCompile(path), times, 0
}

func (c *cutter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}

func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	cut := c.left > 0 && c.path.MatchString(r.URL.Path)
	if cut {
		c.left--
		c.cuts++
	}
	c.mu.Unlock()
	files := http.FileServer(http.Dir(filepath.Join(root, "dist")))
	w.Header().Set("Cache-Control", "no-store")
	if !cut {
		files.ServeHTTP(w, r)
		return
	}
	whole := httptest.NewRecorder()
	files.ServeHTTP(whole, r)
	body := whole.Body.Bytes()
	w.Header().Set("Content-Type", whole.Header().Get("Content-Type"))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(whole.Code)
	w.Write(body[:len(body)/2])
	w.(http.Flusher).Flush()
	time.Sleep(50 * time.Millisecond)
	panic(http.ErrAbortHandler)
}

// A connection that breaks half-way: what can be asked for again is; else the page says which file, and
// what was typed is there when it is tried again.
func TestCutConnections(t *testing.T) {
	c := &cutter{path: regexp.MustCompile("^$")}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	// A worker would have what is cut.
	p := open(t, chrome.Options{Script: `Object.defineProperty(Navigator.prototype, "serviceWorker", { value: undefined });`}, "embed.html")
	notices := "[...document.querySelectorAll('#notices > div > span:first-child')].map((n) => n.textContent).join('|')"
	for _, x := range some(2, []struct {
		name, path string
		times      int
		says       string // with a button that tries again; "" where nothing is to be said
	}{
		{"wasm once", `\.wasm$`, 1, ""},
		{"wasm always", `\.wasm$`, 9, "could not be loaded whole"},
		{"first picture", `first\.json$`, 9, "The recorded picture could not be read"},
		{"a script of the frame", `js/stage\.js$`, 9, "The live engine could not start: its files could not be loaded whole"},
		{"Go's script", `wasm_exec\.js$`, 9, "The live engine could not start: wasm_exec.js is missing"},
		{"a module of the page", `js/player\.js$`, 9, "A file of the page could not be loaded whole"},
		{"a model", `st-hybrid-neg/model\.safetensors$`, 9, "st-hybrid-neg could not be loaded"},
		{"a view", `js/panels/cups\.js$`, 9, ""},
		{"the list of models", `zoo/index\.json$`, 9, "The list of models could not be read"},
	}) {
		t.Run(x.name, func(t *testing.T) {
			p.TB = t
			c.set("^$", 0)
			p.goTo("about:blank")
			c.set(x.path, x.times)
			query := "/?task=st&model=st-constructed&device=cpu&case=" + strings.ReplaceAll(x.name, " ", "-")
			if x.name == "a model" {
				query = strings.Replace(query, "st-constructed", "st-hybrid-neg", 1)
			}
			p.goTo(srv.URL + query)
			if x.name != "a module of the page" {
				p.typed(own)
			}
			if x.name == "a view" {
				p.live("st-constructed")
				p.click("tab-cups")
				p.wait("document.getElementById('panel').textContent.startsWith('This view could not be opened: ')")
				t.Log(p.text("panel"))
				c.set("^$", 0)
				p.click("tab-cups")
				p.click("tab-cups")
				p.wait("!!document.querySelector('.view-cups')")
				return
			}
			if x.says != "" {
				if err := p.Wait(fmt.Sprintf("%s.includes(%q)", notices, x.says), time.Minute); err != nil {
					t.Fatalf("%v; the page says %q", err, eval[string](p, notices))
				}
				t.Log(eval[string](p, notices))
				p.shot("cut-" + strings.ReplaceAll(strings.ReplaceAll(x.name, " ", "-"), "'", ""))
				if n := c.count(); n == 0 {
					t.Fatal("nothing was cut")
				}
				c.set("^$", 0)
				switch x.name {
				case "first picture": // the engine draws one
				case "a model", "the list of models":
					p.wait("s.phase === 'live' && !s.busy")
					if err := p.Do(chromedp.Reload()); err != nil {
						t.Fatal(err)
					}
				default:
					eval[bool](p, "([...document.querySelectorAll('#notices button')].find((b) => b.textContent === 'Try again').click(), true)")
				}
			}
			if x.name == "a module of the page" {
				p.live("st-constructed")
				return
			}
			p.wait("s.phase === 'live' && !s.busy && document.getElementById('program').value.startsWith('a,b,c,d,e=range(5)\\na,c=c,a\\nb,d')")
			if got := eval[string](p, "document.getElementById('program').value"); got != own {
				t.Errorf("the editor holds %q, want what was typed", got)
			}
			p.click("run")
			p.wait("s.words.length === 7 && !s.busy")
			p.ask2("4")
		})
	}
}

// What is typed and not run survives a page that dies without a word, and one that is too long for a
// link; another page in the same tab gets nothing of it.
func TestTypedSurvives(t *testing.T) {
	p := open(t, chrome.Options{Script: `if (top === self && new URLSearchParams(location.search).has("dies")) addEventListener("pagehide", (e) => e.stopImmediatePropagation(), true);`}, "?device=cpu")
	there := served.url + "?task=st&model=st-constructed&n=4&device=cpu"
	p.goTo(there + "&dies")
	p.live("st-constructed")
	p.typed(own)
	p.goTo(there) // at once, and no pagehide comes through
	p.live("st-constructed")
	if got := eval[string](p, "document.getElementById('program').value"); got != own || !strings.HasPrefix(p.notice("brought"), "What you typed is back") {
		t.Errorf("after its page died the editor holds %q, and the page says %q", got, p.text("notices"))
	}
	p.shot("brought-back")
	if !eval[bool](p, "!document.getElementById('edited').hidden && shellgamePage.state().program !== "+strconv.Quote(own)) {
		t.Error("what came back was run, or is not said to wait")
	}
	p.click("run")
	p.wait("s.words.length === 7 && !s.busy")
	p.ask2("4")
	p.goTo(there + "&seed=5")
	p.live("st-constructed")
	if got := eval[string](p, "document.getElementById('program').value"); got == own || p.notice("brought") != "" {
		t.Errorf("another link in the same tab got %q", got)
	}
	if !whole {
		return
	}
	long := own + "\n# " + strings.Repeat("long, ", 8000)
	p.typed(long)
	p.goTo(there + "&seed=6")
	p.live("st-constructed")
	if got := eval[string](p, "document.getElementById('program').value"); got != long {
		t.Errorf("of %d characters that no link holds %d came back", len(long), len(got))
	}
	p.quiet()
}

// A frame that is gone, whoever took it, is said and tried again.
func TestFrameReloaded(t *testing.T) {
	p := open(t, chrome.Options{}, "?task=st&model=st-constructed&device=cpu")
	p.live("st-constructed")
	p.write(own)
	p.wait("s.words.length === 7 && !s.busy")
	eval[bool](p, "(document.querySelector('iframe').contentWindow.location.reload(), true)")
	p.wait("s.phase === 'failed'")
	if said := p.notice("engine"); !strings.HasPrefix(said, "The live engine stopped: ") {
		t.Errorf("the page says %q", said)
	}
	eval[bool](p, "([...document.querySelectorAll('#notice-engine button')].find((b) => b.textContent === 'Try again').click(), true)")
	p.live("st-constructed")
	if got := eval[string](p, "shellgamePage.state().program"); got != own {
		t.Errorf("then the program is %q", got)
	}
	p.ask2("4")
}

// While a checkpoint comes slowly the page says that the engine is busy.
func TestBusy(t *testing.T) {
	p := open(t, chrome.Options{}, "?task=st&model=st-constructed&device=cpu")
	p.live("st-constructed")
	if err := p.SetNetwork(chrome.Network{Mbit: 8}); err != nil {
		t.Fatal(err)
	}
	p.choose("model", "st-hybrid-neg")
	p.wait("document.getElementById('device').hasAttribute('data-busy') && document.getElementById('busy').textContent === 'the engine is busy'")
	p.shot("busy")
	p.live("st-hybrid-neg")
	p.wait("!document.getElementById('device').hasAttribute('data-busy') && document.getElementById('busy').textContent === ''")
	p.quiet()
}

// A checkpoint whose numbers overflow: an error that names word, layer and what, and nothing of it
// drawn.
func TestNotFinite(t *testing.T) {
	for _, device := range some(1, []string{"cpu", "webgpu"}) {
		t.Run(device, func(t *testing.T) {
			p := open(t, chrome.Options{Width: 1000, Height: 700}, "?stage=no&device="+device+"&model=models/overflow")
			p.live("overflow")
			p.click("end")
			p.wait("document.getElementById('notice-step')")
			said := p.notice("step")
			t.Log(said)
			if !regexp.MustCompile(`^word \d, \S+: model: layer 0: `).MatchString(said) || !strings.Contains(said, "NaN or infinity, want finite numbers") {
				t.Errorf("the page says %q", said)
			}
			if device == "webgpu" && (!strings.HasSuffix(said, "it is the model") || eval[string](p, "shellgamePage.state().device.device") != "webgpu") {
				t.Errorf("the page says %q, and goes on with %s", said, p.text("device-text"))
			}
			if at := eval[int](p, "shellgamePage.state().t"); !strings.HasPrefix(said, fmt.Sprintf("word %d, ", at+1)) {
				t.Errorf("the page stands at word %d, want the last with numbers", at)
			}
			p.shot("not-finite-" + device)
			// magenta is the mark of what is no number
			if n := eval[int](p, `[...document.querySelectorAll("#views rect")].filter((r) => r.getAttribute("fill") === "rgb(255 0 212)").length`); n > 0 {
				t.Errorf("%d cells are drawn as no number", n)
			}
			p.click("step")
			p.wait("document.getElementById('notice-step')")
			p.choose("model", "st-constructed")
			p.live("st-constructed")
			p.click("end")
			p.wait("s.answer && s.answer.right")
			p.quiet()
		})
	}
}
