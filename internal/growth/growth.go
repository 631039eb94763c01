// Package growth measures how the time and the memory of a model grow: with the length of a text,
// with the number of texts read at once, and with the size of the model.
package growth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"shellgame/model"
	"shellgame/model/config"
	"shellgame/model/safetensors"
	"shellgame/webgpu"
)

// Report is what `shellgame bench --growth --json` prints.
type Report struct {
	Device  string   `json:"device"`
	Adapter string   `json:"adapter"`
	Driver  string   `json:"driver"`
	Commit  string   `json:"commit"`
	Series  []Series `json:"series"`
}

// Series is one quantity over one size.
type Series struct {
	Name   string  `json:"name"`
	Over   string  `json:"over"`  // T: tokens, B: sequences, params: numbers in the checkpoint
	Shape  string  `json:"shape"` // of the model, or of the first and last one
	Points []Point `json:"points"`
	Time   Fit     `json:"time"`
	Memory Fit     `json:"memory"`
}

// Point is one measured size.
type Point struct {
	N     int     `json:"n"`
	Time  float64 `json:"us"`    // microseconds, median
	Bytes int     `json:"bytes"` // held on the device: over T and B what running takes beside the weights
	Worst float64 `json:"worst"` // largest error of what was computed, in units of its bound
}

// Fit is y ~ n^Exponent, by least squares over the logarithms of the points from From on.
type Fit struct {
	Exponent float64 `json:"exponent"`
	From     int     `json:"from"`
}

// Options bound what is measured.
type Options struct {
	From, Most int           // shortest and longest text, in tokens
	Sequences  int           // most texts at once
	Widest     int           // largest model dimension
	Limit      time.Duration // a series ends, after three points, where its next one would take it beyond its share
	Progress   func(string)  // may be nil
}

// Defaults are the options for a device: those of a GPU go up to 32,768 tokens.
func Defaults(dev webgpu.Device) Options {
	o := Options{From: 512, Most: 32768, Sequences: 128, Widest: 2048, Limit: time.Minute}
	if dev.Info().Software {
		o.From, o.Most, o.Sequences, o.Widest = 32, 4096, 32, 512
	}
	return o
}

const (
	piece   = 256 // tokens of a play of a text that is read in pieces
	width   = 128 // model dimension where it does not vary
	entries = 288 // vocabulary
	plays   = 5

	// bound is how far logits of the same text may be apart, in units of max(1, their RMS), when
	// it was read in other pieces or on another device: what the golden files allow.
	bound = 5e-4
)

// Run measures every series on dev, comparing each point's logits first: with those of the same
// text read in other pieces or alone, and at the smallest size with the CPU's.
func Run(ctx context.Context, dev webgpu.Device, o Options) ([]Series, error) {
	m := &measurer{ctx: ctx, dev: dev, o: o}
	if o.From < 1 || o.Most < o.From || o.Sequences < 1 || o.Widest < 64 {
		return nil, fmt.Errorf("growth: texts of %d to %d tokens, %d at once, models up to a dimension of %d: want 1 or more of each, and 64", o.From, o.Most, o.Sequences, o.Widest)
	}
	var all []Series
	for _, measure := range []func() ([]Series, error){
		func() ([]Series, error) {
			return m.texts("delta rule", "linear_attention", "gdn.wy", "gdn.chunk", "gdn.step")
		},
		func() ([]Series, error) { return m.texts("attention", "full_attention", "attn.softmax") },
		m.batches,
		m.models,
	} {
		s, err := measure()
		if err != nil {
			return nil, err
		}
		all = append(all, s...)
	}
	for i := range all {
		s := &all[i]
		s.Time = fit(s.Points, func(p Point) float64 { return p.Time })
		s.Memory = fit(s.Points, func(p Point) float64 { return float64(p.Bytes) })
	}
	return all, nil
}

// fit looks at the upper half, where what does not grow weighs least: at least three points.
func fit(points []Point, y func(Point) float64) Fit {
	f := Fit{Exponent: math.NaN()}
	if len(points) == 0 {
		return f
	}
	points = points[max(0, len(points)-max(3, (len(points)+1)/2)):]
	f.From = points[0].N
	var n, sx, sy, sxx, sxy float64
	for _, p := range points {
		a, b := math.Log(float64(p.N)), math.Log(y(p))
		n, sx, sy, sxx, sxy = n+1, sx+a, sy+b, sxx+a*a, sxy+a*b
	}
	if d := n*sxx - sx*sx; d > 0 {
		f.Exponent = (n*sxy - sx*sy) / d
	}
	return f
}

