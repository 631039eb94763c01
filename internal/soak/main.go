// Soak reads programs that do not end, token by token, and watches what must not grow:
//
//	go run ./internal/soak [-device cpu|vulkan] [-model web/zoo/st-constructed] [-steps 100000]
//
// Beside the session that steps, a second one reads the same tokens as prompts, by the chunked delta
// rule unless a GPU's interface computes on a CPU. At each of -checks points the recurrent states and the logits
// of the two are compared, and the Go heap after a collection, the process's memory, goroutines, open
// files and live device buffers are noted; from the second point on none of them may grow. Models of
// the delta rule alone read one program; those with attention begin another every -restart tokens.
//
// What a trained model keeps of its state decays, and so does what a rounding did to it: the RMS of
// the difference stays within forgets of the state's at any length. A constructed model (its name ends
// in -constructed) keeps its state for good, and its state's few values repeat, so that roundings add
// up instead of cancelling: four of at most 2^-24 a step (the read, u, the product, the sum) are at
// most 2^-22·t after t steps. It must also answer rightly at each point.
//
// Exit codes: 0 passed, 1 failed, 2 usage, 130 interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"shellgame/model"
	"shellgame/model/check"
	"shellgame/model/config"
	"shellgame/model/safetensors"
	"shellgame/task"
	"shellgame/webgpu"
)

// forgets bounds a relative difference that does not add up over the steps: what a prompt's other
// order of sums costs a model of several layers.
const forgets = 1e-4

// room is for a question and its answer at the end of a text.
const room = 8

// What may come and go between two points without being a leak.
const (
	heapSlack = 256 << 10 // bytes
	rssSlack  = 16 << 20  // the allocator's and the driver's own arenas
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, log io.Writer) int {
	var s soak
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(log)
	device := flags.String("device", "cpu", "what computes, as the command's --device")
	dir := flags.String("model", filepath.Join("web", "zoo", "st-constructed"), "the checkpoint's folder")
	flags.IntVar(&s.steps, "steps", 100_000, "tokens to read")
	flags.IntVar(&s.restart, "restart", 1024, "tokens of a program, where there is attention")
	flags.IntVar(&s.checks, "checks", 20, "points at which to look")
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return 2
	}
	if s.checks < 3 || s.steps < 2*s.checks || s.restart < 64 {
		fmt.Fprintln(log, "soak: want at least 3 checks, 2 steps for each and 64 tokens a program")
		return 2
	}
	s.out = out
	err := s.all(ctx, *device, *dir)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		return 130
	}
	fmt.Fprintf(log, "soak: %v\n", err)
	return 1
}

type soak struct {
	steps, restart, checks int
	out                    io.Writer

	dev       webgpu.Device
	m         *model.Model
	slow      *model.Runner // token by token
	fast      *model.Runner // prompts
	attention bool
	text      stream
	a, b      *model.Session // of slow and fast
	rooms     [2][]int       // for their tokens
	pending   []int          // read by a, not yet by b
}

func (s *soak) all(ctx context.Context, device, dir string) error {
	opened, err := check.Open(ctx, device)
	if err != nil {
		return err
	}
	s.dev = opened.Device
	open := true
	defer func() {
		if open {
			s.dev.Close()
		}
	}()
	name := filepath.Base(dir)
	if s.m, err = model.Open(ctx, s.dev, name, safetensors.Dir(dir), nil); err != nil {
		return err
	}
	kind, _, _ := strings.Cut(name, "-")
	if s.text.task, err = task.ParseTask(kind); err != nil {
		return fmt.Errorf("-model %s: %w: want a folder whose name begins with its task", dir, err)
	}
	s.attention = slices.ContainsFunc(s.m.Config.Layers, func(l config.Layer) bool { return l.Kind == config.Attention })
	o := model.Options{Tokens: 1, Seqs: 1, Slots: 2, Positions: s.steps + room, Rows: 1}
	if s.attention {
		o.Positions = s.restart + room
		o.Rows = o.Positions
	}
	if s.slow, err = s.m.NewRunner(o); err != nil {
		return err
	}
	o.Tokens = 512
	if info := s.dev.Info(); info.Kind == "cpu" || !info.Software {
		o.ChunkFrom = 2
	} // else as the product does: lavapipe of Mesa 22.3 loses half a megabyte a dispatch of gdn_chunk
	if s.fast, err = s.m.NewRunner(o); err != nil {
		return err
	}
	began := time.Now()
	err = s.read(ctx)
	if err == nil {
		fmt.Fprintf(s.out, "%s on %s: %d steps in %v\n", name, s.dev.Info().Adapter, s.steps, time.Since(began).Round(time.Second))
	}
	s.slow.Release()
	s.fast.Release()
	s.m.Release()
	open = false
	s.dev.Close()
	if live := s.dev.Counts().Live; live != 0 && err == nil {
		err = fmt.Errorf("%d buffers are left after the device was closed, want none", live)
	}
	return err
}

