package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"shellgame/model/safetensors"
)

// TestTrim keeps what it should of a case, byte for byte.
func TestTrim(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	var entries []safetensors.Entry
	for _, name := range []string{
		"len1.input_ids", "len1.hidden.0", "len1.hidden.1", "len1.hidden.10", "len1.attn.1",
		"len64.input_ids", "len65.logits", "len200.hidden.0", "n8.logits",
	} {
		entries = append(entries, safetensors.Entry{Name: name, DType: safetensors.I32, Shape: []int{1}, Data: []byte{byte(len(entries)), 0, 0, 0}})
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, entries, map[string]string{"seed": "1"}); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"golden.safetensors": b.Bytes(), "config.json": []byte("{}")} {
		if err := os.WriteFile(filepath.Join(src, name), data, 0o400); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // a second run writes over the first
		if err := trimCase(src, dst); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(dst, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.Names(), []string{"len1.attn.1", "len1.hidden.0", "len1.hidden.10", "len1.input_ids", "len65.logits"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if x, err := f.ReadI32("len1.hidden.10"); err != nil || x[0] != 3 || f.Metadata()["seed"] != "1" {
		t.Errorf("got %v, %v, metadata %v", x, err, f.Metadata())
	}
	if c, err := os.ReadFile(filepath.Join(dst, "config.json")); err != nil || string(c) != "{}" {
		t.Errorf("config.json: got %q, %v", c, err)
	}
	if err := trim(filepath.Join(src, "golden.safetensors"), filepath.Join(dst, "x"), func(string, string, int) bool { return false }); err == nil {
		t.Error("wrote a file without tensors")
	}
}
