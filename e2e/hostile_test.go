//go:build !js

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"shellgame/internal/chrome"
)

// payloads are texts that would run where a page takes them for HTML, or a link for one of its own.
var payloads = []string{
	`<img src=x onerror="top.stolen=1">`, `<svg/onload=top.stolen=1>`, `<svg><script>top.stolen=1</script></svg>`, `<script>top.stolen=1</script>`,
	`"><iframe srcdoc="<script>top.stolen=1</script>">`, `'><img src=x onerror=top.stolen=1>`, `</textarea></title></script><img src=x onerror=top.stolen=1>`, `<style>body{display:none}</style>`,
	`&lt;img src=x onerror=top.stolen=1&gt;`, `&#60;img src=x onerror=top.stolen=1&#62;`, `<math><mtext><img src=x onerror=top.stolen=1></mtext></math>`, `<a href="javascript:top.stolen=1">a</a>`,
	`[a](javascript:top.stolen=1)`, `[a](JaVaScRiPt:top.stolen=1)`, `[a](&#106;avascript:top.stolen=1)`, `[a](java&Tab;script:top.stolen=1)`, `[a](%6aavascript:top.stolen=1)`, `[a](vbscript:x)`,
	`[a](data:text/html,<script>top.stolen=1</script>)`, `[a](blob:https://x/1)`, `[a](file:///etc/passwd)`, `[a](//there.example/)`, `[a](\\there.example)`, `![a](javascript:top.stolen=1)`, `![a](x" onerror="top.stolen=1)`,
	"`<img src=x onerror=top.stolen=1>`", `**[*a*](javascript:top.stolen=1)**`, `[**<img src=x onerror=top.stolen=1>**](https://there.example/"onmouseover="top.stolen=1)`, `{{constructor.constructor('top.stolen=1')()}}`, "\u202e<img src=x onerror=top.stolen=1>",
}

// watchPolicy notes in the top document what the pages' policy refused.
const watchPolicy = `addEventListener("securitypolicyviolation", (e) => { (top.broken ??= []).push(e.violatedDirective + " " + e.blockedURI + " " + e.sample); });`

// clean fails the test where something of a payload became part of the page or of its frames.
func (p page) clean(what string) {
	p.Helper()
	got := eval[[]string](p, `(() => {
		const found = "stolen" in top ? ["a script ran"] : [];
		const look = (d) => {
			for (const e of d.querySelectorAll("*")) {
				for (const a of e.attributes) if (/^on/i.test(a.name) || a.name === "srcdoc") found.push(e.outerHTML.slice(0, 200));
				if (e.tagName === "A" && e.hasAttribute("href") && !/^https?:$/.test(e.protocol)) found.push(e.outerHTML.slice(0, 200));
				if (e.tagName === "IMG" && e.src.endsWith("/favicon.svg")) continue;
				if (["IMG", "OBJECT", "EMBED", "STYLE", "BASE"].includes(e.tagName) || e.tagName === "SCRIPT" && !e.src) found.push(e.outerHTML.slice(0, 200));
				if (e.tagName === "IFRAME") try { if (e.contentDocument) look(e.contentDocument); } catch { }
			}
		};
		look(document);
		return [...found, ...(top.broken ?? [])];
	})()`)
	if len(got) > 0 {
		p.Errorf("%s: %q", what, got)
	}
}

