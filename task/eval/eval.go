// Package eval measures how often a model answers a task's programs rightly: the numbers of
// Figure 7 of "Olmo Hybrid: From Theory to Practice and Back" (arXiv 2604.03444).
package eval

import (
	"context"
	"fmt"
	"math"

	"shellgame/model"
	"shellgame/task"
)

// Options say what to measure. Zero values take the defaults.
type Options struct {
	Task     task.Task
	Levels   []int // default the task's own
	Samples  int   // programs a level; default 256
	Seed     uint64
	Tokens   int                   // packed tokens a play; default 4096
	Progress func(done, total int) // programs answered, over all levels; may be nil
}

// Level is the outcome at one size.
type Level struct {
	N        int     `json:"n"`
	Accuracy float64 `json:"accuracy"`
	Stderr   float64 `json:"stderr"` // binomial standard error of Accuracy
}

// Result is what `shellgame eval --json` prints.
type Result struct {
	Task    task.Task `json:"task"`
	Model   string    `json:"model"`
	Device  string    `json:"device"`
	Adapter string    `json:"adapter"`
	Gen     int       `json:"gen"` // generator version of the programs
	Seed    uint64    `json:"seed"`
	Samples int       `json:"samples"`
	Levels  []Level   `json:"levels"`
}

// Run scores the model: at every level it makes fresh programs without intermediate asserts, reads
// each up to its last ==, and counts the answers whose most probable next token is the true one.
func Run(ctx context.Context, m *model.Model, o Options) (*Result, error) {
	if len(o.Levels) == 0 {
		o.Levels = o.Task.Levels()
	}
	if o.Samples <= 0 {
		o.Samples = 256
	}
	if o.Tokens <= 0 {
		o.Tokens = 4096
	}
	longest, total := 0, 0
	for _, n := range o.Levels {
		if err := o.Task.CheckLevel(n); err != nil {
			return nil, err
		}
		longest = max(longest, len(task.Generate(o.Task, n, o.Seed, 0).Tokens()))
		total += o.Samples
	}
	if m.Config.N < task.NumWords {
		return nil, fmt.Errorf("eval: %s has a vocabulary of %d: the programs need the zoo's %d words", m.Name, m.Config.N, task.NumWords)
	}
	o.Tokens = max(o.Tokens, longest)
	seqs := min(o.Samples, 256)
	r, err := m.NewRunner(model.Options{Tokens: o.Tokens, Seqs: seqs, Slots: seqs, Positions: longest, Rows: o.Tokens, TopK: 1})
	if err != nil {
		return nil, err
	}
	defer r.Release()
	info := m.Device().Info()
	res := &Result{Task: o.Task, Model: m.Name, Device: info.Kind, Adapter: info.Adapter, Gen: task.GenVersion, Seed: o.Seed, Samples: o.Samples}
	done := 0
	for _, n := range o.Levels {
		right, err := level(ctx, r, o, n, func(k int) {
			done += k
			if o.Progress != nil {
				o.Progress(done, total)
			}
		})
		if err != nil {
			return nil, err
		}
		p := float64(right) / float64(o.Samples)
		res.Levels = append(res.Levels, Level{n, p, math.Sqrt(p * (1 - p) / float64(o.Samples))})
	}
	return res, nil
}

// level counts the right answers among o.Samples programs of size n.
func level(ctx context.Context, r *model.Runner, o Options, n int, progress func(int)) (right int, err error) {
	var inputs []model.Input
	var answers []int
	tokens := 0
	flush := func() error {
		if len(inputs) == 0 {
			return nil
		}
		out, err := r.Play(ctx, inputs, false)
		for _, in := range inputs {
			in.Session.Release()
		}
		if err != nil {
			return err
		}
		for i, want := range answers {
			if out.Top(i, 0).ID == want {
				right++
			}
		}
		progress(len(inputs))
		inputs, answers, tokens = inputs[:0], answers[:0], 0
		return nil
	}
	for i := range o.Samples {
		p := task.Generate(o.Task, n, o.Seed, uint64(i))
		q, ok := p.Query()
		if !ok {
			return 0, fmt.Errorf("eval: program %d of %s at n = %d asks nothing", i, o.Task, n)
		}
		ids := make([]int, q.Pos+1)
		for j, t := range p.Tokens()[:q.Pos+1] {
			ids[j] = int(t.ID)
		}
		if tokens+len(ids) > r.Opts.Tokens || len(inputs) == r.Opts.Seqs {
			if err := flush(); err != nil {
				return 0, err
			}
		}
		inputs = append(inputs, model.Input{Session: r.NewSession(), IDs: ids, Want: model.Last})
		answers = append(answers, int(q.AnswerID()))
		tokens += len(ids)
	}
	return right, flush()
}

// Z compares two accuracies measured on n1 and n2 samples: the two-sample z statistic with the
// variance of the pooled proportion, which is taken as at least 0.004 so that an error in a
// thousand near 0 or 1 is no surprise.
func Z(p1 float64, n1 int, p2 float64, n2 int) float64 {
	p := (p1*float64(n1) + p2*float64(n2)) / float64(n1+n2)
	v := math.Max(p*(1-p), 0.004)
	return (p1 - p2) / math.Sqrt(v*(1/float64(n1)+1/float64(n2)))
}