// MarshalJSON writes an exponent that nothing was fitted to as null.
func (f Fit) MarshalJSON() ([]byte, error) {
	var e *float64
	if !math.IsNaN(f.Exponent) && !math.IsInf(f.Exponent, 0) {
		r := math.Round(f.Exponent*1000) / 1000
		e = &r
	}
	return json.Marshal(struct {
		Exponent *float64 `json:"exponent"`
		From     int      `json:"from"`
	}{e, f.From})
}

type measurer struct {
	ctx context.Context
	dev webgpu.Device
	o   Options
}

// each calls f with sizes that double, until the series has had its share of the time.
func (m *measurer) each(what string, from, most int, f func(n int) error) error {
	began, before := time.Now(), time.Duration(0)
	for n, points := from, 1; n <= most; n, points = 2*n, points+1 {
		start := time.Now()
		if m.o.Progress != nil {
			m.o.Progress(fmt.Sprintf("%s: %d", what, n))
		}
		if err := f(n); err != nil {
			return fmt.Errorf("growth: %s, %d: %w", what, n, err)
		}
		took := time.Since(start)
		if next := took * min(max(took/max(before, 1), 2), 5); points >= 3 && time.Since(began)+next > m.o.Limit/4 {
			return nil
		}
		before = took
	}
	return nil
}

// random loads a model of so many layers of the given kinds, with random weights.
func (m *measurer) random(dev webgpu.Device, d int, kinds ...string) (*model.Model, error) {
	cfg, err := config.Parse(text(d, kinds...))
	if err != nil {
		return nil, err
	}
	ck, err := model.RandomCheckpoint(cfg, safetensors.F16, 1)
	if err != nil {
		return nil, err
	}
	return model.Load(m.ctx, dev, "random", cfg, ck)
}

// text is the config.json of a model of dimension d.
func text(d int, kinds ...string) []byte {
	heads := max(d/32, 1)
	b, err := json.Marshal(map[string]any{
		"model_type": "olmo_hybrid", "vocab_size": entries, "hidden_size": d, "intermediate_size": 2 * d,
		"num_hidden_layers": len(kinds), "layer_types": kinds,
		"num_attention_heads": heads, "linear_num_key_heads": heads, "linear_num_value_heads": heads,
		"linear_key_head_dim": 32, "linear_value_head_dim": 64, "linear_conv_kernel_dim": 4,
		"rope_parameters": map[string]any{"rope_theta": nil, "rope_type": "default"},
	})
	if err != nil {
		panic(err) // of strings and numbers
	}
	return b
}

func shape(d int, kinds ...string) string {
	return fmt.Sprintf("D %d, FF %d, heads of K 32, V 64 or HD 32, layers %v, weights f16", d, 2*d, kinds)
}

func ids(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = (7*i + i*i/5 + 3) % entries
	}
	return all
}

// reading is a runner and what it and the plays of it hold.
type reading struct {
	*model.Runner
	before int
	dev    webgpu.Device
}

func (m *measurer) reading(mod *model.Model, o model.Options) (*reading, error) {
	o.TopK = 1
	before := mod.Device().Counts().Bytes
	r, err := mod.NewRunner(o)
	return &reading{r, before, mod.Device()}, err
}

func (r *reading) bytes() int { return r.dev.Counts().Bytes - r.before }

// texts measures a model of one layer over the length of a text that is read in one play, that
// layer's own dispatches alone, and a step after such a text.
func (m *measurer) texts(name, kind string, ops ...string) ([]Series, error) {
	mod, err := m.random(m.dev, width, kind)
	if err != nil {
		return nil, err
	}
	defer mod.Release()
	s := shape(width, kind)
	all := []Series{
		{Name: name + ": prompt", Over: "T", Shape: s},
		{Name: name + ": its kernels", Over: "T", Shape: s},
		{Name: name + ": step after T", Over: "T", Shape: s},
	}
	err = m.each(name, m.o.From, m.o.Most, func(n int) error {
		text := ids(n)
		logits, step, err := m.pieces(mod, text)
		if err != nil {
			return err
		}
		if n == m.o.From {
			if err := m.besideCPU(text, logits, &step, width, kind); err != nil {
				return err
			}
		}
		r, err := m.reading(mod, model.Options{Tokens: n, Seqs: 1, Positions: n, Rows: n, Slots: 1})
		if err != nil {
			return err
		}
		defer r.Release()
		prompt := Point{N: n}
		one := r.NewSession()
		out, err := r.Play(m.ctx, []model.Input{{Session: one, IDs: text, Want: outputs(text)}}, true)
		if err != nil {
			return err
		}
		if err := compare(out.Logits, logits, &prompt); err != nil {
			return fmt.Errorf("beside the same text in pieces of %d: %w", piece, err)
		}
		one.Release()
		if prompt.Time, err = r.time(m.ctx, [][]int{text}); err != nil {
			return err
		}
		prompt.Bytes = r.bytes()
		s := r.NewSession()
		defer s.Release()
		times, err := r.TimeOps(m.ctx, []model.Input{{Session: s, IDs: text}}, 1, 3, func(op, _ string) bool {
			return slices.ContainsFunc(ops, func(o string) bool { return op == "layers.0."+o })
		})
		if err != nil {
			return err
		}
		kernels := prompt
		kernels.Time = 0
		for _, t := range times {
			kernels.Time += us(t.Time)
		}
		all[0].Points = append(all[0].Points, prompt)
		// Less an empty submission, a short dispatch may come out as nothing.
		if kernels.Time > 0 {
			all[1].Points = append(all[1].Points, kernels)
		}
		all[2].Points = append(all[2].Points, step)
		return nil
	})
	return all, err
}

