// Zoocard writes web/zoo/index.json and a model card README.md for each
// checkpoint, from the files that lie there:
//
//	go run ./internal/zoocard
//
// It also writes the constructed models, which have scores only where someone
// measured them and put an eval.json of the same form beside the weights (task,
// arch "constructed", params, samples, accuracy; device and adapter if wanted).
// It must run again whenever a checkpoint, a construction or an eval.json
// changes; tests fail otherwise.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"shellgame/model/construct"
)

func main() {
	dir := flag.String("dir", "web/zoo", "folder of the zoo")
	flag.Parse()
	if err := write(*dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write updates the files that differ and prints their names.
func write(dir string) error {
	models, err := constructed()
	if err != nil {
		return err
	}
	if err := update(dir, models); err != nil {
		return err
	}
	files, err := build(dir)
	if err != nil {
		return err
	}
	return update(dir, files)
}

// constructed returns the constructed models' own files. The zoo's models share
// its tokenizer.
func constructed() (map[string][]byte, error) {
	out := map[string][]byte{}
	for _, kind := range construct.Kinds() {
		files, err := construct.Files(kind)
		if err != nil {
			return nil, err
		}
		for _, name := range []string{"config.json", "model.safetensors"} {
			out[kind+"-constructed/"+name] = files[name]
		}
	}
	return out, nil
}

func update(dir string, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, files[name]) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("zoocard: %w", err)
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return fmt.Errorf("zoocard: %w", err)
		}
		fmt.Println(path)
	}
	return nil
}
