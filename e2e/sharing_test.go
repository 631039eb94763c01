//go:build !js

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"shellgame/internal/chrome"
)

// address is the page's address once it says what a condition on its choices c wants.
func (p page) address(condition string) string {
	p.Helper()
	// The address follows the choices within half a second.
	p.wait("(c => " + condition + ")(s.choices)")
	for last := ""; ; {
		time.Sleep(700 * time.Millisecond)
		href := eval[string](p, "location.href")
		if href == last {
			return href
		}
		last = href
	}
}

// notice is the text of a notice, "" where there is none.
func (p page) notice(key string) string {
	p.Helper()
	return eval[string](p, fmt.Sprintf("document.querySelector('#notice-%s > span')?.textContent ?? ''", key))
}

// A link opened elsewhere shows the same picture: program, word, panel, head and switches.
func TestLink(t *testing.T) {
	p := open(t, chrome.Options{}, "?device=cpu")
	p.live("st-constructed")
	if got := eval[string](p, "location.search + location.hash"); got != "?device=cpu" {
		t.Errorf("before anything was chosen the address says %q", got)
	}
	p.write("a,b,c,d,e=range(5)\na,c = c,a\nb,c=c,b\nassert b==")
	p.wait("s.words.length === 6 && !s.busy")
	p.click("step")
	p.click("step")
	p.at(2)
	p.choose("speed", "5")
	p.view("curve", "svg")
	p.choose("curve-samples", "7")
	p.press(".view-curve [aria-label=models] input")
	p.click("tab-maps")
	eval[bool](p, `(document.getElementById("program").value += " # unfinished", document.getElementById("program").dispatchEvent(new Event("input")), true)`)
	link := p.address("c.t === 2 && c.panel === 'maps' && c.draft")
	for _, want := range []string{"task=st", "model=st-constructed", "device=cpu", "#v=1&z="} {
		if !strings.Contains(link, want) {
			t.Errorf("the address %s does not say %s", link, want)
		}
	}
	if strings.Contains(link, "seed=") {
		t.Errorf("the address %s names a seed, but the program was typed", link)
	}
	copied := eval[string](p, `(navigator.clipboard.writeText = async (s) => { globalThis.copied = s; }, document.getElementById("copy-link").click(), new Promise((r) => setTimeout(() => r(globalThis.copied), 200)))`)
	if copied != link {
		t.Errorf("the button copies %q, want the address %q", copied, link)
	}
	p.quiet()

	q := open(t, chrome.Options{}, strings.TrimPrefix(link, site(t)))
	q.live("st-constructed")
	q.at(2)
	if got, want := eval[string](q, "JSON.stringify(shellgamePage.state().choices)"), eval[string](p, "JSON.stringify(shellgamePage.state().choices)"); got != want {
		t.Errorf("the link opens\n%s, want\n%s", got, want)
	}
	if got, want := eval[string](q, "JSON.stringify(shellgamePage.state().top)"), eval[string](p, "JSON.stringify(shellgamePage.state().top)"); got != want {
		t.Errorf("the model says %s, want %s", got, want)
	}
	if got := eval[string](q, "document.getElementById('program').value"); !strings.HasSuffix(got, "# unfinished") {
		t.Errorf("the editor holds %q, want what was typed and not run", got)
	}
	if got := eval[string](q, "document.querySelector('[role=tab][aria-selected=true]').id"); got != "tab-maps" {
		t.Errorf("the open panel is %s, want maps", got)
	}
	if got := q.notice("link"); got != "" {
		t.Errorf("the page says %q of its own link", got)
	}
	q.view("curve", "svg")
	if got := eval[string](q, `[document.getElementById("speed").value, document.getElementById("curve-samples").value, document.querySelector(".view-curve [aria-label=models] input").checked].join()`); got != "5,7,false" {
		t.Errorf("speed, programs a size and the first model are %s, want 5,7,false", got)
	}
	q.quiet()
}

