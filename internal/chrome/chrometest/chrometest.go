//go:build !js

// Package chrometest starts Chromium for tests.
package chrometest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"shellgame/internal/chrome"
)

// Start starts Chromium and closes it when the test ends. Where none is installed the test is
// skipped, or fails if REQUIRE_DEVICES names browser.
func Start(t testing.TB, o chrome.Options) *chrome.Chrome {
	t.Helper()
	c, err := chrome.Start(context.Background(), o)
	if errors.Is(err, chrome.ErrNotFound) && !required() {
		t.Skipf("no browser here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func required() bool {
	for _, name := range strings.Split(os.Getenv("REQUIRE_DEVICES"), ",") {
		if name == "browser" {
			return true
		}
	}
	return false
}
