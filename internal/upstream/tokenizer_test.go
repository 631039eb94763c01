//go:build !js

package upstream

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sugarme/tokenizer"
	"github.com/sugarme/tokenizer/pretrained"
)

// ahead is a tokenizer whose words are split by a pattern that looks ahead, as published byte-level
// ones are.
const ahead = `{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
"pre_tokenizer":{"type":"Split","pattern":{"Regex":"\\s+(?!\\S)|\\s+"},"behavior":"Isolated","invert":false},
"post_processor":null,"decoder":null,
"model":{"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"vocab":{"a":0," ":1},"merges":[]}}`

func open(file string) (t *tokenizer.Tokenizer, panicked any, err error) {
	defer func() { panicked = recover() }()
	t, err = pretrained.FromReader(strings.NewReader(file))
	return t, nil, err
}

// Go's regexp cannot look ahead, and sugarme/tokenizer compiles a file's pattern with MustCompile.
func TestSugarmeLooksAhead(t *testing.T) {
	_, panicked, err := open(ahead)
	if panicked != nil && !strings.Contains(fmt.Sprint(panicked), "(?!") {
		t.Fatalf("panicked with %v, want it about the pattern", panicked)
	}
	Still(t, panicked != nil || err != nil, "sugarme/tokenizer: takes no pattern that looks ahead", "model/tokenizer/bpe/split.go", "regexp2")
	if panicked == nil && err != nil {
		t.Logf("an error now, no panic: %v", err)
	}
}

// A word that is not in the table becomes the unknown token without a word.
func TestSugarmeUnknown(t *testing.T) {
	tk, panicked, err := open(`{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],"normalizer":null,
"pre_tokenizer":{"type":"WhitespaceSplit"},"post_processor":null,"decoder":null,
"model":{"type":"WordLevel","vocab":{"<unk>":0,"a":1},"unk_token":"<unk>"}}`)
	if panicked != nil || err != nil {
		t.Fatal(panicked, err)
	}
	e, err := tk.EncodeSingle("a b")
	Still(t, err == nil && len(e.Ids) == 2 && e.Ids[1] == 0, "sugarme/tokenizer: an unknown word is no error", "model/tokenizer/words.go", "unknown")
}
