// Sitebuild assembles the static site:
//
//	sitebuild [-out dist] [-cache build/compressed] [-fast] DIR|FILE[=NAME] ...
//
// It copies each folder's files and each file (under NAME, if given) into the output folder,
// writes NAME.gz and NAME.br beside what compresses, and removes what no longer belongs there.
// What was compressed before is taken from the cache. It leaves out Go files, tests, packages of
// Node and a folder's own README.md.
//
// A new build never mixes with an old one that some browser still has: pages, zoo/, embed.js and
// sw.js keep their names; a .wasm is NAME-HASH.wasm after its content; all else lies in a folder
// build-HASH that is named after everything in it. References in the pages are rewritten, and
// sw.js gets the list of files.
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/andybalholm/brotli"
)

func main() {
	flags := flag.NewFlagSet("sitebuild", flag.ExitOnError)
	b := builder{}
	flags.StringVar(&b.out, "out", "dist", "folder of the site")
	flags.StringVar(&b.cache, "cache", filepath.Join("build", "compressed"), "folder of what was compressed before")
	flags.BoolVar(&b.fast, "fast", false, "compress quickly and not as well, for a site that stays on this machine")
	flags.Parse(os.Args[1:])
	if err := b.build(flags.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "sitebuild: %v\n", err)
		os.Exit(1)
	}
	b.report(os.Stdout)
}

type builder struct {
	out, cache string
	fast       bool

	sources          map[string]string // where each file comes from, by its path in the site
	names            []string          // of those, in order
	folder           string            // build-HASH
	files            map[string]bool   // in the output, by slash path
	used             map[string]bool   // of the cache, by name
	plain, gz, br    int64             // bytes of what is served, compressed where it can be
	wasm             [3]int64          // the same of the wasm
	compressed, kept int
}

// build fills b.out from the sources.
func (b *builder) build(sources []string) error {
	if len(sources) == 0 {
		return errors.New("got no sources, want folders and files")
	}
	b.files, b.used, b.sources, b.names = map[string]bool{}, map[string]bool{}, map[string]string{}, nil
	for _, source := range sources {
		from, name, named := strings.Cut(source, "=")
		info, err := os.Stat(from)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			if !named {
				name = filepath.Base(from)
			}
			if err := b.take(from, name); err != nil {
				return err
			}
			continue
		}
		err = filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(from, p)
			if err != nil {
				return err
			}
			rel = filepath.ToSlash(rel)
			if rel != "." && excluded(rel, d.IsDir()) {
				if d.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
			if d.IsDir() {
				return nil
			}
			return b.take(p, rel)
		})
		if err != nil {
			return err
		}
	}
	if err := b.place(); err != nil {
		return err
	}
	return b.clean()
}

// take notes a file of the site.
func (b *builder) take(from, name string) error {
	if b.sources[name] != "" {
		return fmt.Errorf("%s: there are two files of this name", name)
	}
	b.sources[name] = from
	b.names = append(b.names, name)
	return nil
}

// named reports whether a file keeps its name in every build: others link to it, or it is large
// and changes rarely.
func named(name string) bool {
	switch name {
	case "index.html", "embed.html", "embed.js", "sw.js":
		return true
	}
	return strings.HasPrefix(name, "zoo/")
}

// lazy reports whether few visits need a file, which is then not kept for when there is no network.
func lazy(name string) bool { return name == "tokens.wasm" || name == "js/vendor/jinja.js" }

// place writes every file under the name that it gets.
func (b *builder) place() error {
	slices.Sort(b.names)
	read := func(name string) ([]byte, error) { return os.ReadFile(b.sources[name]) }
	hash := func(data []byte) string {
		sum := sha256.Sum256(data)
		return hex.EncodeToString(sum[:])[:12]
	}
	at := map[string]string{} // where a file of this build is, from the site's top
	var wasm []string
	for _, name := range b.names {
		if path.Ext(name) != ".wasm" || named(name) {
			continue
		}
		data, err := read(name)
		if err != nil {
			return err
		}
		at[name] = strings.TrimSuffix(name, ".wasm") + "-" + hash(data) + ".wasm"
		wasm = append(wasm, name)
		if err := b.add(at[name], data); err != nil {
			return err
		}
	}
	inside := map[string][]byte{}
	var all bytes.Buffer
	for _, name := range b.names {
		if named(name) || at[name] != "" {
			continue
		}
		data, err := read(name)
		if err != nil {
			return err
		}
		if ext := path.Ext(name); ext == ".html" || ext == ".js" {
			for _, w := range wasm {
				quoted := regexp.MustCompile(`"((?:\.\./)*)` + regexp.QuoteMeta(w) + `"`)
				data = quoted.ReplaceAll(data, []byte(`"${1}../`+at[w]+`"`))
			}
		}
		inside[name] = data
		fmt.Fprintf(&all, "%s %s\n", name, hash(data))
	}
	b.folder = "build-" + hash(all.Bytes())
	files := []string{"./"}
	for _, name := range b.names {
		data := inside[name]
		if data == nil {
			continue
		}
		at[name] = b.folder + "/" + name
		if err := b.add(at[name], data); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(at)) {
		if !lazy(name) {
			files = append(files, at[name])
		}
	}
	slices.Sort(files)
	for _, name := range b.names {
		if !named(name) {
			continue
		}
		data, err := read(name)
		if err != nil {
			return err
		}
		switch {
		case path.Ext(name) == ".html":
			data = reference.ReplaceAllFunc(data, func(m []byte) []byte {
				part := reference.FindSubmatch(m)
				if to := at[string(part[2])]; to != "" {
					return []byte(string(part[1]) + `"` + to + `"`)
				}
				return m
			})
		case name == "sw.js":
			list, err := json.Marshal(map[string]any{"name": b.folder, "files": files})
			if err != nil {
				return err
			}
			if bytes.Count(data, []byte(swBuild)) != 1 {
				return fmt.Errorf("sw.js: want one line %s", swBuild)
			}
			data = bytes.Replace(data, []byte(swBuild), []byte("const build = "+string(list)+";"), 1)
		}
		if err := b.add(name, data); err != nil {
			return err
		}
	}
	return nil
}

