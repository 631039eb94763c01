// Package tokenizer maps the words of a program to token numbers and back, as a
// tokenizer.json says. Its words are looked up in a table of its own, so that
// the page need not carry a tokenizer library; natively the table is checked
// once, when loaded, against sugarme/tokenizer reading the same file.
package tokenizer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	json "github.com/goccy/go-json"
)

// Tokenizer is a table of words. It is safe for concurrent use.
type Tokenizer struct {
	words  []string // [N]
	ids    map[string]int
	prefix []int // tokens put before every text, such as <bos>
}

// Span is the bytes [Start, End) of the text that a token stands for; a token
// that was put before the text has an empty one at 0.
type Span struct{ Start, End int }

// UnknownWordError is a word of a text that the vocabulary lacks.
type UnknownWordError struct {
	Word         string
	Offset       int // byte
	Line, Column int // from 1; columns count characters
	N            int // size of the vocabulary
}

func (e *UnknownWordError) Error() string {
	return fmt.Sprintf("tokenizer: line %d column %d: got the unknown word %q, want one of the %d words of the vocabulary", e.Line, e.Column, e.Word, e.N)
}

// file is the parts of a tokenizer.json.
type file struct {
	Truncation    json.RawMessage `json:"truncation"`
	Padding       json.RawMessage `json:"padding"`
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         json.RawMessage `json:"model"`
}

type addedToken struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
}

type typed struct {
	Type string `json:"type"`
}

type template struct {
	Single []struct {
		SpecialToken *struct {
			ID string `json:"id"`
		} `json:"SpecialToken"`
		Sequence *struct {
			ID string `json:"id"`
		} `json:"Sequence"`
	} `json:"single"`
	SpecialTokens map[string]struct {
		IDs []int `json:"ids"`
	} `json:"special_tokens"`
}