// evilServer is another server: a lesson and a checkpoint made of payloads.
func evilServer(t *testing.T) *httptest.Server {
	quote := func(s string) string {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(s); err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(b.String())
	}
	var lesson strings.Builder
	fmt.Fprintf(&lesson, "---\ntitle: %s\nsummary: %s\nmodel: st-gdn-pos\nn: 4\n---\n", quote(payloads[0]+payloads[12]), quote(payloads[1]))
	for _, part := range []string{"%s\n\n", "> %s\n\n", "- %s\n", "1. %s\n", "# %s\n\n", "| a | b |\n|---|---|\n| %s | x |\n\n", "**%s** *%[1]s* _%[1]s_\n\n", "~~~\n%s\n~~~\n\n", "<div>%s</div>\n\n"} {
		for _, x := range payloads {
			if lesson.Len() == 0 || strings.HasSuffix(lesson.String(), "---\n") {
				fmt.Fprintf(&lesson, "---page---\ntitle: %s\npredict:\n  question: %s\n  options: [%s, \"b\"]\n  answer: b\n  explain: %s\n---\n", quote(payloads[0]), quote(payloads[12]+payloads[3]), quote(payloads[1]), quote(strings.Join(payloads, "\n\n")))
			}
			fmt.Fprintf(&lesson, part, x)
		}
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		switch {
		case r.URL.Path == "/lesson.md":
			fmt.Fprint(w, lesson.String())
		case r.URL.Path == "/wrong.md":
			fmt.Fprintf(w, "---\ntitle: T\n---\n---page---\ntitle: T\nn: %s\n---\n", quote(payloads[0]))
		case r.URL.Path == "/key.md":
			fmt.Fprintf(w, "---\n%s\n---\n", payloads[0])
		case strings.HasSuffix(r.URL.Path, "/type/config.json"):
			fmt.Fprintf(w, `{"model_type": %s}`, quote(payloads[0]))
		case strings.HasSuffix(r.URL.Path, "/layers/config.json"):
			fmt.Fprintf(w, `{"model_type": "olmo_hybrid", "num_hidden_layers": 1, "layer_types": [%s]}`, quote(payloads[1]))
		case strings.HasSuffix(r.URL.Path, "/html/config.json"):
			fmt.Fprint(w, "<!doctype html>"+strings.Join(payloads, ""))
		case strings.HasSuffix(r.URL.Path, "/names/config.json"):
			data, _ := os.ReadFile(filepath.Join(root, "web", "zoo", "st-constructed", "config.json"))
			w.Write(data)
		case strings.HasSuffix(r.URL.Path, "/names/model.safetensors.index.json"):
			fmt.Fprintf(w, `{"weight_map": {%s: %s}}`, quote(payloads[2]), quote(payloads[0]+".safetensors"))
		default:
			http.Error(w, strings.Join(payloads, ""), http.StatusNotFound)
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

// Whatever a lesson, a link, a program, a checkpoint or its address holds is text on the page.
func TestHostileTexts(t *testing.T) {
	srv := evilServer(t)
	p := open(t, chrome.Options{Script: watchPolicy}, "?device=cpu&stage=no&lesson="+url.QueryEscape(srv.URL+"/lesson.md"))
	p.live("st-gdn-pos")
	p.wait("!document.getElementById('lesson').hidden")
	p.clean("the lesson")
	if got := p.text("lesson-title"); got != payloads[0] {
		t.Errorf("the lesson's title is %q, want the text %q", got, payloads[0])
	}
	if text := eval[string](p, "document.querySelector('.lesson-text').textContent"); !strings.Contains(text, payloads[3]) || !strings.Contains(text, payloads[12]) {
		t.Errorf("the lesson's text lacks what it says: %.300q", text)
	}
	p.shot("hostile-lesson")
	eval[bool](p, "(document.querySelector('.option').click(), true)")
	p.wait("document.querySelector('.explain')")
	p.clean("the lesson's explanation")

	links := []string{
		"?device=cpu&stage=no&lesson=" + url.QueryEscape(srv.URL+"/wrong.md"), "?device=cpu&stage=no&lesson=" + url.QueryEscape(srv.URL+"/key.md"), "?device=cpu&stage=no&lesson=" + url.QueryEscape(srv.URL+"/"+payloads[0]),
		"?device=cpu&stage=no&task=" + url.QueryEscape(payloads[0]) + "&theme=" + url.QueryEscape(payloads[1]) + "&gen=" + url.QueryEscape(payloads[3]),
	}
	evil := url.PathEscape(payloads[0])
	for _, path := range []string{evil + "/type", evil + "/layers", evil + "/html", evil + "/names", "none/" + evil} {
		links = append(links, "?device=cpu&stage=no&model="+url.QueryEscape(srv.URL+"/"+path))
	}
	for _, choices := range []map[string]any{
		{"program": "a,b,c,d,e=range(5)\nassert a==", "draft": strings.Join(payloads, "\n"), "switches": map[string]any{payloads[0]: payloads[1]}, "panel": payloads[2]},
		{"program": strings.Join(payloads, "\n"), "other": "models/" + payloads[0], "panel": "compare"},
		{payloads[0]: 1, payloads[3]: 2},
	} {
		b, err := json.Marshal(choices)
		if err != nil {
			t.Fatal(err)
		}
		links = append(links, "?device=cpu&stage=no#v=1&j="+url.QueryEscape(string(b)))
	}
	for _, link := range some(3, links) {
		p.goTo("about:blank")
		p.goTo(site(t) + link)
		p.wait("s.phase === 'live' && !s.busy")
		p.clean(link)
		if said := eval[string](p, "document.getElementById('notices').innerText + document.getElementById('program').value"); !strings.Contains(said, "<") {
			t.Errorf("%s: the page says %q, want what was wrong", link, said)
		}
	}
	// Files that are dropped, and addresses that are typed.
	eval[bool](p, fmt.Sprintf(`((d) => { d.items.add(new File(["x"], %q)); document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: d, bubbles: true, cancelable: true })); return true; })(new DataTransfer())`, payloads[0]))
	if err := p.Wait(`document.querySelector("#own-box .error")?.textContent.includes("<img")`, 20*time.Second); err != nil {
		t.Error(err)
	}
	p.clean("a file's name")
	for _, address := range []string{srv.URL + "/%zz%ff/", srv.URL + "/none/" + evil + "/"} {
		eval[bool](p, fmt.Sprintf(`((i) => { if (!document.getElementById("own-box").open) document.getElementById("own").click(); i.value = %q; i.form.requestSubmit(); return true; })(document.getElementById("own-url"))`, address))
		p.wait("!s.busy && [...document.querySelectorAll('#notices .bad')].some((n) => n.textContent.includes('could not be loaded'))")
		p.clean(address)
		eval[bool](p, "(document.querySelectorAll('#notices button').forEach((b) => b.click()), true)")
	}
	for _, program := range []string{payloads[0], "a,b,c,d,e=range(5)\n" + payloads[3], "# " + payloads[1] + "\na,b,c,d,e=range(5)\nassert a== 3"} {
		p.write(program)
		p.wait("(s.program.includes('assert a== 3') || !document.getElementById('program-error').hidden) && !s.busy")
		p.clean(program)
	}
}

// The page answers documented messages of its parent alone, and none harms it.
func TestHostileMessages(t *testing.T) {
	p := open(t, chrome.Options{Script: watchPolicy, Width: 1000, Height: 700}, "?embed=1&device=cpu&stage=no") // what the host shows comes from the cache
	sibling := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, `<!doctype html><title>sibling</title><link rel="icon" href="data:,"><script>addEventListener("message", (e) => {
			if (e.source !== parent || e.data !== "go") return;
			for (const to of Array.from({ length: parent.length }, (_, i) => [parent[i], parent[i][0]]).flat()) if (to && to !== window) for (const m of [{ shellgame: 1, id: 1, type: "load", choices: { seed: 66 } }, { sg: 1, id: 1, type: "load", model: "st-gdn-pos" }, { sg: 1, re: 1, ok: true }, { sg: 1, event: "fatal", error: "forged" }]) to.postMessage(m, "*");
			for (const m of [{ shellgame: 1, event: "answer", forged: true }, { shellgame: 1, re: 1, ok: true, forged: true }]) parent.postMessage(m, "*");
			parent.postMessage("gone", "*");
		})</script>`)
	}))
	defer sibling.Close()
	p.goTo(host(t, `<shell-game id="a" task="st" model="st-constructed" n="4" seed="3" t="2" device="cpu" height="420"></shell-game><iframe id="sibling" src="`+sibling.URL+`"></iframe>
<script>globalThis.said = []; addEventListener("message", (e) => said.push(e.data));
globalThis.game = () => a.querySelector("iframe").contentWindow;
globalThis.ask = (m) => new Promise((done) => { const f = (e) => { if (e.source === game() && "re" in (e.data ?? {})) { removeEventListener("message", f); done(e.data); } }; addEventListener("message", f); game().postMessage(m, "*"); setTimeout(() => { removeEventListener("message", f); done({ none: true }); }, 1500); });
globalThis.cycle = () => { const m = { shellgame: 1, id: 7, type: "load", choices: { switches: {} } }; m.choices.switches.heads = m; return m; };</script>`))
	p.heard("a", "ready", "d.state.phase === 'live' && d.state.t === 2")
	seed := func() float64 { return eval[float64](p, "a.state().then((r) => r.state.seed)") }

	// Only what the documents name is taken, and what is refused is said in a line.
	for message, want := range map[string]string{
		`{shellgame: 1, id: 7, type: "eval", code: "top.stolen=1"}`: "type: got eval, want ", `{shellgame: 1, id: 7, type: {toString: 1}}`: `type: got {"toString":1}, want `, `{shellgame: 1, id: 7}`: "type: got undefined, want ",
		`{shellgame: 1, id: "7", type: "state"}`: "id: ", `{shellgame: 1, id: 7n, type: "state"}`: "id: ", `{shellgame: 1, id: 7, type: "load", choices: JSON.parse('{"__proto__": {"polluted": 1}}')}`: "load: got __proto__", `{shellgame: 1, id: 7, type: "load", choices: {constructor: {prototype: {polluted: 1}}}}`: "load: got constructor",
		`{shellgame: 1, id: 7, type: "load", choices: {switches: JSON.parse('{"__proto__": {"polluted": 1}}')}}`: "load: switches.__proto__=", `{shellgame: 1, id: 7, type: "load", choices: {n: 4n}}`: "load: n=4 (want ", `cycle()`: "load: switches.heads=",
		`{shellgame: 1, id: 7, type: "load", choices: {device: "cpu"}}`: "load: got device", `{shellgame: 1, id: 7, type: "load", choices: {program: "x".repeat(3e7)}}`: "load: program=xxx", `{shellgame: 1, id: 7, type: "load", choices: {patches: Array(1e6).fill({})}}`: "load: patches=[{}",
		`{shellgame: 1, id: 7, type: "load", choices: {model: "javascript:top.stolen=1/"}}`: "load: model=", `{shellgame: 1, id: 7, type: "step", count: 1e300}`: "step: count", `{shellgame: 1, id: 7, type: "visible", visible: "no"}`: "visible: ",
	} {
		var got struct {
			OK, None bool
			Error    string
		}
		if err := json.Unmarshal([]byte(eval[string](p, "ask("+message+").then((r) => JSON.stringify({ok: r.ok, none: r.none, error: r.error}))")), &got); err != nil {
			t.Fatal(err)
		}
		if got.OK || got.None || !strings.HasPrefix(got.Error, want) || len(got.Error) > 400 || strings.Contains(got.Error, "\n") {
			t.Errorf("%.100s: got %+v, want an error that begins with %q", message, got, want)
		}
	}
	// What is not for the page has no answer: what comes next answers what is asked next.
	for _, message := range []string{`{id: 7, type: "state"}`, `{shellgame: "1", id: 7, type: "state"}`, `{sg: 1, id: 7, type: "state"}`, `{sg: 1, event: "fatal", error: "forged"}`, `[1, "state"]`, `"state"`, `null`, `new ArrayBuffer(1 << 26)`} {
		eval[bool](p, "(game().postMessage("+message+", '*'), true)")
	}
	if got := eval[float64](p, `ask({shellgame: 1, id: 77, type: "state"}).then((r) => r.re)`); got != 77 {
		t.Errorf("after messages that are not for the page request %v is answered, want 77", got)
	}
	// Another frame has no say, neither in the page nor in the engine's frame nor for the element.
	eval[bool](p, `(document.getElementById("sibling").contentWindow.postMessage("go", "*"), true)`)
	if err := p.Wait(`said.includes("gone")`, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	time.Sleep(500 * time.Millisecond)
	if got := seed(); got != 3 {
		t.Errorf("after another frame's messages the seed is %v, want 3", got)
	}
	if got := eval[string](p, "a.state().then((r) => r.state.phase + ' ' + r.state.model)"); got != "live st-constructed" {
		t.Errorf("after another frame's messages the page is %s", got)
	}
	if eval[bool](p, "heard.a.some(([, d]) => d.forged)") {
		t.Error("the element tells what another frame said")
	}
	if eval[bool](p, "'polluted' in {} || 'stolen' in globalThis") {
		t.Error("a message changed what every object has, or ran")
	}
	if got := eval[float64](p, "a.step().then((r) => r.state.t)"); got != 3 {
		t.Errorf("a step afterwards leads to word %v, want 3", got)
	}
	p.quiet()
}

