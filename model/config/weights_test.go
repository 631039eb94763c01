package config

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"shellgame/model/safetensors"
)

// tensors is a Source of names and shapes.
type tensors map[string]safetensors.Tensor

func (t tensors) Names() []string { return slices.Sorted(maps.Keys(t)) }

func (t tensors) Tensor(name string) (safetensors.Tensor, bool) { v, ok := t[name]; return v, ok }

func (t tensors) put(name string, shape ...int) {
	n := int64(2)
	for _, d := range shape {
		n *= int64(d)
	}
	t[name] = safetensors.Tensor{Name: name, DType: safetensors.F16, Shape: shape, Bytes: n}
}

// published is the tensors of the zoo's hybrid: convolutions apart, the norms
// spelled as in the zoo.
func published(c *Config) tensors {
	t := tensors{}
	for _, w := range Weights(c) {
		if !w.Conv {
			t.put(w.Forms[0].Names[0], w.Shape...)
			continue
		}
		for i, rows := range []int{c.HK * c.K, c.HK * c.K, c.HV * c.V} {
			t.put(w.Forms[1].Names[i], rows, 1, c.W)
		}
	}
	return t
}

func TestResolveSpellings(t *testing.T) {
	c := mustParse(t, zooConfig())
	src := published(c)
	if _, err := Resolve(c, src); err != nil {
		t.Fatal(err)
	}
	rename := func(from, to string) {
		v, ok := src[from]
		if !ok {
			t.Fatalf("no %s", from)
		}
		delete(src, from)
		src.put(to, v.Shape...)
	}
	rename("model.layers.0.attention_layer_norm.weight", "model.layers.0.input_layernorm.weight")
	rename("model.layers.0.feedforward_layer_norm.weight", "model.layers.0.post_attention_layernorm.weight")
	rename("model.layers.3.post_attention_layernorm.weight", "model.layers.3.feedforward_layer_norm.weight")
	for _, p := range []string{"q", "k", "v"} {
		delete(src, "model.layers.1.linear_attn."+p+"_conv1d.weight")
	}
	src.put("model.layers.1.linear_attn.conv1d.weight", 512, 1, 4)
	// transformers cuts the rows into equal parts.
	src.put("model.layers.2.linear_attn.q_conv1d.weight", 171, 1, 4)
	src.put("model.layers.2.linear_attn.k_conv1d.weight", 171, 1, 4)
	src.put("model.layers.2.linear_attn.v_conv1d.weight", 170, 1, 4)
	src.put("model.layers.3.self_attn.rotary_emb.inv_freq", 16)
	found, err := Resolve(c, src)
	if err != nil {
		t.Fatal(err)
	}
	for role, want := range map[string]string{
		"layers.0.norm_a":   "model.layers.0.input_layernorm.weight",
		"layers.0.norm_m":   "model.layers.0.post_attention_layernorm.weight",
		"layers.3.norm_a":   "model.layers.3.feedforward_layer_norm.weight",
		"layers.3.norm_m":   "model.layers.3.post_feedforward_layernorm.weight",
		"layers.1.gdn.conv": "model.layers.1.linear_attn.conv1d.weight",
		"layers.2.gdn.conv": "model.layers.2.linear_attn.q_conv1d.weight",
	} {
		if got := found[role]; len(got.Tensors) == 0 || got.Tensors[0].Name != want {
			t.Errorf("%s: got %v, want %s", role, got.Tensors, want)
		}
	}
	if f := found["layers.2.gdn.conv"]; !slices.Equal(f.Shape, []int{512, 4}) || len(f.Tensors) != 3 {
		t.Errorf("conv: got %+v", f)
	}
}

func TestResolveTied(t *testing.T) {
	c := mustParse(t, zooConfig(`"tie_word_embeddings": false`, `"tie_word_embeddings": true`))
	src := published(c)
	found, err := Resolve(c, src)
	if err != nil || found["head"].Same != "" {
		t.Errorf("with a head of its own: got %+v, %v", found["head"], err)
	}
	delete(src, "lm_head.weight")
	found, err = Resolve(c, src)
	if f := found["head"]; err != nil || f.Same != "embed" || f.Tensors[0].Name != "model.embed_tokens.weight" || f.DType != safetensors.F16 {
		t.Errorf("without: got %+v, %v", f, err)
	}
}

