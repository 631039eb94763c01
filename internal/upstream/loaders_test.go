//go:build linux

package upstream

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// With cgo, which ebiten takes on Linux, purego wants the external linker and goffi the internal one.
func TestLoadersTogether(t *testing.T) {
	if os.Getenv("SHELLGAME_LONG") == "" {
		t.Skip("builds ebiten with cgo: SHELLGAME_LONG=1")
	}
	cmd := exec.Command("go", "build", "-o", os.DevNull, "./testdata/loaders")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := cmd.CombinedOutput()
	if err != nil && !bytes.Contains(out, []byte("goffi_")) {
		t.Fatalf("%.2000s%v", out, err)
	}
	Still(t, err != nil, "purego and goffi: not both in one cgo binary on Linux", "webgpu/gpu_window.go", "ebiten's library loader")
}

// Linked into a program for js, ebiten ends it before main where there is no document: in Node, in
// a worker.
func TestEbitenWantsADocument(t *testing.T) {
	if os.Getenv("SHELLGAME_LONG") == "" {
		t.Skip("builds ebiten for js: SHELLGAME_LONG=1")
	}
	wasm := filepath.Join(t.TempDir(), "headless.wasm")
	build := exec.Command("go", "build", "-o", wasm, "./testdata/headless")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s%v", out, err)
	}
	run := exec.Command("node", "--stack-size=8192", "../../scripts/node-dawn.mjs", wasm)
	run.Env = append(os.Environ(), "SHELLGAME_DAWN=off")
	out, err := run.CombinedOutput()
	alive := bytes.Contains(out, []byte("alive"))
	if !alive && !bytes.Contains(out, []byte("document")) && !bytes.Contains(out, []byte("syscall/js")) {
		t.Fatalf("%.2000s%v", out, err)
	}
	Still(t, !alive, "ebiten: ends a program without a document", "cmd/shellgame/window.go", "go:build js")
}
