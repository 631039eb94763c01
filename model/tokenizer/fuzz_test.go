package tokenizer

import (
	"os"
	"strings"
	"testing"
)

// FuzzLoadWords: whatever tokenizer.json holds, LoadWords refuses it in one line, or what it gives encodes its
// own words to their numbers.
func FuzzLoadWords(f *testing.F) {
	data, err := os.ReadFile("../construct/tokenizer.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	for _, s := range []string{string(small()), "", "{", "null", "[]", `{"model":{"type":"BPE"}}`, `{"model":{"type":"WordLevel","vocab":{}}}`, `{"model":{"type":"WordLevel","vocab":{"a":-1}}}`, `{"model":{"type":"WordLevel","vocab":{"a":9223372036854775807}}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tk, err := LoadWords(data)
		if err != nil {
			if s := err.Error(); !strings.HasPrefix(s, "tokenizer") || strings.ContainsAny(s, "\n\r") {
				t.Fatalf("got error %q, want one line that begins with tokenizer", s)
			}
			return
		}
		for id := range min(tk.N(), 64) {
			w := tk.Token(id)
			if got, ok := tk.ID(w); w != "" && (!ok || got != id) {
				t.Fatalf("the word %q is token %d and found as %d, %v", w, id, got, ok)
			}
			if len(strings.Fields(w)) != 1 || strings.Fields(w)[0] != w {
				continue
			}
			ids, err := tk.Encode(w)
			if err != nil || ids[len(ids)-1] != id {
				t.Fatalf("the word %q is token %d and encodes to %v, %v", w, id, ids, err)
			}
		}
	})
}