func TestResolveRefused(t *testing.T) {
	c := mustParse(t, zooConfig())
	const linear = "model.layers.1.linear_attn."
	for _, k := range []struct {
		name   string
		change func(tensors)
		want   string
	}{
		{"shape", func(s tensors) { s.put("model.layers.3.self_attn.q_proj.weight", 64, 128) }, `layers.3.attn.q: shape [64 128], want [128 128] (config.json num_attention_heads=4 hidden_size=128)`},
		{"rank", func(s tensors) { s.put(linear+"A_log", 4, 1) }, `layers.1.gdn.A_log: shape [4 1], want [4] (config.json linear_num_value_heads=4)`},
		{"scalar", func(s tensors) { s.put("model.norm.weight") }, `norm: shape [], want [128] (config.json hidden_size=128)`},
		{"conv rows", func(s tensors) { s.put(linear+"v_conv1d.weight", 128, 1, 4) }, `layers.1.gdn.conv: shape [128 1 4] + [128 1 4] + [128 1 4], want [512 1 4] (config.json linear_num_key_heads=4 linear_key_head_dim=32 linear_num_value_heads=4 linear_value_head_dim=64 linear_conv_kernel_dim=4)`},
		{"conv kernel", func(s tensors) { s.put(linear+"k_conv1d.weight", 128, 1, 3) }, `layers.1.gdn.conv: shape [128 1 4] + [128 1 3] + [256 1 4], want [512 1 4] (config.json linear_num_key_heads=4 linear_key_head_dim=32 linear_num_value_heads=4 linear_value_head_dim=64 linear_conv_kernel_dim=4)`},
		{"conv part", func(s tensors) { delete(s, linear+"k_conv1d.weight") }, `layers.1.gdn.conv: got ` + linear + `q_conv1d.weight and ` + linear + `v_conv1d.weight alone, want ` + linear + `q_conv1d.weight, ` + linear + `k_conv1d.weight, ` + linear + `v_conv1d.weight`},
		{"conv twice", func(s tensors) { s.put(linear+"conv1d.weight", 512, 1, 4) }, `layers.1.gdn.conv: got both ` + linear + `conv1d.weight and ` + linear + `q_conv1d.weight, want one form`},
		{"spelled twice", func(s tensors) { s.put("model.layers.1.input_layernorm.weight", 128) }, `layers.1.norm_a: got both model.layers.1.attention_layer_norm.weight and model.layers.1.input_layernorm.weight, want one spelling`},
		{"missing", func(s tensors) { delete(s, linear+"b_proj.weight") }, `layers.1.gdn.b: missing, want ` + linear + `b_proj.weight`},
		{"missing norm", func(s tensors) { delete(s, "model.layers.3.post_attention_layernorm.weight") }, `layers.3.norm_a: missing, want model.layers.3.post_attention_layernorm.weight or model.layers.3.feedforward_layer_norm.weight`},
		{"missing head", func(s tensors) { delete(s, "lm_head.weight") }, `head: missing, want lm_head.weight (config.json tie_word_embeddings=false)`},
		{"missing layer", func(s tensors) {
			maps.DeleteFunc(s, func(k string, _ safetensors.Tensor) bool { return strings.HasPrefix(k, "model.layers.3.") })
		}, `layers.3.attn.q: missing, want model.layers.3.self_attn.q_proj.weight: the checkpoint has no layer 3 (config.json num_hidden_layers=4)`},
		{"more layers", func(s tensors) { s.put("model.layers.7.mlp.up_proj.weight", 1) }, `model.layers.7.mlp.up_proj.weight: got layer 7, want layers 0 to 3 (config.json num_hidden_layers=4)`},
		{"no layer number", func(s tensors) { s.put("model.layers.x.w", 1) }, `model.layers.x.w: got layer x, want layers 0 to 3 (config.json num_hidden_layers=4)`},
		{"other kind", func(s tensors) {
			for k, v := range s {
				if strings.HasPrefix(k, "model.layers.3.") {
					delete(s, k)
					s.put(strings.Replace(k, "self_attn", "linear_attn", 1), v.Shape...)
				}
			}
		}, `layers.3.attn.q: missing, want model.layers.3.self_attn.q_proj.weight: layer 3 has linear_attn weights (config.json layer_types: full_attention)`},
		{"extra", func(s tensors) {
			s.put("model.layers.3.self_attn.q_proj.bias", 128)
			s.put("visual.patch.weight", 3)
		}, `model.layers.3.self_attn.q_proj.bias (and 1 more): got a tensor that the olmo_hybrid of config.json has no use for, want none`},
		{"dtype", func(s tensors) {
			s["model.norm.weight"] = safetensors.Tensor{Name: "model.norm.weight", DType: safetensors.I8, Shape: []int{128}}
		}, `norm: dtype I8, want F32, F16 or BF16`},
		{"mixed parts", func(s tensors) {
			n := linear + "k_conv1d.weight"
			s[n] = safetensors.Tensor{Name: n, DType: safetensors.F32, Shape: []int{128, 1, 4}}
		}, `layers.1.gdn.conv: dtypes F16 and F32, want one type for all parts`},
		{"empty", func(s tensors) { clear(s) }, `embed: missing, want model.embed_tokens.weight`},
	} {
		t.Run(k.name, func(t *testing.T) {
			src := published(c)
			k.change(src)
			_, err := Resolve(c, src)
			if err == nil || err.Error() != "weights: "+k.want {
				t.Errorf("\ngot  %v\nwant weights: %s", err, k.want)
			}
		})
	}
}

