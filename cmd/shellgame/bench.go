package main

import (
	"fmt"
	"slices"
	"time"

	"shellgame/internal/version"
	"shellgame/model"
	"shellgame/model/check"
)

type benchCmd struct {
	deviceFlag
	modelFlag
	Tokens  int  `help:"Tokens read in the play whose dispatches are timed; 1 is a step." default:"1"`
	Past    int  `help:"Tokens read before it." default:"32"`
	Repeats int  `help:"Dispatches in one submission." default:"20"`
	Plays   int  `help:"Submissions, of which the median is taken." default:"9"`
	Trace   bool `help:"Also read back what a trace holds, as the page does."`
	JSON    bool `help:"Print one JSON object."`
}

// benchResult is what `shellgame bench --json` prints; times are microseconds.
type benchResult struct {
	Device  string      `json:"device"`
	Adapter string      `json:"adapter"`
	Driver  string      `json:"driver"`
	Commit  string      `json:"commit"`
	Model   string      `json:"model"`
	Tokens  int         `json:"tokens"`
	Past    int         `json:"past"`
	Play    float64     `json:"play_us"` // a whole play with its read-back, median
	Ops     []benchTime `json:"ops"`
}

type benchTime struct {
	Op     string  `json:"op"`
	Kernel string  `json:"kernel"`
	Time   float64 `json:"us"`
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func (c *benchCmd) Run(a *app) error {
	if c.Tokens < 1 || c.Past < 0 || c.Repeats < 1 || c.Plays < 1 {
		return usage("bench: want at least one token, repeat and play")
	}
	dev, m, err := begin(a, c.deviceFlag, c.modelFlag)
	if err != nil {
		return err
	}
	defer dev.Close()
	// A time is only worth printing where the numbers are right.
	if err := check.Trust(a.ctx, dev); err != nil {
		return err
	}
	positions := c.Past + c.Tokens*(c.Plays+4) + 1
	r, err := m.NewRunner(model.Options{Tokens: max(c.Tokens, c.Past), Positions: positions, Rows: 2 * positions, Slots: 3, Seqs: 1, Trace: c.Trace})
	if err != nil {
		return err
	}
	ids := make([]int, max(c.Tokens, c.Past))
	for i := range ids {
		ids[i] = (7*i + 3) % m.Config.N
	}
	s := r.NewSession()
	if c.Past > 0 {
		if _, err := s.Prefill(a.ctx, ids[:c.Past], false); err != nil {
			return err
		}
	}
	in := func() []model.Input { return []model.Input{{Session: s, IDs: ids[:c.Tokens], Want: model.Last}} }
	play, err := median(c.Plays, func() error {
		if c.Trace && c.Tokens == 1 {
			_, err := s.TraceStep(a.ctx, ids[0])
			return err
		}
		_, err := r.Play(a.ctx, in(), false)
		return err
	})
	if err != nil {
		return err
	}
	ops, err := r.TimeOps(a.ctx, in(), c.Repeats, c.Plays)
	if err != nil {
		return err
	}
	info := dev.Info()
	res := benchResult{Device: info.Kind, Adapter: info.Adapter, Driver: info.Driver, Commit: version.Commit(), Model: m.Name, Tokens: c.Tokens, Past: c.Past, Play: us(play)}
	for _, o := range ops {
		res.Ops = append(res.Ops, benchTime{o.Op, o.Kernel, us(o.Time)})
	}
	if c.JSON {
		return a.printJSON(res)
	}
	fmt.Fprintf(a.out, "%s, %s, %s; commit %s\n%s: %d tokens after %d, whole play %.0f µs\n", res.Device, res.Adapter, res.Driver, res.Commit, res.Model, res.Tokens, res.Past, res.Play)
	for _, o := range res.Ops {
		fmt.Fprintf(a.out, "%10.1f µs  %-24s %s\n", o.Time, o.Op, o.Kernel)
	}
	return nil
}

// median times f n times after two runs to warm up.
func median(n int, f func() error) (time.Duration, error) {
	times := make([]time.Duration, 0, n)
	for i := range n + 2 {
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		if i >= 2 {
			times = append(times, time.Since(start))
		}
	}
	return middle(times), nil
}

func middle(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}
