package main

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shellgame/task"
)

const zoo = "../../web/zoo"

// Index and cards are what the generator writes from the checkpoints.
func TestUpToDate(t *testing.T) {
	files, err := build(zoo)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(zoo, name))
		if err != nil {
			t.Errorf("%v: run `go run ./internal/zoocard`", err)
			continue
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is out of date, run `go run ./internal/zoocard` (-want +got):\n%s", name, diff)
		}
	}
	err = filepath.WalkDir(zoo, func(path string, d fs.DirEntry, err error) error {
		if err == nil && (d.Name() == "README.md" || d.Name() == "index.json") {
			name, _ := filepath.Rel(zoo, path)
			if _, ok := files[filepath.ToSlash(name)]; !ok {
				t.Errorf("%s is not one of the generator's files", path)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A card repeats every figure of eval.json and names what failed.
func TestCardIsHonest(t *testing.T) {
	files, err := build(zoo)
	if err != nil {
		t.Fatal(err)
	}
	for name, wants := range map[string][]string{
		"st-gdn-pos":     {"| 4 | 0.9390 | 0.0053 | no, shorter |", "| 128 | 0.2012 | 0.0089 | no, longer |", "At chance, within three standard errors: n = 16, 32, 64, 128.", "One member was trained", "is the best of 3 members, this one had a single try", "refuses an `olmo_hybrid` without attention"},
		"st-hybrid-neg":  {"3 members were trained", "| 1 | 0.001 | 0.940 | 0.456 | 0.183 | 0.193 | 0.190 | 0.200 | |", "`st-hybrid-pos`, had a single try"},
		"sbr-hybrid-neg": {"| 128 | 0.6992 | 0.0101 | no, longer | 0.6904 |", "Solved (0.99 or more): n = 8, 16, 32, 64."},
		"st-transformer": {"2 members were trained", "| 1 | 0.0004 | 0.790 |"},
	} {
		card := string(files[name+"/README.md"])
		for _, want := range append(wants, "MIT", "arXiv 2604.03444", "float16", "2048 fresh programs") {
			if !strings.Contains(card, want) {
				t.Errorf("the card of %s lacks %q", name, want)
			}
		}
	}
	if card := string(files["st-hybrid-neg/README.md"]); strings.Contains(card, "refuses an `olmo_hybrid`") {
		t.Error("the card of a hybrid says that transformers refuses it")
	}
}

// A constructed model's card goes on with its scores once there are some.
func TestConstructedScores(t *testing.T) {
	m, err := load(filepath.Join(zoo, "st-constructed"))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.read([]byte(fmt.Sprintf(`{"task":"st","arch":"constructed","params":%d,"samples":256,"device":"cpu","adapter":"Go","accuracy":{"8":1,"4":0.5}}`, m.Params))); err != nil {
		t.Fatal(err)
	}
	card, err := card(*m)
	if err != nil {
		t.Fatal(err)
	}
	if want := "256 fresh programs per size, on cpu (Go). Chance is 0.2; the error is binomial.\n\n| n | accuracy | error |\n|--:|--:|--:|\n| 4 | 0.5000 | 0.0312 |\n| 8 | 1.0000 | 0.0000 |\n"; !strings.HasSuffix(string(card), want) {
		t.Errorf("got card\n%s\nwant it to end with\n%s", card, want)
	}
	if got, want := m.describe(), "state tracking 1.000 at 8 (chance 0.2)."; !strings.HasSuffix(got, want) {
		t.Errorf("got description %q, want it to end with %q", got, want)
	}
}

// What contradicts itself is refused, not described.
func TestBuildRefuses(t *testing.T) {
	for _, c := range []struct{ file, old, with, want string }{
		{"eval.json", `"params": 1201568`, `"params": 1201569`, "got task st, architecture gdn-neg, 1201569 parameters, want st, gdn-neg, 1201568"},
		{"eval.json", `"task": "st"`, `"task": "sbr"`, "got task sbr"},
		{"eval.json", `"128": 1.0`, `"128": 1.5`, "got accuracy"},
		{"eval.json", `"lr": 0.001`, `"lr": 0.0005`, "got a kept member with learning rate 0.0005"},
		{"eval.json", `"0:2.0:0.001"`, `"0:2.0"`, "got member"},
		{"config.json", `"hidden_size": 128`, `"hidden_size": 64`, "weights: "},
	} {
		dir := t.TempDir()
		for _, name := range []string{"tokenizer.json", "st-gdn-neg/config.json", "st-gdn-neg/eval.json", "st-gdn-neg/model.safetensors"} {
			raw, err := os.ReadFile(filepath.Join(zoo, name))
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Base(name) == c.file {
				changed := strings.Replace(string(raw), c.old, c.with, 1)
				if changed == string(raw) {
					t.Fatalf("%s has no %s", name, c.old)
				}
				raw = []byte(changed)
			}
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := build(dir); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s with %s: got error %v, want %q", c.file, c.with, err, c.want)
		}
	}
}

// The guesses agree with counting every case.
func TestGuesses(t *testing.T) {
	const m = 3
	var recall, pointed, cases float64
	for bits := range 1 << m {
		ones := 0
		for i := range m {
			ones += bits >> i & 1
		}
		recall += float64(max(ones, m-ones)) / m
		for p := range 243 { // five pointers into three bits
			ones := 0
			for v, rest := 0, p; v < task.NumVars; v, rest = v+1, rest/m {
				ones += bits >> (rest % m) & 1
			}
			pointed += float64(max(ones, task.NumVars-ones)) / task.NumVars
			cases++
		}
	}
	if got, want := guesses[task.Recall](m), recall/8; math.Abs(got-want) > 1e-12 {
		t.Errorf("recall: got %v, want %v", got, want)
	}
	if got, want := guesses[task.StateBasedRecall](m), pointed/cases; math.Abs(got-want) > 1e-12 {
		t.Errorf("state-based recall: got %v, want %v", got, want)
	}
}