// Back and forward go through models, programs and panels; then changes that do not come to an end,
// or come faster than models load.
func TestHistory(t *testing.T) {
	p := open(t, chrome.Options{}, "?task=st&model=st-constructed&n=4&seed=3&device=cpu")
	p.live("st-constructed")
	first := eval[string](p, "shellgamePage.state().program")
	p.click("step")
	p.at(1)
	p.address("c.t === 1")
	p.choose("seed", "4")
	p.wait("s.seed === 4 && !s.busy && s.t === 0")
	p.address("c.seed === 4")
	p.choose("model", "st-gdn-pos")
	p.live("st-gdn-pos")
	p.address("c.model === 'st-gdn-pos'")
	p.click("tab-cups")
	p.address("c.panel === 'cups'")
	back := func(condition string) {
		t.Helper()
		eval[bool](p, "(history.back(), true)")
		p.wait(condition + " && !s.busy")
	}
	back("s.choices.panel === '' && s.model === 'st-gdn-pos'")
	back("s.model === 'st-constructed' && s.seed === 4")
	back("s.seed === 3 && s.t === 1")
	if got := eval[string](p, "shellgamePage.state().program"); got != first {
		t.Errorf("two steps back the program is %q, want %q", got, first)
	}
	eval[bool](p, "(history.forward(), true)")
	p.wait("s.seed === 4 && s.model === 'st-constructed' && !s.busy")
	p.cancels()
	p.hurries()
	p.choosesTwo()
	p.quiet()
}

// What makes no sense in a link is named, and the page opens without it.
func TestBadLink(t *testing.T) {
	p := open(t, chrome.Options{}, "?task=zzz&n=9999&device=cpu&utm_source=x#v=1&j="+`{"panel":"nowhere","t":2,"switches":{"beta":"clamp","warp":1}}`)
	p.live("st-constructed")
	got := p.notice("link")
	for _, want := range []string{"task=zzz (want st, recall or sbr)", "n=9999", "panel=nowhere", "switches.warp=1"} {
		if !strings.Contains(got, want) {
			t.Errorf("the notice %q does not name %s", got, want)
		}
	}
	if strings.Contains(got, "utm") {
		t.Errorf("the notice %q names a key that is not ours", got)
	}
	p.at(2)
	if got := eval[string](p, "JSON.stringify(shellgamePage.state().choices.switches)"); got != `{"beta":"clamp"}` {
		t.Errorf("switches: got %s, want the one that exists", got)
	}
	p.shot("bad-link")
	p.quiet()
}

// host is another origin that embeds the site: a page with the given body.
func host(t *testing.T, body string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, `<!doctype html><title>course</title><link rel="icon" href="data:,"><script>
globalThis.heard = {};
const hear = (e) => (heard[e.id] ??= [], ["ready", "step", "answer"].forEach((name) => e.addEventListener(name, (m) => heard[e.id].push([name, m.detail]))));
</script>%s<script>document.querySelectorAll("shell-game").forEach(hear)</script><script src="%sembed.js"></script>`, body, site(t))
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/"
}

// heard waits until an element has told something that a condition on its last detail d wants.
func (p page) heard(id, event, condition string) {
	p.Helper()
	js := fmt.Sprintf("(heard[%q] ?? []).some(([name, d]) => name === %q && (%s))", id, event, condition)
	if err := p.Wait(js, time.Minute); err != nil {
		p.Fatalf("%s did not tell %s (%s): %v\nheard: %s\nconsole: %v", id, event, condition, err, eval[string](p, "JSON.stringify(heard).slice(-2000)"), p.Messages())
	}
}

