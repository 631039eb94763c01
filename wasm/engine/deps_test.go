//go:build !js

package engine_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// What the page's module must not link: each of these costs more than it gives there.
var unlinked = map[string]string{
	"github.com/goccy/go-json":     "1.1 MB gzip more than encoding/json",
	"github.com/sugarme/tokenizer": "1.2 MB: tokenizers of text are a module of their own",
	"github.com/dlclark/regexp2":   "tokenizers of text are a module of their own",
	"github.com/gogpu/naga":        "the browser compiles WGSL itself",
	"net/http":                     "the browser fetches",
	"crypto/tls":                   "the browser fetches",
}

func TestLinked(t *testing.T) {
	list := exec.Command("go", "list", "-deps", "..")
	list.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 50 {
		t.Fatalf("go list named %d packages", len(packages))
	}
	for _, p := range packages {
		for unwanted, why := range unlinked {
			if p == unwanted || strings.HasPrefix(p, unwanted+"/") {
				t.Errorf("the page's wasm links %s: %s", p, why)
			}
		}
	}
}
