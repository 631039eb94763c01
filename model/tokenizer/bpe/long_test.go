//go:build !js

package bpe

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestLongWords: a word of any length takes little more than its length in time.
func TestLongWords(t *testing.T) {
	tok := open(t, read(t, "qwen2", "tokenizer.json"))
	r := rand.New(rand.NewPCG(1, 2))
	letters := make([]byte, 1<<18)
	for i := range letters {
		letters[i] = "etaoinsh"[r.IntN(8)]
	}
	for _, text := range []string{string(letters), strings.Repeat(" ", 1<<18), strings.Repeat("\n", 1<<18), strings.Repeat(" \n", 1<<17) + "x"} {
		start := time.Now()
		ids, err := tok.Encode(text)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%.10q, %d bytes: took %v, want 20 s at most", text, len(text), took)
		}
		if back, err := tok.Decode(ids); err != nil || back != text {
			t.Errorf("%.10q: came back otherwise, %v", text, err)
		}
	}
}
