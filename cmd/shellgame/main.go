// Command shellgame runs small Gated-DeltaNet / attention models on WebGPU: it serves the
// playground, checks checkpoints and devices, scores models, and traces what they do.
//
// Exit codes: 0 done and passed, 1 failed check or bad input, 2 usage, 3 device missing,
// 130 interrupted. Results go to stdout, progress and notes to stderr.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/alecthomas/kong"

	"shellgame/internal/version"
	"shellgame/model/construct"
	"shellgame/webgpu"
)

// Exit codes of the command.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNoDevice    = 3
	exitInterrupted = 130
)

// cli is the command line.
type cli struct {
	Version kong.VersionFlag `help:"Print the version and exit."`

	Serve     serveCmd     `cmd:"" help:"Serve the playground on this machine."`
	Verify    verifyCmd    `cmd:"" help:"Compare checkpoints with their golden files."`
	Eval      evalCmd      `cmd:"" help:"Score a checkpoint on a task."`
	Run       runCmd       `cmd:"" help:"Generate from a prompt."`
	Trace     traceCmd     `cmd:"" help:"Print all that a model does with a program, as JSON."`
	Inspect   inspectCmd   `cmd:"" help:"Tell states, gates and the strongest heads of a prompt."`
	Check     checkCmd     `cmd:"" help:"Test this device's kernels against plain Go."`
	Weights   weightsCmd   `cmd:"" help:"Compare a checkpoint's logits with those of smaller weights."`
	Bench     benchCmd     `cmd:"" help:"Time a kernel after its check passed."`
	Construct constructCmd `cmd:"" help:"Write a model that nobody trained."`
	Window    windowCmd    `cmd:"" help:"Show the stage in a window of its own."`
}

// app is what commands run with.
type app struct {
	ctx      context.Context
	out, err io.Writer
}

// errFailed says that a check ran and failed: its results are already printed.
var errFailed = errors.New("failed")

// usageError is a flag or an argument that the command cannot take.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run parses args, runs the command and returns its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	var c cli
	code := -1
	parser, err := kong.New(&c,
		kong.Name("shellgame"),
		kong.Description("A playground where people watch a hybrid language model think."),
		kong.Vars{"version": "shellgame " + version.String(), "shapes": strings.Join(construct.Shapes(), ", ")},
		kong.Writers(stdout, stderr),
		kong.Exit(func(n int) { code = n }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "shellgame:", err)
		return exitUsage
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	k, err := parser.Parse(args)
	if code >= 0 { // --help or --version
		return code
	}
	if err != nil {
		return notUsable(stderr, err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	err = k.Run(&app{ctx, stdout, stderr})
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "shellgame: interrupted")
		return exitInterrupted
	case errors.Is(err, errFailed):
		return exitFailed
	case errors.As(err, new(usageError)):
		return notUsable(stderr, err)
	case errors.Is(err, webgpu.ErrNoAdapter):
		fmt.Fprintf(stderr, "shellgame: %s\n", oneLine(err))
		return exitNoDevice
	}
	fmt.Fprintf(stderr, "shellgame: %s\n", oneLine(err))
	return exitFailed
}

func notUsable(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "shellgame: %s; see shellgame --help\n", oneLine(err))
	return exitUsage
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// printJSON writes one JSON object to stdout.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func (a *app) note(format string, args ...any) { fmt.Fprintf(a.err, format+"\n", args...) }
