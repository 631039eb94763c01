// Zoocard writes web/zoo/index.json and a model card README.md for each
// checkpoint, from the files that lie there:
//
//	go run ./internal/zoocard
//
// It must run again whenever a checkpoint or its eval.json changes; a test
// fails otherwise.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	files, err := build(dir)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, files[name]) {
			continue
		}
		if err := os.WriteFile(path, files[name], 0o644); err != nil {
			return fmt.Errorf("zoocard: %w", err)
		}
		fmt.Println(path)
	}
	return nil
}
