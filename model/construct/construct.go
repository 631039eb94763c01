// Package construct writes down the weights of two models that nobody trained:
// the constructions behind Theorem 1 of "Olmo Hybrid: From Theory to Practice
// and Back" (arXiv 2604.03444), in the published layout of olmo_hybrid.
//
// "st" tracks five values through any number of swaps in one layer of the gated
// delta rule; "sbr" answers state-based recall with three such layers and one of
// attention. Both need negative eigenvalues.
//
// Dimensions: D model, H heads, K key, V value, W convolution kernel, N words.
package construct

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"shellgame/model/safetensors"
)

// Tokenizer is the tokenizer.json that both models use.
//
//go:embed tokenizer.json
var Tokenizer []byte

// cards are the models' README.md, by kind. What they claim of answers is what
// the package's tests assert.
//
//go:embed cards
var cards embed.FS

// Kinds lists the models, "st" and "sbr".
func Kinds() []string { return []string{"st", "sbr"} }

// Files returns a model's files by name: config.json, model.safetensors in
// float16, tokenizer.json and README.md. The same kind gives the same bytes.
func Files(kind string) (map[string][]byte, error) {
	words, err := vocabulary()
	if err != nil {
		return nil, err
	}
	var n *net
	switch kind {
	case "st":
		n = stateTracking(words)
	case "sbr":
		n = stateBasedRecall(words)
	default:
		return nil, fmt.Errorf("construct: got kind %q, want %s", kind, strings.Join(Kinds(), " or "))
	}
	config, err := n.config()
	if err != nil {
		return nil, fmt.Errorf("construct: %w", err)
	}
	entries, err := n.entries()
	if err != nil {
		return nil, fmt.Errorf("construct: %w", err)
	}
	card, err := cards.ReadFile("cards/" + kind + ".md")
	if err != nil {
		return nil, fmt.Errorf("construct: %w", err)
	}
	var weights bytes.Buffer
	if err := safetensors.Write(&weights, entries, map[string]string{"format": "pt"}); err != nil {
		return nil, fmt.Errorf("construct: %w", err)
	}
	return map[string][]byte{
		"config.json":       config,
		"model.safetensors": weights.Bytes(),
		"tokenizer.json":    bytes.Clone(Tokenizer),
		"README.md":         card,
	}, nil
}

// Write makes the folder dir with a model's files. The folder appears complete,
// under its name, or not at all; one that holds something already is refused.
func Write(kind, dir string) error {
	files, err := Files(kind)
	if err != nil {
		return err
	}
	return folder(dir, func(temp string) error {
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if err := writeFile(filepath.Join(temp, name), files[name]); err != nil {
				return err
			}
		}
		return nil
	})
}

// folder makes dir of what fill writes to a folder beside it.
func folder(dir string, fill func(temp string) error) (err error) {
	dir = filepath.Clean(dir)
	if old, err := os.ReadDir(dir); err == nil && len(old) > 0 {
		return fmt.Errorf("construct: %s: got a folder with %d entries, want none or an empty one: choose another", dir, len(old))
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("construct: %w", err)
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("construct: %w", err)
	}
	temp, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+"-*")
	if err != nil {
		return fmt.Errorf("construct: %w", err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(temp)
		}
	}()
	if err := os.Chmod(temp, 0o755); err != nil {
		return fmt.Errorf("construct: %w", err)
	}
	if err := fill(temp); err != nil {
		return fmt.Errorf("construct: %w", err)
	}
	syncDir(temp)
	// An empty folder in the way keeps some systems from renaming.
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("construct: %w", err)
	}
	if err := os.Rename(temp, dir); err != nil {
		return fmt.Errorf("construct: %w", err)
	}
	syncDir(parent)
	return nil
}

func writeFile(path string, data []byte) error {
	return createFile(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// createFile makes a file of what fill writes.
func createFile(path string, fill func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	if err := fill(f); err != nil {
		f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// syncDir makes a rename last through a power cut, where the system can.
func syncDir(dir string) {
	if f, err := os.Open(dir); err == nil {
		f.Sync()
		f.Close()
	}
}

// vocabulary returns the N words by id.
func vocabulary() ([]string, error) {
	var file struct {
		Model struct {
			Vocab map[string]int `json:"vocab"`
		} `json:"model"`
	}
	if err := json.Unmarshal(Tokenizer, &file); err != nil {
		return nil, fmt.Errorf("construct: tokenizer.json: %w", err)
	}
	words := make([]string, len(file.Model.Vocab))
	for w, id := range file.Model.Vocab {
		if id < 0 || id >= len(words) || words[id] != "" {
			return nil, fmt.Errorf("construct: tokenizer.json: got id %d for %q, want 0 to %d, once each", id, w, len(words)-1)
		}
		words[id] = w
	}
	return words, nil
}
