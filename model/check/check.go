// Package check tells whether a device computes rightly: it runs a tiny model with every kernel of
// the forward pass, dispatch by dispatch, and compares what each wrote with its plain-Go twin.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"shellgame/model"
	"shellgame/model/config"
	"shellgame/model/goldentest"
	"shellgame/model/safetensors"
	"shellgame/webgpu"
)

// Kernel is the outcome of one dispatch against its twin.
type Kernel struct {
	Name  string            `json:"name"`  // kernel with its constants
	Shape string            `json:"shape"` // the dispatch it was run for
	Worst goldentest.Number `json:"worst"` // largest error of an element, relative to max(1, RMS)
	Bound goldentest.Number `json:"bound"`
	Pass  bool              `json:"pass"`
}

// Report is what `shellgame check --json` prints.
type Report struct {
	Device  string   `json:"device"`
	Adapter string   `json:"adapter"`
	Pass    bool     `json:"pass"`
	Kernels []Kernel `json:"kernels"`
}

// Worst returns the kernel that is furthest beyond its bound, or the one nearest to it.
func (r *Report) Worst() Kernel {
	var w Kernel
	ratio := -1.0
	for _, k := range r.Kernels {
		if q := float64(k.Worst / k.Bound); q > ratio || math.IsNaN(q) {
			w, ratio = k, q
		}
	}
	return w
}

// tiny is a model of one GDN and one attention layer that uses every kernel of the forward pass but
// those of odd and gated.
const tiny = `{"model_type":"olmo_hybrid","vocab_size":37,"hidden_size":32,"intermediate_size":40,"num_hidden_layers":2,
"layer_types":["linear_attention","full_attention"],"num_attention_heads":4,"num_key_value_heads":2,
"linear_num_key_heads":2,"linear_num_value_heads":2,"linear_key_head_dim":8,"linear_value_head_dim":12,"linear_conv_kernel_dim":4,
"linear_allow_neg_eigval":true,"rope_parameters":{"rope_theta":10000.0,"rope_type":"default"},"tie_word_embeddings":false,"max_position_embeddings":256}`

// odd is tiny with heads whose length is no multiple of four, which some kernels do not take.
var odd = strings.Replace(tiny, `"hidden_size":32`, `"hidden_size":24`, 1)

// gated is a model of a family whose attention has an output gate and whose heads are normed one by
// one.
const gated = `{"model_type":"qwen3_5_text","vocab_size":37,"hidden_size":24,"intermediate_size":40,"num_hidden_layers":2,
"layer_types":["linear_attention","full_attention"],"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,
"linear_num_key_heads":2,"linear_num_value_heads":4,"linear_key_head_dim":8,"linear_value_head_dim":12,"linear_conv_kernel_dim":4,
"rope_parameters":{"rope_theta":10000.0,"rope_type":"default","partial_rotary_factor":0.25},"tie_word_embeddings":true,"max_position_embeddings":256}`

// Run checks dev. The quick check reads a prompt of a few tokens and one more; the full one covers
// every stored type of weight, longer prompts, the switches and the other families. tell, where it is
// not nil, is called before each dispatch with how many are done and how many there are about; it may
// let others run.
func Run(ctx context.Context, dev webgpu.Device, full bool, tell func(done, total int)) (*Report, error) {
	info := dev.Info()
	rep := &Report{Device: info.Kind, Adapter: info.Adapter, Pass: true}
	type run struct {
		config string
		dtype  safetensors.DType
		prompt int
		sw     model.Switches
	}
	runs := []run{{tiny, safetensors.F16, 40, model.Switches{}}}
	if full {
		off := new(bool)
		switched := model.Switches{Beta: "clamp", Decay: off, Conv: off, Gate: off, Heads: [][2]int{{0, 1}, {1, 2}}}
		runs = append(runs, run{odd, safetensors.F32, 65, model.Switches{}}, run{tiny, safetensors.BF16, 130, model.Switches{}}, run{tiny, safetensors.F16, 33, switched}, run{gated, safetensors.BF16, 40, model.Switches{}})
	}
	for i, run := range runs {
		cfg, err := config.Parse([]byte(run.config))
		if err != nil {
			return nil, err
		}
		ck, err := model.RandomCheckpoint(cfg, run.dtype, 7)
		if err != nil {
			return nil, err
		}
		diffs, err := model.Lockstep(ctx, dev, cfg, ck, run.prompt, run.sw, func(done, total int) {
			if tell != nil {
				tell(i*total+done, len(runs)*total)
			}
		})
		if err != nil {
			return nil, err
		}
		for _, d := range diffs {
			k := Kernel{Name: d.Kernel, Shape: fmt.Sprintf("%s, %s, %d tokens", d.Op, run.dtype, d.Tokens), Worst: goldentest.Number(d.Worst), Bound: goldentest.Number(d.Bound), Pass: d.Worst <= d.Bound}
			rep.Pass = rep.Pass && k.Pass
			rep.Kernels = append(rep.Kernels, k)
		}
	}
	if len(rep.Kernels) == 0 {
		return nil, errors.New("check: nothing was compared")
	}
	return rep, nil
}

// ErrUntrusted says that a device computes wrongly.
var ErrUntrusted = errors.New("the device computes wrong numbers")

// ErrSlow says that an adapter is as slow as a CPU.
var ErrSlow = errors.New("it is taken for software")

// Failure says which kernel of a device is wrong, and by how much. It wraps ErrUntrusted.
type Failure struct {
	Adapter string
	Kernel
}

