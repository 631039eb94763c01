//go:build !js

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"shellgame/model"
	"shellgame/model/config"
	"shellgame/model/construct"
	"shellgame/model/safetensors"
)

const tokenizers = "../../testdata/tokenizers"

// bpeModels writes small models with random weights and published tokenizers: plain without a chat
// template, chat with one, and strange with one that asks for what there is not.
func bpeModels(t testing.TB, dir string) string {
	t.Helper()
	text := string(read(t, filepath.Join(golden, "olmo-hybrid-vheads-odd", "config.json")))
	for old, now := range map[string]string{`"vocab_size": 101`: `"vocab_size": 1504`, `"eos_token_id": 1`: `"eos_token_id": 0`} {
		if !strings.Contains(text, old) {
			t.Fatalf("config.json has no %s", old)
		}
		text = strings.Replace(text, old, now, 1)
	}
	template := func(s string) string {
		b, _ := json.Marshal(map[string]string{"chat_template": s, "eos_token": "<|im_end|>"})
		return string(b)
	}
	for name, files := range map[string]map[string]string{
		"plain":   {},
		"chat":    {"tokenizer_config.json": template(`{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`)},
		"strange": {"chat_template.jinja": "{{ messages | conjure }}"},
	} {
		r := construct.Random{Config: []byte(text), DType: safetensors.F32, Seed: 5, Files: map[string][]byte{}}
		files["tokenizer.json"] = string(read(t, filepath.Join(tokenizers, "qwen2", "tokenizer.json")))
		for file, data := range files {
			r.Files[file] = []byte(data)
		}
		if err := r.Write(t.Context(), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func runModel(t testing.TB, args ...string) (out, notes string) {
	t.Helper()
	code, out, notes := command(append([]string{"run", "--device", "cpu"}, args...)...)
	if code != exitOK {
		t.Fatalf("run %q: exit %d: %s", args, code, notes)
	}
	return out, notes
}

func TestRunText(t *testing.T) {
	dir := bpeModels(t, t.TempDir())
	plain, chat := filepath.Join(dir, "plain"), filepath.Join(dir, "chat")
	greedy, notes := runModel(t, "--model", plain, "--max-new", "40", "def f(x):")
	if !regexp.MustCompile(`^cpu, plain Go \(.*\): prefill 5 tokens at [0-9]+ tokens/s, decode 39 at [0-9]+ tokens/s(; [0-9]+ tokens have no text in tokenizer.json)?\n$`).MatchString(notes) || len(greedy) < 20 {
		t.Errorf("got %q, %q", greedy, notes)
	}
	if out, _ := runModel(t, plain, "--max-new", "40", "def f(x):"); out != greedy {
		t.Errorf("the folder named first: got %q, want %q", out, greedy)
	}
	drawn := func(args ...string) string {
		out, _ := runModel(t, append([]string{plain, "--max-new", "40", "--temp", "1", "def f(x):"}, args...)...)
		return out
	}
	if one := drawn(); one == greedy || one != drawn() || one == drawn("--seed", "2") {
		t.Error("drawn text is that of another seed, or is greedy")
	}
	if out := drawn("--top-k", "1", "--seed", "3"); out != greedy {
		t.Errorf("--top-k 1: got %q, want %q", out, greedy)
	}
	if out := drawn("--top-p", "1e-9"); out != greedy {
		t.Errorf("--top-p 1e-9: got %q, want %q", out, greedy)
	}
	if drawn("--top-k", "3") == drawn("--top-k", "4") || drawn("--top-p", "0.5") == drawn() {
		t.Error("--top-k or --top-p changes nothing")
	}

	// A stop word ends the text before it, wherever the tokens end; of two the first that comes.
	text := []rune(strings.TrimSuffix(greedy, "\n"))
	stop, later := string(text[8:11]), string(text[14:17])
	want := string(text[:8])
	if i := strings.Index(string(text), stop); i < len(want) {
		want = string(text)[:i]
	}
	for _, args := range [][]string{{"--stop", stop}, {"--stop", later, "--stop", stop}, {"--stop=" + stop, "--stop", "a, b"}} {
		if out, _ := runModel(t, append([]string{plain, "--max-new", "40", "def f(x):"}, args...)...); out != want+"\n" {
			t.Errorf("%q: got %q, want %q of %q", args, out, want, greedy)
		}
	}

	// The chat template is what the model reads, and its last token ends the answer.
	file := filepath.Join(t.TempDir(), "trace.json")
	answer, _ := runModel(t, chat, "--max-new", "5", "--system", "Be brief.", "--trace", file, "hi é")
	var trace textTrace
	if err := json.Unmarshal(read(t, file), &trace); err != nil {
		t.Fatal(err)
	}
	const asked = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi é<|im_end|>\n<|im_start|>assistant\n"
	if got := trace.Source; got != asked+strings.TrimSuffix(answer, "\n") && !strings.Contains(got, "?") {
		t.Errorf("the model read and said %q, want %q", got, asked+answer)
	}
	for i, s := range trace.Steps {
		if s.T != i || s.Word == "" || len(s.Top) != 8 || s.Top[0].Word == "" || len(s.Layers) != 3 || (s.Layers[0].State != nil) != (i == len(trace.Steps)-1) {
			t.Fatalf("step %d: %d %q, %d candidates, %d layers, state %v", i, s.T, s.Word, len(s.Top), len(s.Layers), s.Layers[0].State != nil)
		}
	}
	if first := trace.Steps[0]; first.Word != "<|im_start|>" || first.ID != 1 || first.Span != [2]int{0, 12} {
		t.Errorf("first step: %q %d %v", first.Word, first.ID, first.Span)
	}
	if last := trace.Steps[len(trace.Steps)-1]; last.Span[1] != len(trace.Source) {
		t.Errorf("the last step ends at %v of %d bytes", last.Span, len(trace.Source))
	}
	runModel(t, chat, "--raw", "--max-new", "1", "--trace", file, "hi é")
	trace = textTrace{}
	if err := json.Unmarshal(read(t, file), &trace); err != nil || !strings.HasPrefix(trace.Source, "hi é") {
		t.Errorf("--raw: the model read %q, %v", trace.Source, err)
	}

	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitFailed, "shellgame: chat template: not supported: filter 'conjure' not found; --raw takes the prompt as it is\n", []string{filepath.Join(dir, "strange"), "hi"}},
		{exitFailed, "shellgame: run: the prompt is empty\n", []string{plain, ""}},
		{exitFailed, "shellgame: tokenizer.json has tokens up to 1499, st-constructed a vocabulary of 288 (vocab_size): they do not belong together\n", []string{"--model", filepath.Join(zoo, "st-constructed"), "--tokenizer", filepath.Join(plain, "tokenizer.json"), "hi"}},
		{exitUsage, "shellgame: missing flags: --model=DIR, and \"hello\" is no folder; see shellgame --help\n", []string{"hello", "hi"}},
		{exitFailed, "shellgame: --trace: /none is no folder, want one to write x in\n", []string{plain, "--trace", "/none/x", "hi"}},
		{exitUsage, "shellgame: --trace: want a prompt: a conversation is not traced; see shellgame --help\n", []string{plain, "--trace", "x"}},
	} {
		code, out, err := command(append([]string{"run", "--device", "cpu"}, c.args...)...)
		if code != c.code || out != "" || err != c.want {
			t.Errorf("run %q: exit %d, %q, %q, want %d, %q", c.args, code, out, err, c.code, c.want)
		}
	}
	if out, _ := runModel(t, filepath.Join(dir, "strange"), "--raw", "--max-new", "3", "hi"); out == "\n" {
		t.Error("--raw: got nothing")
	}
}

// textTrace is what of a trace the tests look at.
type textTrace struct {
	Source string
	Steps  []struct {
		T, ID  int
		Word   string
		Span   [2]int
		Top    []struct{ Word string }
		Layers []struct{ State any }
	}
}

// What a stop word may begin with is held back, and given out once it is none.
func TestPrinter(t *testing.T) {
	for _, c := range []struct {
		stops, parts []string
		want         string
	}{
		{nil, []string{"ab", "c"}, "ab|abc|abc"},
		{[]string{"stop"}, []string{"a st", "one", "sto", "p and more", "x"}, "a |a stone|a stone|a stone|a stone|a stone"},
		{[]string{"aab"}, []string{"a", "a", "a", "b"}, "||a|a|a"},
		{[]string{"xyz", "y"}, []string{"x", "yz"}, "||"},
		{[]string{"\n\n"}, []string{"a\n", "b\n"}, "a|a\nb|a\nb\n"},
		{[]string{"é"}, []string{"caf", "é!"}, "caf|caf|caf"},
	} {
		var out strings.Builder
		p := &printer{out: &out, stops: c.stops}
		var seen []string
		for _, part := range c.parts {
			p.add(part)
			seen = append(seen, out.String())
		}
		p.end()
		seen = append(seen, strings.TrimSuffix(out.String(), "\n"))
		if got := strings.Join(seen, "|"); got != c.want || p.all.String() != seen[len(seen)-1] && !strings.HasSuffix(c.want, "\n") {
			t.Errorf("%q of %q: got %q, want %q", c.stops, c.parts, got, c.want)
		}
	}
}

// Nothing that a model says commands a terminal.
func TestPlain(t *testing.T) {
	var out strings.Builder
	p := &printer{out: &out, plain: true}
	p.add("a\x1b[31m\tb\u009b\x7f\r\n")
	if p.end(); out.String() != "a\ufffd[31m\tb\ufffd\ufffd\ufffd\n\n" {
		t.Errorf("got %q", out.String())
	}
}

// A folder's tokens that end an answer.
func TestEnds(t *testing.T) {
	dir := bpeModels(t, t.TempDir())
	m := &model.Model{Config: &config.Config{EOSAll: []int{7}}}
	for data, want := range map[string]string{
		"":                         "map[2:true 7:true]",
		`{}`:                       "map[2:true 7:true]",
		`{"eos_token_id": null}`:   "map[2:true 7:true]",
		`{"eos_token_id": 3}`:      "map[2:true 3:true 7:true]",
		`{"eos_token_id": [3, 4]}`: "map[2:true 3:true 4:true 7:true]",
		`{"eos_token_id": "x"}`:    `generation_config.json: eos_token_id: got "\"x\"", want a token or a list of them`,
		`<html>`:                   "generation_config.json: invalid character '<' looking for beginning of value",
	} {
		f := modelFlag{Model: filepath.Join(dir, "chat")}
		if data != "" {
			write(t, filepath.Join(f.Model, "generation_config.json"), []byte(data))
		}
		tok, err := f.tokenizer()
		if err != nil {
			t.Fatal(err)
		}
		g := &generation{tok: tok}
		if g.chat, err = f.chat(tok); err != nil {
			t.Fatal(err)
		}
		ends, err := g.ends(m, f)
		got := fmt.Sprint(ends)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", data, got, want)
		}
		os.Remove(filepath.Join(f.Model, "generation_config.json"))
	}
}
