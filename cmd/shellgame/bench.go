package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"shellgame/internal/kernelbench"
	"shellgame/internal/version"
	"shellgame/model"
	"shellgame/model/check"
	"shellgame/model/config"
	"shellgame/model/safetensors"
	"shellgame/webgpu"
)

type benchCmd struct {
	deviceFlag
	weightsFlag
	Op      string `help:"Only this kernel, such as gdn_inputs, or operation, such as layers.0.gdn.step." placeholder:"NAME"`
	Kernel  string `help:"Time this kernel by itself at --shape, such as matmul with R=4096,N=4096,D=4096; a wrong name lists them." placeholder:"NAME"`
	Model   string `help:"Folder of a checkpoint; default is a random model of two layers, gated delta rule and attention." type:"path" placeholder:"DIR"`
	Shape   string `help:"Sizes of the kernel, or of the random model; FF is the MLP's. Default D=128,H=4,K=32,V=64,W=4,FF=256,N=288." placeholder:"D=512,K=96"`
	Tokens  int    `help:"Tokens read in the play whose dispatches are timed; 1 is a step." default:"1"`
	Past    int    `help:"Tokens read before it." default:"32"`
	Repeats int    `help:"Dispatches in one submission." default:"20"`
	Plays   int    `help:"Submissions, of which the median is taken." default:"9"`
	Trace   bool   `help:"Also read back what a trace holds, as the page does."`
	Growth  bool   `help:"How time and memory grow with a text's length, with texts at once and with a model's size, instead."`
	Seconds int    `help:"About how long --growth may take: each series has three sizes at least, and up to 32768 tokens, 4096 where a CPU computes." default:"60"`
	JSON    bool   `help:"Print one JSON object."`
}

// benchResult is what `shellgame bench --json` prints; times are microseconds.
type benchResult struct {
	Device  string      `json:"device"`
	Adapter string      `json:"adapter"`
	Driver  string      `json:"driver"`
	Commit  string      `json:"commit"`
	Model   string      `json:"model"`
	Weights string      `json:"weights,omitempty"` // of --weights
	Shape   string      `json:"shape"`
	Tokens  int         `json:"tokens"`
	Past    int         `json:"past"`
	Play    float64     `json:"play_us"`          // a whole play with its read-back, median
	Row     float64     `json:"row_us,omitempty"` // a token of a play that goes on by itself
	Ops     []benchTime `json:"ops"`
}

type benchTime struct {
	Op     string  `json:"op"`
	Kernel string  `json:"kernel"`
	Time   float64 `json:"us"`
}

// sizes of a model, as --shape names them.
type sizes struct{ D, H, K, V, W, FF, N int }

func (z *sizes) fields() map[string]*int {
	return map[string]*int{"D": &z.D, "H": &z.H, "K": &z.K, "V": &z.V, "W": &z.W, "FF": &z.FF, "N": &z.N}
}

// parse reads D=512,K=96.
func (z *sizes) parse(text string) error {
	for _, part := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(value)
		at := z.fields()[name]
		if err != nil || at == nil || n < 1 {
			return usage("--shape: got %q, want sizes like D=512,H=8,K=96,V=192,W=4,FF=1024,N=288", part)
		}
		*at = n
	}
	return nil
}

func (z *sizes) config() ([]byte, error) {
	return json.Marshal(map[string]any{
		"model_type": "olmo_hybrid", "vocab_size": z.N, "hidden_size": z.D, "intermediate_size": z.FF,
		"num_hidden_layers": 2, "layer_types": []string{"linear_attention", "full_attention"},
		"num_attention_heads": z.H, "linear_num_key_heads": z.H, "linear_num_value_heads": z.H,
		"linear_key_head_dim": z.K, "linear_value_head_dim": z.V, "linear_conv_kernel_dim": z.W,
		"rope_parameters": map[string]any{"rope_theta": nil, "rope_type": "default"},
	})
}

func shapeOf(c *config.Config) string {
	s := fmt.Sprintf("L=%d D=%d FF=%d N=%d", len(c.Layers), c.D, c.FF, c.N)
	if c.HV > 0 {
		s += fmt.Sprintf(" HK=%d HV=%d K=%d V=%d W=%d", c.HK, c.HV, c.K, c.V, c.W)
	}
	if c.Heads > 0 {
		s += fmt.Sprintf(" heads=%d/%d of %d", c.Heads, c.KVHeads, c.HeadDim)
	}
	return s
}

// load opens the checkpoint or makes the random one.
func (c *benchCmd) load(a *app, dev webgpu.Device) (*model.Model, error) {
	if c.Model != "" {
		return modelFlag{Model: c.Model, weightsFlag: c.weightsFlag}.load(a, dev)
	}
	z := sizes{128, 4, 32, 64, 4, 256, 288}
	if c.Shape != "" {
		if err := z.parse(c.Shape); err != nil {
			return nil, err
		}
	}
	text, err := z.config()
	if err != nil {
		return nil, err
	}
	cfg, err := config.Parse(text)
	if err != nil {
		return nil, usage("--shape: %w", err)
	}
	ck, err := model.RandomCheckpoint(cfg, safetensors.F16, 1)
	if err != nil {
		return nil, err
	}
	return model.Load(a.ctx, dev, "random", cfg, ck)
}