func (f *Failure) Error() string {
	return fmt.Sprintf("check: %s: kernel %s (%s) is off by %.3g, want at most %.3g: %v", f.Adapter, f.Name, f.Shape, f.Worst, f.Bound, ErrUntrusted)
}

// Unwrap returns ErrUntrusted.
func (f *Failure) Unwrap() error { return ErrUntrusted }

// Err is the worst kernel of a report that did not pass, as a [Failure], else nil.
func (r *Report) Err() error {
	if r.Pass {
		return nil
	}
	return &Failure{r.Device + " " + r.Adapter, r.Worst()}
}

// probe is tiny with the head sizes of the zoo's models, so that what is compiled to check a device
// is what those models run with.
const probe = `{"model_type":"olmo_hybrid","vocab_size":37,"hidden_size":64,"intermediate_size":72,"num_hidden_layers":2,
"layer_types":["linear_attention","full_attention"],"num_attention_heads":2,"num_key_value_heads":1,
"linear_num_key_heads":2,"linear_num_value_heads":2,"linear_key_head_dim":32,"linear_value_head_dim":64,"linear_conv_kernel_dim":4,
"linear_allow_neg_eigval":true,"rope_parameters":{"rope_theta":10000.0,"rope_type":"default"},"tie_word_embeddings":false,"max_position_embeddings":64}`

// Trust runs a small model on dev as a whole, a prompt and some steps, and compares it with the CPU.
// If they differ it runs the quick check and returns an error, wrapping ErrUntrusted, that names the
// kernel that is wrong.
func Trust(ctx context.Context, dev webgpu.Device) error { return trust(ctx, dev, 40, 4, nil) }

// TrustSteps is [Trust] for who only reads token by token: the kernels that read prompts, which take
// a browser without a GPU seconds to compile, are left out. pause, where it is not nil, is called
// between the kernels made ready and between the steps, and may let others run.
func TrustSteps(ctx context.Context, dev webgpu.Device, pause func()) error {
	return trust(ctx, dev, 0, 6, pause)
}

func trust(ctx context.Context, dev webgpu.Device, prompt, steps int, pause func()) error {
	cfg, err := config.Parse([]byte(probe))
	if err != nil {
		return err
	}
	ck, err := model.RandomCheckpoint(cfg, safetensors.F16, 11)
	if err != nil {
		return err
	}
	diffs, err := model.Compare(ctx, dev, cfg, ck, prompt, steps, pause)
	if err == nil && !slices.ContainsFunc(diffs, func(d model.OpDiff) bool { return !(d.Worst <= d.Bound) }) {
		return nil
	}
	if errors.Is(err, webgpu.ErrDeviceLost) || ctx.Err() != nil {
		return err
	}
	info := dev.Info()
	rep, e := Run(ctx, dev, false, nil)
	switch {
	case e != nil:
		return e
	case !rep.Pass:
		return rep.Err()
	case err != nil:
		return err
	}
	d := slices.MaxFunc(diffs, func(a, b model.OpDiff) int { return cmp.Compare(a.Worst, b.Worst) })
	return &Failure{info.Kind + " " + info.Adapter, Kernel{"none alone, but a whole model", d.Op, goldentest.Number(d.Worst), goldentest.Number(d.Bound), false}}
}

// Opened is a device and how it was come by.
type Opened struct {
	Device  webgpu.Device
	Trusted bool   // it passed a check, or it is the CPU device itself
	Reason  string // why it is the CPU, where a GPU was wanted
	Refused error  // what the GPU that was there failed by, in the same case
	Adapter string // and its name
}

// Open opens the device that kind names: cpu; a GPU (vulkan, metal, dx12, browser, or gpu for what
// this system has), which must be there but is taken unchecked; or auto, the GPU if it passes
// [Trust], else the CPU with the reason.
func Open(ctx context.Context, kind string) (Opened, error) {
	return open(ctx, kind, kind == "auto", Trust)
}

// OpenQuick opens a device for a page, which must start soon: a GPU, also one that is asked for, is
// taken if it passes [Quick]. One that auto found and that is as slow as a CPU is not taken.
func OpenQuick(ctx context.Context, kind string) (Opened, error) {
	return open(ctx, kind, true, func(ctx context.Context, dev webgpu.Device) error {
		rep, err := Quick(ctx, dev)
		if err == nil {
			err = rep.Err()
		}
		if err == nil && kind == "auto" {
			err = likeHardware(ctx, dev)
		}
		return err
	})
}

func open(ctx context.Context, kind string, checked bool, trust func(context.Context, webgpu.Device) error) (Opened, error) {
	if kind == "cpu" {
		return Opened{Device: webgpu.NewCPU(), Trusted: true}, nil
	}
	name := kind
	if kind == "auto" || kind == "gpu" {
		name = ""
	}
	asking, cancel := context.WithTimeout(ctx, adapterTimeout)
	defer cancel()
	dev, err := webgpu.OpenGPU(asking, name)
	if !checked || err != nil && kind != "auto" {
		return Opened{Device: dev}, err
	}
	o := Opened{Device: dev, Trusted: true}
	if err == nil {
		if o.Refused = trust(ctx, dev); o.Refused == nil {
			return o, nil
		}
		err, o.Adapter = o.Refused, dev.Info().Adapter
		dev.Close()
	}
	if ctx.Err() != nil {
		return Opened{}, err
	}
	o.Device, o.Reason = webgpu.NewCPU(), strings.Join(strings.Fields(err.Error()), " ")
	return o, nil
}

// adapterTimeout is how long a system may take to name an adapter and open it. A browser's promise
// may never settle.
const adapterTimeout = 10 * time.Second