// Every page that is built has a policy without inline scripts, and needs none.
func TestPagesHavePolicies(t *testing.T) {
	pages, _ := filepath.Glob(filepath.Join(root, "dist", "*.html"))
	inside, _ := filepath.Glob(filepath.Join(root, "dist", "*", "*.html"))
	if pages = append(pages, inside...); len(pages) < 3 {
		t.Fatalf("got pages %q, want the built ones", pages)
	}
	for _, path := range pages {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if faults := policyFaults(string(data)); len(faults) > 0 {
			t.Errorf("%s: %q", path, faults)
		}
	}
	good := `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; base-uri 'none'"><script src="a.js"></script>`
	if f := policyFaults(good); len(f) > 0 {
		t.Errorf("a good page has faults: %q", f)
	}
	for _, bad := range []string{
		strings.ReplaceAll(good, "script-src 'self'", "script-src 'self' 'unsafe-inline'"), strings.ReplaceAll(good, "script-src 'self'", "script-src *"), strings.ReplaceAll(good, "default-src 'none'; ", ""), strings.ReplaceAll(good, "; base-uri 'none'", ""),
		good + "<script>x</script>", good + `<p onclick="x">`, good + `<p style="x">`, good + "<style>x</style>", good + `<a href="javascript:x">`, "<script src=a></script>" + good,
	} {
		if len(policyFaults(bad)) == 0 {
			t.Errorf("%s: found no fault", bad)
		}
	}
}

