// Package verify compares what a model computes on a device with golden files, which a published
// implementation made.
package verify

import (
	"context"
	"fmt"
	"math"
	"strings"

	"shellgame/model"
	"shellgame/model/config"
	"shellgame/model/goldentest"
	"shellgame/webgpu"
)

// Report is what `shellgame verify --json` prints.
type Report struct {
	Device  string `json:"device"`
	Adapter string `json:"adapter"`
	Pass    bool   `json:"pass"`
	Cases   []Case `json:"cases"`
}

// Case is one checkpoint.
type Case struct {
	Dir     string              `json:"dir"`
	Pass    bool                `json:"pass"`
	Error   string              `json:"error,omitempty"` // why nothing could be compared
	Tensors []goldentest.Result `json:"tensors"`
}

// New starts a report on a device.
func New(dev webgpu.Device) *Report {
	info := dev.Info()
	return &Report{Device: info.Kind, Adapter: info.Adapter, Pass: true}
}

// Add counts a checkpoint in. One that failed to load or to run counts as failed.
func (r *Report) Add(c Case) {
	if c.Tensors == nil {
		c.Tensors = []goldentest.Result{}
	}
	r.Cases = append(r.Cases, c)
	r.Pass = r.Pass && c.Pass
}

// leftOver lists what a golden prompt holds and the model has nothing to compare with.
func leftOver(g goldentest.Case, compared []goldentest.Result) []goldentest.Result {
	seen := map[string]bool{}
	for _, r := range compared {
		seen[r.Name] = true
	}
	var left []goldentest.Result
	for _, t := range g.Tensors {
		if t.Kind != goldentest.InputIDs && t.Kind != goldentest.DecodeIDs && !seen[t.Name] {
			left = append(left, goldentest.Result{Name: t.Name, Worst: goldentest.Number(math.Inf(1)), Index: -1, Note: "the model has no such tensor, want the golden file of this model"})
		}
	}
	return left
}

// Model runs every prompt of a golden file: the prompt in one play, against logits, hidden states,
// attention, recurrent state and convolution tail; and its continuation token by token from the
// cache, against the golden decode.
func Model(ctx context.Context, dir string, m *model.Model, golden *goldentest.File) Case {
	c := Case{Dir: dir}
	for _, g := range golden.Cases() {
		results, err := prompt(ctx, m, g)
		c.Tensors = append(c.Tensors, results...)
		if err != nil {
			c.Error = fmt.Sprintf("%s: %s", g.Prefix, strings.Join(strings.Fields(err.Error()), " "))
			return c
		}
		c.Tensors = append(c.Tensors, leftOver(g, results)...)
	}
	c.Pass = goldentest.Passed(c.Tensors)
	return c
}

func prompt(ctx context.Context, m *model.Model, g goldentest.Case) ([]goldentest.Result, error) {
	ids, err := g.IDs(goldentest.InputIDs)
	if err != nil {
		return nil, err
	}
	decode, err := g.IDs(goldentest.DecodeIDs)
	if err != nil {
		return nil, err
	}
	// Room for the continuation, so that it can be read in one pass too.
	total := len(ids) + len(decode)
	r, err := m.NewRunner(model.Options{Tokens: total, Seqs: 1, Slots: 2, Positions: total, Rows: 2 * total, Trace: true, ChunkFrom: 16})
	if err != nil {
		return nil, err
	}
	defer r.Release()
	s := r.NewSession()
	got, err := s.ReadPrompt(ctx, ids)
	if err != nil {
		return nil, err
	}
	var results []goldentest.Result
	compare := func(kind string, layer int, got []float32, trim func([]float32) []float32) error {
		t, ok := g.Find(kind, layer)
		if !ok {
			return nil
		}
		want, err := g.F32(t)
		if err != nil {
			return err
		}
		if trim != nil {
			want = trim(want)
		}
		results = append(results, goldentest.Compare(t.Name, want, got, kind))
		return nil
	}
	if err := compare(goldentest.Logits, -1, got.Logits, nil); err != nil {
		return results, err
	}
	for k, h := range got.Hidden {
		if err := compare(goldentest.Hidden, k, h, nil); err != nil {
			return results, err
		}
	}
	cfg := m.Config
	for i, l := range cfg.Layers {
		if l.Kind == config.Attention {
			if err := compare(goldentest.Attn, i, got.Probs[i], nil); err != nil {
				return results, err
			}
			continue
		}
		if err := compare(goldentest.State, i, got.State[i], nil); err != nil {
			return results, err
		}
		if cfg.W > 1 {
			trim := func(x []float32) []float32 { return goldentest.DropOldest(x, cfg.W) }
			if err := compare(goldentest.Conv, i, transpose(got.Tail[i], cfg.W-1, cfg.C()), trim); err != nil {
				return results, err
			}
		}
	}
	if len(decode) == 0 {
		return results, nil
	}
	// The same continuation token by token from the cache, and in one pass with the prompt.
	var steps []float32
	for _, id := range decode {
		out, err := s.Step(ctx, id, true)
		if err != nil {
			return results, err
		}
		steps = append(steps, out.Logits...)
	}
	if err := compare(goldentest.DecodeLogits, -1, steps, nil); err != nil {
		return results, err
	}
	s.Release()
	out, err := r.Play(ctx, []model.Input{{Session: r.NewSession(), IDs: append(append([]int(nil), ids...), decode...), Want: model.All}}, true)
	if err != nil {
		return results, err
	}
	return results, compare(goldentest.FullLogitsTail, -1, out.Logits[len(ids)*cfg.N:], nil)
}

// transpose turns x [rows, cols] into [cols, rows].
func transpose(x []float32, rows, cols int) []float32 {
	y := make([]float32, len(x))
	for r := range rows {
		for c := range cols {
			y[c*rows+r] = x[r*cols+c]
		}
	}
	return y
}

// Lines tells the report's outcome in a line a tensor that failed and one a checkpoint.
func (c Case) Lines() []string {
	var lines []string
	worst, at := 0.0, ""
	for _, t := range c.Tensors {
		if !t.Pass {
			lines = append(lines, fmt.Sprintf("%s: %s", c.Dir, t))
		}
		if q := float64(t.Worst) / float64(t.Bound); q > worst {
			worst, at = q, t.Name
		}
	}
	verdict := "pass"
	if !c.Pass {
		verdict = "FAIL"
	}
	if c.Error != "" || len(c.Tensors) == 0 {
		why := c.Error
		if why == "" {
			why = "nothing was compared, want a golden file with a tensor"
		}
		return append(lines, fmt.Sprintf("%s %s: %s", verdict, c.Dir, why))
	}
	return append(lines, fmt.Sprintf("%s %s: %d tensors, worst %s at %.2f of its bound", verdict, c.Dir, len(c.Tensors), at, worst))
}
