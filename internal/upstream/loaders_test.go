//go:build linux

package upstream

import (
	"bytes"
	"os"
	"os/exec"
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
