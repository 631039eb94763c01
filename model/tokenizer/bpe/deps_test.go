//go:build !js

package bpe

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestPageIsLight: the page's module links neither this package nor what it needs.
func TestPageIsLight(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "shellgame/wasm", "shellgame/wasm/engine")
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "shellgame/model") {
		t.Fatalf("got %d packages without shellgame/model, want the page's", len(deps))
	}
	for _, dep := range deps {
		for _, heavy := range []string{"shellgame/model/tokenizer/bpe", "github.com/sugarme/", "github.com/dlclark/", "golang.org/x/text/unicode/norm", "net/http"} {
			if strings.HasPrefix(dep, heavy) {
				t.Errorf("the page links %s", dep)
			}
		}
	}
}
