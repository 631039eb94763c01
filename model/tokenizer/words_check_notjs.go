//go:build !js

package tokenizer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	sugarme "github.com/sugarme/tokenizer"
	"github.com/sugarme/tokenizer/pretrained"
)

// check encodes every word with sugarme/tokenizer and compares.
func (t *Words) check(data []byte) error {
	text := strings.Join(t.words, " ")
	got, err := reference(data, text)
	if err != nil {
		return fmt.Errorf("checking the table: %w", err)
	}
	want, spans, err := t.EncodeSpans(text)
	if err != nil {
		return fmt.Errorf("checking the table: %w", err)
	}
	if len(got.Ids) != len(want) {
		return fmt.Errorf("checking the table: got %d tokens, sugarme/tokenizer has %d", len(want), len(got.Ids))
	}
	for i, id := range want {
		if got.Ids[i] != id || i >= len(t.prefix) && !slices.Equal(got.Offsets[i], []int{spans[i].Start, spans[i].End}) {
			return fmt.Errorf("checking the table: word %q: got token %d at %v, sugarme/tokenizer has %d at %v", t.words[id], id, spans[i], got.Ids[i], got.Offsets[i])
		}
	}
	return nil
}

// reference encodes with sugarme/tokenizer, which panics on files that it can't
// read.
func reference(data []byte, text string) (e *sugarme.Encoding, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("sugarme/tokenizer: %v", p)
		}
	}()
	tk, err := pretrained.FromReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("sugarme/tokenizer: %w", err)
	}
	return tk.EncodeSingle(text, true)
}
