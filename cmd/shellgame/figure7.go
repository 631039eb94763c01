package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"shellgame/task"
	"shellgame/task/eval"
	"shellgame/webgpu"
)

// started is when this process began.
var started = time.Now()

// figure7 is what `eval --figure7 --json` prints.
type figure7 struct {
	Task      task.Task      `json:"task"`
	Device    string         `json:"device"`
	Adapter   string         `json:"adapter"`
	Gen       int            `json:"gen"`
	Seed      uint64         `json:"seed"`
	Samples   int            `json:"samples"`
	Open      float64        `json:"open"`      // seconds until the device was open and had passed its self-test
	Seconds   float64        `json:"seconds"`   // since the process began
	Compile   float64        `json:"compile"`   // seconds of all that were spent on pipelines
	Pipelines int            `json:"pipelines"` // compiled, the self-test's included
	Models    []figure7Model `json:"models"`
}

type figure7Model struct {
	Model  string       `json:"model"`
	Load   float64      `json:"load"` // seconds
	Eval   float64      `json:"eval"` // seconds
	Levels []eval.Level `json:"levels"`
}

// trained lists the zoo's models for a task that were trained, in the zoo's order.
func trained(zoo string, t task.Task) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(zoo, "index.json"))
	if err != nil {
		return nil, fmt.Errorf("--zoo: %w", err)
	}
	var index struct {
		Models []struct {
			Name        string    `json:"name"`
			Task        task.Task `json:"task"`
			Constructed bool      `json:"constructed"`
		} `json:"models"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, fmt.Errorf("--zoo: index.json: %w", err)
	}
	var names []string
	for _, m := range index.Models {
		if m.Task == t && !m.Constructed {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("--zoo %s: index.json has no trained model for --task %s", zoo, t)
	}
	return names, nil
}

func (c *evalCmd) figure7(a *app, levels []int) error {
	if inBrowser(c.deviceFlag) {
		return usage("--figure7: got --device browser, want a device of this process: the page's Accuracy view measures the same")
	}
	t := task.Task(c.Task)
	names, err := trained(c.Zoo, t)
	if err != nil {
		return err
	}
	dev, err := c.open(a)
	if err != nil {
		return err
	}
	defer dev.Close()
	info := dev.Info()
	res := figure7{Task: t, Device: info.Kind, Adapter: info.Adapter, Gen: task.GenVersion, Seed: c.Seed, Samples: c.Samples, Open: time.Since(started).Seconds()}
	for _, name := range names {
		m, err := c.figure7Model(a, modelFlag{filepath.Join(c.Zoo, name), c.Tokenizer, c.weightsFlag}, dev, levels)
		if err != nil {
			return err
		}
		res.Models = append(res.Models, *m)
	}
	counts := dev.Counts()
	res.Pipelines, res.Compile = counts.Pipelines, counts.Compiling.Seconds()
	res.Seconds = time.Since(started).Seconds()
	if c.JSON {
		return a.printJSON(res)
	}
	fmt.Fprintf(a.out, "%s on %s, %s; %d programs a level, seed %d, generator %d\n%-20s", t.Title(), res.Device, res.Adapter, res.Samples, res.Seed, res.Gen, "n")
	for _, n := range levels {
		fmt.Fprintf(a.out, "%7d", n)
	}
	for _, m := range res.Models {
		fmt.Fprintf(a.out, "\n%-20s", m.Model)
		for _, l := range m.Levels {
			fmt.Fprintf(a.out, "%7.3f", l.Accuracy)
		}
	}
	fmt.Fprintf(a.out, "\n%.2f s, %.2f of them to open the device and %.2f to compile %d pipelines\n", res.Seconds, res.Open, res.Compile, res.Pipelines)
	return nil
}

func (c *evalCmd) figure7Model(a *app, f modelFlag, dev webgpu.Device, levels []int) (*figure7Model, error) {
	start := time.Now()
	if err := f.programWords(); err != nil {
		return nil, err
	}
	m, err := f.load(a, dev)
	if err != nil {
		return nil, err
	}
	defer m.Release()
	out := &figure7Model{Model: f.name(), Load: time.Since(start).Seconds()}
	start = time.Now()
	res, err := c.score(a, m, levels)
	if err != nil {
		return nil, err
	}
	out.Eval, out.Levels = time.Since(start).Seconds(), res.Levels
	return out, nil
}
