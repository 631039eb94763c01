package main

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Archives of the same files are the same bytes, whenever and by whom the files were made, and what
// is unpacked is what was packed.
func TestArchives(t *testing.T) {
	when := time.Unix(1_790_000_000, 0).UTC()
	pack := func(mode os.FileMode, touched time.Time) (string, []byte, []byte) {
		dir := t.TempDir()
		for name, text := range map[string]string{"b/two.txt": "two", "a.txt": "one", "b/empty": ""} {
			p := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(text), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(p, touched, touched); err != nil {
				t.Fatal(err)
			}
		}
		files, err := tree(dir, "top")
		if err != nil {
			t.Fatal(err)
		}
		var tar, zipped bytes.Buffer
		if err := writeTar(&tar, files, when); err != nil {
			t.Fatal(err)
		}
		if err := writeZip(&zipped, files, when); err != nil {
			t.Fatal(err)
		}
		archive := filepath.Join(dir, "x.tar.gz")
		if err := os.WriteFile(archive, tar.Bytes(), 0o666); err != nil {
			t.Fatal(err)
		}
		return archive, tar.Bytes(), zipped.Bytes()
	}
	archive, tar1, zip1 := pack(0o644, time.Now())
	_, tar2, zip2 := pack(0o600, time.Now().Add(-time.Hour))
	if !bytes.Equal(tar1, tar2) || !bytes.Equal(zip1, zip2) {
		t.Error("the same files give other archives an hour later")
	}
	out := t.TempDir()
	if err := unpack(archive, out); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(out, "top", "b", "two.txt")); err != nil || string(got) != "two" {
		t.Errorf("got %q, %v", got, err)
	}
	z, err := zip.NewReader(bytes.NewReader(zip1), int64(len(zip1)))
	if err != nil {
		t.Fatal(err)
	}
	f, err := z.Open("top/a.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || string(got) != "one" {
		t.Errorf("got %q, %v", got, err)
	}
}

// An archive cannot write outside the folder it is unpacked to.
func TestUnpackStaysInside(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := writeTar(&b, []file{{"../out.txt", filepath.Join(dir, "f"), 0o644}}, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(dir, "x.tar.gz")
	if err := os.WriteFile(archive, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := unpack(archive, filepath.Join(dir)); err == nil {
		t.Error("got no error")
	}
}
