//go:build !js

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"shellgame/internal/chrome"
	"shellgame/model/construct"
	"shellgame/model/safetensors"
	"shellgame/model/tokenizer/bpe"
	"shellgame/model/tokenizer/chat"
)

// writeCheckpoint makes a folder with random weights and a published tokenizer's kind of file.
func writeCheckpoint(t *testing.T, dir, text, tokenizer string) {
	t.Helper()
	words, err := os.ReadFile(filepath.Join(root, "testdata", "tokenizers", tokenizer, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	r := construct.Random{Config: []byte(text), DType: safetensors.F16, Seed: 1, Files: map[string][]byte{"tokenizer.json": words}}
	if err := r.Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
}

// A dropped checkpoint with a byte-level BPE tokenizer writes text, the same for the same seed, and
// stops when asked to; its state can be seen; then a model of the zoo reads programs again.
func TestText(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "writer")
	writeCheckpoint(t, dir, `{"model_type": "olmo_hybrid", "vocab_size": 1500, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
		"num_attention_heads": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 32,
		"max_position_embeddings": 4096, "rope_parameters": {"rope_theta": null}}`, "qwen2")
	p := open(t, chrome.Options{}, "?device=cpu&task=st&model=st-constructed&n=4")
	p.live("st-constructed")
	p.drag(100, 300, dir)
	p.live("writer")
	p.wait("document.querySelector('.view-text textarea')")
	if said := p.text("notice-text"); !strings.Contains(said, "writer has words of its own") {
		t.Errorf("the page says %q", said)
	}
	// Stop ends a text before the tokenizer is there, and nothing is written afterwards.
	atOnce := eval[string](p, `(async () => {
		const [button, said, out] = ["button.primary", ".hint", ".text-out"].map((s) => document.querySelector(".view-text " + s));
		const prompt = document.querySelector(".view-text textarea").value;
		const heard = [];
		new MutationObserver(() => heard.push(said.textContent)).observe(said, { childList: true, characterData: true, subtree: true });
		const wait = (ms) => new Promise((r) => setTimeout(r, ms));
		button.click();
		await wait(20);
		button.click();
		await wait(30);
		const soon = [button.textContent, said.textContent].join(" ");
		await wait(1500);
		const later = [button.textContent, said.textContent, out.textContent === prompt].join(" ");
		button.click();
		while (button.textContent !== "Write") await wait(20);
		return [soon, later, /wrote \d+ tokens/.test(said.textContent), heard.some((s) => s.includes("100 %"))].join("; ");
	})()`)
	if want := "Write Stopped.; Write Stopped. true; true; false"; atOnce != want {
		t.Errorf("Stop 20 ms after Write, a while later, and Write again: %q, want %q", atOnce, want)
	}
	write := func(prompt string, tokens int, seed int) string {
		p.Helper()
		eval[bool](p, fmt.Sprintf(`((v) => { v.querySelector("textarea").value = %q; const [most, temp, topK, topP, seed] = v.querySelectorAll("input"); most.value = %d; seed.value = %d; v.querySelector("button.primary").click(); return true; })(document.querySelector(".view-text"))`, prompt, tokens, seed))
		p.wait(`document.querySelector(".view-text button.primary").textContent === "Write"`)
		return eval[string](p, `document.querySelector(".text-out").textContent`)
	}
	status := func() string { return eval[string](p, `document.querySelector(".view-text .hint").textContent`) }
	prompt := "The cup <img src=x onerror=alert(1)>, ünd 漢字"
	first := write(prompt, 40, 1)
	if !strings.HasPrefix(first, prompt) || len(first) < len(prompt)+20 {
		t.Errorf("wrote %q", first)
	}
	if !regexp.MustCompile(`^Read \d+ tokens at [\d.]+ a second; wrote (40|\d+) tokens at [\d.]+ a second(, and ended)?\.$`).MatchString(status()) {
		t.Errorf("the view says %q", status())
	}
	if again := write(prompt, 40, 1); again != first {
		t.Errorf("the same seed wrote %q after %q", again, first)
	}
	if other := write(prompt, 40, 2); other == first {
		t.Error("another seed wrote the same")
	}
	if got := eval[string](p, `((v) => [v.querySelectorAll("canvas").length, v.querySelector("canvas").width, v.querySelector("canvas").height, v.querySelector(".text-state .hint").textContent].join(" "))(document.querySelector(".view-text"))`); !regexp.MustCompile(`^1 32 16 16 by 32, norm [\d.]+, largest [\d.]+$`).MatchString(got) {
		t.Errorf("its state is shown as %q", got)
	}
	if eval[bool](p, `!document.querySelector(".view-text input[type=checkbox]").closest("label").hidden`) {
		t.Error("the view offers to leave out a chat template that there is none of")
	}
	p.shot("text")
	// Stop is pressed in the page itself as soon as there is text: a busy machine may take longer to hear
	// of it through the browser's debugger than the model takes to write. The text is
	// drawn every 30 ms at most, however fast tokens come.
	tooOften := eval[int](p, `(async () => {
		const v = document.querySelector(".view-text");
		const [out, button] = [v.querySelector(".text-out"), v.querySelector("button.primary")];
		v.querySelector("textarea").value = "x";
		v.querySelector("input").value = 4000;
		let draws = 0;
		const start = performance.now();
		const wrote = new Promise((r) => new MutationObserver(() => {
			draws++;
			if (out.textContent.length > 300) r();
		}).observe(out, { childList: true, characterData: true, subtree: true }));
		button.click();
		await wrote;
		button.click();
		while (button.textContent !== "Write") await new Promise((r) => setTimeout(r, 10));
		return Math.max(0, draws - 3 - Math.ceil((performance.now() - start) / 30));
	})()`)
	if tooOften > 0 {
		t.Errorf("the text was drawn %d times more than once in 30 ms", tooOften)
	}
	if !strings.HasSuffix(status(), ", and was stopped.") {
		t.Errorf("after Stop the view says %q", status())
	}
	if write("", 10, 1); status() != "write: got an empty prompt, want at least one token" {
		t.Errorf("of an empty prompt the view says %q", status())
	}
	chatty := filepath.Join(t.TempDir(), "chatty")
	if err := os.CopyFS(chatty, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	template := `{"eos_token": "<|im_end|>", "chat_template": "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{{ '<|im_start|>assistant\n' }}"}`
	if err := os.WriteFile(filepath.Join(chatty, "tokenizer_config.json"), []byte(template), 0o666); err != nil {
		t.Fatal(err)
	}
	p.drag(100, 300, chatty)
	p.live("chatty")
	p.wait("document.querySelector('.view-text textarea')")
	asked := write("hi", 5, 1)
	if !regexp.MustCompile(`^Read 14 tokens at [\d.]+ a second, with its chat template; wrote \d+ tokens? `).MatchString(status()) {
		t.Errorf("with a chat template the view says %q", status())
	}
	eval[bool](p, `((v) => { const raw = v.querySelector("input[type=checkbox]"); if (raw.closest("label").hidden) return false; raw.click(); return true; })(document.querySelector(".view-text"))`)
	p.shot("text-chat")
	if plain := write("hi", 5, 1); plain == asked || !regexp.MustCompile(`^Read 2 tokens at [\d.]+ a second; wrote \d+ tokens? `).MatchString(status()) {
		t.Errorf("without its chat template the view says %q", status())
	}
	// Every token ends what this one says.
	mute := filepath.Join(t.TempDir(), "mute")
	if err := os.CopyFS(mute, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	var every []string
	for id := range 1500 {
		every = append(every, fmt.Sprint(id))
	}
	if err := os.WriteFile(filepath.Join(mute, "generation_config.json"), []byte(`{"eos_token_id": [`+strings.Join(every, ",")+`]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	p.drag(100, 300, mute)
	p.live("mute")
	p.wait("document.querySelector('.view-text textarea')")
	if write("hi", 5, 1); !strings.HasSuffix(status(), "; wrote 0 tokens, and ended.") {
		t.Errorf("where every token ends a text the view says %q", status())
	}
	// The other views have nothing to show of it, and say no error.
	for _, id := range []string{"cups", "anatomy", "maps", "belief", "compare", "switches", "curve", "export", "inspect"} {
		p.click("tab-" + id)
		p.wait(fmt.Sprintf("s.choices.panel === %q && document.querySelector('.view-%s')", id, id))
	}
	if said := p.text("notices"); strings.Contains(said, "could not") {
		t.Errorf("the views of a model without a program say %q", said)
	}
	p.choose("model", "st-constructed")
	p.live("st-constructed")
	if said := p.ask(); !strings.Contains(said, "right") {
		t.Errorf("then the page says %q", said)
	}
	p.quiet()
}

// A model of 0.8 billion parameters loads from a folder and writes in the page: BIG names it, as
// `shellgame construct random --config qwen3.5-0.8b --type f16 --tokenizer FILE DIR` makes it.
func TestBillion(t *testing.T) {
	dir := os.Getenv("BIG")
	if dir == "" {
		t.Skip("takes minutes and gigabytes: BIG=DIR names a large checkpoint")
	}
	for _, c := range []struct{ query, weights string }{{"?device=cpu", ""}, {"?device=webgpu", "int4"}} {
		t.Run(c.query+c.weights, func(t *testing.T) {
			p := open(t, chrome.Options{Script: keepMemory + gpuMemory}, c.query+"&task=st&model=st-constructed&n=4&weights="+c.weights)
			p.live("st-constructed")
			before, _ := p.use()
			from := time.Now()
			p.drag(100, 300, dir)
			if err := p.Wait(fmt.Sprintf("(s => !s.busy && s.model === %q)(shellgamePage.state())", filepath.Base(dir)), 8*time.Minute); err != nil {
				t.Fatalf("%v\n%s\n%s", err, p.text("notices"), p.text("progress-text"))
			}
			loaded := time.Since(from)
			after, _ := p.use()
			t.Logf("loaded in %v: %s; wasm memory %.0f MiB, then %.0f MiB; GPU buffers %.0f MB", loaded.Round(time.Second), p.text("model-hint"), before/(1<<20), after/(1<<20), eval[float64](p, "document.querySelector('iframe').contentWindow.gpuBytes ?? 0")/1e6)
			p.wait("document.querySelector('.view-text textarea')")
			eval[bool](p, `((v) => { v.querySelector("textarea").value = "Hello there"; v.querySelector("input").value = 4; v.querySelector("button.primary").click(); return true; })(document.querySelector(".view-text"))`)
			if err := p.Wait(`document.querySelector(".view-text button.primary").textContent === "Write"`, 8*time.Minute); err != nil {
				t.Fatal(err)
			}
			said := eval[string](p, `document.querySelector(".view-text .hint").textContent`)
			t.Logf("%s | %q", said, eval[string](p, `document.querySelector(".text-out").textContent`))
			if !regexp.MustCompile(`^Read \d+ tokens.*; wrote \d+ token`).MatchString(said) {
				t.Errorf("the view says %q, notices %q", said, p.text("notices"))
			}
			p.shot("billion" + c.weights)
		})
	}
}

// With a model that reads programs the prompt is the page's, and the model answers it.
func TestTextOfPrograms(t *testing.T) {
	p := open(t, chrome.Options{}, `?task=st&model=st-constructed&n=4&seed=1&device=cpu#v=1&j={"panel":"text"}`)
	p.live("st-constructed")
	p.click("end")
	p.wait("s.answer && !s.busy && s.program.startsWith(document.querySelector('.view-text textarea').value) && document.querySelector('.view-text textarea').value.endsWith('==')")
	got := eval[string](p, `(async () => {
		const v = document.querySelector(".view-text");
		const [most, temp] = v.querySelectorAll("input");
		most.value = 1;
		temp.value = 0;
		v.querySelector("button.primary").click();
		while (v.querySelector("button.primary").textContent !== "Write") await new Promise((r) => setTimeout(r, 20));
		return v.querySelector(".text-out").textContent;
	})()`)
	if want := eval[string](p, "shellgamePage.state().program"); got != strings.TrimSpace(strings.Replace(want, "== ", "==", 1)) {
		t.Errorf("the model writes %q, want %q", got, want)
	}
	// However little a token takes, Stop is heard while a text is written.
	said := eval[string](p, `(async () => {
		const v = document.querySelector(".view-text");
		const [said, button] = [v.querySelector(".hint"), v.querySelector("button.primary")];
		v.querySelector("input").value = 900;
		const writing = new Promise((r) => new MutationObserver(() => { if (said.textContent.startsWith("Writing")) r(); }).observe(said, { childList: true, characterData: true, subtree: true }));
		button.click();
		await writing;
		button.click();
		while (button.textContent !== "Write") await new Promise((r) => setTimeout(r, 5));
		return said.textContent;
	})()`)
	if !strings.HasSuffix(said, ", and was stopped.") {
		t.Errorf("after Stop the view says %q", said)
	}
	p.quiet()
}

// A model with a chat template is talked to: each message is read after all that was said before, until
// a new conversation begins.
func TestTextTalk(t *testing.T) {
	const template = `{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}`
	dir := filepath.Join(t.TempDir(), "talker")
	writeCheckpoint(t, dir, `{"model_type": "olmo_hybrid", "vocab_size": 1500, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
		"num_attention_heads": 2, "linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 16,
		"max_position_embeddings": 1024, "rope_parameters": {"rope_theta": null}}`, "qwen2")
	settings, _ := json.Marshal(map[string]string{"chat_template": template})
	if err := os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), settings, 0o666); err != nil {
		t.Fatal(err)
	}
	words, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := bpe.Open(words)
	if err != nil {
		t.Fatal(err)
	}
	form, err := chat.Load(settings, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, chrome.Options{}, "?device=cpu&task=st&model=st-constructed&n=4")
	p.live("st-constructed")
	p.drag(100, 300, dir)
	p.live("talker")
	p.wait("document.querySelector('.view-text textarea')")
	var talked []chat.Message
	say := func(text string) {
		t.Helper()
		answer := eval[string](p, fmt.Sprintf(`(async () => {
			const v = document.querySelector(".view-text");
			const [area, button, out] = ["textarea", "button.primary", ".text-out"].map((s) => v.querySelector(s));
			v.querySelector("input").value = 6;
			area.value = %q;
			button.click();
			while (button.textContent !== "Write") await new Promise((r) => setTimeout(r, 20));
			return area.value === "" ? out.lastChild.data : "the prompt stays: " + v.querySelector(".hint").textContent;
		})()`, text))
		talked = append(talked, chat.Message{Role: "user", Content: text})
		prompt, err := form.Render(talked)
		if err != nil {
			t.Fatal(err)
		}
		ids, err := tok.Encode(prompt)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := eval[string](p, "document.querySelector('.view-text .hint').textContent"), fmt.Sprintf("Read %d tokens", len(ids)); !strings.HasPrefix(got, want) {
			t.Errorf("after %q the view says %q, want %q", text, got, want)
		}
		talked = append(talked, chat.Message{Role: "assistant", Content: answer})
	}
	say("Where is the ball?")
	say("And now?")
	p.shot("talk")
	if said := eval[string](p, "document.querySelector('.view-text .text-out').textContent"); !strings.Contains(said, "Where is the ball?") || !strings.Contains(said, "And now?") {
		t.Errorf("the conversation is %q", said)
	}
	p.press(".view-text .text-fields button:last-of-type")
	talked = nil
	say("Where is the ball?")
	p.quiet()
}
