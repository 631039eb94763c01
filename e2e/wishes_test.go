//go:build !js

package e2e

import (
	"fmt"
	"strings"
	"time"
)

// refuses has an element a asked for what makes no sense: it answers what is wanted, and leaves page
// and later loads alone.
func (p page) refuses() {
	p.Helper()
	eval[bool](p, "a.load({task: 'st', model: 'st-gdn-neg', n: 8, seed: 1, t: 2}).then(() => true)")
	state := func() string { return eval[string](p, "a.state().then((r) => JSON.stringify(r.state))") }
	before := state()
	for _, c := range []struct{ ask, want string }{
		{`load({program: "foo"})`, "load: program: line 1, column 1: "},
		{`load({program: "a,b,c,d,e=range(5)\nassert a==", t: 4})`, "load: t=4 (want -1 to 3, the program's words)"},
		{`load({t: 900})`, "load: t=900 (want -1 to 12, the program's words)"},
		{`load({n: 4, t: 12})`, "load: t=12 (want -1 to 8, the program's words)"},
		{`load({model: "nope"})`, "load: model=nope (want a model of the zoo or the address of a folder)"},
		{`load({model: "models/gone"})`, "load: gone could not be loaded: "},
		{`load({task: "sbr", model: "st-gdn-neg"})`, "load: model=st-gdn-neg (a model of state tracking, not of both)"},
		{`load({task: "sbr", n: 200})`, "load: n=200 (want at most 128 for this task)"},
		{`load({model: "sbr-hybrid-neg", n: 200})`, "load: n=200 (want at most 128 for this task)"},
		{`load({n: "9"})`, `load: n="9" (want a whole number from 1 to 512)`},
		{`load({layer: 9})`, "load: layer=9 (want 0 to 3)"},
		{`load({model: "st-constructed", layer: 3, t: 1})`, "load: layer=3 (want 0 to 0)"},
		{`load({switches: {heads: [[9, 9]]}})`, "load: switches.heads: layer 9 head 9 (no such head)"},
		{`load({patches: [{t: 1, layer: 7, from: "zero"}]})`, "load: "},
		{`load({lesson: "no-such"})`, "load: lesson=no-such could not be opened: "},
		{`load({lesson: "by-hand", page: 90})`, "load: page=90 (want 0 to "},
		{`seek(900)`, "step: t=900 (want -1 to 12, the program's words)"},
		{`step(1e6)`, "step: count=1000000 (want a whole number from -9999 to 9999)"},
	} {
		got := eval[string](p, "a."+c.ask+".then(() => 'accepted', (e) => e.message)")
		if !strings.HasPrefix(got, c.want) || strings.Contains(got, "\n") || strings.Contains(got, "..") {
			p.Errorf("%s: %q, want one line with %q", c.ask, got, c.want)
		}
		if after := state(); after != before {
			p.Errorf("after %s the page says\n%s, want as before\n%s", c.ask, after, before)
		}
	}
	for _, c := range []struct{ ask, want string }{
		{`load({t: 3})`, "s.t === 3 && s.words === 13"},
		{`load({n: 16})`, "s.n === 16 && s.words === 21 && s.model === 'st-gdn-neg'"},
		{`load({program: "a,b,c,d,e=range(5)\na,b=b,a\nassert a==", t: 2})`, "s.words === 5 && s.t === 2"},
		{`load({seed: 5})`, "s.seed === 5 && s.words === 21 && !s.program.includes('a,b=b,a\\nassert a==')"},
		{`load({model: "st-constructed", t: 4})`, "s.model === 'st-constructed' && s.t === 4"},
		{`load({task: "sbr", n: 4, t: 0})`, "s.task === 'sbr' && s.model === 'sbr-hybrid-neg' && s.program.startsWith('bits=[')"},
	} {
		if got := eval[string](p, "a."+c.ask+".then(({state: s}) => ("+c.want+") ? '' : JSON.stringify(s), (e) => e.message)"); got != "" {
			p.Errorf("%s: %s, want %s", c.ask, got, c.want)
		}
	}
	p.Forget() // a folder and a lesson that are not there
}

// chosen is what the controls say: the task, the model, the text of its entry, whether the editor
// holds what runs, and the address.
const chosen = `(() => { const m = document.getElementById("model"); return [document.querySelector("input[name=task]:checked").value, m.value, m.selectedOptions[0]?.textContent ?? "nothing",
	document.getElementById("program").value.trim() === shellgamePage.state().program.trim(), ...["task", "model", "n", "seed"].map((k) => new URLSearchParams(location.search).get(k))].join(" "); })()`