func (s *soak) read(ctx context.Context) error {
	s.begin()
	fmt.Fprintf(s.out, "%9s %9s %9s %10s %10s %8s %6s %6s %8s %s\n", "step", "heap KiB", "RSS MiB", "state", "logits", "bound", "gorout", "files", "buffers", "answer")
	var base use
	for i := range s.checks {
		until := s.steps * (i + 1) / s.checks
		seen, err := s.upTo(ctx, s.steps*i/s.checks, until)
		if err != nil {
			return fmt.Errorf("step %d: %w", until, err)
		}
		if seen.t == 0 {
			return fmt.Errorf("step %d: nothing was compared: want more steps for each of the %d points", until, s.checks)
		}
		now := measure(s.dev)
		fmt.Fprintf(s.out, "%9d %9.1f %9.1f %10.2e %10.2e %8.1e %6d %6d %8d %s\n", until, float64(now.heap)/1024, float64(now.rss)/(1<<20),
			seen.state, seen.logits, seen.bound, now.goroutines, now.files, now.buffers, seen.answer)
		if seen.err != nil {
			return fmt.Errorf("step %d: %w", until, seen.err)
		}
		if i == 1 {
			base = now
		} else if i > 1 {
			if err := now.against(base); err != nil {
				return fmt.Errorf("step %d: %w", until, err)
			}
		}
	}
	return nil
}

// begin starts a program in both sessions.
func (s *soak) begin() {
	for _, old := range []*model.Session{s.a, s.b} {
		if old != nil {
			old.Release()
		}
	}
	s.a, s.b = s.slow.NewSession(), s.fast.NewSession()
	// Sessions remember what they have read: room for all, and used, so that what grows is a leak.
	for i, session := range []*model.Session{s.a, s.b} {
		if s.rooms[i] == nil {
			s.rooms[i] = slices.Repeat([]int{-1}, s.slow.Opts.Positions)
		}
		session.IDs = s.rooms[i][:0]
	}
	s.pending = s.pending[:0]
	s.text.begin()
}

// upTo steps over the tokens from one number to another and compares at the end of each program of a
// model with attention, else at the end. It returns the worst that it saw.
func (s *soak) upTo(ctx context.Context, from, to int) (seen seen, err error) {
	for i := from; i < to; i++ {
		id := s.text.next()
		out, err := s.a.Step(ctx, id, true)
		if err != nil {
			return seen, err
		}
		s.pending = append(s.pending, id)
		if n := len(s.a.IDs); s.attention && n == s.restart || !s.attention && i == to-1 {
			logits := slices.Clone(out.Logits)
			if err := s.compare(ctx, logits, &seen); err != nil || seen.err != nil {
				return seen, err
			}
			if s.attention {
				s.begin()
			}
		}
	}
	return seen, nil
}

func (s *soak) constructed() bool { return strings.HasSuffix(s.m.Name, "-constructed") }

// seen is the worst of what was compared.
type seen struct {
	t             int // length of the text, 0 where nothing was compared
	state, logits float64
	bound         float64
	answer        string
	err           error
}

func (s *soak) compare(ctx context.Context, logits []float32, seen *seen) error {
	c := s.m.Config
	out, err := s.b.Prefill(ctx, s.pending, true)
	if err != nil {
		return err
	}
	s.pending = s.pending[:0]
	seen.t = len(s.a.IDs)
	seen.logits = max(seen.logits, distance(out.Logits[:c.N], logits))
	for i, l := range c.Layers {
		if l.Kind != config.GDN {
			continue
		}
		x, err := s.a.State(ctx, i)
		if err != nil {
			return err
		}
		y, err := s.b.State(ctx, i)
		if err != nil {
			return err
		}
		seen.state = max(seen.state, distance(x, y))
	}
	seen.bound = forgets
	if s.constructed() {
		seen.bound += math.Exp2(-22) * float64(seen.t)
	}
	// NaN compares false with everything.
	if !(seen.state <= seen.bound) || !(seen.logits <= seen.bound) {
		seen.err = fmt.Errorf("step by step the state differs by %.2e and the logits by %.2e from a prompt's, want at most %.2e", seen.state, seen.logits, seen.bound)
	}
	ask, want := s.text.ask()
	fork := s.a.Fork()
	defer fork.Release()
	var got int
	for _, id := range ask {
		out, err := fork.Step(ctx, int(id), false)
		if err != nil {
			return err
		}
		got = out.Top(0, 0).ID
	}
	seen.answer = "right"
	if got != want {
		seen.answer = fmt.Sprintf("%s, not %s", task.Word(int32(got)), task.Word(int32(want)))
		if s.constructed() && seen.err == nil {
			seen.err = fmt.Errorf("the model answers %s", seen.answer)
		}
	}
	return nil
}

