// Package model runs Gated-DeltaNet / attention language models on a [webgpu.Device]: it loads a
// checkpoint, records the forward pass as dispatches of the kernels in shaders, and keeps the
// sessions whose state, convolution tail and KV cache a step reads and leaves.
//
// The alphabet of dimensions is that of package shaders: B batch, T time, H heads, K key dim,
// V value dim, D model dim, L layers, W conv kernel, N vocabulary.
package model

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"shellgame/model/config"
	"shellgame/model/safetensors"
	"shellgame/shaders"
	"shellgame/webgpu"
)

// Model is a checkpoint on a device.
type Model struct {
	Name   string
	Config *config.Config
	Params int // numbers in the checkpoint

	dev webgpu.Device
	w   map[string]weight
}

// weight is a matrix or vector on the device, stored as kind, a value of a kernel's W_KIND.
type weight struct {
	buf  webgpu.Buffer
	kind uint32
	rows int
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
			f[p+"attn.out"] = []string{p + "attn.o"}
		}
		f[p+"mlp.in"] = []string{p + "mlp.gate", p + "mlp.up"}
		f[p+"mlp.out"] = []string{p + "mlp.down"}
	}
	return f
}

// Load reads every weight of a checkpoint to the device, one tensor after another and without a
// second whole copy. Matrices keep their stored type; vectors become f32. A missing weight, a
// wrong shape or a value that is not finite is an error that names the weight.
func Load(ctx context.Context, dev webgpu.Device, name string, cfg *config.Config, ck *safetensors.Checkpoint) (*Model, error) {
	found, err := config.Resolve(cfg, ck)
	if err != nil {
		return nil, err
	}
	m := &Model{Name: name, Config: cfg, dev: dev, w: map[string]weight{}}
	if err := m.load(ctx, ck, found); err != nil {
		m.Release()
		return nil, err
	}
	return m, nil
}

func (m *Model) load(ctx context.Context, ck *safetensors.Checkpoint, found map[string]config.Found) error {
	inMatrix := map[string]bool{}
	matrices := fused(m.Config, found)
	for _, role := range slices.Sorted(maps.Keys(matrices)) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("model: loading %s: %w", m.Name, err)
		}
		if err := m.loadMatrix(ck, found, role, matrices[role]); err != nil {
			return err
		}
		for _, p := range matrices[role] {
			inMatrix[p] = true
		}
	}
	for _, role := range slices.Sorted(maps.Keys(found)) {
		if inMatrix[role] || found[role].Same != "" {
			continue
		}
		v, err := found[role].ReadF32(ck)
		if err != nil {
			return err
		}
		m.Params += len(v)
		buf, err := m.dev.NewBuffer(m.Name+" "+role, 4*len(v))
		if err != nil {
			return fmt.Errorf("model: %s: %w", role, err)
		}
		m.w[role] = weight{buf, shaders.F32, len(v)}
		if err := m.dev.Write(buf, 0, byteView(wordsOf(v))); err != nil {
			return err
		}
	}
	if found["head"].Same != "" {
		m.w["head"] = m.w["embed"]
	}
	return nil
}

// kinds maps stored types to the kernels' own.
var kinds = map[safetensors.DType]uint32{safetensors.F32: shaders.F32, safetensors.F16: shaders.F16, safetensors.BF16: shaders.BF16}

// loadMatrix uploads the rows of parts below one another, in their stored type if they share it,
// else as f32.
func (m *Model) loadMatrix(ck *safetensors.Checkpoint, found map[string]config.Found, role string, parts []string) error {
	same, rows, bytes, elements := true, 0, 0, 0
	for _, p := range parts {
		f := found[p]
		same = same && f.DType == found[parts[0]].DType
		rows += f.Shape[0]
		elements += f.Shape[0] * f.Shape[1]
		bytes += int(f.Bytes())
	}
	m.Params += elements
	kind := kinds[found[parts[0]].DType]
	if !same {
		kind, bytes = shaders.F32, 4*elements
	}
	buf, err := m.dev.NewBuffer(m.Name+" "+role, bytes)
	if err != nil {
		return fmt.Errorf("model: %s: %w", role, err)
	}
	m.w[role] = weight{buf, kind, rows}
	up := uploader{dev: m.dev, buf: buf}
	for _, p := range parts {
		if same {
			err = stream(ck, found[p], &up)
		} else {
			var v []float32
			if v, err = found[p].ReadF32(ck); err == nil {
				err = up.add(byteView(wordsOf(v)))
			}
		}
		if err != nil {
			return err
		}
	}
	return up.flush(true)
}

const uploadChunk = 1 << 20

// stream copies a weight's bytes to the device in chunks and refuses what is not finite.
func stream(ck *safetensors.Checkpoint, f config.Found, up *uploader) error {
	chunk := make([]byte, min(uploadChunk, f.Bytes()))
	for _, t := range f.Tensors {
		for off := int64(0); off < t.Bytes; {
			c := chunk[:min(int64(len(chunk)), t.Bytes-off)]
			if err := ck.ReadRaw(t.Name, c, off); err != nil {
				return fmt.Errorf("weights: %s: %w", f.Role, err)
			}
			if i := safetensors.NonFinite(t.DType, c); i >= 0 {
				return fmt.Errorf("weights: %s: element %d of %s: got NaN or infinity, want finite numbers: the checkpoint is damaged or its training diverged", f.Role, int(off)/t.DType.Size()+i, t.Name)
			}
			if err := up.add(c); err != nil {
				return err
			}
			off += int64(len(c))
		}
	}
	return nil
}

// uploader joins pieces of any length into writes of whole words.
type uploader struct {
	dev  webgpu.Device
	buf  webgpu.Buffer
	at   int
	held []byte
}

func (u *uploader) add(b []byte) error {
	if len(u.held) > 0 || len(b)%4 != 0 {
		u.held = append(u.held, b...)
		return u.flush(false)
	}
	if err := u.dev.Write(u.buf, u.at, b); err != nil {
		return err
	}
	u.at += len(b)
	return nil
}

func (u *uploader) flush(last bool) error {
	if last {
		for len(u.held)%4 != 0 {
			u.held = append(u.held, 0)
		}
	}
	n := len(u.held) &^ 3
	if n == 0 {
		return nil
	}
	if err := u.dev.Write(u.buf, u.at, u.held[:n]); err != nil {
		return err
	}
	u.at += n
	u.held = append(u.held[:0], u.held[n:]...)
	return nil
}

// Device is where the model's weights are.
func (m *Model) Device() webgpu.Device { return m.dev }

// Release frees the weights.
func (m *Model) Release() {
	if m.w["head"] == m.w["embed"] {
		delete(m.w, "head")
	}
	for _, w := range m.w {
		w.buf.Release()
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
