// Goldentrim makes the trimmed golden files of testdata/golden from the full
// ones, which are too large to keep in the tree:
//
//	go run ./internal/goldentrim -golden DIR -zoo DIR -out testdata/golden
//
// Of a transformers case it copies config.json and the weights, and of its
// golden.safetensors the prompts of 1, 5 and 65 tokens without the hidden states
// between the first and the last. Weights that a case shares with one before it are
// a link. Of a zoo checkpoint it keeps the n8 program.
// Running it again gives the same bytes.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"shellgame/model/safetensors"
)

var (
	cases = []string{"olmo-hybrid", "olmo-hybrid-nope", "olmo-hybrid-rope-gqa-poseig", "olmo-hybrid-vheads-odd", "olmo3-sliding-yarn", "qwen3-next-dense", "qwen3.5-text"}
	zoo   = []string{"st-gdn-neg", "recall-transformer", "sbr-hybrid-neg"}
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("goldentrim: ")
	golden := flag.String("golden", "", "folder of the full transformers cases")
	zooDir := flag.String("zoo", "", "folder of the zoo's full golden files")
	out := flag.String("out", "", "folder to write")
	flag.Parse()
	if *golden == "" || *zooDir == "" || *out == "" || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	for _, name := range cases {
		if err := trimCase(filepath.Join(*golden, name), filepath.Join(*out, name)); err != nil {
			log.Fatal(err)
		}
	}
	for _, name := range zoo {
		file := name + ".safetensors"
		err := trim(filepath.Join(*zooDir, file), filepath.Join(*out, "zoo", file), func(prefix, _ string, _ int) bool {
			return prefix == "n8"
		})
		if err != nil {
			log.Fatal(err)
		}
	}
}

// trimCase copies a case's files except that its golden file is trimmed.
func trimCase(src, dst string) error {
	files, err := os.ReadDir(src)
	if err != nil {
		return err
	}
	for _, f := range files {
		from, to := filepath.Join(src, f.Name()), filepath.Join(dst, f.Name())
		if f.Name() == "golden.safetensors" {
			err = trim(from, to, func(prefix, kind string, last int) bool {
				return slices.Contains([]string{"len1", "len5", "len65"}, prefix) &&
					(!strings.HasPrefix(kind, "hidden.") || kind == "hidden.0" || kind == "hidden."+strconv.Itoa(last))
			})
		} else {
			err = copyFile(from, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copied is where weights of some content were written first.
var copied = map[[sha256.Size]byte]string{}

// copyFile copies a file; weights that two cases share become a link.
func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if filepath.Ext(to) == ".safetensors" {
		sum := sha256.Sum256(b)
		if first := copied[sum]; first != "" && first != to {
			target, err := filepath.Rel(filepath.Dir(to), first)
			if err != nil {
				return err
			}
			if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return os.Symlink(filepath.ToSlash(target), to)
		}
		copied[sum] = to
	}
	return write(to, b)
}

func write(path string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// trim keeps the tensors PREFIX.KIND for which keep holds; last is the number of
// the last hidden state.
func trim(from, to string, keep func(prefix, kind string, last int) bool) error {
	b, err := os.Open(from)
	if err != nil {
		return err
	}
	defer b.Close()
	info, err := b.Stat()
	if err != nil {
		return err
	}
	f, err := safetensors.Open(b, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	last := 0
	for _, name := range f.Names() {
		if _, n, ok := strings.Cut(name, ".hidden."); ok {
			k, err := strconv.Atoi(n)
			if err != nil {
				return fmt.Errorf("%s: tensor %s: got layer %q, want a number", from, name, n)
			}
			last = max(last, k)
		}
	}
	var entries []safetensors.Entry
	for _, name := range f.Names() {
		prefix, kind, _ := strings.Cut(name, ".")
		if !keep(prefix, kind, last) {
			continue
		}
		t, _ := f.Tensor(name)
		e := safetensors.Entry{Name: name, DType: t.DType, Shape: t.Shape, Data: make([]byte, t.Bytes)}
		if err := f.ReadRaw(name, e.Data, 0); err != nil {
			return err
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return fmt.Errorf("%s: kept no tensor of %d", from, len(f.Names()))
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	w, err := os.Create(to)
	if err != nil {
		return err
	}
	if err := safetensors.Write(w, entries, f.Metadata()); err != nil {
		w.Close()
		return err
	}
	return w.Close()
}
