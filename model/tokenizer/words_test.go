package tokenizer

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

const zooFile = "../../web/zoo/tokenizer.json"

func zooData(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile(zooFile)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func zoo(t testing.TB) *Words {
	t.Helper()
	tk, err := LoadWords(zooData(t))
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

func TestZoo(t *testing.T) {
	tk := zoo(t)
	if tk.N() != 288 || tk.Token(0) != "<pad>" || tk.Token(1) != "<bos>" || tk.Token(287) != "127" || tk.Token(288) != "" || tk.Token(-1) != "" {
		t.Errorf("got %d words, first %q, last %q", tk.N(), tk.Token(0), tk.Token(287))
	}
	if !slices.Equal(tk.Prefix(), []int{1}) {
		t.Errorf("prefix: got %v", tk.Prefix())
	}
	for id := range tk.N() {
		if got, ok := tk.ID(tk.Token(id)); !ok || got != id {
			t.Errorf("word %q: got token %d, want %d", tk.Token(id), got, id)
		}
	}
	const text = " a,b,c,d,e=range(5)\n a,c=c,a\tassert a== 2 "
	ids, spans, err := tk.EncodeSpans(text)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{1, 6, 23, 2, 12, 162}; !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
	var words []string
	for _, s := range spans {
		words = append(words, text[s.Start:s.End])
	}
	if want := []string{"", "a,b,c,d,e=range(5)", "a,c=c,a", "assert", "a==", "2"}; !slices.Equal(words, want) {
		t.Errorf("spans: got %q, want %q", words, want)
	}
	if back, err := tk.Decode(ids); err != nil || back != "a,b,c,d,e=range(5) a,c=c,a assert a== 2" {
		t.Errorf("back: got %q, %v", back, err)
	}
	if back, err := tk.Decode(ids[2:]); err != nil || back != "a,c=c,a assert a== 2" {
		t.Errorf("back without <bos>: got %q, %v", back, err)
	}
	for _, empty := range []string{"", " \n"} {
		if ids, spans, err := tk.EncodeSpans(empty); err != nil || !slices.Equal(ids, []int{1}) || !slices.Equal(spans, []Span{{}}) {
			t.Errorf("%q: got %v %v %v", empty, ids, spans, err)
		}
	}
	if s, err := tk.Decode([]int{1, 288}); err == nil || err.Error() != "tokenizer: got token 288 at 0, want 0 to 287" {
		t.Errorf("got %q, %v", s, err)
	}
}

func TestUnknownWord(t *testing.T) {
	_, _, err := zoo(t).EncodeSpans("assert\n é a== x=1 2")
	var unknown *UnknownWordError
	if !errors.As(err, &unknown) || *unknown != (UnknownWordError{Word: "é", Offset: 8, Line: 2, Column: 2, N: 288}) {
		t.Fatalf("got %v", err)
	}
	_, _, err = zoo(t).EncodeSpans("assert a== x=1")
	if want := `tokenizer: line 1 column 12: got the unknown word "x=1", want one of the 288 words of the vocabulary`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, _, err := zoo(t).EncodeSpans("2 é x"); !errors.As(err, &unknown) || unknown.Word != "é" || unknown.Column != 3 {
		t.Errorf("got %v", err)
	}
	if _, _, err := zoo(t).EncodeSpans("2 \u00a0é\u00a0x"); !errors.As(err, &unknown) || unknown.Word != "é" || unknown.Column != 4 {
		t.Errorf("no-break spaces: got %v", err)
	}
}

// small is a tokenizer.json with a change or two.
func small(changes ...string) []byte {
	s := `{"truncation": null, "padding": null, "added_tokens": [{"id": 0, "content": "<bos>", "special": true}], "normalizer": null,
		"pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": null,
		"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
			"pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
			"special_tokens": {"<bos>": {"id": "<bos>", "ids": [0], "tokens": ["<bos>"]}}},
		"model": {"type": "WordLevel", "vocab": {"<bos>": 0, "x": 1, "y": 2}, "unk_token": "<bos>"}}`
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(s, changes[i]) {
			panic("no " + changes[i])
		}
		s = strings.Replace(s, changes[i], changes[i+1], 1)
	}
	return []byte(s)
}

func TestLoadWords(t *testing.T) {
	for name, c := range map[string]struct {
		data []byte
		want []int
	}{
		"template":    {small(), []int{0, 1, 2}},
		"no template": {small(`"post_processor": {`, `"post_processor": null, "x": {`), []int{1, 2}},
		"only text":   {small(`{"SpecialToken": {"id": "<bos>", "type_id": 0}}, `, ``), []int{1, 2}},
	} {
		tk, err := LoadWords(c.data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if ids, _, err := tk.EncodeSpans("x y"); err != nil || !slices.Equal(ids, c.want) {
			t.Errorf("%s: got %v, %v, want %v", name, ids, err, c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		data []byte
		want string
	}{
		{[]byte("<!DOCTYPE html>"), `got "<!DOCTYPE html>", want the JSON object of a tokenizer.json`},
		{[]byte(`[]`), `got "[]", want the JSON object of a tokenizer.json`},
		{[]byte(`{}`), `model: got none, want WordLevel: not supported`},
		{small(`"WordLevel"`, `"BPE"`), `model: got BPE, want WordLevel: not supported`},
		{small(`"WordLevel"`, `"Unigram"`), `model: got Unigram, want WordLevel: not supported`},
		{small(`"WhitespaceSplit"`, `"ByteLevel"`), `pre_tokenizer: got ByteLevel, want WhitespaceSplit: not supported`},
		{small(`{"type": "WhitespaceSplit"}`, `null`), `pre_tokenizer: got none, want WhitespaceSplit: not supported`},
		{small(`"normalizer": null`, `"normalizer": {"type": "Lowercase"}`), `normalizer: got Lowercase, want none: not supported`},
		{small(`"normalizer": null`, `"normalizer": 3`), `normalizer: got "3", want an object with a type`},
		{small(`"decoder": null`, `"decoder": {"type": "ByteLevel"}`), `decoder: got ByteLevel, want none: not supported`},
		{small(`"truncation": null`, `"truncation": {"max_length": 3}`), `truncation: got "{\"max_length\": 3}", want an object with a type`},
		{small(`"TemplateProcessing"`, `"RobertaProcessing"`), `post_processor: got RobertaProcessing, want TemplateProcessing or none: not supported`},
		{small(`{"id": "A", "type_id": 0}}]`, `{"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<bos>"}}]`), `post_processor: got a template that does not end in the text, want special tokens and then sequence A: not supported`},
		{small(`{"Sequence": {"id": "A", "type_id": 0}}]`, `{"Sequence": {"id": "B", "type_id": 0}}]`), `post_processor: got a template that does not end in the text, want special tokens and then sequence A: not supported`},
		{small(`"ids": [0]`, `"ids": [3]`), `post_processor: special token "<bos>": got token 3, want 0 to 2`},
		{small(`"special_tokens": {"<bos>"`, `"special_tokens": {"<eos>"`), `post_processor: special token "<bos>": got no entry in special_tokens, want one`},
		{small(`"single": [`, `"single": [], "x": [`), `post_processor: got an empty template, want special tokens and then sequence A`},
		{small(`"special": true`, `"lstrip": true`), `added_tokens: "<bos>": got single_word, lstrip or rstrip, want none: not supported`},
		{small(`"id": 0, "content"`, `"id": 2, "content"`), `vocabulary: word "<bos>": got tokens 0 and 2, want one`},
		{small(`"y": 2`, `"y": 3`), `vocabulary: word "y": got token 3, want 0 to 2 (3 words)`},
		{small(`"y": 2`, `"y": -1`), `vocabulary: word "y": got token -1, want 0 to 2 (3 words)`},
		{small(`"y": 2`, `"y": 1`), `vocabulary: token 1: got words "x" and "y", want one`},
		{small(`"y": 2`, `"x": 2`), `model.vocab: word "x": stands twice, want it once`},
		{small(`"y": 2`, `"y z": 2`), `vocabulary: got the word "y z", want one without white space`},
		{small(`{"<bos>": 0, "x": 1, "y": 2}`, `[["x", 0]]`), `model.vocab: got no object, want words and their tokens`},
		{small(`{"<bos>": 0, "x": 1, "y": 2}`, `{}`, `[{"id": 0, "content": "<bos>", "special": true}]`, `[]`), `vocabulary: got no words`},
	} {
		_, err := LoadWords(c.data)
		if err == nil || err.Error() != "tokenizer: "+c.want {
			t.Errorf("\ngot  %v\nwant tokenizer: %s", err, c.want)
		}
	}
	_, err := LoadWords(small(`"y": 2`, `"y": "2"`))
	if err == nil || !strings.HasPrefix(err.Error(), `tokenizer: model.vocab: word "y": want a token number: `) {
		t.Errorf("got %v", err)
	}
}

func FuzzEncode(f *testing.F) {
	tk := zoo(f)
	f.Add("a,b,c,d,e=range(5) a,c=c,a assert a== 2")
	f.Add(" \u00a0\u2028 bits=[ 0, \xff ]")
	f.Fuzz(func(t *testing.T, text string) {
		ids, spans, err := tk.EncodeSpans(text)
		if err != nil {
			var unknown *UnknownWordError
			if !errors.As(err, &unknown) || !strings.HasPrefix(text[unknown.Offset:], unknown.Word) || strings.ContainsAny(err.Error(), "\n\r") {
				t.Fatalf("got %v", err)
			}
			return
		}
		if len(ids) != len(spans) || len(ids) != 1+len(strings.Fields(text)) {
			t.Fatalf("got %d tokens, %d spans, want %d", len(ids), len(spans), 1+len(strings.Fields(text)))
		}
		for i := 1; i < len(ids); i++ {
			if text[spans[i].Start:spans[i].End] != tk.Token(ids[i]) {
				t.Fatalf("token %d: got %q, want %q", i, text[spans[i].Start:spans[i].End], tk.Token(ids[i]))
			}
		}
	})
}
