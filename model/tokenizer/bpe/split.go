package bpe

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/dlclark/regexp2"
)

// The patterns that cut text into words. Others are refused, since what the engine that they were
// written for (Oniguruma) and regexp2 read alike was checked for these.
const (
	gpt2    = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	cl100k  = folded + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+` // OLMo, Llama 3
	qwen2   = folded + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen3_5 = folded + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

	folded = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	// regexp2 folds by lower case alone, which leaves out the long s.
	spelled = `'(?:[sSſ]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])`
)

var known = map[string]bool{gpt2: true, cl100k: true, qwen2: true, qwen3_5: true}

// splitter cuts words further: by a pattern, if there is one. With space set, a word that does not
// begin with a space gets one first.
type splitter struct {
	pattern *regexp2.Regexp
	space   bool
}

// splitters reads a pre_tokenizer: Split by patterns, and ByteLevel last.
func splitters(raw json.RawMessage) ([]*splitter, error) {
	parts, err := flatten(raw, "pretokenizers")
	if err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if len(parts) == 0 || parts[len(parts)-1].kind != "ByteLevel" {
		return nil, errors.New("pre_tokenizer: got no ByteLevel at the end, want it: not supported")
	}
	var all []*splitter
	for i, p := range parts {
		var s *splitter
		switch {
		case p.kind == "Split":
			s, err = splitOf(p.raw)
		case p.kind == "ByteLevel" && i == len(parts)-1:
			s, err = byteLevelOf(p.raw)
		default:
			return nil, fmt.Errorf("pre_tokenizer: got %s, want Split and then ByteLevel: not supported", p.kind)
		}
		if err != nil {
			return nil, fmt.Errorf("pre_tokenizer: %s: %w", p.kind, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func splitOf(raw json.RawMessage) (*splitter, error) {
	var s struct {
		Pattern  map[string]string `json:"pattern"`
		Behavior string            `json:"behavior"`
		Invert   bool              `json:"invert"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, err
	}
	pattern, ok := s.Pattern["Regex"]
	switch {
	case !ok || len(s.Pattern) != 1:
		return nil, errors.New("got no pattern of kind Regex, want one: not supported")
	case s.Behavior != "Isolated":
		return nil, fmt.Errorf("behavior: got %q, want Isolated: not supported", s.Behavior)
	case s.Invert:
		return nil, errors.New("invert: got true, want false: not supported")
	case !known[pattern]:
		return nil, fmt.Errorf("got the pattern %.300q, want that of GPT-2, cl100k (OLMo), Qwen2 or Qwen3.5: not supported", pattern)
	}
	return &splitter{pattern: compile(pattern)}, nil
}

func byteLevelOf(raw json.RawMessage) (*splitter, error) {
	b := struct {
		Space bool `json:"add_prefix_space"`
		Regex bool `json:"use_regex"`
	}{true, true}
	if err := json.Unmarshal(raw, &b); err != nil {
		return nil, err
	}
	s := &splitter{space: b.Space}
	if b.Regex {
		s.pattern = compile(gpt2)
	}
	return s, nil
}

func compile(pattern string) *regexp2.Regexp {
	return regexp2.MustCompile(strings.Replace(pattern, folded, spelled, 1), regexp2.None)
}

// cut cuts each word at the pattern's matches; what lies between them is a word too.
func (s *splitter) cut(words []string) ([]string, error) {
	var out []string
	for _, w := range words {
		if s.space && !strings.HasPrefix(w, " ") {
			w = " " + w
		}
		if s.pattern == nil {
			out = append(out, w)
			continue
		}
		runes := []rune(w)
		at := 0
		m, err := s.pattern.FindRunesMatch(runes)
		for ; m != nil && err == nil; m, err = s.pattern.FindNextMatch(m) {
			if m.Index > at {
				out = append(out, string(runes[at:m.Index]))
			}
			at = m.Index + m.Length
			if m.Length > 0 {
				out = append(out, string(runes[m.Index:at]))
			}
		}
		if err != nil {
			return nil, err
		}
		if at < len(runes) {
			out = append(out, string(runes[at:]))
		}
	}
	return out, nil
}
