package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"shellgame/model/construct"
	"shellgame/task"
	"shellgame/task/eval"
)

// With FAKE_ACCURACY set the test binary is a command that gives that answer to every eval.
func TestMain(m *testing.M) {
	accuracy, fake := os.LookupEnv("FAKE_ACCURACY")
	if !fake {
		os.Exit(m.Run())
	}
	if code, err := strconv.Atoi(os.Getenv("FAKE_EXIT")); err == nil {
		os.Exit(code)
	}
	args := map[string]string{}
	for i := 3; i+1 < len(os.Args); i += 2 {
		args[os.Args[i]] = os.Args[i+1]
	}
	p, _ := strconv.ParseFloat(accuracy, 64)
	samples, _ := strconv.Atoi(args["--samples"])
	seed, _ := strconv.ParseUint(args["--seed"], 10, 64)
	r := eval.Result{Task: task.Task(args["--task"]), Model: filepath.Base(args["--model"]), Device: args["--device"], Adapter: "fake", Gen: 1, Seed: seed, Samples: samples}
	if d := os.Getenv("FAKE_DEVICE"); d != "" {
		r.Device = d
	}
	for _, n := range strings.Split(args["--levels"], ",") {
		size, _ := strconv.Atoi(n)
		r.Levels = append(r.Levels, eval.Level{N: size, Accuracy: p})
	}
	out, _ := json.Marshal(r)
	fmt.Println(string(out))
}

func zoo(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := construct.Write("st", filepath.Join(dir, "st-constructed")); err != nil {
		t.Fatal(err)
	}
	trained := filepath.Join(dir, "st-hybrid-neg")
	if err := os.Mkdir(trained, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"config.json": "{}", "eval.json": `{"task":"st","arch":"hybrid-neg","samples":2048,"accuracy":{"4":0.9,"8":0.9,"16":0.9,"32":0.9,"64":0.9,"128":0.9}}`,
	} {
		if err := os.WriteFile(filepath.Join(trained, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestAccept(t *testing.T) {
	dir := zoo(t)
	for _, test := range []struct {
		name, accuracy, models, device, exit string
		args                                 []string
		code, rows                           int
		want                                 string
	}{
		{name: "the published score", accuracy: "0.9", models: "st-hybrid-neg", code: 0, rows: 3, want: "z"},
		{name: "a score within the error", accuracy: "0.93", models: "st-hybrid-neg", code: 0, rows: 3, want: "pass"},
		{name: "another score", accuracy: "0.8", models: "st-hybrid-neg", code: 1, rows: 3, want: "FAIL"},
		{name: "every level on a GPU", accuracy: "0.9", models: "st-hybrid-neg", args: []string{"-device", "vulkan"}, code: 0, rows: 6, want: "pass"},
		{name: "levels asked for", accuracy: "0.9", models: "st-hybrid-neg", args: []string{"-levels", "8,32"}, code: 0, rows: 2, want: "pass"},
		{name: "a constructed model", accuracy: "1", models: "st-constructed", code: 0, rows: 8, want: "  512 "},
		{name: "a constructed model that errs", accuracy: "0.996", models: "st-constructed", code: 1, rows: 8, want: "FAIL"},
		{name: "a silent fallback", accuracy: "0.9", models: "st-hybrid-neg", device: "cpu", args: []string{"-device", "vulkan"}, code: 1, rows: 0, want: "it ran on cpu, want vulkan"},
		{name: "no device", accuracy: "0.9", models: "st-*", exit: "3", code: 3, rows: 0, want: "exit status 3"},
		{name: "no such model", accuracy: "0.9", models: "sbr-*", code: 1, rows: 0, want: "found no config.json"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("FAKE_ACCURACY", test.accuracy)
			t.Setenv("FAKE_DEVICE", test.device)
			t.Setenv("FAKE_EXIT", test.exit)
			var out, log bytes.Buffer
			args := append([]string{"-zoo", dir, "-command", os.Args[0], "-models", test.models}, test.args...)
			code := run(context.Background(), args, &out, &log)
			all := out.String() + log.String()
			if rows := max(strings.Count(out.String(), "\n")-1, 0); code != test.code || rows != test.rows || !strings.Contains(all, test.want) {
				t.Errorf("exit %d with %d rows, want %d with %d and %q:\n%s", code, rows, test.code, test.rows, test.want, all)
			}
		})
	}
}

func TestWriteConstructed(t *testing.T) {
	dir := zoo(t)
	t.Setenv("FAKE_ACCURACY", "1")
	var out, log bytes.Buffer
	if code := run(context.Background(), []string{"-zoo", dir, "-command", os.Args[0], "-samples", "250", "-write-constructed"}, &out, &log); code != 1 {
		t.Fatalf("exit %d, want 1, the trained model's score being another:\n%s%s", code, &out, &log)
	}
	data, err := os.ReadFile(filepath.Join(dir, "st-constructed", "eval.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p published
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	if p.Task != task.StateTracking || p.Arch != "constructed" || p.Params == 0 || p.Samples != 250 || len(p.Accuracy) != 8 || p.Accuracy["512"] != 1 || p.Device != "cpu" || p.Adapter != "fake" {
		t.Errorf("got %s", data)
	}
}