// cancels changes the task of a page with st-constructed, n = 4 and seed 4, and cancels that: task,
// list and address go back.
func (p page) cancels() {
	p.Helper()
	eval[bool](p, `(async () => {
		document.querySelector("input[name=task][value=sbr]").click();
		const cancel = document.getElementById("progress-cancel");
		while (cancel.hidden) await null;
		cancel.click();
		return true;
	})()`)
	p.wait("!s.busy && document.getElementById('notice-work')")
	p.address("c.task === 'st'")
	if got, want := eval[string](p, chosen), "st st-constructed st-constructed (by hand) true st st-constructed 4 4"; got != want {
		p.Errorf("after Cancel the page says %q, want %q", got, want)
	}
	if said := p.notice("work"); said != "Loading sbr-hybrid-neg was cancelled. Still running st-constructed." {
		p.Errorf("the page says %q", said)
	}
}

// hurries changes the same page faster than models load: nothing is lost.
func (p page) hurries() {
	p.Helper()
	const set = `const task = (name) => document.querySelector("input[name=task][value=" + name + "]").click();
		const model = (name) => { const m = document.getElementById("model"); m.value = name; m.dispatchEvent(new Event("change")); };
		const wait = () => new Promise((r) => setTimeout(r, 30));`
	for _, c := range some(1, []struct{ name, do, task, model string }{
		{"in one tick", `task("sbr"); model("sbr-gdn-pos");`, "sbr", "sbr-gdn-pos"},
		{"one after the other", `model("sbr-transformer"); await wait(); task("st"); await wait(); model("st-gdn-pos"); await wait(); model("st-gdn-neg");`, "st", "st-gdn-neg"},
		{"there and back", `task("st"); await wait(); task("sbr"); model("sbr-transformer"); await wait(); task("st"); model("st-transformer");`, "st", "st-transformer"},
	}) {
		eval[bool](p, "(async () => { "+set+c.do+" return true; })()")
		p.wait(fmt.Sprintf("!s.busy && s.model === %q && s.task === %q", c.model, c.task))
		p.address(fmt.Sprintf("c.model === %q", c.model))
		want := fmt.Sprintf("%s %s %s true %[1]s %[2]s 4 4", c.task, c.model, c.model)
		if got := eval[string](p, chosen); got != want {
			p.Errorf("%s: the page says %q, want %q", c.name, got, want)
		}
		if program := eval[string](p, "shellgamePage.state().program"); strings.Contains(program, "bits=[") != (c.task == "sbr") {
			p.Errorf("%s: %s runs\n%s", c.name, c.model, program)
		}
	}
	p.quiet()
}

// choosesTwo chooses two checkpoints one right after the other: the second runs, and the list says so.
func (p page) choosesTwo() {
	p.Helper()
	p.click("own")
	p.wait("document.querySelector('#own-box[open]')")
	eval[bool](p, `(async () => {
		const files = await Promise.all(["st-gdn-neg", "st-constructed"].map(async (name) => {
			const all = new DataTransfer();
			for (const f of ["config.json", "model.safetensors"]) all.items.add(new File([await (await fetch("zoo/" + name + "/" + f)).blob()], f));
			return all.files;
		}));
		const input = document.querySelectorAll("#own-box input[type=file]")[1];
		for (const f of files) {
			input.files = f;
			input.dispatchEvent(new Event("change"));
			await new Promise((r) => setTimeout(r, 5));
		}
		return true;
	})()`)
	p.live("chosen files")
	time.Sleep(300 * time.Millisecond)
	p.live("chosen files")
	if got, want := eval[string](p, `[...document.getElementById("model").options].map((o) => (o.selected ? "*" : "") + o.textContent).filter((s) => s.includes("your files")).join()`), "*chosen files 2 (your files),chosen files (your files)"; got != want {
		p.Errorf("the list has %q, want %q", got, want)
	}
	if got := p.text("model-hint"); !strings.HasPrefix(got, "Files of yours: config.json, model.safetensors.") {
		p.Errorf("the page describes %q", got)
	}
	if runs := eval[bool](p, "shellgamePage.state().words.length > 5 && shellgamePage.state().program === document.getElementById('program').value"); !runs {
		p.Error("it does not run the program in the editor")
	}
}
