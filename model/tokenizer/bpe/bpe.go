// Package bpe reads byte-level BPE tokenizers as published checkpoints carry them, and gives the
// tokens that Hugging Face's tokenizers gives. What a tokenizer.json asks and this package does not
// do is refused by name.
package bpe

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"shellgame/model/tokenizer"
	"shellgame/model/tokenizer/internal/file"
)

// Tokenizer is a byte-level BPE tokenizer. It is safe for concurrent use.
type Tokenizer struct {
	tokens  []string // [N], as the file writes them: a letter a byte; "" is none
	ids     map[string]int
	merges  map[pair]merge
	whole   bool // a word that is a token is not merged from its bytes
	bytes   [256]int32
	nfc     bool
	split   []*splitter
	raw     added        // found in the text as it is
	tidied  added        // found in the normalised text
	special map[int]bool // the added tokens, and whether each is special
	prefix  []int
}

var _ tokenizer.Tokenizer = (*Tokenizer)(nil)

// Open reads a tokenizer.json of any kind that there is here: byte-level BPE, or words. The error
// is one line that begins with "tokenizer: ".
func Open(data []byte) (tokenizer.Tokenizer, error) {
	// A vocabulary of 250,000 is read once only; what is no BPE, or broken, is looked at in parts.
	var whole struct {
		file.Parts
		Model model `json:"model"`
	}
	if err := json.Unmarshal(data, &whole); err == nil && whole.Model.Type == "BPE" {
		t, err := load(&whole.Parts, &whole.Model)
		if err != nil {
			return nil, fmt.Errorf("tokenizer: %w", err)
		}
		return t, nil
	}
	f, err := file.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	switch kind, err := file.TypeOf(f.Model); {
	case err != nil:
		return nil, fmt.Errorf("tokenizer: model: %w", err)
	case kind == "WordLevel":
		t, err := tokenizer.LoadWords(data)
		if err != nil {
			return nil, err
		}
		return t, nil
	case kind == "BPE":
		if err := json.Unmarshal(f.Model, &model{}); err != nil {
			return nil, fmt.Errorf("tokenizer: model: %w", err)
		}
		return nil, errors.New("tokenizer: model: stands twice, want it once")
	default:
		return nil, fmt.Errorf("tokenizer: model: got %s, want BPE or WordLevel: not supported", file.OrNone(kind))
	}
}

type model struct {
	Type         string         `json:"type"`
	Dropout      *float64       `json:"dropout"`
	Prefix       *string        `json:"continuing_subword_prefix"`
	Suffix       *string        `json:"end_of_word_suffix"`
	ByteFallback bool           `json:"byte_fallback"`
	IgnoreMerges bool           `json:"ignore_merges"`
	Vocab        map[string]int `json:"vocab"`
	Merges       []twoTokens    `json:"merges"`
}

// load reads a file whose model is BPE.
func load(f *file.Parts, m *model) (*Tokenizer, error) {
	for _, part := range []struct {
		name string
		raw  json.RawMessage
		want string
	}{{"truncation", f.Truncation, ""}, {"padding", f.Padding, ""}, {"decoder", f.Decoder, "ByteLevel"}} {
		if err := file.Want(part.name, part.raw, part.want); err != nil {
			return nil, err
		}
	}
	t := &Tokenizer{special: map[int]bool{}}
	if err := t.setModel(m); err != nil {
		return nil, err
	}
	if err := t.setNormalizer(f.Normalizer); err != nil {
		return nil, err
	}
	var err error
	if t.split, err = splitters(f.PreTokenizer); err != nil {
		return nil, err
	}
	if err := t.setAdded(f.AddedTokens); err != nil {
		return nil, err
	}
	return t, t.setPrefix(f.PostProcessor)
}

