//go:build !js

package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestAgainstSugarme encodes every word and random programs of words, apart by
// all kinds of spaces, with both.
func TestAgainstSugarme(t *testing.T) {
	data := zooData(t)
	tk := zoo(t)
	texts := []string{strings.Join(tk.words, " "), strings.Join(tk.words, "\n"), " a== 2 ", "bits=[\t0,\r\n1,  ]"}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var b strings.Builder
		for range 1 + r.IntN(300) {
			b.WriteString(tk.Token(r.IntN(tk.N())))
			b.WriteString([]string{" ", "\n", "  ", "\t"}[r.IntN(4)])
		}
		texts = append(texts, b.String())
	}
	for _, text := range texts {
		want, err := reference(data, text)
		if err != nil {
			t.Fatal(err)
		}
		ids, spans, err := tk.EncodeSpans(text)
		if err != nil || !slices.Equal(ids, want.Ids) {
			t.Fatalf("%.80q: got %v, %v, want %v", text, ids, err, want.Ids)
		}
		for i := 1; i < len(ids); i++ {
			if o := want.Offsets[i]; spans[i] != (Span{o[0], o[1]}) {
				t.Fatalf("%.80q: token %d: got %v, want %v", text, i, spans[i], o)
			}
		}
	}
}

// TestCheckFails: a table that differs from the file is noticed.
func TestCheckFails(t *testing.T) {
	for name, spoil := range map[string]func(*Words){
		"swapped words": func(tk *Words) { tk.ids["0"], tk.ids["1"] = tk.ids["1"], tk.ids["0"] },
		"no <bos>":      func(tk *Words) { tk.prefix = nil },
		"another word":  func(tk *Words) { tk.words[9], tk.ids["zz"] = "zz", 9 },
	} {
		tk := zoo(t)
		spoil(tk)
		if err := tk.check(zooData(t)); err == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
	if err := zoo(t).check([]byte("{")); err == nil {
		t.Error("a broken file was not noticed")
	}
}
