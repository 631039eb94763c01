package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"shellgame/model"
	"shellgame/task"
	"shellgame/task/eval"
)

type evalCmd struct {
	deviceFlag
	weightsFlag
	Model     string `help:"Folder with config.json, the weights and, in it or above it, tokenizer.json." required:"" xor:"what" type:"path" placeholder:"DIR"`
	Tokenizer string `help:"Another tokenizer.json." type:"path" placeholder:"FILE"`
	Figure7   bool   `help:"Score the five models that the zoo has for the task, as the paper's Figure 7 does, and say how long it took." required:"" xor:"what" name:"figure7"`
	Zoo       string `help:"Where they are." type:"path" default:"web/zoo" placeholder:"DIR"`

	Task    string `help:"Which task: st, recall or sbr." enum:"st,recall,sbr" required:""`
	Levels  string `help:"Sizes to score, with commas." default:"4,8,16,32,64,128" placeholder:"N,N"`
	Samples int    `help:"Programs a level." default:"256"`
	Seed    uint64 `help:"Seed of the programs." default:"1"`
	JSON    bool   `help:"Print one JSON object."`
}

// levels reads the sizes, refusing what the task cannot make.
func (c *evalCmd) levels() ([]int, error) {
	var list []int
	for _, s := range strings.Split(c.Levels, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil {
			return nil, usage("--levels: got %q, want sizes like 4,8,16", s)
		}
		if err := task.Task(c.Task).CheckLevel(n); err != nil {
			return nil, usage("--levels: %w", err)
		}
		list = append(list, n)
	}
	return list, nil
}

func (c *evalCmd) of() modelFlag { return modelFlag{c.Model, c.Tokenizer, c.weightsFlag} }

func (c *evalCmd) Run(a *app) error {
	levels, err := c.levels()
	if err != nil {
		return err
	}
	if c.Samples < 1 {
		return usage("--samples: got %d, want 1 or more", c.Samples)
	}
	if c.Figure7 {
		return c.figure7(a, levels)
	}
	if err := c.of().programWords(); err != nil {
		return err
	}
	c.otherTask(a)
	var res *eval.Result
	if inBrowser(c.deviceFlag) {
		res, err = evalInBrowser(a, c, levels)
	} else {
		res, err = c.here(a, levels)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return a.printJSON(res)
	}
	fmt.Fprintf(a.out, "%s on %s: %s, %s; %d programs a level, seed %d, generator %d\n", res.Model, task.Task(c.Task).Title(), res.Device, res.Adapter, res.Samples, res.Seed, res.Gen)
	for _, l := range res.Levels {
		fmt.Fprintf(a.out, "n = %3d  %.4f ± %.4f\n", l.N, l.Accuracy, l.Stderr)
	}
	return nil
}

// otherTask says so when the checkpoint's own eval.json is of another task.
func (c *evalCmd) otherTask(a *app) {
	data, err := os.ReadFile(filepath.Join(c.Model, "eval.json"))
	if err != nil {
		return
	}
	var made struct {
		Task string `json:"task"`
	}
	if err := json.Unmarshal(data, &made); err == nil && made.Task != "" && made.Task != c.Task {
		a.note("shellgame: %s was trained for --task %s, this scores it on %s", filepath.Base(c.Model), made.Task, c.Task)
	}
}

func (c *evalCmd) here(a *app, levels []int) (*eval.Result, error) {
	dev, m, err := begin(a, c.deviceFlag, c.of())
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	return c.score(a, m, levels)
}

func (c *evalCmd) score(a *app, m *model.Model, levels []int) (*eval.Result, error) {
	bar := a.bar("answering", false)
	defer bar.Exit()
	return eval.Run(a.ctx, m, eval.Options{Task: task.Task(c.Task), Levels: levels, Samples: c.Samples, Seed: c.Seed, Progress: func(done, total int) {
		bar.ChangeMax(total)
		bar.Set(done)
	}})
}
