package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"shellgame/model"
	"shellgame/model/config"
	"shellgame/model/safetensors"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// qwen is hybrid as Qwen3.5 computes: heads normed one by one, partly rotated and gated.
const qwen = `{"model_type":"qwen3_5_text","vocab_size":41,"hidden_size":24,"intermediate_size":40,"num_hidden_layers":3,
"layer_types":["linear_attention","linear_attention","full_attention"],"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,
"linear_num_key_heads":2,"linear_num_value_heads":4,"linear_key_head_dim":7,"linear_value_head_dim":12,"linear_conv_kernel_dim":4,
"rope_parameters":{"rope_theta":10000.0,"rope_type":"default","partial_rotary_factor":0.25,"mrope_section":[1,1,0]},"tie_word_embeddings":false,"max_position_embeddings":512}`

// families is a small config.json of each family.
var families = map[string]string{
	"olmo_hybrid":  strings.Replace(hybrid, `"tie_word_embeddings":true`, `"tie_word_embeddings":false`, 1),
	"qwen3_5_text": qwen,
	"qwen3_5":      `{"model_type":"qwen3_5","vision_config":{"depth":2},"text_config":` + qwen + `}`,
	"qwen3_next":   strings.NewReplacer(`qwen3_5_text`, `qwen3_next`, `"vocab_size"`, `"num_experts":0,"vocab_size"`, `,"mrope_section":[1,1,0]`, ``).Replace(qwen),
	"olmo3": `{"model_type":"olmo3","vocab_size":41,"hidden_size":24,"intermediate_size":40,"num_hidden_layers":3,"sliding_window":5,
"layer_types":["sliding_attention","sliding_attention","full_attention"],"num_attention_heads":4,"num_key_value_heads":2,"head_dim":8,"tie_word_embeddings":false,"max_position_embeddings":512}`,
}

// saved is a checkpoint of random weights on disk; shard 0 is one file.
func saved(t testing.TB, cfg string, dtype safetensors.DType, shard int64) files {
	t.Helper()
	c, err := config.Parse([]byte(cfg))
	if err != nil {
		t.Fatal(err)
	}
	var entries []safetensors.Entry
	for _, w := range config.Tensors(c) {
		entries = append(entries, model.RandomTensor(w, dtype, 5))
	}
	f := files{all: map[string][]byte{"config.json": []byte(cfg)}}
	f.write(t, entries, shard)
	return f
}

// write puts the weights into one file, or into shards of at most so many bytes.
func (f files) write(t testing.TB, entries []safetensors.Entry, shard int64) {
	t.Helper()
	parts := map[string][]safetensors.Entry{"model.safetensors": entries}
	if shard > 0 {
		var err error
		if parts, f.all["model.safetensors.index.json"], err = safetensors.Split(entries, shard); err != nil || len(parts) < 3 {
			t.Fatalf("got %d shards, %v, want at least 3", len(parts), err)
		}
	}
	for name, list := range parts {
		var b bytes.Buffer
		if err := safetensors.Write(&b, list, nil); err != nil {
			t.Fatal(err)
		}
		f.all[name] = b.Bytes()
	}
}

