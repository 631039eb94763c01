package bpe

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// changed is a family's tokenizer.json with parts replaced: each change is a path of keys, with
// points between, and a value in JSON.
func changed(t testing.TB, family string, changes ...string) []byte {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(read(t, family, "tokenizer.json"), &all); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(changes); i += 2 {
		var value, at any
		if err := json.Unmarshal([]byte(changes[i+1]), &value); err != nil {
			t.Fatalf("%s: %v", changes[i+1], err)
		}
		at = all
		keys := strings.Split(changes[i], ".")
		for k, key := range keys {
			last := k == len(keys)-1
			switch v := at.(type) {
			case map[string]any:
				if last {
					v[key] = value
				}
				at = v[key]
			case []any:
				n, err := strconv.Atoi(key)
				if err != nil {
					t.Fatal(err)
				}
				if last {
					v[n] = value
				}
				at = v[n]
			default:
				t.Fatalf("%s: no %s", changes[i], key)
			}
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestRefused(t *testing.T) {
	for _, c := range []struct{ path, value, want string }{
		{"model.type", `"Unigram"`, `model: got Unigram, want BPE or WordLevel: not supported`},
		{"model", `null`, `model: got none, want BPE or WordLevel: not supported`},
		{"model.byte_fallback", `true`, `model: byte_fallback: got true, want false: not supported`},
		{"model.dropout", `0.1`, `model: dropout: got 0.1, want none: not supported`},
		{"model.continuing_subword_prefix", `"##"`, `model: continuing_subword_prefix: got "##", want none: not supported`},
		{"model.end_of_word_suffix", `"</w>"`, `model: end_of_word_suffix: got "</w>", want none: not supported`},
		{"model.vocab", `{"a": 0}`, `model.vocab: byte 0x00: got no token "Ā", want one for each byte: not supported`},
		{"model.vocab.Ġ", `-1`, `vocabulary: "Ġ": got token -1, want 0 to 16777215`},
		{"model.vocab.Ġ", `99999999999`, `vocabulary: "Ġ": got token 99999999999, want 0 to 16777215`},
		{"model.vocab.zz", `223`, `vocabulary: token 223: got "zz" and "Ġ", want one`},
		{"model.merges.0", `["a"]`, `model: merges: got "[\"a\"]", want two tokens`},
		{"model.merges.0", `["日", "a"]`, `model.merges: merge 0 of "日" and "a": got no token "日" in the vocabulary, want one`},
		{"model.merges.0", `["!", "a"]`, `model.merges: merge 0 of "!" and "a": got no token "!a" in the vocabulary, want one`},
		{"model.merges", `3`, `model: json: cannot unmarshal number into Go struct field model.merges of type []bpe.twoTokens`},
		{"model.merges", `["a b c"]`, `model: merges: got "\"a b c\"", want two tokens`},
		{"normalizer", `{"type": "NFKC"}`, `normalizer: got NFKC, want NFC or none: not supported`},
		{"normalizer", `{"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}`, `normalizer: got Lowercase, want NFC or none: not supported`},
		{"normalizer", `{"type": "Sequence"}`, `normalizer: got a Sequence of "", want a list "normalizers"`},
		{"pre_tokenizer", `null`, `pre_tokenizer: got no ByteLevel at the end, want it: not supported`},
		{"pre_tokenizer.type", `"Whitespace"`, `pre_tokenizer: got no ByteLevel at the end, want it: not supported`},
		{"pre_tokenizer.pretokenizers.0.type", `"Digits"`, `pre_tokenizer: got Digits, want Split and then ByteLevel: not supported`},
		{"pre_tokenizer.pretokenizers.0.type", `"ByteLevel"`, `pre_tokenizer: got ByteLevel, want Split and then ByteLevel: not supported`},
		{"pre_tokenizer.pretokenizers.0.type", `"Sequence"`, `pre_tokenizer: got Sequence within a Sequence: not supported`},
		{"pre_tokenizer.pretokenizers.0.pattern.Regex", `"\\w+(?!x)"`, `pre_tokenizer: Split: got the pattern "\\w+(?!x)", want that of GPT-2, cl100k (OLMo), Qwen2 or Qwen3.5: not supported`},
		{"pre_tokenizer.pretokenizers.0.pattern", `{"String": " "}`, `pre_tokenizer: Split: got no pattern of kind Regex, want one: not supported`},
		{"pre_tokenizer.pretokenizers.0.behavior", `"Removed"`, `pre_tokenizer: Split: behavior: got "Removed", want Isolated: not supported`},
		{"pre_tokenizer.pretokenizers.0.invert", `true`, `pre_tokenizer: Split: invert: got true, want false: not supported`},
		{"decoder", `null`, `decoder: got none, want ByteLevel: not supported`},
		{"decoder.type", `"Metaspace"`, `decoder: got Metaspace, want ByteLevel: not supported`},
		{"post_processor", `{"type": "BertProcessing"}`, `post_processor: got BertProcessing, want TemplateProcessing or none: not supported`},
		{"post_processor", `{"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "<|im_end|>"}}], "special_tokens": {}}`, `post_processor: got a template that does not end in the text, want special tokens and then sequence A: not supported`},
		{"truncation", `{"max_length": 512}`, `truncation: got "{\"max_length\":512}", want an object with a type`},
		{"added_tokens.0.content", `""`, `added_tokens: token 0: got no content, want some`},
		{"added_tokens.0.id", `7`, `added_tokens: vocabulary: token 7: got "%" and "<|endoftext|>", want one`},
		{"added_tokens.1.content", `"<|endoftext|>"`, `added_tokens: vocabulary: token 1: got "<|endoftext|>" and "<|im_start|>", want one`},
	} {
		_, err := Open(changed(t, "qwen2", c.path, c.value))
		if err == nil || err.Error() != "tokenizer: "+c.want {
			t.Errorf("%s = %s:\ngot  %v\nwant tokenizer: %s", c.path, c.value, err, c.want)
		}
	}
	for _, data := range []string{"", "<!DOCTYPE html>", "[]", `{"model": 3}`, `{}`, "{\"model\": {\"type\": \"BPE\", \"vocab\": []}}", `{"model": {"vocab": []}, "model": {"type": "BPE"}}`} {
		if _, err := Open([]byte(data)); err == nil || !strings.HasPrefix(err.Error(), "tokenizer: ") || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "%!") {
			t.Errorf("%q: got %v, want one line", data, err)
		}
	}
}

// TestHonoured: parts that change what comes out and are done here.
func TestHonoured(t *testing.T) {
	bos := `{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"x": {"ids": [2]}}}`
	for name, c := range map[string]struct {
		path, value, text string
		tokens            []string
	}{
		"template":                {"post_processor", bos, "hi", []string{"<|im_end|>", "h", "i"}},
		"template and offsets":    {"post_processor", `{"type": "Sequence", "processors": [{"type": "ByteLevel"}, ` + bos + `]}`, "", []string{"<|im_end|>"}},
		"GPT-2's words":           {"pre_tokenizer", `{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}`, "a 12!!", []string{"a", "Ġ", "1", "2", "!", "!"}},
		"a space first":           {"pre_tokenizer", `{"type": "ByteLevel", "add_prefix_space": true, "use_regex": true}`, "a", []string{"Ġa"}},
		"a space is there":        {"pre_tokenizer", `{"type": "ByteLevel", "add_prefix_space": true, "use_regex": true}`, " a", []string{"Ġa"}},
		"no normaliser":           {"normalizer", `null`, "e\u0301", []string{"e", "Ì", "ģ"}},
		"normaliser":              {"normalizer", `{"type": "Sequence", "normalizers": [{"type": "NFC"}]}`, "e\u0301", []string{"Ã", "©"}},
		"merges as lines":         {"model.merges", `["o n", "i on"]`, "ionon", []string{"ion", "on"}},
		"leftmost of equals":      {"model.merges", `[["Ġ", "Ġ"]]`, "\n     x", []string{"Ċ", "ĠĠ", "ĠĠ", "Ġ", "x"}},
		"bytes":                   {"model.merges", `[]`, "the", []string{"t", "h", "e"}},
		"a part of a long s":      {"model.merges", `[]`, "'ſt", []string{"'", "Å", "¿", "t"}},
		"the word is not special": {"added_tokens", `[]`, "<|im_end|>", []string{"<", "|", "im", "_", "end", "|", ">"}},
	} {
		tok := open(t, changed(t, "qwen2", c.path, c.value))
		ids, err := tok.Encode(c.text)
		var got []string
		for _, id := range ids {
			got = append(got, tok.Token(id))
		}
		if err != nil || !slices.Equal(got, c.tokens) {
			t.Errorf("%s: %q: got %q, %v, want %q", name, c.text, got, err, c.tokens)
		}
	}
	words := open(t, changed(t, "qwen2", "model.ignore_merges", `true`, "model.merges", `[]`))
	if ids, err := words.Encode("ion ions"); err != nil || len(ids) != 6 || words.Token(ids[0]) != "ion" {
		t.Errorf("whole words: got %v, %v", ids, err)
	}
	// A long s goes with its apostrophe, as Unicode folds it.
	if words, err := (&splitter{pattern: compile(qwen2)}).cut([]string{"'ſt 'Sx"}); err != nil || !slices.Equal(words, []string{"'ſ", "t", " '", "Sx"}) {
		t.Errorf("long s: got %q, %v", words, err)
	}
}

// addedTokens are of each kind, after the vocabulary of Qwen2's file.
const addedTokens = `[
	{"id": 0, "content": "<|endoftext|>", "special": true}, {"id": 1, "content": "<|im_start|>", "special": true}, {"id": 2, "content": "<|im_end|>", "special": true},
	{"id": 1500, "content": "<L>", "lstrip": true}, {"id": 1501, "content": "<R>", "rstrip": true},
	{"id": 1502, "content": "<LR>", "lstrip": true, "rstrip": true}, {"id": 1503, "content": "wOrd"},
	{"id": 1504, "content": "é!", "normalized": true}, {"id": 1505, "content": "<a b>"}, {"id": 1506, "content": "<|im_start|>x", "special": true}]`

func TestAddedTokens(t *testing.T) {
	tok := open(t, changed(t, "qwen2", "added_tokens", addedTokens))
	_, cases := random(t)
	if len(cases) < 100 {
		t.Errorf("got %d cases, want 100 or more", len(cases))
	}
	for _, c := range cases {
		if ids, err := tok.Encode(c.Text); err != nil || !slices.Equal(ids, c.IDs) {
			t.Errorf("%q: got %v, %v, want %v", c.Text, ids, err, c.IDs)
		}
	}
	if !tok.Special(1506) || !tok.Special(0) || tok.Special(1505) || tok.Special(5) {
		t.Error("got other special tokens")
	}
	if text, err := tok.Decode([]int{1, 1505, 1504}); err != nil || text != "<|im_start|><a b>é!" {
		t.Errorf("got %q, %v", text, err)
	}

	single := open(t, changed(t, "qwen2", "added_tokens", `[{"id": 1500, "content": "wOrd", "single_word": true}]`))
	for text, want := range map[string]bool{"wOrd": true, "a wOrd!": true, "swOrd": false, "wOrds": false, "wOrd_": false, "日wOrd": false, "-wOrd-": true, "wOrd\u0301": false, "①wOrd": true, "wOrdwOrd": false} {
		ids, err := single.Encode(text)
		if err != nil || slices.Contains(ids, 1500) != want {
			t.Errorf("%q: got %v, %v, want the token: %v", text, ids, err, want)
		}
	}
}

func TestNotText(t *testing.T) {
	tok := open(t, read(t, "qwen2", "tokenizer.json"))
	for text, want := range map[string]string{
		"ab\xffc":                          "tokenizer: byte 2: got 0xff, want text in UTF-8",
		"x" + strings.Repeat("\u0301", 31): "tokenizer: got more than 30 combining marks in a row, want at most 30: not supported",
	} {
		if ids, err := tok.Encode(text); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, %v, want %s", text, ids, err, want)
		}
	}
	for _, text := range []string{"\ufffd", "x\u034fy", "x" + strings.Repeat("\u0301", 29)} {
		if _, err := tok.Encode(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, id := range []int{-1, 1500, 1 << 40} {
		if text, err := tok.Decode([]int{id}); err == nil || !strings.Contains(err.Error(), "want one of the vocabulary's (0 to 1499)") {
			t.Errorf("token %d: got %q, %v", id, text, err)
		}
	}
}

// FuzzEncode: what is encoded decodes to the text, normalised, and no text panics.
func FuzzEncode(f *testing.F) {
	var toks []*Tokenizer
	for _, family := range families {
		toks = append(toks, open(f, read(f, family, "tokenizer.json")))
		for _, c := range golden(f, family)[:8] {
			f.Add(c.Text)
		}
	}
	toks = append(toks, open(f, changed(f, "qwen2", "added_tokens", addedTokens)))
	f.Add("x <L> wOrd<R>  y é!<a b>")
	f.Add("\xff'ſ\u0085\u034f")
	f.Fuzz(func(t *testing.T, text string) {
		for i, tok := range toks {
			ids, err := tok.Encode(text)
			if err != nil {
				if !strings.HasPrefix(err.Error(), "tokenizer: ") || strings.ContainsAny(err.Error(), "\r\n") {
					t.Fatal(err)
				}
				continue
			}
			back, err := tok.Decode(ids)
			if err != nil {
				t.Fatal(err)
			}
			if got := stream(t, tok, ids); got != back {
				t.Fatalf("%q: got %q one by one, %q at once", text, got, back)
			}
			want := text
			if tok.nfc {
				want = norm.NFC.String(text)
			}
			if i < len(families) && back != want { // added tokens may take spaces away
				t.Fatalf("%q: came back as %q", text, back)
			}
		}
	})
}

// least is a file with the 256 bytes, a merge and an added token.
func least(t testing.TB) []byte {
	t.Helper()
	vocab := map[string]int{"ab": 256}
	for b, r := range letters {
		vocab[string(r)] = b
	}
	data, err := json.Marshal(map[string]any{
		"added_tokens":  []any{map[string]any{"id": 257, "content": "<s>", "special": true, "rstrip": true, "single_word": true, "normalized": true}},
		"normalizer":    map[string]any{"type": "Sequence", "normalizers": []any{map[string]any{"type": "NFC"}}},
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{map[string]any{"type": "Split", "pattern": map[string]any{"Regex": qwen2}, "behavior": "Isolated"}, map[string]any{"type": "ByteLevel", "use_regex": false, "add_prefix_space": false}}},
		"post_processor": map[string]any{"type": "Sequence", "processors": []any{map[string]any{"type": "ByteLevel"}, map[string]any{
			"type": "TemplateProcessing", "single": []any{map[string]any{"SpecialToken": map[string]any{"id": "<s>"}}, map[string]any{"Sequence": map[string]any{"id": "A"}}}, "special_tokens": map[string]any{"<s>": map[string]any{"ids": []int{257}}},
		}}},
		"decoder": map[string]any{"type": "ByteLevel"},
		"model":   map[string]any{"type": "BPE", "vocab": vocab, "merges": []any{"a b", []string{"a", "b"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestLeast(t *testing.T) {
	tok := open(t, least(t))
	ids, err := tok.Encode("x<s>x <s>  abab")
	if want := []int{257, 'x', '<', 's', '>', 'x', ' ', 257, 256, 256}; err != nil || !slices.Equal(ids, want) {
		t.Errorf("got %v, %v, want %v", ids, err, want)
	}
	if text, err := tok.Decode(ids); err != nil || text != "<s>x<s>x <s>abab" {
		t.Errorf("got %q, %v", text, err)
	}
}

// FuzzOpen: no file panics, and one that is taken encodes.
func FuzzOpen(f *testing.F) {
	f.Add(least(f))
	f.Add([]byte(`{"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "a"]]}, "decoder": {"type": "ByteLevel"}, "pre_tokenizer": {"type": "ByteLevel"}}`))
	f.Add([]byte(`{"model": {"type": "BPE", "vocab": null, "merges": null}, "decoder": {"type": "ByteLevel"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [null]}}`))
	f.Add([]byte(`{"model": {"type": "WordLevel", "vocab": {"a": 0}}, "pre_tokenizer": {"type": "WhitespaceSplit"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := Open(data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "tokenizer: ") {
				t.Fatal(err)
			}
			return
		}
		ids, err := tok.Encode("a b<s>")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "tokenizer: ") {
				t.Fatal(err)
			}
			return
		}
		text, err := tok.Decode(ids)
		if err != nil {
			t.Fatal(err)
		}
		if got := stream(t, tok, ids); got != text && tok.N() > 255 { // words leave their first tokens out
			t.Fatalf("got %q one by one, %q at once", got, text)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	tok := open(b, read(b, "qwen3.5", "tokenizer.json"))
	text := strings.Repeat("def f(x):\n    return x**2  # the square of it, which's naïve 日本\n", 100)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := tok.Encode(text); err != nil {
			b.Fatal(err)
		}
	}
}
