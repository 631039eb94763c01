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
	Tokens   int                   // packed tokens a play; default 4096, and no fewer than the longest program
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
	r, err := New(m, o)
	if err != nil {
		return nil, err
	}
	defer r.Release()
	for !r.Done() {
		if _, err := r.Play(ctx, r.opts.Tokens); err != nil {
			return nil, err
		}
		if o.Progress != nil {
			o.Progress(r.Progress())
		}
	}
	info := m.Device().Info()
	res := &Result{Task: r.opts.Task, Model: m.Name, Device: info.Kind, Adapter: info.Adapter, Gen: task.GenVersion, Seed: r.opts.Seed, Samples: r.opts.Samples}
	for _, s := range r.Scores() {
		p, stderr := s.Accuracy()
		res.Levels = append(res.Levels, Level{s.N, p, stderr})
	}
	return res, nil
}

// Score is what was found so far at one size.
type Score struct {
	N       int
	Right   int
	Samples int // programs answered
}

// Accuracy is the share that was right, and its binomial standard error; 0 before the first answer.
func (s Score) Accuracy() (p, stderr float64) {
	if s.Samples == 0 {
		return 0, 0
	}
	p = float64(s.Right) / float64(s.Samples)
	return p, math.Sqrt(p * (1 - p) / float64(s.Samples))
}

// Running is an evaluation under way, a play at a time.
type Running struct {
	opts   Options
	runner *model.Runner
	scores []Score // of each level
	level  int     // the one whose programs are being made
	next   int     // program of that level to make
	part   *sample // read in part, or not at all where it did not fit
}

// sample is a program being read.
type sample struct {
	level   int
	session *model.Session
	ids     []int // not yet read
	want    int   // id of the true answer
}

// New begins an evaluation. Nothing is read yet.
func New(m *model.Model, o Options) (*Running, error) {
	if len(o.Levels) == 0 {
		o.Levels = o.Task.Levels()
	}
	if o.Samples <= 0 {
		o.Samples = 256
	}
	if o.Tokens <= 0 {
		o.Tokens = 4096
	}
	r := &Running{}
	longest := 0
	for _, n := range o.Levels {
		if err := o.Task.CheckLevel(n); err != nil {
			return nil, err
		}
		longest = max(longest, len(task.Generate(o.Task, n, o.Seed, 0).Tokens()))
		r.scores = append(r.scores, Score{N: n})
	}
	if m.Config.N < task.NumWords {
		return nil, fmt.Errorf("eval: %s has a vocabulary of %d: the programs need the zoo's %d words", m.Name, m.Config.N, task.NumWords)
	}
	o.Tokens = max(o.Tokens, longest)
	seqs := min(o.Samples, 256)
	var err error
	r.runner, err = m.NewRunner(model.Options{Tokens: o.Tokens, Seqs: seqs, Slots: seqs, Positions: longest, Rows: o.Tokens + longest, TopK: 1})
	r.opts = o
	return r, err
}

// Done reports whether every program has been answered.
func (r *Running) Done() bool { return r.part == nil && r.level == len(r.opts.Levels) }

// Scores are of each level, in order.
func (r *Running) Scores() []Score { return r.scores }

// Progress counts programs answered and programs in all.
func (r *Running) Progress() (done, total int) {
	for _, s := range r.scores {
		done += s.Samples
	}
	return done, r.opts.Samples * len(r.opts.Levels)
}

// Play reads at most so many tokens, whole programs or a part of one that is longer than that, and
// returns how many it has read.
func (r *Running) Play(ctx context.Context, tokens int) (read int, err error) {
	tokens = min(max(tokens, 1), r.opts.Tokens)
	var batch []*sample
	var inputs []model.Input
	for len(inputs) < r.runner.Opts.Seqs {
		s, err := r.take()
		if err != nil {
			return 0, err
		}
		if s == nil {
			break
		}
		in := model.Input{Session: s.session, IDs: s.ids, Want: model.Last}
		if len(s.ids) > tokens {
			r.part = s
			if len(inputs) > 0 { // the next play's
				break
			}
			in.IDs, in.Want = s.ids[:tokens], model.None
		}
		tokens -= len(in.IDs)
		read += len(in.IDs)
		batch, inputs = append(batch, s), append(inputs, in)
		if in.Want == model.None {
			break
		}
	}
	if len(inputs) == 0 {
		return 0, nil
	}
	out, err := r.runner.Play(ctx, inputs, false)
	if err != nil {
		return 0, err
	}
	for i, s := range batch {
		s.ids = s.ids[len(inputs[i].IDs):]
		if inputs[i].Want == model.None {
			break
		}
		score := &r.scores[s.level]
		score.Samples++
		if out.Top(i, 0).ID == s.want {
			score.Right++
		}
		s.session.Release()
	}
	return read, nil
}

// take returns the program to read next, nil after the last.
func (r *Running) take() (*sample, error) {
	if s := r.part; s != nil {
		r.part = nil
		return s, nil
	}
	if r.level == len(r.opts.Levels) {
		return nil, nil
	}
	n := r.opts.Levels[r.level]
	p := task.Generate(r.opts.Task, n, r.opts.Seed, uint64(r.next))
	q, ok := p.Query()
	if !ok {
		return nil, fmt.Errorf("eval: program %d of %s at n = %d asks nothing", r.next, r.opts.Task, n)
	}
	s := &sample{level: r.level, session: r.runner.NewSession(), ids: make([]int, q.Pos+1), want: int(q.AnswerID())}
	for i, t := range p.Tokens()[:q.Pos+1] {
		s.ids[i] = int(t.ID)
	}
	if r.next++; r.next == r.opts.Samples {
		r.level, r.next = r.level+1, 0
	}
	return s, nil
}

// Release frees what the evaluation holds of the device.
func (r *Running) Release() { r.runner.Release() }

// Z compares two accuracies measured on n1 and n2 samples: the two-sample z statistic with the
// variance of the pooled proportion, which is taken as at least 0.004 so that an error in a
// thousand near 0 or 1 is no surprise.
func Z(p1 float64, n1 int, p2 float64, n2 int) float64 {
	p := (p1*float64(n1) + p2*float64(n2)) / float64(n1+n2)
	v := math.Max(p*(1-p), 0.004)
	return (p1 - p2) / math.Sqrt(v*(1/float64(n1)+1/float64(n2)))
}