// distance is the RMS of a difference relative to the RMS of y; NaN where either is not finite.
func distance(x, y []float32) float64 {
	var d, n float64
	for i := range x {
		e := float64(x[i]) - float64(y[i])
		d += e * e
		n += float64(y[i]) * float64(y[i])
	}
	if d == 0 {
		return 0
	}
	return math.Sqrt(d / n)
}

// stream is a program without end: what a generated one begins with, and its swaps, then those of
// the next.
type stream struct {
	task  task.Task
	index uint64
	ids   []int32
	at    int
	vars  [task.NumVars]int
	bits  []uint8
	swaps []task.Stmt
	head  int // tokens before the first swap of ids
	turn  uint64
}

func (s *stream) begin() {
	s.ids, s.at = s.ids[:0], 0
	s.turn++
	s.more(true)
}

const swapsOfOne = 128 // what every task takes

func (s *stream) more(first bool) {
	p := task.Generate(s.task, swapsOfOne, s.turn, s.index)
	s.index++
	ids, stmts := p.IDs(), p.Stmts()
	from := slices.IndexFunc(stmts, func(st task.Stmt) bool { return st.Kind == task.KindSwap })
	to := from
	for to < len(stmts) && stmts[to].Kind == task.KindSwap {
		to++
	}
	s.swaps = stmts[from:to]
	s.head = stmts[from].First
	end := s.head + len(s.swaps)
	if first {
		before := p.After(from - 1)
		for v := range s.vars {
			s.vars[v] = int(before.Vars[v])
		}
		s.bits = before.Bits
		s.ids, s.at = ids[:end], 0
		return
	}
	s.ids, s.at = ids[:end], s.head
}

// next returns the next token; the truth is that after it.
func (s *stream) next() int {
	if s.at == len(s.ids) {
		s.more(false)
	}
	if i := s.at - s.head; i >= 0 {
		x, y := s.swaps[i].X, s.swaps[i].Y
		s.vars[x], s.vars[y] = s.vars[y], s.vars[x]
	}
	s.at++
	return int(s.ids[s.at-1])
}

// ask returns a question and the word that is its true answer.
func (s *stream) ask() (ids []int32, want int) {
	v := task.Var(s.at % task.NumVars)
	if s.bits != nil {
		return task.AskBit(v), int(task.NumberID(int(s.bits[s.vars[v]])))
	}
	return task.AskVar(v), int(task.NumberID(s.vars[v]))
}

// use is what a process holds.
type use struct {
	heap, rss                  int // bytes; rss is 0 where the system does not tell
	goroutines, files, buffers int
}

func measure(dev webgpu.Device) use {
	runtime.GC()
	runtime.GC() // what finalizers of the first let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u := use{heap: int(m.HeapAlloc), goroutines: runtime.NumGoroutine(), buffers: dev.Counts().Live}
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(statm)); len(f) > 1 {
			pages, _ := strconv.Atoi(f[1])
			u.rss = pages * os.Getpagesize()
		}
	}
	if list, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.files = len(list)
	}
	return u
}

// against says what has grown since an earlier time.
func (u use) against(base use) error {
	var errs []error
	grown := func(what string, got, was, slack int) {
		if got > was+slack {
			errs = append(errs, fmt.Errorf("%s grew from %d to %d, want at most %d more", what, was, got, slack))
		}
	}
	grown("the heap", u.heap, base.heap, heapSlack)
	grown("the process's memory", u.rss, base.rss, rssSlack)
	grown("the number of goroutines", u.goroutines, base.goroutines, 0)
	grown("the number of open files", u.files, base.files, 0)
	grown("the number of buffers", u.buffers, base.buffers, 0)
	return errors.Join(errs...)
}