var metaPolicy = regexp.MustCompile(`<meta http-equiv="Content-Security-Policy" content="([^"]*)">`)

// policyFaults lists what is wrong with a page's policy, and what the page has that it forbids.
func policyFaults(html string) (faults []string) {
	m := metaPolicy.FindStringSubmatchIndex(html)
	if m == nil {
		return []string{"no policy"}
	}
	policy := map[string]string{}
	for _, d := range strings.Split(html[m[2]:m[3]], ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(d), " ")
		policy[name] = value
	}
	for name, allowed := range map[string][]string{"default-src": {"'none'"}, "script-src": {"'self'", "'self' 'wasm-unsafe-eval'"}, "style-src": {"'self'"}, "base-uri": {"'none'"}} {
		ok := false
		for _, a := range allowed {
			ok = ok || policy[name] == a
		}
		if !ok {
			faults = append(faults, fmt.Sprintf("%s is %q, want one of %q", name, policy[name], allowed))
		}
	}
	for _, no := range []string{`<script>`, `<script(?: [^>]*)?>\s*[^\s<]`, `<style`, `(?i)<[^>]*\s(?:on[a-z]+|style)=`, `(?i)=\s*["']?\s*javascript:`} {
		if found := regexp.MustCompile(no).FindString(html); found != "" {
			faults = append(faults, found)
		}
	}
	if before := html[:m[0]]; strings.Contains(before, "<script") || strings.Contains(before, "<link") {
		faults = append(faults, "something is loaded before the policy")
	}
	return faults
}