// reference finds what a page names: its scripts, styles, icons and what it preloads.
var reference = regexp.MustCompile(`\b((?:src|href)=)"([^"]+)"`)

// swBuild is the line of sw.js that a build fills.
const swBuild = "const build = null;"

// excluded says whether a file or folder of a source, by its path in there, is not for visitors.
func excluded(rel string, dir bool) bool {
	name := path.Base(rel)
	if strings.HasPrefix(name, ".") {
		return true
	}
	if dir {
		return name == "test" || name == "testdata" || name == "node_modules"
	}
	return path.Ext(name) == ".go" || rel == "README.md" || rel == "package.json" || strings.HasSuffix(name, ".test.js") || strings.HasSuffix(name, ".test.mjs")
}

// compressible kinds of files; weights of half precision are not worth it.
var compressible = map[string]bool{
	".wasm": true, ".js": true, ".mjs": true, ".css": true, ".html": true, ".svg": true, ".json": true, ".md": true, ".txt": true, ".cff": true,
}

// add writes a file, and beside it what it compresses to.
func (b *builder) add(name string, data []byte) error {
	if err := b.write(name, data); err != nil {
		return err
	}
	size := [3]int64{int64(len(data)), int64(len(data)), int64(len(data))}
	if compressible[path.Ext(name)] && len(data) >= 1024 {
		sum := sha256.Sum256(data)
		for i, kind := range []string{".gz", ".br"} {
			small, err := b.compress(kind, hex.EncodeToString(sum[:]), data)
			if err != nil {
				return fmt.Errorf("%s%s: %w", name, kind, err)
			}
			if len(small) >= len(data) {
				continue
			}
			if err := b.write(name+kind, small); err != nil {
				return err
			}
			size[1+i] = int64(len(small))
		}
	}
	b.plain, b.gz, b.br = b.plain+size[0], b.gz+size[1], b.br+size[2]
	if path.Ext(name) == ".wasm" && !strings.HasPrefix(name, "tokens-") {
		for i := range size {
			b.wasm[i] += size[i]
		}
	}
	return nil
}

func (b *builder) speed() string {
	if b.fast {
		return "-fast"
	}
	return "-best"
}

// compress returns data compressed as kind, from the cache if it is there.
func (b *builder) compress(kind, sum string, data []byte) ([]byte, error) {
	name := sum + b.speed() + kind
	b.used[name] = true
	cached := filepath.Join(b.cache, name)
	if old, err := os.ReadFile(cached); err == nil {
		b.kept++
		return old, nil
	}
	var out bytes.Buffer
	var w io.WriteCloser
	switch {
	case kind == ".br" && b.fast:
		w = brotli.NewWriterLevel(&out, 4)
	case kind == ".br":
		w = brotli.NewWriterLevel(&out, brotli.BestCompression)
	case b.fast:
		w, _ = gzip.NewWriterLevel(&out, 4)
	default:
		w, _ = gzip.NewWriterLevel(&out, gzip.BestCompression)
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	b.compressed++
	return out.Bytes(), place(cached, out.Bytes())
}

// write puts a file into the output, unless it is there already.
func (b *builder) write(name string, data []byte) error {
	b.files[name] = true
	to := filepath.Join(b.out, filepath.FromSlash(name))
	if old, err := os.ReadFile(to); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return place(to, data)
}

// place writes a file whole or not at all, so that an interrupted build leaves no half of one.
func place(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	tmp := path + ".part"
	if err := os.WriteFile(tmp, data, 0o666); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// clean removes files of an earlier build from the output, folders left empty, and what was
// compressed as well or badly as now and is no longer in use.
func (b *builder) clean() error {
	var dirs []string
	err := filepath.WalkDir(b.out, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			dirs = append(dirs, p)
			return nil
		}
		rel, err := filepath.Rel(b.out, p)
		if err != nil {
			return err
		}
		if !b.files[filepath.ToSlash(rel)] {
			return os.Remove(p)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := len(dirs) - 1; i > 0; i-- {
		os.Remove(dirs[i]) // fails where something is left, which is what it is for
	}
	old, err := filepath.Glob(filepath.Join(b.cache, "*"+b.speed()+".*"))
	for _, p := range old {
		if !b.used[filepath.Base(p)] {
			err = errors.Join(err, os.Remove(p))
		}
	}
	return err
}

func (b *builder) report(w io.Writer) {
	const mb = 1e6
	fmt.Fprintf(w, "%s: %d files, %.1f MB (%.1f gzip, %.1f brotli), of which wasm %.1f MB (%.2f gzip, %.2f brotli)\n", b.out, len(b.files),
		float64(b.plain)/mb, float64(b.gz)/mb, float64(b.br)/mb, float64(b.wasm[0])/mb, float64(b.wasm[1])/mb, float64(b.wasm[2])/mb)
}
