//go:build !js

package bpe

import (
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestLongWords: a word of any length takes little more than its length in time.
func TestLongWords(t *testing.T) {
	tok := open(t, read(t, "qwen2", "tokenizer.json"))
	r := rand.New(rand.NewPCG(1, 2))
	n := 1 << 18
	if testing.Short() {
		n = 1 << 14 // under the race detector, which looks for something else
	}
	letters := make([]byte, n)
	for i := range letters {
		letters[i] = "etaoinsh"[r.IntN(8)]
	}
	for _, text := range []string{string(letters), strings.Repeat(" ", n), strings.Repeat("\n", n), strings.Repeat(" \n", n/2) + "x"} {
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

// TestConcurrent: one tokenizer, many users.
func TestConcurrent(t *testing.T) {
	tok := open(t, read(t, "qwen3.5", "tokenizer.json"))
	cases := golden(t, "qwen3.5")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for _, c := range cases {
				if ids, err := tok.Encode(c.Text); err != nil || !slices.Equal(ids, c.IDs) {
					t.Errorf("%q: got %v, %v, want %v", c.Text, ids, err, c.IDs)
				}
				if text, err := tok.Decode(c.IDs); err != nil || text != c.Decoded {
					t.Errorf("%v: got %q, %v, want %q", c.IDs, text, err, c.Decoded)
				}
			}
		})
	}
	all.Wait()
}
