package bpe

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shellgame/model/tokenizer"
)

// What Hugging Face's tokenizers gives for texts that are hard to cut, with a vocabulary of 1,500
// and the split pattern of each family.
const tokenizers = "../../../testdata/tokenizers"

var families = []string{"cl100k-olmo", "qwen2", "qwen3.5"}

func read(t testing.TB, parts ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{tokenizers}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func open(t testing.TB, data []byte) *Tokenizer {
	t.Helper()
	tok, err := Open(data)
	if err != nil {
		t.Fatal(err)
	}
	return tok.(*Tokenizer)
}

type goldenCase struct {
	Text, Decoded string
	IDs           []int
}

func golden(t testing.TB, family string) []goldenCase {
	t.Helper()
	var cases []goldenCase
	if err := json.Unmarshal(read(t, family, "golden.json"), &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 30 {
		t.Fatalf("got %d cases, want 30 or more", len(cases))
	}
	return cases
}

func TestGolden(t *testing.T) {
	for _, family := range families {
		tok := open(t, read(t, family, "tokenizer.json"))
		for _, c := range golden(t, family) {
			if ids, err := tok.Encode(c.Text); err != nil || !slices.Equal(ids, c.IDs) {
				t.Errorf("%s: %q: got %v, %v, want %v", family, c.Text, ids, err, c.IDs)
			}
			if text, err := tok.Decode(c.IDs); err != nil || text != c.Decoded {
				t.Errorf("%s: %v: got %q, %v, want %q", family, c.IDs, text, err, c.Decoded)
			}
			if text := stream(t, tok, c.IDs); text != c.Decoded {
				t.Errorf("%s: %v one by one: got %q, want %q", family, c.IDs, text, c.Decoded)
			}
		}
	}
}

type randomCase struct {
	Text string
	IDs  []int
}

// random reads what another implementation of Hugging Face's gives for texts put together at
// random.
func random(t testing.TB) (families map[string][]randomCase, added []randomCase) {
	t.Helper()
	var all struct {
		Families map[string][]randomCase
		Added    []randomCase
	}
	if err := json.Unmarshal(read(t, "random.json"), &all); err != nil {
		t.Fatal(err)
	}
	return all.Families, all.Added
}

func TestRandom(t *testing.T) {
	cases, _ := random(t)
	for _, family := range families {
		tok := open(t, read(t, family, "tokenizer.json"))
		if len(cases[family]) < 100 {
			t.Errorf("%s: got %d cases, want 100 or more", family, len(cases[family]))
		}
		for _, c := range cases[family] {
			if ids, err := tok.Encode(c.Text); err != nil || !slices.Equal(ids, c.IDs) {
				t.Errorf("%s: %q: got %v, %v, want %v", family, c.Text, ids, err, c.IDs)
			}
		}
	}
}

// TestGoldenCanFail: the cases tell the families' patterns, the normaliser and the order of merges
// apart.
func TestGoldenCanFail(t *testing.T) {
	for name, spoil := range map[string]func(*Tokenizer){
		"GPT-2's pattern":   func(tok *Tokenizer) { tok.split[0].pattern = compile(gpt2) },
		"cl100k's pattern":  func(tok *Tokenizer) { tok.split[0].pattern = compile(cl100k) },
		"Qwen2's pattern":   func(tok *Tokenizer) { tok.split[0].pattern = compile(qwen2) },
		"no normaliser":     func(tok *Tokenizer) { tok.nfc = false },
		"no added tokens":   func(tok *Tokenizer) { tok.raw = added{} },
		"no merges":         func(tok *Tokenizer) { tok.merges = nil },
		"bytes exchanged":   func(tok *Tokenizer) { tok.bytes[0x80], tok.bytes[0x81] = tok.bytes[0x81], tok.bytes[0x80] },
		"merges by letters": func(tok *Tokenizer) { reverse(tok) },
	} {
		tok := open(t, read(t, "qwen3.5", "tokenizer.json"))
		spoil(tok)
		cases, _ := random(t)
		if !slices.ContainsFunc(cases["qwen3.5"], func(c randomCase) bool {
			ids, err := tok.Encode(c.Text)
			return err != nil || !slices.Equal(ids, c.IDs)
		}) {
			t.Errorf("%s: not noticed", name)
		}
	}
}

func reverse(tok *Tokenizer) {
	for p, m := range tok.merges {
		tok.merges[p] = merge{-m.rank, m.id}
	}
}

// stream decodes token by token and sees that no part of a character comes out.
func stream(t testing.TB, tok tokenizer.Tokenizer, ids []int) string {
	t.Helper()
	var all strings.Builder
	s := tokenizer.NewStream(tok)
	for _, id := range ids {
		text, err := s.Next(id)
		if err != nil {
			t.Fatal(err)
		}
		if invalid(text) >= 0 {
			t.Fatalf("token %d: got %q, want whole characters", id, text)
		}
		all.WriteString(text)
	}
	all.WriteString(s.End())
	return all.String()
}