func TestNotFinite(t *testing.T) {
	for _, d := range []safetensors.DType{safetensors.F32, safetensors.F16, safetensors.BF16} {
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
			x := make([]float32, 12)
			x[7] = bad
			e1, err1 := safetensors.EntryF32("a", d, []int{1, 1, 3}, x[:3])
			e2, err2 := safetensors.EntryF32("b", d, []int{3, 1, 3}, x[3:])
			var b bytes.Buffer
			if err := errors.Join(err1, err2, safetensors.Write(&b, []safetensors.Entry{e1, e2}, nil)); err != nil {
				t.Fatal(err)
			}
			file, err := safetensors.Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
			if err != nil {
				t.Fatal(err)
			}
			ta, _ := file.Tensor("a")
			tb, _ := file.Tensor("b")
			f := Found{Role: "layers.0.gdn.conv", Shape: []int{4, 3}, DType: d, Tensors: []safetensors.Tensor{ta, tb}}
			const want = "weights: layers.0.gdn.conv: value at [2 1]: got NaN or infinity, want finite numbers: the checkpoint is damaged or its training diverged"
			if _, err := f.ReadF32(file); err == nil || err.Error() != want {
				t.Errorf("%s %v: ReadF32: got %v", d, bad, err)
			}
			if _, err := f.ReadRaw(file); err == nil || err.Error() != want {
				t.Errorf("%s %v: ReadRaw: got %v", d, bad, err)
			}
			f.Tensors, f.Shape = f.Tensors[:1], []int{1, 3}
			if x, err := f.ReadF32(file); err != nil || len(x) != 3 {
				t.Errorf("%s: a finite weight: got %v, %v", d, x, err)
			}
		}
	}
	if _, err := (Found{Role: "head"}).ReadF32(nil); err == nil {
		t.Error("read what was not resolved")
	}
}

// preferred is every tensor that a config asks for, in the preferred spelling.
func preferred(c *Config) tensors {
	t := tensors{}
	for _, w := range Tensors(c) {
		t.put(w.Name, w.Shape...)
	}
	return t
}

