package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"shellgame/model"
	"shellgame/task"
	"shellgame/task/playback"
)

type traceCmd struct {
	deviceFlag
	modelFlag
	State   string `help:"Which steps keep the recurrent state: all, every=N or last." default:"all"`
	Belief  bool   `help:"Ask the model for every variable at the end of each statement, on the side."`
	Program string `arg:"" help:"The program; one line will do."`
}

// keepStates reads --state: which of the steps keep the state, nil for all.
func keepStates(state string, steps int) (func(t int) bool, error) {
	switch every, ok := strings.CutPrefix(state, "every="); {
	case state == "all":
		return nil, nil
	case state == "last":
		return func(t int) bool { return t == steps-1 }, nil
	case ok:
		n, err := strconv.Atoi(every)
		if err == nil && n > 0 {
			return func(t int) bool { return (t+1)%n == 0 || t == steps-1 }, nil
		}
	}
	return nil, usage("--state: got %q, want all, every=N or last", state)
}

func (c *traceCmd) Run(a *app) error {
	if _, err := keepStates(c.State, 1); err != nil {
		return err
	}
	p, err := task.Parse(c.Program)
	if err != nil {
		return fmt.Errorf("program: %w", err)
	}
	if err := playback.Check(p, math.MaxInt); err != nil {
		return err
	}
	keep, err := keepStates(c.State, len(p.Tokens()))
	if err != nil {
		return err
	}
	if err := c.programWords(); err != nil {
		return err
	}
	dev, m, err := begin(a, c.deviceFlag, c.modelFlag)
	if err != nil {
		return err
	}
	defer dev.Close()
	r, err := playback.Runner(m, len(p.Tokens()), c.Belief, model.Switches{})
	if err != nil {
		return err
	}
	b, err := playback.New(r, p, playback.Options{Belief: c.Belief})
	if err != nil {
		return err
	}
	for !b.Done() {
		if _, err := b.Step(a.ctx); err != nil {
			return err
		}
		if _, err := b.Ask(a.ctx); err != nil {
			return err
		}
	}
	return b.Trace(keep).Write(a.out)
}
