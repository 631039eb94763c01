// Accept scores the zoo's checkpoints with the command and compares the scores with what eval.json
// beside each says:
//
//	go run ./internal/accept [-device vulkan|cpu|browser|...] [-levels N,N] [-samples 256] [-seed 1]
//	    [-models GLOB] [-zoo web/zoo] [-command COMMAND] [-write-constructed]
//
// It prints a row a model and level, and exits with 1 where a trained model's score differs by
// |z| > 4 or a constructed model gives a wrong answer, with the command's own code where that
// failed. Without -levels it takes all of a task's on a GPU and those up to 16 on the CPU and in
// the browser; constructed models, which are small, are asked at every level anyway, st-constructed
// up to 512. Without -command it builds the command from this tree; the browser needs dist/.
//
// -write-constructed writes the constructed models' scores to their eval.json; internal/zoocard
// puts them into cards and index.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shellgame/model/safetensors"
	"shellgame/task"
	"shellgame/task/eval"
)

// bound is the largest |z| between two measurements of the same accuracy that is no surprise.
const bound = 4

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

type accept struct {
	device, levels, models, zoo, command string
	samples                              int
	seed                                 uint64
	write                                bool

	out, log io.Writer
	failed   int
}

func run(ctx context.Context, args []string, out, log io.Writer) int {
	a := &accept{out: out, log: log}
	flags := flag.NewFlagSet("accept", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&a.device, "device", "cpu", "what computes, as the command's --device")
	flags.StringVar(&a.levels, "levels", "", "sizes, with commas; default by device")
	flags.StringVar(&a.models, "models", "*", "which models, as a pattern of file names")
	flags.StringVar(&a.zoo, "zoo", filepath.Join("web", "zoo"), "folder of the zoo")
	flags.StringVar(&a.command, "command", "", "the command, and what stands before its arguments; default is to build it")
	flags.IntVar(&a.samples, "samples", 256, "programs a level")
	flags.Uint64Var(&a.seed, "seed", 1, "seed of the programs")
	flags.BoolVar(&a.write, "write-constructed", false, "write the constructed models' eval.json")
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return 2
	}
	err := a.all(ctx)
	var exit *exec.ExitError
	switch {
	case err == nil && a.failed == 0:
		return 0
	case err == nil:
		fmt.Fprintf(log, "accept: %d scores are not those of eval.json\n", a.failed)
		return 1
	case ctx.Err() != nil:
		return 130
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		fmt.Fprintf(log, "accept: %v\n", err)
		return exit.ExitCode()
	}
	fmt.Fprintf(log, "accept: %v\n", err)
	return 1
}

func (a *accept) all(ctx context.Context) error {
	configs, err := filepath.Glob(filepath.Join(a.zoo, a.models, "config.json"))
	if err != nil {
		return fmt.Errorf("-models: %w", err)
	}
	if len(configs) == 0 {
		return fmt.Errorf("found no config.json in %s, want models", filepath.Join(a.zoo, a.models))
	}
	if a.command == "" {
		dir, err := os.MkdirTemp("", "shellgame-accept-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		a.command = filepath.Join(dir, "shellgame")
		build := exec.CommandContext(ctx, "go", "build", "-o", a.command, "./cmd/shellgame")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		build.Stderr = a.log
		if err := build.Run(); err != nil {
			return fmt.Errorf("building the command: %w", err)
		}
	}
	fmt.Fprintf(a.out, "%-20s %5s  %-16s %9s %7s\n", "model", "n", "accuracy", "eval.json", "z")
	for _, path := range configs {
		if err := a.model(ctx, filepath.Dir(path)); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(filepath.Dir(path)), err)
		}
	}
	return nil
}

// published is an eval.json.
type published struct {
	Task     task.Task          `json:"task"`
	Arch     string             `json:"arch"`
	Params   int                `json:"params"`
	Samples  int                `json:"samples"`
	Accuracy map[string]float64 `json:"accuracy"`
	Device   string             `json:"device,omitempty"`
	Adapter  string             `json:"adapter,omitempty"`
}