// The element on a page of another origin: two at once, asked and telling, trimmed, in a sandbox with and
// without an origin of its own; attributes change the view, and what is out of view stands still.
func TestEmbed(t *testing.T) {
	for name, sandbox := range map[string]string{"plain": "", "sandbox": `sandbox="allow-scripts allow-same-origin"`, "sandbox without origin": `sandbox="allow-scripts"`} {
		t.Run(name, func(t *testing.T) {
			p := open(t, chrome.Options{Width: 1000, Height: 900}, "")
			p.goTo(host(t, `<shell-game id="a" task="st" model="st-constructed" n="4" seed="3" t="2" device="cpu" height="420" `+sandbox+`></shell-game>
<shell-game id="b" task="st" model="st-gdn-pos" n="8" seed="1" device="cpu" theme="dark" height="420" `+sandbox+`></shell-game>`))
			p.heard("a", "ready", "d.state.phase === 'live' && d.state.model === 'st-constructed' && d.state.t === 2 && d.state.words === 9")
			p.heard("b", "ready", "d.state.model === 'st-gdn-pos' && d.state.n === 8")
			state := func(js string) map[string]any {
				t.Helper()
				return eval[map[string]any](p, js+".then((r) => r.state)")
			}
			if s := state("a.step()"); s["t"] != 3.0 {
				t.Errorf("after a step the element is at %v, want 3", s["t"])
			}
			p.heard("a", "step", "d.t === 3 && d.top.length === 3")
			if s := state("a.step(-2)"); s["t"] != 1.0 {
				t.Errorf("after two steps back the element is at %v, want 1", s["t"])
			}
			if s := state("a.seek(7)"); s["answer"] == nil {
				t.Errorf("at the question: %v, want an answer", s)
			}
			p.heard("a", "answer", "d.answer.right === true")
			if s := state("b.load({n: 16, seed: 1, t: 19})"); s["n"] != 16.0 {
				t.Errorf("after load: %v, want n = 16", s)
			}
			p.heard("b", "answer", "d.answer.right === false && d.answer.word === '3'")
			eval[bool](p, "(a.setAttribute('seed', '4'), true)")
			if err := p.Wait("a.state().then((r) => r.state.seed === 4 && r.state.program.includes('a,c=c,a'))", time.Minute); err != nil {
				t.Errorf("after the attribute: %v, want seed = 4: %v", state("a.state()"), err)
			}
			for _, bad := range []string{"{n: -1}", "{device: 'cpu'}", "{zzz: 1}", "7"} {
				if got := eval[string](p, "a.load("+bad+").then(() => 'accepted', (e) => e.message)"); !strings.HasPrefix(got, "load: ") {
					t.Errorf("load(%s): %q, want an error", bad, got)
				}
			}
			p.shot("embed-" + strings.ReplaceAll(name, " ", "-"))
			p.quiet()
			if name == "plain" {
				p.refuses()
			}
		})
	}
}

// What is out of view stands still, and goes on where it is asked to.
func TestEmbedOutOfView(t *testing.T) {
	p := open(t, chrome.Options{Width: 1000, Height: 700}, "")
	p.goTo(host(t, `<shell-game id="a" task="st" model="st-constructed" n="64" device="cpu" height="420" t="0"></shell-game><div style="height: 3000px"></div>`))
	p.heard("a", "ready", "d.state.t === 0")
	play := `a.querySelector("iframe").focus()`
	eval[bool](p, "("+play+", true)")
	p.key(" ")
	p.heard("a", "step", "d.t >= 2")
	eval[bool](p, "(scrollTo(0, 2500), true)")
	time.Sleep(1200 * time.Millisecond)
	t1 := eval[float64](p, "a.state().then((r) => r.state.t)")
	time.Sleep(1500 * time.Millisecond)
	if t2 := eval[float64](p, "a.state().then((r) => r.state.t)"); t1 != t2 {
		t.Errorf("out of view it went from word %v to %v", t1, t2)
	}
	p.quiet()
}

// The site's own test page.
func TestEmbedPage(t *testing.T) {
	p := open(t, chrome.Options{Width: 1200, Height: 900}, "embed.html")
	if err := p.Wait(`document.getElementById("log").textContent.includes("one ready")`, time.Minute); err != nil {
		t.Fatal(err, p.Messages())
	}
	for _, b := range []string{"step", "end", "harder", "state"} {
		p.click(b)
	}
	if err := p.Wait(`/"model":"st-gdn-pos"/.test(document.getElementById("log").textContent)`, time.Minute); err != nil {
		t.Error(err, p.text("log"))
	}
	if got := eval[string](p, `[...document.getElementById("one").querySelector("iframe").contentDocument.querySelectorAll("#notices .bad")].map((e) => e.textContent).join()`); got != "" {
		t.Errorf("the page inside says %q", got)
	}
	p.shot("embed-page")
	p.quiet()
}