// whole is up to how long a text is compared at each of its tokens, and not only at the last.
const whole = 1024

func outputs(text []int) model.Which {
	if len(text) > whole {
		return model.Last
	}
	return model.All
}

// besideCPU compares the logits of a text with those of the same random model on plain Go.
func (m *measurer) besideCPU(text []int, logits []float32, step *Point, d int, kinds ...string) error {
	cpu, err := m.random(webgpu.NewCPU(), d, kinds...)
	if err != nil {
		return err
	}
	defer cpu.Release()
	want, _, err := m.pieces(cpu, text)
	if err != nil {
		return err
	}
	if err := compare(logits, want, step); err != nil {
		return fmt.Errorf("beside the CPU: %w", err)
	}
	return nil
}

// pieces reads a text piece by piece, and returns its logits, those that [outputs] says, and the time
// of a step after it.
func (m *measurer) pieces(mod *model.Model, text []int) (logits []float32, step Point, err error) {
	step.N = len(text)
	n := min(piece, max(len(text)/2, 1))
	room := len(text) + plays + 1
	r, err := m.reading(mod, model.Options{Tokens: n, Seqs: 1, Positions: room, Rows: room, Slots: 1})
	if err != nil {
		return nil, step, err
	}
	defer r.Release()
	s := r.NewSession()
	for at := 0; at < len(text); at += n {
		part, want := text[at:min(at+n, len(text))], outputs(text)
		if want == model.Last && at+n < len(text) {
			want = model.None
		}
		out, err := r.Play(m.ctx, []model.Input{{Session: s, IDs: part, Want: want}}, want != model.None)
		if err != nil {
			return nil, step, err
		}
		logits = append(logits, out.Logits...)
	}
	step.Time, err = median(func() error {
		_, err := s.Step(m.ctx, 5, false)
		return err
	})
	step.Bytes = r.bytes()
	return logits, step, err
}

// time reads texts as new sessions of one play.
func (r *reading) time(ctx context.Context, texts [][]int) (float64, error) {
	return median(func() error {
		var in []model.Input
		for _, t := range texts {
			in = append(in, model.Input{Session: r.NewSession(), IDs: t, Want: model.Last})
		}
		_, err := r.Play(ctx, in, false)
		for _, i := range in {
			i.Session.Release()
		}
		return err
	})
}

// batches measures a hybrid over the number of texts that a play reads, and steps all of them at
// once.
func (m *measurer) batches() ([]Series, error) {
	kinds := []string{"linear_attention", "full_attention"}
	mod, err := m.random(m.dev, width, kinds...)
	if err != nil {
		return nil, err
	}
	defer mod.Release()
	length := min(64, m.o.From)
	all := []Series{
		{Name: fmt.Sprintf("batch: prompts of %d", length), Over: "B", Shape: shape(width, kinds...)},
		{Name: fmt.Sprintf("batch: steps after %d", length), Over: "B", Shape: shape(width, kinds...)},
	}
	text := ids(length)
	alone, _, err := m.pieces(mod, text)
	if err != nil {
		return nil, err
	}
	alone = alone[len(alone)-entries:]
	err = m.each("batch", 1, m.o.Sequences, func(n int) error {
		room := length + plays + 1
		r, err := m.reading(mod, model.Options{Tokens: n * length, Seqs: n, Positions: room, Rows: n * room, Slots: n})
		if err != nil {
			return err
		}
		defer r.Release()
		var in []model.Input
		texts := make([][]int, n)
		for i := range texts {
			texts[i] = text
			in = append(in, model.Input{Session: r.NewSession(), IDs: text, Want: model.Last})
		}
		prompt := Point{N: n}
		out, err := r.Play(m.ctx, in, true)
		if err != nil {
			return err
		}
		for i := range texts {
			if err := compare(out.Logits[i*entries:][:entries], alone, &prompt); err != nil {
				return fmt.Errorf("sequence %d beside the same alone: %w", i, err)
			}
		}
		step := prompt
		if step.Time, err = median(func() error {
			for i := range in {
				in[i].IDs = text[:1]
			}
			_, err := r.Play(m.ctx, in, false)
			return err
		}); err != nil {
			return err
		}
		for _, i := range in {
			i.Session.Release()
		}
		if prompt.Time, err = r.time(m.ctx, texts); err != nil {
			return err
		}
		prompt.Bytes = r.bytes()
		step.Bytes = prompt.Bytes
		all[0].Points = append(all[0].Points, prompt)
		all[1].Points = append(all[1].Points, step)
		return nil
	})
	return all, err
}