// entries reads the tensors of model.safetensors.
func (f files) entries(t testing.TB) []safetensors.Entry {
	t.Helper()
	ck, err := safetensors.OpenCheckpoint(f)
	if err != nil {
		t.Fatal(err)
	}
	var list []safetensors.Entry
	for _, name := range ck.Names() {
		x, _ := ck.Tensor(name)
		e := safetensors.Entry{Name: name, DType: x.DType, Shape: x.Shape, Data: make([]byte, x.Bytes)}
		if err := ck.ReadRaw(name, e.Data, 0); err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	return list
}

func opened(t testing.TB, d webgpu.Device, f files) *model.Model {
	t.Helper()
	m, err := model.Open(context.Background(), d, "saved", f, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Release)
	return m
}

// said is what a model says of a short text: logits after each of 20 tokens, the last 4 read one by one.
func said(t testing.TB, m *model.Model) []float32 {
	t.Helper()
	return read(t, m, model.Switches{}, ids(20, m.Config.N), 16)
}

// roundoff is half the distance of 1 to the next number of a type.
var roundoff = map[safetensors.DType]float64{safetensors.F16: 0x1p-11, safetensors.BF16: 0x1p-8}

// Whatever file, shards and type hold the weights, each family computes the same: f32 exactly; halves
// exactly what f32 weights of the same rounded values do, and within their rounding of f32: a logit
// passes through seven weights a layer and two more, each of which may add its roundoff.
func TestFamiliesSaved(t *testing.T) {
	cpu := webgpu.NewCPU()
	for name, cfg := range families {
		for _, tied := range []bool{false, true} {
			if tied {
				cfg = strings.ReplaceAll(cfg, `"tie_word_embeddings":false`, `"tie_word_embeddings":true`)
			}
			what := fmt.Sprintf("%s tied %v", name, tied)
			one := saved(t, cfg, safetensors.F32, 0)
			m := opened(t, cpu, one)
			if m.Config.ModelType != name || m.Config.Tied != tied {
				t.Fatalf("%s: got %s, tied %v", what, m.Config.ModelType, m.Config.Tied)
			}
			want := said(t, m)
			gputest.Close(t, what+" sharded", gputest.Tolerance{}, said(t, opened(t, cpu, saved(t, cfg, safetensors.F32, 4000))), want)
			for dtype, u := range roundoff {
				if tied && dtype != safetensors.BF16 { // the head is the embedding, whatever its type
					continue
				}
				half := saved(t, cfg, dtype, 0)
				got := said(t, opened(t, cpu, half))
				gputest.Close(t, fmt.Sprint(what, dtype, " sharded"), gputest.Tolerance{}, said(t, opened(t, cpu, saved(t, cfg, dtype, 2000))), got)
				whole := files{all: map[string][]byte{"config.json": []byte(cfg)}}
				var list []safetensors.Entry
				for _, e := range half.entries(t) {
					x := make([]float32, len(e.Data)/2)
					safetensors.Decode(dtype, x, e.Data)
					w, err := safetensors.EntryF32(e.Name, safetensors.F32, e.Shape, x)
					if err != nil {
						t.Fatal(err)
					}
					list = append(list, w)
				}
				whole.write(t, list, 0)
				gputest.Close(t, fmt.Sprint(what, dtype, " as f32"), gputest.Tolerance{}, said(t, opened(t, cpu, whole)), got)
				diff := make([]float32, len(got))
				for i, g := range got {
					diff[i] = g - want[i]
				}
				bound := u * float64(7*len(m.Config.Layers)+2)
				if e := rms(diff) / rms(want); !(e <= bound) || e < u/100 {
					t.Errorf("%s %s: off by %.3g of the logits' RMS, want at most %.3g, and some", what, dtype, e, bound)
				}
			}
			// An untied model without a head is refused; a tied one may bring it.
			bare := files{all: map[string][]byte{"config.json": []byte(cfg)}}
			bare.write(t, slices.DeleteFunc(one.entries(t), func(e safetensors.Entry) bool { return e.Name == "lm_head.weight" }), 0)
			switch _, err := model.Open(context.Background(), cpu, "bare", bare, nil); {
			case tied && err != nil:
				t.Errorf("%s without a head: %v", what, err)
			case !tied && (err == nil || !strings.Contains(err.Error(), "head: missing")):
				t.Errorf("%s without a head: got %v", what, err)
			}
		}
	}
}

// Every device says of each family's halves in shards what the CPU says.
func TestFamiliesOnDevices(t *testing.T) {
	cpu := webgpu.NewCPU()
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		if d.Info().Kind == "cpu" {
			return
		}
		for name, cfg := range families {
			f := saved(t, cfg, safetensors.F16, 2000)
			gputest.Close(t, name, close4, said(t, opened(t, d, f)), said(t, opened(t, cpu, f)))
		}
	})
}

// A Qwen3.5 that also sees computes what its language model alone does, whichever of its two names the
// layers have; the rest is left aside and named.
func TestQwen35Vision(t *testing.T) {
	cpu := webgpu.NewCPU()
	want := said(t, opened(t, cpu, saved(t, qwen, safetensors.F32, 0)))
	for _, base := range []string{"model.", "model.language_model."} {
		f := files{all: map[string][]byte{"config.json": []byte(families["qwen3_5"])}}
		list := saved(t, qwen, safetensors.F32, 0).entries(t)
		for i, e := range list {
			if rest, ok := strings.CutPrefix(e.Name, "model."); ok {
				list[i].Name = base + rest
			}
		}
		for _, name := range []string{"model.visual.patch_embed.proj.weight", "model.visual.blocks.0.attn.qkv.weight", "mtp.fc.weight"} {
			list = append(list, safetensors.Entry{Name: name, DType: safetensors.BF16, Shape: []int{3, 5}, Data: bytes.Repeat([]byte{0xff}, 30)}) // NaN
		}
		f.write(t, list, 4000)
		m := opened(t, cpu, f)
		gputest.Close(t, base, gputest.Tolerance{}, said(t, m), want)
		if got := fmt.Sprint(m.Skipped); got != "[multi-token prediction: 1 tensors, 0.0 MB vision: 2 tensors, 0.0 MB]" {
			t.Errorf("skipped: got %s", got)
		}
		info, err := json.Marshal(m.Info())
		if err != nil || !strings.Contains(string(info), `"skipped":[{"what":"multi-token prediction","tensors":1,"bytes":30},{"what":"vision","tensors":2,"bytes":60}]`) {
			t.Errorf("info: got %s, %v", info, err)
		}
	}
}

