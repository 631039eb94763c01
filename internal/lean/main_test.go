package main

import (
	"encoding/json"
	"go/build"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	source := filepath.Join(build.Default.GOROOT, "src", "text", "template", "exec.go")
	out := t.TempDir()
	if err := write(source, out); err != nil {
		t.Fatal(err)
	}
	var overlay struct{ Replace map[string]string }
	data, err := os.ReadFile(filepath.Join(out, "overlay.json"))
	if err == nil {
		err = json.Unmarshal(data, &overlay)
	}
	if err != nil {
		t.Fatal(err)
	}
	lean, err := os.ReadFile(overlay.Replace[source])
	if err != nil {
		t.Fatal(err)
	}
	if s := string(lean); strings.Contains(s, call) || strings.Count(s, nothing) != 1 {
		t.Errorf("the copy still calls methods by name")
	}
	other := filepath.Join(out, "other.go")
	if err := os.WriteFile(other, lean, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(other, out); err == nil || !strings.Contains(err.Error(), "stands there 0 times, want once") {
		t.Errorf("a source without the call: %v", err)
	}
}