func (t *Tokenizer) setModel(m *model) error {
	switch {
	case m.Dropout != nil && *m.Dropout != 0:
		return fmt.Errorf("model: dropout: got %v, want none: not supported", *m.Dropout)
	case m.Prefix != nil && *m.Prefix != "":
		return fmt.Errorf("model: continuing_subword_prefix: got %q, want none: not supported", *m.Prefix)
	case m.Suffix != nil && *m.Suffix != "":
		return fmt.Errorf("model: end_of_word_suffix: got %q, want none: not supported", *m.Suffix)
	case m.ByteFallback:
		return errors.New("model: byte_fallback: got true, want false: not supported")
	}
	t.whole = m.IgnoreMerges
	t.ids, t.tokens = m.Vocab, make([]string, 0, len(m.Vocab))
	for token, id := range m.Vocab {
		if err := t.set(token, id); err != nil {
			return err
		}
	}
	for b, r := range letters {
		id, ok := t.ids[string(r)]
		if !ok {
			return fmt.Errorf("model.vocab: byte 0x%02x: got no token %q, want one for each byte: not supported", b, string(r))
		}
		t.bytes[b] = int32(id)
	}
	return t.setMerges(m.Merges)
}

// most bounds a token's number: published vocabularies stay below 300,000.
const most = 1 << 24

func (t *Tokenizer) set(token string, id int) error {
	if id < 0 || id >= most {
		return fmt.Errorf("vocabulary: %q: got token %d, want 0 to %d", token, id, most-1)
	}
	if id >= len(t.tokens) {
		t.tokens = append(t.tokens, make([]string, id+1-len(t.tokens))...)
	}
	if other := t.tokens[id]; other != "" && other != token {
		return fmt.Errorf("vocabulary: token %d: got %q and %q, want one", id, min(token, other), max(token, other))
	}
	if old, ok := t.ids[token]; ok && old != id {
		return fmt.Errorf("vocabulary: %q: got tokens %d and %d, want one", token, min(id, old), max(id, old))
	}
	if token == "" {
		return fmt.Errorf("vocabulary: token %d: got an empty one, want at least a letter", id)
	}
	t.tokens[id], t.ids[token] = token, id
	return nil
}

func (t *Tokenizer) setMerges(pairs []twoTokens) error {
	t.merges = make(map[pair]merge, len(pairs))
	var both []byte
	for rank, p := range pairs {
		both = append(append(both[:0], p[0]...), p[1]...)
		a, ok := t.ids[p[0]]
		b, ok2 := t.ids[p[1]]
		ab, ok3 := t.ids[string(both)]
		if !ok || !ok2 || !ok3 {
			missing := string(both)
			if !ok2 {
				missing = p[1]
			}
			if !ok {
				missing = p[0]
			}
			return fmt.Errorf("model.merges: merge %d of %q and %q: got no token %q in the vocabulary, want one", rank, p[0], p[1], missing)
		}
		t.merges[pair{int32(a), int32(b)}] = merge{int32(rank), int32(ab)}
	}
	return nil
}

func (t *Tokenizer) setNormalizer(raw json.RawMessage) error {
	parts, err := flatten(raw, "normalizers")
	if err != nil {
		return fmt.Errorf("normalizer: %w", err)
	}
	for _, p := range parts {
		if p.kind != "NFC" {
			return fmt.Errorf("normalizer: got %s, want NFC or none: not supported", p.kind)
		}
		t.nfc = true
	}
	return nil
}

func (t *Tokenizer) setPrefix(raw json.RawMessage) error {
	parts, err := flatten(raw, "processors")
	if err != nil {
		return fmt.Errorf("post_processor: %w", err)
	}
	seen := false
	for _, p := range parts {
		if p.kind == "ByteLevel" { // moves offsets only
			continue
		}
		if seen {
			return errors.New("post_processor: got two templates, want one: not supported")
		}
		seen = true
		t.prefix, err = file.Prefix(p.raw, func(id int) bool { return id >= 0 && id < len(t.tokens) && t.tokens[id] != "" }, len(t.tokens)-1)
		if err != nil {
			return err
		}
	}
	return nil
}

type part struct {
	kind string
	raw  json.RawMessage
}