// Load reads a tokenizer.json of a WordLevel model over words between white
// space, with tokens before the text at most. Every other part is refused by
// name. The error is one line that begins with "tokenizer: ".
func Load(data []byte) (*Tokenizer, error) {
	t, err := load(data)
	if err == nil {
		err = t.check(data)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

func load(data []byte) (*Tokenizer, error) {
	if !json.Valid(data) || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return nil, fmt.Errorf("got %.40q, want the JSON object of a tokenizer.json", data)
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		name string
		raw  json.RawMessage
		want string // "" is null
	}{
		{"truncation", f.Truncation, ""},
		{"padding", f.Padding, ""},
		{"normalizer", f.Normalizer, ""},
		{"decoder", f.Decoder, ""},
		{"model", f.Model, "WordLevel"},
		{"pre_tokenizer", f.PreTokenizer, "WhitespaceSplit"},
	} {
		got, err := typeOf(part.raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		if got != part.want {
			return nil, fmt.Errorf("%s: got %s, want %s: not supported", part.name, orNone(got), orNone(part.want))
		}
	}
	t := &Tokenizer{ids: map[string]int{}}
	if err := t.setWords(f); err != nil {
		return nil, err
	}
	return t, t.setPrefix(f.PostProcessor)
}

// typeOf returns the type of a part, "" for null.
func typeOf(raw json.RawMessage) (string, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var t typed
	if err := json.Unmarshal(raw, &t); err != nil || t.Type == "" {
		return "", fmt.Errorf("got %.40q, want an object with a type", raw)
	}
	return t.Type, nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func (t *Tokenizer) setWords(f file) error {
	add := func(word string, id int) error {
		if strings.ContainsFunc(word, unicode.IsSpace) || word == "" {
			return fmt.Errorf("vocabulary: got the word %q, want one without white space", word)
		}
		if old, ok := t.ids[word]; ok && old != id {
			return fmt.Errorf("vocabulary: word %q: got tokens %d and %d, want one", word, old, id)
		}
		t.ids[word] = id
		return nil
	}
	var model struct {
		Vocab json.RawMessage `json:"vocab"`
	}
	if err := json.Unmarshal(f.Model, &model); err != nil {
		return fmt.Errorf("model: %w", err)
	}
	// Token by token, since a map would hide a word that stands twice.
	d := json.NewDecoder(bytes.NewReader(model.Vocab))
	d.UseNumber()
	if tok, err := d.Token(); err != nil || tok != json.Delim('{') {
		return errors.New("model.vocab: got no object, want words and their tokens")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return fmt.Errorf("model.vocab: %w", err)
		}
		word, _ := key.(string)
		var id int
		if err := d.Decode(&id); err != nil {
			return fmt.Errorf("model.vocab: word %q: want a token number: %w", word, err)
		}
		if _, ok := t.ids[word]; ok {
			return fmt.Errorf("model.vocab: word %q: stands twice, want it once", word)
		}
		if err := add(word, id); err != nil {
			return err
		}
	}
	for _, a := range f.AddedTokens {
		if a.SingleWord || a.LStrip || a.RStrip {
			return fmt.Errorf("added_tokens: %q: got single_word, lstrip or rstrip, want none: not supported", a.Content)
		}
		if err := add(a.Content, a.ID); err != nil {
			return err
		}
	}
	t.words = make([]string, len(t.ids))
	for word, id := range t.ids {
		if id < 0 || id >= len(t.words) {
			return fmt.Errorf("vocabulary: word %q: got token %d, want 0 to %d (%d words)", word, id, len(t.words)-1, len(t.words))
		}
		if other := t.words[id]; other != "" {
			a, b := min(word, other), max(word, other)
			return fmt.Errorf("vocabulary: token %d: got words %q and %q, want one", id, a, b)
		}
		t.words[id] = word
	}
	if len(t.words) == 0 {
		return errors.New("vocabulary: got no words")
	}
	return nil
}

// setPrefix reads a template of special tokens and then the text.
func (t *Tokenizer) setPrefix(raw json.RawMessage) error {
	kind, err := typeOf(raw)
	if err != nil {
		return fmt.Errorf("post_processor: %w", err)
	}
	if kind == "" {
		return nil
	}
	if kind != "TemplateProcessing" {
		return fmt.Errorf("post_processor: got %s, want TemplateProcessing or none: not supported", kind)
	}
	var p template
	if err := json.Unmarshal(raw, &p); err != nil {
		return fmt.Errorf("post_processor: %w", err)
	}
	for i, part := range p.Single {
		switch last := i == len(p.Single)-1; {
		case part.SpecialToken != nil && !last:
			special, ok := p.SpecialTokens[part.SpecialToken.ID]
			if !ok {
				return fmt.Errorf("post_processor: special token %q: got no entry in special_tokens, want one", part.SpecialToken.ID)
			}
			for _, id := range special.IDs {
				if id < 0 || id >= len(t.words) {
					return fmt.Errorf("post_processor: special token %q: got token %d, want 0 to %d", part.SpecialToken.ID, id, len(t.words)-1)
				}
				t.prefix = append(t.prefix, id)
			}
		case part.Sequence != nil && part.Sequence.ID == "A" && last:
			return nil
		default:
			return errors.New("post_processor: got a template that does not end in the text, want special tokens and then sequence A: not supported")
		}
	}
	return errors.New("post_processor: got an empty template, want special tokens and then sequence A")
}

// Encode turns a text into tokens, those put before it included, and says which
// bytes each stands for. A word that the vocabulary lacks is an
// *UnknownWordError.
func (t *Tokenizer) Encode(text string) ([]int, []Span, error) {
	ids := slices.Clone(t.prefix)
	spans := make([]Span, len(ids))
	for pos := 0; ; {
		word := strings.TrimLeftFunc(text[pos:], unicode.IsSpace)
		start := len(text) - len(word)
		if word == "" {
			return ids, spans, nil
		}
		if end := strings.IndexFunc(word, unicode.IsSpace); end >= 0 {
			word = word[:end]
		}
		id, ok := t.ids[word]
		if !ok {
			line := strings.LastIndexByte(text[:start], '\n') + 1
			return nil, nil, &UnknownWordError{
				Word: word, Offset: start, N: len(t.words),
				Line:   1 + strings.Count(text[:start], "\n"),
				Column: 1 + utf8.RuneCountInString(text[line:start]),
			}
		}
		pos = start + len(word)
		ids = append(ids, id)
		spans = append(spans, Span{start, pos})
	}
}

// Decode joins the words of tokens with spaces, without those that Encode put
// before the text. A token outside the vocabulary is an error.
func (t *Tokenizer) Decode(ids []int) (string, error) {
	if len(t.prefix) > 0 && len(ids) >= len(t.prefix) && slices.Equal(ids[:len(t.prefix)], t.prefix) {
		ids = ids[len(t.prefix):]
	}
	words := make([]string, len(ids))
	for i, id := range ids {
		if id < 0 || id >= len(t.words) {
			return "", fmt.Errorf("tokenizer: got token %d at %d, want 0 to %d", id, i, len(t.words)-1)
		}
		words[i] = t.words[id]
	}
	return strings.Join(words, " "), nil
}

// Word returns the word of a token, "" outside the vocabulary.
func (t *Tokenizer) Word(id int) string {
	if id < 0 || id >= len(t.words) {
		return ""
	}
	return t.words[id]
}

// ID returns the token of a word, or false.
func (t *Tokenizer) ID(word string) (int, bool) {
	id, ok := t.ids[word]
	return id, ok
}

// Prefix returns the tokens that Encode puts before a text.
func (t *Tokenizer) Prefix() []int { return slices.Clone(t.prefix) }

// N is the size of the vocabulary.
func (t *Tokenizer) N() int { return len(t.words) }
