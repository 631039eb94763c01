package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := place(path, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(dir, p); rel != "." {
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestBuild(t *testing.T) {
	for _, fast := range []bool{false, true} {
		dir := t.TempDir()
		web, out, cache := filepath.Join(dir, "web"), filepath.Join(dir, "dist"), filepath.Join(dir, "cache")
		long := strings.Repeat("let a = b;\n", 1000)
		for name, text := range map[string]string{
			"index.html": `<link href="style.css"><script src="page.js"></script><a href="#page.js">`, "page.js": long, "style.css": "p{}", "README.md": "internal",
			"stage.html": `<meta name="wasm" content="shellgame.wasm"><script src="page.js">`, "sw.js": "const build = null; // here\n", "embed.js": "1",
			"js/worker.js": `new URL("../tokens.wasm", import.meta.url)`,
			"web.go":       "package web", "test/page.test.mjs": "x", "page.test.js": "x",
			".hidden": "x", "node_modules/x/y.js": "x", "zoo/a/README.md": "card", "zoo/a/model.safetensors": long, "package.json": "{}",
		} {
			put(t, filepath.Join(web, name), text)
		}
		wasm := filepath.Join(dir, "main.wasm")
		put(t, wasm, long)
		tokens := filepath.Join(dir, "tokens.wasm")
		put(t, tokens, "few need it")
		put(t, filepath.Join(out, "old.js.gz"), "of an earlier build")
		put(t, filepath.Join(out, "build-000000000000", "old.js"), "of an earlier build")
		b := builder{out: out, cache: cache, fast: fast}
		if err := b.build([]string{web, wasm + "=shellgame.wasm", tokens}); err != nil {
			t.Fatal(err)
		}
		f := b.folder
		w, lazy := "shellgame-"+sum(long)+".wasm", "tokens-"+sum("few need it")+".wasm"
		want := []string{
			f, f + "/js", f + "/js/worker.js", f + "/page.js", f + "/page.js.br", f + "/page.js.gz", f + "/stage.html", f + "/style.css",
			"embed.js", "index.html", w, w + ".br", w + ".gz", "sw.js", lazy,
			"zoo", "zoo/a", "zoo/a/README.md", "zoo/a/model.safetensors",
		}
		if got := list(t, out); !slices.Equal(got, want) {
			t.Errorf("fast %v: got %q, want %q", fast, got, want)
		}
		for name, want := range map[string]string{
			"index.html":        `<link href="` + f + `/style.css"><script src="` + f + `/page.js"></script><a href="#page.js">`,
			f + "/stage.html":   `<meta name="wasm" content="../` + w + `"><script src="page.js">`,
			f + "/js/worker.js": `new URL("../../` + lazy + `", import.meta.url)`,
			"sw.js":             `const build = {"files":["./","` + f + `/js/worker.js","` + f + `/page.js","` + f + `/stage.html","` + f + `/style.css","` + w + `"],"name":"` + f + `"}; // here` + "\n",
		} {
			if got, _ := os.ReadFile(filepath.Join(out, name)); string(got) != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
		for _, name := range []string{f + "/page.js", w} {
			plain, _ := os.ReadFile(filepath.Join(out, name))
			small, _ := os.ReadFile(filepath.Join(out, name+".gz"))
			z, err := gzip.NewReader(bytes.NewReader(small))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(z); err != nil || string(got) != string(plain) || string(plain) != long {
				t.Errorf("%s.gz holds something else: %v", name, err)
			}
			small, _ = os.ReadFile(filepath.Join(out, name+".br"))
			if got, err := io.ReadAll(brotli.NewReader(bytes.NewReader(small))); err != nil || string(got) != long {
				t.Errorf("%s.br holds something else: %v", name, err)
			}
		}
		if b.compressed != 2 || b.kept != 2 {
			t.Errorf("page.js and its equal: compressed %d, taken from the cache %d, want 2 and 2", b.compressed, b.kept)
		}

		again := builder{out: out, cache: cache, fast: fast}
		if err := again.build([]string{web}); err != nil {
			t.Fatal(err)
		}
		if again.compressed != 0 || again.kept != 2 {
			t.Errorf("again: compressed %d, kept %d, want 0 and 2", again.compressed, again.kept)
		}
		if got := list(t, out); slices.Contains(got, w) || !slices.Contains(got, again.folder+"/page.js.br") || slices.Contains(got, f) {
			t.Errorf("again, without the wasm: got %q", got)
		}
		put(t, filepath.Join(web, "page.js"), long+"changed")
		before := again.folder
		if err := again.build([]string{web}); err != nil || again.compressed != 2 {
			t.Errorf("after a change: compressed %d, want 2, %v", again.compressed, err)
		}
		if again.folder == before {
			t.Error("what changed has the same name")
		}
		if got := list(t, cache); len(got) != 2 {
			t.Errorf("the cache holds %q, want what is in use", got)
		}
		var report bytes.Buffer
		if b.report(&report); !strings.Contains(report.String(), "wasm 0.0 MB") {
			t.Errorf("got %q", &report)
		}
	}
}

// sum is the part of a name that says what text is in a file.
func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])[:12]
}

func TestBuildRefuses(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "a", "x.js"), "1")
	put(t, filepath.Join(dir, "b", "x.js"), "2")
	put(t, filepath.Join(dir, "c", "sw.js"), "no line for the build")
	for _, sources := range [][]string{nil, {filepath.Join(dir, "missing")}, {filepath.Join(dir, "a"), filepath.Join(dir, "b")}, {filepath.Join(dir, "c")}} {
		b := builder{out: filepath.Join(dir, "out"), cache: filepath.Join(dir, "cache")}
		if err := b.build(sources); err == nil {
			t.Errorf("%v was accepted", sources)
		}
	}
}
