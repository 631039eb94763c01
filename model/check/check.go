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
// those of gated.
const tiny = `{"model_type":"olmo_hybrid","vocab_size":37,"hidden_size":24,"intermediate_size":40,"num_hidden_layers":2,
"layer_types":["linear_attention","full_attention"],"num_attention_heads":4,"num_key_value_heads":2,
"linear_num_key_heads":2,"linear_num_value_heads":2,"linear_key_head_dim":8,"linear_value_head_dim":12,"linear_conv_kernel_dim":4,
"linear_allow_neg_eigval":true,"rope_parameters":{"rope_theta":10000.0,"rope_type":"default"},"tie_word_embeddings":false,"max_position_embeddings":256}`

// gated is a model of a family whose attention has an output gate and whose heads are normed one by
// one.
const gated = `{"model_type":"qwen3_5_text","vocab_size":37,"hidden_size":24,"intermediate_size":40,"num_hidden_layers":2,
"layer_types":["linear_attention","full_attention"],"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,
"linear_num_key_heads":2,"linear_num_value_heads":4,"linear_key_head_dim":8,"linear_value_head_dim":12,"linear_conv_kernel_dim":4,
"rope_parameters":{"rope_theta":10000.0,"rope_type":"default","partial_rotary_factor":0.25},"tie_word_embeddings":true,"max_position_embeddings":256}`

// Run checks dev. The quick check reads a prompt of a few tokens and one more; the full one covers
// every stored type of weight, longer prompts, the switches and the other families.
func Run(ctx context.Context, dev webgpu.Device, full bool) (*Report, error) {
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
		runs = append(runs, run{tiny, safetensors.F32, 65, model.Switches{}}, run{tiny, safetensors.BF16, 130, model.Switches{}}, run{tiny, safetensors.F16, 33, switched}, run{gated, safetensors.BF16, 40, model.Switches{}})
	}
	for _, run := range runs {
		cfg, err := config.Parse([]byte(run.config))
		if err != nil {
			return nil, err
		}
		ck, err := model.RandomCheckpoint(cfg, run.dtype, 7)
		if err != nil {
			return nil, err
		}
		diffs, err := model.Lockstep(ctx, dev, cfg, ck, run.prompt, run.sw)
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

// probe is tiny with the head sizes of the zoo's models, so that what is compiled to check a device
// is what those models run with.
const probe = `{"model_type":"olmo_hybrid","vocab_size":37,"hidden_size":64,"intermediate_size":72,"num_hidden_layers":2,
"layer_types":["linear_attention","full_attention"],"num_attention_heads":2,"num_key_value_heads":1,
"linear_num_key_heads":2,"linear_num_value_heads":2,"linear_key_head_dim":32,"linear_value_head_dim":64,"linear_conv_kernel_dim":4,
"linear_allow_neg_eigval":true,"rope_parameters":{"rope_theta":10000.0,"rope_type":"default"},"tie_word_embeddings":false,"max_position_embeddings":64}`

// Trust runs a small model on dev as a whole, a prompt and some steps, and compares it with the CPU.
// If they differ it runs the quick check and returns an error, wrapping ErrUntrusted, that names the
// kernel that is wrong.
func Trust(ctx context.Context, dev webgpu.Device) error { return trust(ctx, dev, 40, 4) }

// TrustSteps is [Trust] for who only reads token by token: the kernels that read prompts, which take
// a browser without a GPU seconds to compile, are left out.
func TrustSteps(ctx context.Context, dev webgpu.Device) error { return trust(ctx, dev, 0, 6) }

func trust(ctx context.Context, dev webgpu.Device, prompt, steps int) error {
	cfg, err := config.Parse([]byte(probe))
	if err != nil {
		return err
	}
	ck, err := model.RandomCheckpoint(cfg, safetensors.F16, 11)
	if err != nil {
		return err
	}
	diffs, err := model.Compare(ctx, dev, cfg, ck, prompt, steps)
	if err == nil && !slices.ContainsFunc(diffs, func(d model.OpDiff) bool { return !(d.Worst <= d.Bound) }) {
		return nil
	}
	if errors.Is(err, webgpu.ErrDeviceLost) || ctx.Err() != nil {
		return err
	}
	info := dev.Info()
	rep, e := Run(ctx, dev, false)
	switch {
	case e != nil:
		return e
	case !rep.Pass:
		w := rep.Worst()
		return fmt.Errorf("check: %s %s: kernel %s (%s) is off by %.3g, want at most %.3g: %w", info.Kind, info.Adapter, w.Name, w.Shape, w.Worst, w.Bound, ErrUntrusted)
	case err != nil:
		return err
	}
	d := slices.MaxFunc(diffs, func(a, b model.OpDiff) int { return cmp.Compare(a.Worst, b.Worst) })
	return fmt.Errorf("check: %s %s: a whole model's %s is off by %.3g, want at most %.3g, though each kernel alone is right: %w", info.Kind, info.Adapter, d.Op, d.Worst, d.Bound, ErrUntrusted)
}

// Opened is a device and how it was come by.
type Opened struct {
	Device  webgpu.Device
	Trusted bool   // it passed the quick check, or it is the CPU device itself
	Reason  string // why it is the CPU, where a GPU was wanted
}

// Open opens the device that kind names: cpu; a GPU (vulkan, metal, dx12, browser, or gpu for what
// this system has), which must be there but is taken unchecked; or auto, the GPU if it passes the
// quick check, else the CPU with the reason.
func Open(ctx context.Context, kind string) (Opened, error) { return open(ctx, kind, Trust) }

// OpenSteps is [Open] with the check of [TrustSteps].
func OpenSteps(ctx context.Context, kind string) (Opened, error) { return open(ctx, kind, TrustSteps) }

func open(ctx context.Context, kind string, trust func(context.Context, webgpu.Device) error) (Opened, error) {
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
	if kind != "auto" {
		return Opened{Device: dev}, err
	}
	if err == nil {
		if err = trust(ctx, dev); err == nil {
			return Opened{Device: dev, Trusted: true}, nil
		}
		dev.Close()
	}
	if ctx.Err() != nil {
		return Opened{}, err
	}
	return Opened{Device: webgpu.NewCPU(), Trusted: true, Reason: strings.Join(strings.Fields(err.Error()), " ")}, nil
}

// adapterTimeout is how long a system may take to name an adapter and open it. A browser's promise
// may never settle.
const adapterTimeout = 10 * time.Second
