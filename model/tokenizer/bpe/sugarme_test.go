//go:build !js

package bpe

import (
	"slices"
	"testing"

	sugarme "github.com/sugarme/tokenizer/model/bpe"
)

// TestSugarmeTies shows why pairs are merged here: sugarme/tokenizer takes pairs of equal rank in
// the order of its heap, where Hugging Face's tokenizers takes the leftmost.
func TestSugarmeTies(t *testing.T) {
	vocab := map[string]int{"a": 0, "aa": 1}
	merges, err := sugarme.CreateMerges(vocab, []string{"a a"})
	if err != nil {
		t.Fatal(err)
	}
	b := sugarme.NewBPE(vocab, *merges)
	tokens, err := b.Tokenize("aaaaa")
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, tok := range tokens {
		got = append(got, tok.Id)
	}
	ours := (&word{}).merge(nil, "aaaaa", &Tokenizer{merges: map[pair]merge{{0, 0}: {0, 1}}})
	if want := []int{1, 1, 0}; !slices.Equal(ours, want) {
		t.Errorf("got %v, want %v", ours, want)
	}
	if slices.Equal(got, ours) {
		t.Error("sugarme/tokenizer takes the leftmost of equal pairs: see whether its BPE can replace merge.go")
	} else {
		t.Logf("sugarme/tokenizer: %v", got)
	}
}
