// Package model runs Gated-DeltaNet / attention language models on a [webgpu.Device]: it loads a
// checkpoint, records the forward pass as dispatches of the kernels in shaders, and keeps the
// sessions whose state, convolution tail and KV cache a step reads and leaves.
//
// The alphabet of dimensions is that of package shaders: B batch, T time, H heads, K key dim,
// V value dim, D model dim, L layers, W conv kernel, N vocabulary.
package model

import (
	"fmt"
	"math"
	"strings"

	"shellgame/model/config"
	"shellgame/webgpu"
)

// Model is a checkpoint on a device.
type Model struct {
	Name   string
	Config *config.Config
	Params int // numbers in the checkpoint
	// Skipped is what the checkpoint holds besides the language model.
	Skipped []config.Skipped

	dev  webgpu.Device
	w    map[string]weight
	tied bool // the head is the embedding
}

// weight is a matrix or vector [rows, d] on the device, stored as kind, a value of a kernel's W_KIND.
// Its rows are in several buffers where one would be larger than the device binds.
type weight struct {
	parts   []part
	kind    uint32
	rows, d int
}

// part is neighbouring rows of a weight, and behind them their scales.
type part struct {
	buf        webgpu.Buffer
	from, rows int
}

// fused lists the weights that are multiplied as one matrix, their rows one below the other: a
// native device runs dispatches one after another, so one product of many rows beats many of few.
func fused(cfg *config.Config, found map[string]config.Found) map[string][]string {
	f := map[string][]string{"embed": {"embed"}}
	if found["head"].Same == "" {
		f["head"] = []string{"head"}
	}
	for i, l := range cfg.Layers {
		p := fmt.Sprintf("layers.%d.", i)
		if l.Kind == config.GDN {
			f[p+"gdn.in"] = []string{p + "gdn.q", p + "gdn.k", p + "gdn.v", p + "gdn.a", p + "gdn.b", p + "gdn.g"}
			f[p+"gdn.out"] = []string{p + "gdn.o"}
		} else {
			f[p+"attn.in"] = []string{p + "attn.q", p + "attn.k", p + "attn.v"}
			if cfg.AttnGate {
				f[p+"attn.in"] = append(f[p+"attn.in"], p+"attn.gate")
			}
			f[p+"attn.out"] = []string{p + "attn.o"}
		}
		f[p+"mlp.in"] = []string{p + "mlp.gate", p + "mlp.up"}
		f[p+"mlp.out"] = []string{p + "mlp.down"}
	}
	return f
}

// Bytes is what the weights take on the device.
func (m *Model) Bytes() int {
	n := 0
	for role, w := range m.w {
		if role == "head" && m.tied {
			continue
		}
		for _, p := range w.parts {
			n += p.buf.Size()
		}
	}
	return n
}

// Device is where the model's weights are.
func (m *Model) Device() webgpu.Device { return m.dev }

// Release frees the weights.
func (m *Model) Release() {
	for role, w := range m.w {
		if role == "head" && m.tied {
			continue
		}
		for _, p := range w.parts {
			p.buf.Release()
		}
	}
	m.w = nil
}

// Describe says in a few words what the layers are, as "GDN, GDN, GDN, attention".
func Describe(cfg *config.Config) string {
	var kinds []string
	for _, l := range cfg.Layers {
		switch {
		case l.Kind == config.GDN:
			kinds = append(kinds, "GDN")
		case l.Window > 0:
			kinds = append(kinds, fmt.Sprintf("attention over %d", l.Window))
		default:
			kinds = append(kinds, "attention")
		}
	}
	return strings.Join(kinds, ", ")
}

// ropeTable holds cos and sin of every position and pair: [positions, Dim/2, 2]. Angles are formed
// in float32, as transformers does, and their cosines in float64.
func ropeTable(r *config.Rope, positions int) []float32 {
	half := r.Dim / 2
	t := make([]float32, positions*half*2)
	for p := range positions {
		for j := range half {
			a := float64(float32(p) * r.InvFreq[j])
			t[(p*half+j)*2] = float32(math.Cos(a) * float64(r.Scale))
			t[(p*half+j)*2+1] = float32(math.Sin(a) * float64(r.Scale))
		}
	}
	return t
}