// published is a static host of a copy of the built site, under a path, as a build that may change.
type published struct {
	mu      sync.Mutex
	dir     string
	offline bool
	srv     *httptest.Server
	asked   []string
}

func publish(t *testing.T) *published {
	t.Helper()
	h := &published{dir: filepath.Join(root, "dist")}
	h.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		dir, offline := h.dir, h.offline
		h.asked = append(h.asked, r.URL.Path)
		h.mu.Unlock()
		if offline {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				c.Close()
			}
			return
		}
		http.StripPrefix("/course/game/", http.FileServer(http.Dir(dir))).ServeHTTP(w, r)
	}))
	t.Cleanup(h.srv.Close)
	return h
}

func (h *published) set(dir string, offline bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dir, h.offline, h.asked = dir, offline, nil
}

// After the first visit the page works without a network, under a path of a static host, with the
// models that were used; a new build replaces the old one whole.
func TestOffline(t *testing.T) {
	h := publish(t)
	address := h.srv.URL + "/course/game/"
	p := open(t, chrome.Options{}, "embed.html")
	p.goTo(address + "?device=cpu")
	p.live("st-constructed")
	p.choose("model", "st-gdn-neg")
	p.live("st-gdn-neg")
	kept := func(n int) {
		t.Helper()
		if err := p.Wait(fmt.Sprintf(`caches.keys().then(async (names) => names.filter((n) => n.startsWith("shellgame build-")).length === %d && navigator.serviceWorker.controller && (await (await caches.open("shellgame zoo")).keys()).filter((r) => r.url.endsWith("model.safetensors")).length >= 2)`, n), time.Minute); err != nil {
			t.Fatalf("%v: %v", err, eval[string](p, `caches.keys().then(async (names) => JSON.stringify(await Promise.all(names.map(async (n) => [n, (await (await caches.open(n)).keys()).map((r) => r.url)])))).then((s) => s.slice(0, 3000))`))
		}
	}
	kept(1)
	h.set(h.dir, true)
	p.Forget()
	p.goTo(address + "?device=cpu&model=st-gdn-neg&n=4#v=1&j={\"panel\":\"cups\",\"t\":3}")
	p.live("st-gdn-neg")
	p.at(3)
	if err := p.Wait("document.querySelector('.view-cups svg')", time.Minute); err != nil {
		t.Errorf("a view that was not opened before: %v", err)
	}
	p.shot("offline")
	h.mu.Lock()
	asked := slices.DeleteFunc(slices.Clone(h.asked), func(s string) bool {
		return strings.Contains(s, "/zoo/") || s == "/course/game/" || strings.HasSuffix(s, "sw.js")
	})
	h.mu.Unlock()
	if len(asked) > 0 {
		t.Errorf("files of the build were asked of the network: %v", asked)
	}

	// Another build: its page comes with its own files, also while the old worker is there.
	old := h.dir
	next := rebuilt(t)
	h.set(next, false)
	p.goTo(address + "?device=cpu")
	p.live("st-constructed")
	if got := eval[bool](p, "document.title.endsWith('(next)')"); !got {
		t.Error("online the old page was shown")
	}
	names := eval[[]string](p, `[...new Set([...performance.getEntriesByType("resource"), ...document.querySelector("iframe").contentWindow.performance.getEntriesByType("resource")].map((e) => /build-[0-9a-f]+/.exec(e.name)?.[0]).filter(Boolean))]`)
	want, err := filepath.Glob(filepath.Join(next, "build-*"))
	if err != nil || len(want) != 1 {
		t.Fatal(want, err)
	}
	if len(names) != 1 || names[0] != filepath.Base(want[0]) {
		t.Errorf("the page took files of %v, want of %s alone", names, filepath.Base(want[0]))
	}
	if before, _ := filepath.Glob(filepath.Join(old, "build-*")); filepath.Base(before[0]) == filepath.Base(want[0]) {
		t.Fatal("the two builds are the same: nothing was tested")
	}
	p.quiet()
}

