package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"
)

// A soak of models with and without attention passes, and says what it saw at each point.
func TestSoak(t *testing.T) {
	for _, c := range []struct{ model, steps string }{{"st-constructed", "6000"}, {"sbr-constructed", "4000"}} {
		var out, log bytes.Buffer
		code := run(context.Background(), []string{"-model", filepath.Join("..", "..", "web", "zoo", c.model), "-steps", c.steps, "-checks", "3", "-restart", "256"}, &out, &log)
		if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); code != 0 || len(lines) != 5 || strings.Count(out.String(), " right\n") != 3 {
			t.Errorf("%s: got code %d and\n%s%s", c.model, code, out.String(), log.String())
		}
	}
}

// What grew is named, and what only came and went is not.
func TestUseAgainst(t *testing.T) {
	base := use{heap: 1 << 20, rss: 50 << 20, goroutines: 3, files: 10, buffers: 60}
	if err := (use{heap: 1<<20 + heapSlack, rss: 40 << 20, goroutines: 2, files: 9, buffers: 60}).against(base); err != nil {
		t.Errorf("nothing grew: got %v", err)
	}
	for want, grown := range map[string]use{
		"the heap":                 {heap: 1<<20 + heapSlack + 1},
		"the process's memory":     {rss: 50<<20 + rssSlack + 1},
		"the number of goroutines": {goroutines: 4},
		"the number of open files": {files: 11},
		"the number of buffers":    {buffers: 61},
	} {
		if err := grown.against(base); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s grew: got %v", want, err)
		}
	}
}

// Numbers that differ or are none fail.
func TestDistance(t *testing.T) {
	nan := float32(0)
	nan /= nan
	if d := distance([]float32{3, 4}, []float32{3, 4}); d != 0 {
		t.Errorf("equal numbers: got %v", d)
	}
	if d := distance([]float32{3, 4.01}, []float32{3, 4}); !(d > forgets) {
		t.Errorf("other numbers: got %v", d)
	}
	if d := distance([]float32{3, nan}, []float32{3, 4}); d <= 1 {
		t.Errorf("NaN: got %v, which is within every bound", d)
	}
}