// wants says whether --op names an operation or its kernel.
func (c *benchCmd) wants(op, kernel string) bool {
	name, _, _ := strings.Cut(kernel, "[")
	return c.Op == "" || c.Op == op || c.Op == kernel || c.Op == name
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func (c *benchCmd) Run(a *app) error {
	if c.Tokens < 1 || c.Past < 0 || c.Repeats < 1 || c.Plays < 1 || c.Seconds < 1 {
		return usage("bench: want at least one token, repeat, play and second")
	}
	if c.Growth && (c.Model != "" || c.Shape != "" || c.Kernel != "" || c.Op != "") {
		return usage("--growth: got it with --model, --shape, --kernel or --op, want it alone: it makes its own models")
	}
	if c.Weights != "" && c.Model == "" {
		return usage("--weights: got it without --model, want the checkpoint whose weights they are")
	}
	if c.Model != "" && c.Shape != "" {
		return usage("--shape: got it with --model, want one: it is the shape of a random model")
	}
	dev, err := c.open(a)
	if err != nil {
		return err
	}
	defer dev.Close()
	// A time is only worth printing where the numbers are right.
	rep, err := check.Run(a.ctx, dev, false, nil)
	if err != nil {
		return err
	}
	if !rep.Pass {
		w := rep.Worst()
		return fmt.Errorf("bench: %s: kernel %s (%s) is off by %.3g, want at most %.3g: %w", describe(dev), w.Name, w.Shape, w.Worst, w.Bound, check.ErrUntrusted)
	}
	if c.Growth {
		return c.growth(a, dev)
	}
	if c.Kernel != "" {
		return c.kernel(a, dev)
	}
	m, err := c.load(a, dev)
	if err != nil {
		return err
	}
	positions, goesOn := c.Past+c.Tokens, c.Tokens == 1 && !c.Trace
	if goesOn {
		positions = c.Past + model.MostContinued
	}
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
	in := func(s *model.Session) []model.Input {
		return []model.Input{{Session: s, IDs: ids[:c.Tokens], Want: model.Last}}
	}
	play, err := median(c.Plays, func() (time.Duration, error) {
		f := s.Fork() // so that each play has read as much before
		defer f.Release()
		start := time.Now()
		var err error
		if c.Trace && c.Tokens == 1 {
			_, err = f.TraceStep(a.ctx, ids[0])
		} else {
			_, err = r.Play(a.ctx, in(f), false)
		}
		return time.Since(start), err
	})
	if err != nil {
		return err
	}
	var row time.Duration
	if goesOn {
		row, err = median(c.Plays, func() (time.Duration, error) {
			f := s.Fork()
			defer f.Release()
			start := time.Now()
			_, err := f.Continue(a.ctx, ids[0], model.MostContinued)
			return time.Since(start) / model.MostContinued, err
		})
		if err != nil {
			return err
		}
	}
	var kernels []string // of this play
	ops, err := r.TimeOps(a.ctx, in(s), c.Repeats, c.Plays, func(op, kernel string) bool {
		name, _, _ := strings.Cut(kernel, "[")
		kernels = append(kernels, name)
		return c.wants(op, kernel)
	})
	if err != nil {
		return err
	}
	info := dev.Info()
	res := benchResult{Device: info.Kind, Adapter: info.Adapter, Driver: info.Driver, Commit: version.Commit(), Model: m.Name, Weights: c.Weights, Shape: shapeOf(m.Config), Tokens: c.Tokens, Past: c.Past, Play: us(play)}
	if goesOn {
		res.Row = us(row)
	}
	for _, o := range ops {
		res.Ops = append(res.Ops, benchTime{o.Op, o.Kernel, us(o.Time)})
	}
	if len(res.Ops) == 0 {
		slices.Sort(kernels)
		return usage("--op: got %q, want a kernel that this play runs: %s", c.Op, strings.Join(slices.Compact(kernels), ", "))
	}
	if c.JSON {
		return a.printJSON(res)
	}
	fmt.Fprintf(a.out, "%s, %s, %s; commit %s\n%s, %s: %d tokens after %d, whole play %.0f µs", res.Device, res.Adapter, res.Driver, orUnknown(res.Commit), res.Model, res.Shape, res.Tokens, res.Past, res.Play)
	if goesOn {
		fmt.Fprintf(a.out, "; %d written in a row, %.0f µs each", model.MostContinued, res.Row)
	}
	fmt.Fprintln(a.out)
	for _, o := range res.Ops {
		fmt.Fprintf(a.out, "%10.1f µs  %-24s %s\n", o.Time, o.Op, o.Kernel)
	}
	return nil
}

// kernel times one kernel by itself.
func (c *benchCmd) kernel(a *app, dev webgpu.Device) error {
	shape := map[string]int{}
	if c.Shape != "" {
		for _, part := range strings.Split(c.Shape, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			n, err := strconv.Atoi(value)
			if err != nil {
				return usage("--shape: got %q, want sizes like R=4096,N=4096,D=4096", part)
			}
			shape[name] = n
		}
	}
	r, err := kernelbench.Run(a.ctx, dev, c.Kernel, shape, c.Repeats, c.Plays)
	if err != nil {
		return err
	}
	info := dev.Info()
	if c.JSON {
		return a.printJSON(struct {
			Device  string `json:"device"`
			Adapter string `json:"adapter"`
			Driver  string `json:"driver"`
			Commit  string `json:"commit"`
			kernelbench.Result
		}{info.Kind, info.Adapter, info.Driver, version.Commit(), r})
	}
	fmt.Fprintf(a.out, "%s, %s, %s; commit %s\n%s, %s: check at %.2g of its bound; %.1f µs, %.4g %s\n", info.Kind, info.Adapter, info.Driver, orUnknown(version.Commit()), r.Kernel, r.Shape, r.Worst, r.Time, r.Rate, r.Unit)
	return nil
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// median is that of what f returns n times, after two runs to warm up.
func median(n int, f func() (time.Duration, error)) (time.Duration, error) {
	times := make([]time.Duration, 0, n)
	for i := range n + 2 {
		t, err := f()
		if err != nil {
			return 0, err
		}
		if i >= 2 {
			times = append(times, t)
		}
	}
	return middle(times), nil
}

func middle(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}