// rebuilt is a copy of the site as another build would be: its page says so, in files of other names.
func rebuilt(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "dist"))); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "build-*"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	from, to := filepath.Base(found[0]), "build-aaaaaaaaaaaa"
	if err := os.Rename(found[0], filepath.Join(dir, to)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"index.html", "sw.js", "embed.html"} {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), from, to)
		text = regexp.MustCompile(`<title>(.*)</title>`).ReplaceAllString(text, "<title>$1 (next)</title>")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Nothing that the page does breaks its own policy.
func TestPolicy(t *testing.T) {
	const note = `addEventListener("securitypolicyviolation", (e) => { (top === globalThis ? globalThis : parent).broken = [...((top === globalThis ? globalThis : parent).broken ?? []), e.violatedDirective + " " + e.blockedURI + " " + e.sourceFile + ":" + e.lineNumber]; });`
	p := open(t, chrome.Options{Script: note}, "?task=sbr&model=sbr-hybrid-neg&n=8&device=cpu")
	p.live("sbr-hybrid-neg")
	p.ask()
	for _, id := range eval[[]string](p, "[...document.querySelectorAll('[role=tab]')].map((e) => e.id)") {
		p.click(id)
		p.wait("document.querySelector('.panel-body > *') && !s.busy")
		time.Sleep(300 * time.Millisecond)
	}
	for _, id := range []string{"help", "device", "card", "theme", "theme", "theme", "lessons"} {
		p.click(id)
		time.Sleep(200 * time.Millisecond)
		eval[bool](p, "(document.querySelectorAll('dialog[open]').forEach((d) => d.close()), true)")
	}
	p.goTo(site(t) + "?device=cpu&lesson=by-hand")
	p.live("st-constructed")
	if got := eval[string](p, "JSON.stringify(globalThis.broken ?? [])"); got != "[]" {
		t.Errorf("the page breaks its policy: %s", got)
	}
	// The policy is there at all, in the page and in the frame.
	for _, document := range []string{"document", "document.querySelector('iframe').contentDocument"} {
		for what, js := range map[string]string{
			"an inline script":                   `d.body.append(Object.assign(d.createElement("script"), { textContent: "top.ran = true" }))`,
			"an attribute with a script":         `{ const b = d.createElement("button"); b.setAttribute("onclick", "top.ran = true"); d.body.append(b); b.click(); b.remove(); }`,
			"a script of another host":           `d.body.append(Object.assign(d.createElement("script"), { src: "http://127.0.0.1:9/x.js" }))`,
			"an address that is a script":        `{ const a = Object.assign(d.createElement("a"), { href: "javascript:top.ran=true" }); d.body.append(a); a.click(); a.remove(); }`,
			"an inline style":                    `d.body.append(Object.assign(d.createElement("style"), { textContent: "b { color: red }" }))`,
			"a frame of another host":            `{ const f = Object.assign(d.createElement("iframe"), { src: "http://127.0.0.1:9/" }); d.body.append(f); setTimeout(() => f.remove(), 100); }`,
			"a document base of another host":    `d.head.append(Object.assign(d.createElement("base"), { href: "http://127.0.0.1:9/" }))`,
			"a picture of another host":          `new d.defaultView.Image().src = "http://127.0.0.1:9/x.png"`,
			"an embedded object of another host": `d.body.append(Object.assign(d.createElement("embed"), { src: "http://127.0.0.1:9/" }))`,
		} {
			n := eval[float64](p, "globalThis.broken?.length ?? 0")
			eval[bool](p, "((d) => { "+js+"; return true; })("+document+")")
			if err := p.Wait(fmt.Sprintf("globalThis.broken?.length > %v", n), 5*time.Second); err != nil || eval[bool](p, "'ran' in globalThis") {
				t.Errorf("%s in %s was not refused: %v", what, document, err)
			}
		}
	}
	p.Forget()
}