// flatten returns the parts of a Sequence, whose list has a name, or the one part, or none.
func flatten(raw json.RawMessage, list string) ([]part, error) {
	kind, err := file.TypeOf(raw)
	if err != nil || kind == "" {
		return nil, err
	}
	if kind != "Sequence" {
		return []part{{kind, raw}}, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(all[list], &raws); err != nil {
		return nil, fmt.Errorf("got a Sequence of %.40q, want a list %q", all[list], list)
	}
	var parts []part
	for _, r := range raws {
		kind, err := file.TypeOf(r)
		if err != nil {
			return nil, err
		}
		if kind == "" || kind == "Sequence" {
			return nil, fmt.Errorf("got %s within a Sequence: not supported", file.OrNone(kind))
		}
		parts = append(parts, part{kind, r})
	}
	return parts, nil
}

// Encode returns the tokens of a text, those that go before every text included. Added tokens are
// found in it first, special ones too. Text that is not UTF-8 is an error.
func (t *Tokenizer) Encode(text string) ([]int, error) {
	ids := append([]int(nil), t.prefix...)
	if i := invalid(text); i >= 0 {
		return nil, fmt.Errorf("tokenizer: byte %d: got 0x%02x, want text in UTF-8", i, text[i])
	}
	var failed error
	plain := func(s string) {
		if failed == nil {
			ids, failed = t.encode(ids, s)
		}
	}
	token := func(id int) { ids = append(ids, id) }
	t.raw.find(text, token, func(s string) {
		if t.nfc {
			n := norm.NFC.String(s)
			// norm breaks up rows of more than 30 marks with a joiner of its own.
			if strings.Count(n, joiner) != strings.Count(s, joiner) {
				failed = errors.New("tokenizer: got more than 30 combining marks in a row, want at most 30: not supported")
				return
			}
			s = n
		}
		t.tidied.find(s, token, plain)
	})
	if failed != nil {
		return nil, failed
	}
	return ids, nil
}

const joiner = "\u034f"

// invalid returns where a text stops to be UTF-8, or -1.
func invalid(text string) int {
	for i, r := range text {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(text[i:]); n == 1 {
				return i
			}
		}
	}
	return -1
}

// encode adds the tokens of a text without added tokens.
func (t *Tokenizer) encode(ids []int, text string) ([]int, error) {
	words := []string{text}
	for _, s := range t.split {
		var err error
		if words, err = s.cut(words); err != nil {
			return nil, fmt.Errorf("tokenizer: %w", err)
		}
	}
	var w word
	for _, s := range words {
		if t.whole {
			if id, ok := t.ids[spell(s)]; ok {
				ids = append(ids, id)
				continue
			}
		}
		ids = w.merge(ids, s, t)
	}
	return ids, nil
}

// Decode returns the text of tokens, special ones included. Bytes that are no UTF-8 are U+FFFD; a
// token outside the vocabulary is an error.
func (t *Tokenizer) Decode(ids []int) (string, error) {
	var all []byte
	for _, id := range ids {
		b, err := t.Bytes(id, false)
		if err != nil {
			return "", err
		}
		all = append(all, b...)
	}
	text, rest := tokenizer.Text(all)
	if len(rest) > 0 {
		text += string(utf8.RuneError)
	}
	return text, nil
}

// Bytes returns what a token adds to a text, which may be a part of a character.
func (t *Tokenizer) Bytes(id int, _ bool) ([]byte, error) {
	token := t.Token(id)
	if token == "" {
		return nil, fmt.Errorf("tokenizer: got token %d, want one of the vocabulary's (0 to %d)", id, len(t.tokens)-1)
	}
	if _, added := t.special[id]; added {
		return []byte(token), nil
	}
	return unspell(token), nil
}

// Token returns a token as the file writes it, with a letter for each byte (Ġ is a space), ""
// outside the vocabulary.
func (t *Tokenizer) Token(id int) string {
	if id < 0 || id >= len(t.tokens) {
		return ""
	}
	return t.tokens[id]
}

// ID returns the token that the file writes so, or false.
func (t *Tokenizer) ID(token string) (int, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// Special reports whether a token is one of the file's special ones.
func (t *Tokenizer) Special(id int) bool { return t.special[id] }

// N is one more than the largest token. A model's vocabulary may be larger, for padding.
func (t *Tokenizer) N() int { return len(t.tokens) }