// Every family's table names each weight once, its preferred tensors resolve, and the rows of a shared
// tensor are handed out whole.
func TestTables(t *testing.T) {
	for name := range families {
		text := `{"model_type": "` + name + `", "num_hidden_layers": 4, "num_experts": 0, "text_config": {"num_hidden_layers": 4}}`
		c := mustParse(t, text)
		src := preferred(c)
		found, err := Resolve(c, src)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := map[string]int64{}
		for _, f := range found {
			if f.Same != "" {
				continue
			}
			end := map[string]int64{}
			for _, p := range f.Pieces() {
				if p.Off < end[p.Tensor.Name] {
					t.Errorf("%s: %s: rows from byte %d on, want them in order", name, f.Role, p.Off)
				}
				end[p.Tensor.Name] = p.Off + p.Bytes
				got[p.Tensor.Name] += p.Bytes
			}
		}
		for file, x := range src {
			if got[file] != x.Bytes {
				t.Errorf("%s: %s: %d bytes of %d are used", name, file, got[file], x.Bytes)
			}
		}
	}
}

func TestResolveQwenRefused(t *testing.T) {
	next := mustParse(t, `{"model_type": "qwen3_next", "num_hidden_layers": 4, "num_experts": 0, "hidden_size": 64, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16, "num_attention_heads": 4, "head_dim": 32}`)
	vision := mustParse(t, `{"model_type": "qwen3_5", "text_config": {"num_hidden_layers": 4}}`)
	for _, k := range []struct {
		name   string
		c      *Config
		change func(tensors)
		want   string
	}{
		{"shared shape", next, func(s tensors) { s.put("model.layers.1.linear_attn.in_proj_qkvz.weight", 190, 64) }, `layers.1.gdn.q: shape [190 64], want [192 64] (config.json linear_num_key_heads=2 linear_key_head_dim=16 hidden_size=64 linear_num_value_heads=4 linear_value_head_dim=16)`},
		{"gate missing", next, func(s tensors) { s.put("model.layers.3.self_attn.q_proj.weight", 128, 64) }, `layers.3.attn.q: shape [128 64], want [256 64] (config.json num_attention_heads=4 head_dim=32 hidden_size=64)`},
		{"head norm", next, func(s tensors) { s.put("model.layers.3.self_attn.q_norm.weight", 128) }, `layers.3.attn.q_norm: shape [128], want [32] (config.json head_dim=32)`},
		{"experts", next, func(s tensors) {
			delete(s, "model.layers.0.mlp.gate_proj.weight")
			s.put("model.layers.0.mlp.experts.0.gate_proj.weight", 512, 64)
		}, `layers.0.mlp.gate: missing, want model.layers.0.mlp.gate_proj.weight`},
		{"missing", next, func(s tensors) { delete(s, "model.layers.2.linear_attn.in_proj_ba.weight") }, `layers.2.gdn.a: missing, want model.layers.2.linear_attn.in_proj_ba.weight`},
		{"vision of a text model", next, func(s tensors) { s.put("model.visual.x", 1) }, `model.visual.x: got a tensor that the qwen3_next of config.json has no use for, want none`},
		{"layer", vision, func(s tensors) { s.put("model.language_model.layers.4.x", 1) }, `model.language_model.layers.4.x: got layer 4, want layers 0 to 3 (config.json num_hidden_layers=4)`},
		{"two prefixes", vision, func(s tensors) { s.put("model.norm.weight", 4096) }, `model.norm.weight: got a tensor that the qwen3_5 of config.json has no use for, want none`},
		{"bias", vision, func(s tensors) { s.put("model.language_model.layers.3.self_attn.q_proj.bias", 8192) }, `model.language_model.layers.3.self_attn.q_proj.bias: got a tensor that the qwen3_5 of config.json has no use for, want none`},
	} {
		src := preferred(k.c)
		k.change(src)
		if _, err := Resolve(k.c, src); err == nil || err.Error() != "weights: "+k.want {
			t.Errorf("%s:\ngot  %v\nwant weights: %s", k.name, err, k.want)
		}
	}
}