// models measures hybrids over the number of their parameters.
func (m *measurer) models() ([]Series, error) {
	kinds := []string{"linear_attention", "full_attention"}
	length := min(512, m.o.From)
	last := 64
	all := []Series{
		{Name: fmt.Sprintf("model: prompt of %d", length), Over: "params"},
		{Name: fmt.Sprintf("model: step after %d", length), Over: "params"},
	}
	err := m.each("model", 64, m.o.Widest, func(d int) error {
		before := m.dev.Counts().Bytes
		mod, err := m.random(m.dev, d, kinds...)
		if err != nil {
			return err
		}
		defer mod.Release()
		text := ids(length)
		logits, step, err := m.pieces(mod, text)
		if err != nil {
			return err
		}
		if d == 64 {
			if err := m.besideCPU(text, logits, &step, d, kinds...); err != nil {
				return err
			}
		}
		room := length + plays + 1
		r, err := m.reading(mod, model.Options{Tokens: length, Seqs: 1, Positions: room, Rows: room, Slots: 1})
		if err != nil {
			return err
		}
		defer r.Release()
		s := r.NewSession()
		defer s.Release()
		prompt := Point{}
		out, err := r.Play(m.ctx, []model.Input{{Session: s, IDs: text, Want: outputs(text)}}, true)
		if err != nil {
			return err
		}
		if err := compare(out.Logits, logits, &prompt); err != nil {
			return fmt.Errorf("beside the same text in pieces of %d: %w", piece, err)
		}
		s.Release()
		if prompt.Time, err = r.time(m.ctx, [][]int{text}); err != nil {
			return err
		}
		prompt.N, step.N = mod.Params, mod.Params
		prompt.Bytes = m.dev.Counts().Bytes - before
		step.Bytes = prompt.Bytes
		last = d
		all[0].Points = append(all[0].Points, prompt)
		all[1].Points = append(all[1].Points, step)
		return nil
	})
	for i := range all {
		all[i].Shape = fmt.Sprintf("%s to %s", shape(64, kinds...), shape(last, kinds...))
	}
	return all, err
}

var errApart = errors.New("the device computes wrong numbers")

// compare keeps the largest error of logits in p, in units of its bound.
func compare(got, want []float32, p *Point) error {
	if len(got) != len(want) || len(got) == 0 {
		return fmt.Errorf("got %d logits, want %d: %w", len(got), len(want), errApart)
	}
	sum, worst, at := 0.0, 0.0, 0
	for i, w := range want {
		e := math.Abs(float64(got[i]) - float64(w))
		if e > worst || math.IsNaN(e) {
			worst, at = e, i
		}
		if math.IsNaN(e) {
			break
		}
		sum += float64(w) * float64(w)
	}
	worst /= bound * max(1, math.Sqrt(sum/float64(len(want))))
	if !(worst <= 1) {
		return fmt.Errorf("logit %d: got %v, want %v, off by %.3g times its bound: %w", at, got[at], want[at], worst, errApart)
	}
	p.Worst = max(p.Worst, worst)
	return nil
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// median is the median time of f, in microseconds, after one run to warm up. What takes a second
// is timed once more and not five times.
func median(f func() error) (float64, error) {
	times := make([]time.Duration, 0, plays)
	for i := range plays {
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		took := time.Since(start)
		if i > 0 {
			times = append(times, took)
			if took > time.Second {
				break
			}
		}
	}
	slices.Sort(times)
	return us(times[len(times)/2]), nil
}
