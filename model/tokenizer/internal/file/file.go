// Package file reads the parts of a tokenizer.json that every kind of tokenizer has.
package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// File is the parts of a tokenizer.json.
type File struct {
	Parts
	Model json.RawMessage `json:"model"`
}

// Parts are all parts but the model, which is large.
type Parts struct {
	Truncation    json.RawMessage `json:"truncation"`
	Padding       json.RawMessage `json:"padding"`
	AddedTokens   []AddedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
}

// AddedToken is a token that is found in a text before it is split into words.
type AddedToken struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// Parse reads a tokenizer.json. The error is one line.
func Parse(data []byte) (*File, error) {
	var f File
	err := json.Unmarshal(data, &f)
	if errors.As(err, new(*json.SyntaxError)) || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return nil, fmt.Errorf("got %.40q, want the JSON object of a tokenizer.json", data)
	}
	if err != nil {
		return nil, err
	}
	return &f, nil
}

// Want sees that a part is of a type, "" for null.
func Want(name string, raw json.RawMessage, want string) error {
	got, err := TypeOf(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if got != want {
		return fmt.Errorf("%s: got %s, want %s: not supported", name, OrNone(got), OrNone(want))
	}
	return nil
}

// TypeOf returns the type of a part, "" for null.
func TypeOf(raw json.RawMessage) (string, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var t struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &t); err != nil || t.Type == "" {
		return "", fmt.Errorf("got %.40q, want an object with a type", raw)
	}
	return t.Type, nil
}

// OrNone is a type in an error.
func OrNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// Prefix returns the tokens that a post_processor puts before every text: those of a
// TemplateProcessing that ends in the text, or none. Known says which tokens there are, most which
// is the last of them.
func Prefix(raw json.RawMessage, known func(id int) bool, most int) ([]int, error) {
	kind, err := TypeOf(raw)
	if err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	if kind == "" {
		return nil, nil
	}
	if kind != "TemplateProcessing" {
		return nil, fmt.Errorf("post_processor: got %s, want TemplateProcessing or none: not supported", kind)
	}
	var p struct {
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
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	var prefix []int
	for i, part := range p.Single {
		switch last := i == len(p.Single)-1; {
		case part.SpecialToken != nil && !last:
			special, ok := p.SpecialTokens[part.SpecialToken.ID]
			if !ok {
				return nil, fmt.Errorf("post_processor: special token %q: got no entry in special_tokens, want one", part.SpecialToken.ID)
			}
			for _, id := range special.IDs {
				if !known(id) {
					return nil, fmt.Errorf("post_processor: special token %q: got token %d, want 0 to %d", part.SpecialToken.ID, id, most)
				}
				prefix = append(prefix, id)
			}
		case part.Sequence != nil && part.Sequence.ID == "A" && last:
			return prefix, nil
		default:
			return nil, errors.New("post_processor: got a template that does not end in the text, want special tokens and then sequence A: not supported")
		}
	}
	return nil, errors.New("post_processor: got an empty template, want special tokens and then sequence A")
}
