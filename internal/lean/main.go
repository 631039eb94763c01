// Lean writes an overlay for go build, with which text/template calls no methods:
//
//	go run ./internal/lean -out build/lean
//	GOOS=js GOARCH=wasm go build -overlay build/lean/overlay.json ./wasm
//
// While a program can reach that one call by name, the linker keeps every exported method of every
// type. The page's module links text/template because ebiten makes its own shaders with it, from
// templates that read a map and call nothing; without the call it is a sixth smaller.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/build"
	"os"
	"path/filepath"
)

const (
	call    = "ptr.MethodByName(fieldName)"
	nothing = "(reflect.Value{})"
)

func main() {
	out := flag.String("out", filepath.Join("build", "lean"), "folder of overlay.json and what it names")
	root := flag.String("goroot", build.Default.GOROOT, "of the Go that builds")
	flag.Parse()
	if err := write(filepath.Join(*root, "src", "text", "template", "exec.go"), *out); err != nil {
		fmt.Fprintln(os.Stderr, "lean:", err)
		os.Exit(1)
	}
}

// write copies a source file without its call to out, with an overlay that takes it for the original.
func write(source, out string) error {
	src, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	if n := bytes.Count(src, []byte(call)); n != 1 {
		return fmt.Errorf("%s: %s stands there %d times, want once: build without the overlay, or see what this Go does instead", source, call, n)
	}
	out, err = filepath.Abs(out)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	lean := filepath.Join(out, "exec.go.txt")
	if err := os.WriteFile(lean, bytes.Replace(src, []byte(call), []byte(nothing), 1), 0o644); err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {source: lean}})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "overlay.json"), overlay, 0o644)
}
