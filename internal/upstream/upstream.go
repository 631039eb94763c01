// Package upstream keeps, as tests, the smallest example of each defect of a dependency that this
// project works around. Such a test fails when the defect is gone, and names the workaround that can
// go with it. Those of the browser's side of gogpu/wgpu are in package webgpu.
package upstream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Still fails when a defect is gone. The workaround is a file of this module and a word in it, which
// must be there for as long as the defect is.
func Still(t testing.TB, defect bool, what, file, word string) {
	t.Helper()
	text, err := read(file)
	switch {
	case err != nil:
		t.Error(err)
	case !defect:
		t.Errorf("fixed upstream: %s: remove the workaround at %s (%s), what RATIONALE.md says of it, and this test", what, file, word)
	case !strings.Contains(text, word):
		t.Errorf("%s: %s is not in %s: name the workaround where it is now", what, word, file)
	}
}

// read reads a file of this module, whichever of its packages is tested.
func read(file string) (string, error) {
	dir := "."
	for range 8 {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		dir = filepath.Join(dir, "..")
	}
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
	return string(text), err
}
