//go:build !js

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"shellgame/internal/chrome"
)

// TestTokens: the tokenizers of published checkpoints in the page, in their worker. The page
// fetches their module with the first one and not before.
func TestTokens(t *testing.T) {
	p := open(t, chrome.Options{}, "?stage=no&device=cpu")
	p.wait("s.phase === 'live'")
	if eval[bool](p, `fetch("sw.js").then((r) => r.text()).then((s) => !s.includes("/js/tokens.js") || /"tokens-[0-9a-f]{12}\.wasm"/.test(s))`) {
		t.Error("the tokenizers' module is among what is kept for when there is no network")
	}
	fetched := `performance.getEntriesByType("resource").some((e) => /tokens-worker\.js$/.test(e.name))`
	if eval[bool](p, fetched) {
		t.Error("the tokenizers' worker was started by a page of the zoo")
	}
	for _, family := range some(1, []string{"qwen3.5", "cl100k-olmo", "qwen2"}) {
		dir := filepath.Join(root, "testdata", "tokenizers", family)
		file, golden := readFile(t, filepath.Join(dir, "tokenizer.json")), readFile(t, filepath.Join(dir, "golden.json"))
		out := eval[string](p, fmt.Sprintf(`(async () => {
			const {Tokens} = await import(document.querySelector("script[type=module]").src.replace(/main\.js$/, "tokens.js"));
			const bad = [];
			const seen = [];
			const t = await Tokens.open(new TextEncoder().encode(%s), (done, total) => seen.push([done, total]));
			const cases = %s;
			for (const {text, ids, decoded} of cases) {
				const got = await t.encode(text);
				if (JSON.stringify([...got]) !== JSON.stringify(ids)) bad.push("encode " + text + ": " + got);
				if (await t.decode(ids) !== decoded) bad.push("decode " + text);
				const s = await t.stream();
				let all = "";
				for (const id of ids) {
					const {text: part, unknown} = await s.next([id]);
					if (/[\ud800-\udfff]/u.test(part) || unknown) bad.push("part " + part);
					all += part;
				}
				all += await s.end();
				if (all !== decoded) bad.push("stream " + all);
			}
			const more = await t.stream();
			const odd = await more.next([99999, -1, t.n]);
			if (odd.text !== "" || odd.unknown !== 3) bad.push("unknown " + JSON.stringify(odd));
			const face = await t.encode("😀");
			const parts = [];
			for (const id of face) parts.push((await more.next([id])).text);
			if (parts.join("|") !== "|||😀") bad.push("parts " + parts.join("|"));
			await more.next([...face].slice(0, 2));
			if (await more.end() !== "\ufffd") bad.push("end");
			if ((await t.pieces([223, 99999])).join("|") !== "Ġ|") bad.push("pieces");
			const chat = await t.chat(JSON.stringify({chat_template: "{%% for m in messages %%}{{ '<|im_start|>' + m.content + '<|im_end|>' }}{%% endfor %%}", eos_token: "<|im_end|>"}), null);
			if (!chat.chat || chat.eos !== 2 || (await t.chat(null, null)).chat || (await t.chat("{}", null)).eos !== -1) bad.push("chat " + JSON.stringify(chat));
			const none = await t.conversation([{role: "user", content: "x"}]).catch((e) => e.message);
			await t.chat(null, "{%% for m in messages %%}{{ '<|im_start|>' + m.content + '<|im_end|>' }}{%% endfor %%}");
			const asked = [...await t.conversation([{role: "user", content: "é"}, {role: "user", content: "x"}])];
			if (none !== "chat template: there is none, want a prompt" || JSON.stringify(asked) !== JSON.stringify([1, ...await t.encode("é"), 2, 1, ...await t.encode("x"), 2])) bad.push("conversation " + none + asked);
			const refused = await t.chat(null, "{{ messages | conjure }}").catch((e) => e.message);
			if (refused !== "chat template: not supported: Unknown ArrayValue filter: conjure") bad.push(refused);
			const errors = await Promise.all([t.decode([99999]), t.encode("a\ud800b").then(String), more.end(), Tokens.open(new TextEncoder().encode("<!DOCTYPE html>"))].map((q) => q.then((v) => "no error: " + v, (e) => e.message)));
			t.close();
			errors.push(await t.encode("x").catch((e) => e.message));
			return JSON.stringify({bad, cases: cases.length, seen: seen.length > 0, n: t.n, errors});
		})()`, quote(t, file), golden))
		want := `{"bad":[],"cases":30,"seen":true,"n":1500,"errors":["tokenizer: got token 99999, want one of the vocabulary's (0 to 1499)","no error: 67,174,126,124,68","tokenizer: got text 31, want one that was begun","tokenizer: got \"<!DOCTYPE html>\", want the JSON object of a tokenizer.json","the tokenizer is closed"]}`
		if out != want {
			t.Errorf("%s:\ngot  %s\nwant %s", family, out, want)
		}
	}
	if !eval[bool](p, fetched) {
		t.Error("the tokenizers' module was not started, or under another name")
	}
	p.quiet()
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// quote writes a string of JavaScript.
func quote(t testing.TB, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
