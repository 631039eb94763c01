package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"shellgame/model/tokenizer/internal/file"
)

// Words is a tokenizer of words between white space, looked up in a table of its
// own, so that the page need not carry a tokenizer library; natively the table
// is checked once, when loaded, against sugarme/tokenizer reading the same file.
type Words struct {
	words   []string // [N]
	ids     map[string]int
	special map[int]bool
	prefix  []int // tokens put before every text, such as <bos>
}

var _ Tokenizer = (*Words)(nil)

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

// LoadWords reads a tokenizer.json of a WordLevel model over words between white
// space, with tokens before the text at most. Every other part is refused by
// name. The error is one line that begins with "tokenizer: ".
func LoadWords(data []byte) (*Words, error) {
	t, err := loadWords(data)
	if err == nil {
		err = t.check(data)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return t, nil
}

func loadWords(data []byte) (*Words, error) {
	f, err := file.Parse(data)
	if err != nil {
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
		if err := file.Want(part.name, part.raw, part.want); err != nil {
			return nil, err
		}
	}
	t := &Words{ids: map[string]int{}, special: map[int]bool{}}
	if err := t.setWords(f); err != nil {
		return nil, err
	}
	t.prefix, err = file.Prefix(f.PostProcessor, func(id int) bool { return id >= 0 && id < len(t.words) }, len(t.words)-1)
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Words) setWords(f *file.File) error {
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
		t.special[a.ID] = a.Special
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

// Encode turns a text into tokens, those put before it included. A word that the
// vocabulary lacks is an *UnknownWordError.
func (t *Words) Encode(text string) ([]int, error) {
	ids, _, err := t.EncodeSpans(text)
	return ids, err
}

// EncodeSpans also says which bytes each token stands for.
func (t *Words) EncodeSpans(text string) ([]int, []Span, error) {
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
func (t *Words) Decode(ids []int) (string, error) {
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

// Bytes returns the word of a token, after a space unless it is the first. A
// token outside the vocabulary is an error.
func (t *Words) Bytes(id int, first bool) ([]byte, error) {
	if id < 0 || id >= len(t.words) {
		return nil, fmt.Errorf("tokenizer: got token %d, want 0 to %d", id, len(t.words)-1)
	}
	if first {
		return []byte(t.words[id]), nil
	}
	return []byte(" " + t.words[id]), nil
}

// Special reports whether a token is a special one such as <bos>.
func (t *Words) Special(id int) bool { return t.special[id] }

// Token returns the word of a token, "" outside the vocabulary.
func (t *Words) Token(id int) string {
	if id < 0 || id >= len(t.words) {
		return ""
	}
	return t.words[id]
}

// ID returns the token of a word, or false.
func (t *Words) ID(word string) (int, bool) {
	id, ok := t.ids[word]
	return id, ok
}

// Prefix returns the tokens that Encode puts before a text.
func (t *Words) Prefix() []int { return slices.Clone(t.prefix) }

// N is the size of the vocabulary.
func (t *Words) N() int { return len(t.words) }