// Qwen3-Next is Qwen3.5 with q, k, v and gates in two tensors, the rows of a key head together.
func TestQwen3NextIsQwen35Interleaved(t *testing.T) {
	cpu := webgpu.NewCPU()
	from := saved(t, qwen, safetensors.F32, 0)
	tensors := map[string]safetensors.Entry{}
	for _, e := range from.entries(t) {
		tensors[e.Name] = e
	}
	const hk, hv, k, v, d = 2, 4, 7, 12, 24
	row := func(e safetensors.Entry, from, n int) []byte { return e.Data[4*d*from:][:4*d*n] }
	for i := range 2 {
		p := fmt.Sprintf("model.layers.%d.linear_attn.", i)
		qkv, z, b, a := tensors[p+"in_proj_qkv.weight"], tensors[p+"in_proj_z.weight"], tensors[p+"in_proj_b.weight"], tensors[p+"in_proj_a.weight"]
		const each = hv / hk
		var qkvz, ba []byte
		for g := range hk {
			qkvz = slices.Concat(qkvz, row(qkv, g*k, k), row(qkv, hk*k+g*k, k), row(qkv, 2*hk*k+g*each*v, each*v), row(z, g*each*v, each*v))
			ba = slices.Concat(ba, row(b, g*each, each), row(a, g*each, each))
		}
		for _, part := range []string{"qkv", "z", "b", "a"} {
			delete(tensors, p+"in_proj_"+part+".weight")
		}
		for name, data := range map[string][]byte{"in_proj_qkvz": qkvz, "in_proj_ba": ba} {
			name = p + name + ".weight"
			tensors[name] = safetensors.Entry{Name: name, DType: safetensors.F32, Shape: []int{len(data) / 4 / d, d}, Data: data}
		}
	}
	to := files{all: map[string][]byte{"config.json": []byte(families["qwen3_next"])}}
	var list []safetensors.Entry
	for _, e := range tensors {
		list = append(list, e)
	}
	to.write(t, list, 0)
	gputest.Close(t, "interleaved", gputest.Tolerance{}, said(t, opened(t, cpu, to)), said(t, opened(t, cpu, from)))
}

// Beta of a Qwen reaches 1 and no more: what its traces hold, and what switches of beta leave as it is.
func TestQwenBeta(t *testing.T) {
	m := random(t, webgpu.NewCPU(), qwen)
	s := runner(t, m, model.Options{Tokens: 32, Positions: 32, Seqs: 1, Trace: true}).NewSession()
	most := float32(0)
	for _, id := range ids(20, m.Config.N) {
		step, err := s.TraceStep(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range step.Layers[:2] {
			if len(l.Beta) != 4 || len(l.K.Data) != 2*7 || len(l.State.Data) != 4*7*12 {
				t.Fatalf("got %d betas, %d of k, %d of state", len(l.Beta), len(l.K.Data), len(l.State.Data))
			}
			most = max(most, slices.Max(l.Beta))
		}
		if rows := step.Layers[2].Rows; rows.Shape[0] != 4 || math.Abs(float64(sum(rows.Data))-4) > 1e-5 {
			t.Fatalf("attention rows of shape %v sum to %v", rows.Shape, sum(rows.Data))
		}
	}
	if !(most > 0.6 && most < 1) {
		t.Errorf("the largest beta is %v", most)
	}
	plain := read(t, m, model.Switches{}, ids(20, 41), 10)
	for _, beta := range []string{"sigmoid", "clamp"} {
		gputest.Close(t, beta, gputest.Tolerance{}, read(t, m, model.Switches{Beta: beta}, ids(20, 41), 10), plain)
	}
}

func sum(x []float32) (s float32) {
	for _, v := range x {
		s += v
	}
	return s
}