// model scores one checkpoint, in a folder named TASK-ARCH.
func (a *accept) model(ctx context.Context, dir string) error {
	name := filepath.Base(dir)
	prefix, arch, _ := strings.Cut(name, "-")
	t, err := task.ParseTask(prefix)
	if err != nil {
		return err
	}
	constructed := arch == "constructed"
	var want published
	if !constructed {
		data, err := os.ReadFile(filepath.Join(dir, "eval.json"))
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, &want); err != nil {
			return fmt.Errorf("eval.json: %w", err)
		}
	}
	levels := a.levels
	if levels == "" {
		levels = defaultLevels(t, constructed, a.device)
	}
	got, took, err := a.eval(ctx, t, dir, levels)
	if err != nil {
		return err
	}
	if got.Device != a.device && a.device != "auto" {
		return fmt.Errorf("it ran on %s, want %s", got.Device, a.device)
	}
	if asked := strings.Count(levels, ",") + 1; len(got.Levels) != asked || got.Samples != a.samples || got.Seed != a.seed || got.Task != t {
		return fmt.Errorf("got %d levels of %s, %d samples, seed %d, want %d, %s, %d, %d", len(got.Levels), got.Task, got.Samples, got.Seed, asked, t, a.samples, a.seed)
	}
	for _, l := range got.Levels {
		ours := fmt.Sprintf("%.4f ± %.4f", l.Accuracy, l.Stderr)
		if constructed {
			a.row(l.Accuracy == 1, "%-20s %5d  %-16s %9s %7s", name, l.N, ours, "exact", "")
			continue
		}
		theirs, ok := want.Accuracy[strconv.Itoa(l.N)]
		if !ok {
			a.row(true, "%-20s %5d  %-16s %9s %7s", name, l.N, ours, "none", "")
			continue
		}
		z := eval.Z(l.Accuracy, got.Samples, theirs, want.Samples)
		a.row(math.Abs(z) <= bound, "%-20s %5d  %-16s %9.4f %+7.2f", name, l.N, ours, theirs, z)
	}
	fmt.Fprintf(a.log, "%s: %.1f s on %s, %s\n", name, took.Seconds(), got.Device, got.Adapter)
	if constructed && a.write {
		return writeScores(dir, t, arch, got)
	}
	return nil
}

func (a *accept) row(pass bool, format string, args ...any) {
	verdict := "pass"
	if !pass {
		verdict = "FAIL"
		a.failed++
	}
	fmt.Fprintf(a.out, format+"  %s\n", append(args, verdict)...)
}

func defaultLevels(t task.Task, constructed bool, device string) string {
	levels := t.Levels()
	switch {
	case constructed && t == task.StateTracking:
		levels = append(slices.Clone(levels), 256, 512)
	case constructed:
	case device == "cpu" || device == "browser":
		levels = []int{4, 8, 16}
	}
	text := make([]string, len(levels))
	for i, n := range levels {
		text[i] = strconv.Itoa(n)
	}
	return strings.Join(text, ",")
}

// eval runs the command and reads the one JSON object that it prints.
func (a *accept) eval(ctx context.Context, t task.Task, dir, levels string) (*eval.Result, time.Duration, error) {
	words := append(strings.Fields(a.command), "eval", "--json", "--device", a.device, "--task", string(t), "--model", dir,
		"--levels", levels, "--samples", strconv.Itoa(a.samples), "--seed", strconv.FormatUint(a.seed, 10))
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, a.log
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", strings.Join(words, " "), err)
	}
	var r eval.Result
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return nil, 0, fmt.Errorf("%s: it printed %.60q, want a JSON object: %w", strings.Join(words, " "), out.String(), err)
	}
	return &r, time.Since(start), nil
}

// writeScores writes a constructed model's eval.json in the zoo's form.
func writeScores(dir string, t task.Task, arch string, r *eval.Result) error {
	ck, err := safetensors.OpenCheckpoint(safetensors.Dir(dir))
	if err != nil {
		return err
	}
	defer ck.Close()
	p := published{Task: t, Arch: arch, Samples: r.Samples, Accuracy: map[string]float64{}, Device: r.Device, Adapter: r.Adapter}
	for _, name := range ck.Names() {
		x, _ := ck.Tensor(name)
		p.Params += x.Elems()
	}
	for _, l := range r.Levels {
		p.Accuracy[strconv.Itoa(l.N)] = l.Accuracy
	}
	data, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "eval.json"), append(data, '\n'), 0o644)
}
