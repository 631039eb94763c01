package config

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"shellgame/model/safetensors"
)

const goldenDir = "../../testdata/golden"

func goldenCase(t *testing.T, name string) (*Config, *safetensors.Checkpoint) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(goldenDir, name, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	ckpt, err := safetensors.OpenCheckpoint(safetensors.Dir(filepath.Join(goldenDir, name)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ckpt.Close() })
	return c, ckpt
}

// kinds writes layers as g (GDN), a (full attention) and s (sliding).
func kinds(c *Config) string {
	var b strings.Builder
	for _, l := range c.Layers {
		switch {
		case l.Kind == GDN:
			b.WriteByte('g')
		case l.Window > 0:
			b.WriteByte('s')
		default:
			b.WriteByte('a')
		}
	}
	return b.String()
}

func TestGoldenConfigs(t *testing.T) {
	for name, want := range map[string]struct {
		Config
		kinds string
		theta float64 // of the first attention layer, 0 is NoPE
	}{
		"olmo-hybrid": {Config{
			ModelType: OlmoHybrid, N: 101, D: 64, FF: 160, Heads: 4, KVHeads: 4, HeadDim: 16, RMSEps: 1e-6,
			HK: 4, HV: 4, K: 12, V: 24, W: 4, NegEig: true, ONormEps: 1e-5, MaxPos: 512, BOS: -1, EOS: 1, EOSAll: []int{1},
		}, "ggga", 10000},
		"olmo-hybrid-nope": {Config{
			ModelType: OlmoHybrid, N: 101, D: 64, FF: 160, Heads: 4, KVHeads: 4, HeadDim: 16, RMSEps: 1e-6,
			HK: 4, HV: 4, K: 12, V: 24, W: 4, NegEig: true, ONormEps: 1e-5, MaxPos: 512, BOS: -1, EOS: 1, EOSAll: []int{1},
		}, "ggga", 0},
		"olmo-hybrid-rope-gqa-poseig": {Config{
			ModelType: OlmoHybrid, N: 101, D: 48, FF: 100, Heads: 4, KVHeads: 2, HeadDim: 12, RMSEps: 1e-6,
			HK: 4, HV: 4, K: 9, V: 18, W: 4, ONormEps: 1e-5, MaxPos: 512, BOS: -1, EOS: 1, EOSAll: []int{1},
		}, "aggag", 500000},
		"olmo-hybrid-vheads-odd": {Config{
			ModelType: OlmoHybrid, N: 101, D: 40, FF: 72, Heads: 2, KVHeads: 2, HeadDim: 20, RMSEps: 1e-6,
			HK: 2, HV: 6, K: 10, V: 14, W: 3, NegEig: true, Tied: true, ONormEps: 1e-5, MaxPos: 512, BOS: -1, EOS: 1, EOSAll: []int{1},
		}, "gag", 10000},
		"qwen3-next-dense": {Config{
			ModelType: Qwen3Next, N: 101, D: 64, FF: 128, Heads: 4, KVHeads: 2, HeadDim: 32, HeadNorm: true, AttnGate: true, RMSEps: 1e-6,
			HK: 2, HV: 4, K: 16, V: 16, W: 4, ONormEps: 1e-6, MaxPos: 512, BOS: -1, EOS: -1, Pad: -1,
		}, "ggga", 10000},
		"qwen3.5-text": {Config{
			ModelType: Qwen35Text, N: 101, D: 64, FF: 128, Heads: 4, KVHeads: 2, HeadDim: 32, HeadNorm: true, AttnGate: true, RMSEps: 1e-6,
			HK: 2, HV: 4, K: 16, V: 16, W: 4, ONormEps: 1e-6, Tied: true, MaxPos: 512, BOS: -1, EOS: -1, Pad: -1,
		}, "ggga", 10000},
		"olmo3-sliding-yarn": {Config{
			ModelType: Olmo3, N: 101, D: 64, FF: 128, Heads: 4, KVHeads: 4, HeadDim: 16, RMSEps: 1e-5,
			MaxPos: 512, BOS: -1, EOS: 1, EOSAll: []int{1},
		}, "sssa", 500000},
	} {
		t.Run(name, func(t *testing.T) {
			c, ckpt := goldenCase(t, name)
			if got := kinds(c); got != want.kinds {
				t.Errorf("layers: got %s, want %s", got, want.kinds)
			}
			theta := 0.0
			for _, l := range c.Layers {
				if l.Kind == GDN && l.Rope != nil {
					t.Error("a GDN layer rotates")
				}
				if l.Rope != nil && theta == 0 {
					theta = l.Rope.Theta
				}
			}
			if theta != want.theta {
				t.Errorf("theta: got %v, want %v", theta, want.theta)
			}
			got := *c
			got.Layers = nil
			if d := cmp.Diff(want.Config, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			checkWeights(t, c, ckpt)
		})
	}
}

// checkWeights reads every role and sees that every tensor has a role.
func checkWeights(t *testing.T, c *Config, ckpt *safetensors.Checkpoint) {
	t.Helper()
	found, err := Resolve(c, ckpt)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, w := range Weights(c) {
		f, ok := found[w.Role]
		if !ok {
			t.Fatalf("%s: not found", w.Role)
		}
		x, err := f.ReadF32(ckpt)
		if err != nil {
			t.Fatal(err)
		}
		n := 1
		for _, d := range w.Shape {
			n *= d
		}
		raw, err := f.ReadRaw(ckpt)
		if err != nil || len(x) != n || len(raw) != n*f.DType.Size() {
			t.Errorf("%s: got %d values, %d bytes, %v, want %d", w.Role, len(x), len(raw), err, n)
		}
		for _, tensor := range f.Tensors {
			used[tensor.Name] = true
		}
	}
	if len(found) != len(Weights(c)) || len(used) != len(ckpt.Names()) {
		t.Errorf("got %d roles and %d tensors in use, want %d and %d", len(found), len(used), len(Weights(c)), len(ckpt.Names()))
	}
	if c.Tied != (found["head"].Same == "embed") {
		t.Errorf("head: got %+v of a model with Tied %v", found["head"], c.Tied)
	}
}

// zooConfig is a config of the zoo with a change or two.
func zooConfig(changes ...string) string {
	s := `{"model_type": "olmo_hybrid", "linear_num_key_heads": 4, "linear_num_value_heads": 4, "linear_key_head_dim": 32,
		"linear_value_head_dim": 64, "linear_conv_kernel_dim": 4, "linear_allow_neg_eigval": true,
		"rope_parameters": {"rope_theta": null, "rope_type": "default"}, "vocab_size": 288, "hidden_size": 128,
		"intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4,
		"layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"], "hidden_act": "silu",
		"rms_norm_eps": 1e-06, "attention_bias": false, "tie_word_embeddings": false, "max_position_embeddings": 1024,
		"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": null, "dtype": "float16"}`
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(s, changes[i]) {
			panic("no " + changes[i])
		}
		s = strings.Replace(s, changes[i], changes[i+1], 1)
	}
	return s
}

func mustParse(t *testing.T, s string) *Config {
	t.Helper()
	c, err := Parse([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestZooConfigs(t *testing.T) {
	c := mustParse(t, zooConfig())
	if c.BOS != 1 || c.EOS != -1 || c.EOSAll != nil || c.Pad != 0 || c.Layers[3].Rope != nil || c.C() != 512 {
		t.Errorf("got %+v", c)
	}
	all := mustParse(t, zooConfig(`"full_attention"`, `"linear_attention"`))
	if got := kinds(all); got != "gggg" || all.Heads != 0 {
		t.Errorf("without attention: got %s, %d heads", got, all.Heads)
	}
	// Heads that do not divide the width are no fault without attention.
	mustParse(t, zooConfig(`"full_attention"`, `"linear_attention"`, `"num_attention_heads": 4`, `"num_attention_heads": 5`))
	none := mustParse(t, zooConfig(strings.Repeat(`"linear_attention", `, 3), strings.Repeat(`"full_attention", `, 3)))
	if got := kinds(none); got != "aaaa" || none.HK != 0 {
		t.Errorf("without GDN: got %s, %d key heads", got, none.HK)
	}
	list := mustParse(t, zooConfig(`"eos_token_id": null`, `"eos_token_id": [7, 9]`))
	if list.EOS != 7 || !slices.Equal(list.EOSAll, []int{7, 9}) {
		t.Errorf("eos: got %d %v", list.EOS, list.EOSAll)
	}
}

func TestDefaults(t *testing.T) {
	h := mustParse(t, `{"model_type": "olmo_hybrid"}`)
	if h.N != 100352 || h.D != 3840 || h.FF != 11008 || h.Heads != 30 || h.KVHeads != 30 || h.HK != 30 || h.HV != 30 ||
		h.K != 96 || h.V != 192 || h.W != 4 || !h.NegEig || h.MaxPos != 65536 || h.EOS != 100257 || h.Pad != 100277 ||
		h.BOS != -1 || h.Tied || h.RMSEps != 1e-6 || kinds(h) != strings.Repeat("ggga", 8) || h.Layers[3].Rope.Theta != 10000 {
		t.Errorf("olmo_hybrid: got %+v", h)
	}
	o := mustParse(t, `{"model_type": "olmo3"}`)
	if o.N != 50304 || o.D != 4096 || o.FF != 11008 || o.Heads != 32 || o.HeadDim != 128 || o.MaxPos != 2048 || o.EOS != 50279 ||
		o.Pad != 1 || o.RMSEps != 1e-5 || kinds(o) != strings.Repeat("sssa", 8) || o.Layers[0].Window != 4096 ||
		o.Layers[0].Rope.Theta != 500000 || o.Layers[3].Rope.Theta != 500000 {
		t.Errorf("olmo3: got %+v", o)
	}
	for n, want := range map[int]string{1: "a", 2: "ga", 3: "gga", 5: "gggag"} {
		if got := kinds(mustParse(t, fmt.Sprintf(`{"model_type": "olmo_hybrid", "num_hidden_layers": %d}`, n))); got != want {
			t.Errorf("%d layers: got %s, want %s", n, got, want)
		}
	}
	// Default token ids beyond a small vocabulary are none.
	if c := mustParse(t, `{"model_type": "olmo_hybrid", "vocab_size": 288}`); c.EOS != -1 || c.Pad != -1 {
		t.Errorf("small vocabulary: got eos %d, pad %d", c.EOS, c.Pad)
	}
}

// TestRopePrecedence: the theta of rope_parameters, then the top-level one, an
// explicit null counting in both, then the default.
func TestRopePrecedence(t *testing.T) {
	const params = `"rope_parameters": {"rope_theta": null, "rope_type": "default"}`
	for _, c := range []struct {
		name, rope string
		theta      float64
		kind       string
	}{
		{"null inside", params, 0, ""},
		{"null inside before a number outside", params + `, "rope_theta": 5000`, 0, ""},
		{"null in both", params + `, "rope_theta": null`, 0, ""},
		{"number inside before null outside", `"rope_parameters": {"rope_theta": 300.5}, "rope_theta": null`, 300.5, "default"},
		{"number inside before a number outside", `"rope_parameters": {"rope_theta": 300}, "rope_theta": 400`, 300, "default"},
		{"no key inside, number outside", `"rope_parameters": {"rope_type": "default"}, "rope_theta": 400`, 400, "default"},
		{"no key inside, null outside", `"rope_parameters": {"rope_type": "default"}, "rope_theta": null`, 0, ""},
		{"no key at all", `"rope_parameters": {"rope_type": "default"}`, 10000, "default"},
		{"empty", `"rope_parameters": {}`, 10000, "default"},
		{"null parameters", `"rope_parameters": null`, 10000, "default"},
		{"null parameters, null outside", `"rope_parameters": null, "rope_theta": null`, 0, ""},
		{"only outside", `"rope_theta": 400`, 400, "default"},
		{"nothing", `"x": 0`, 10000, "default"},
		{"legacy scaling", `"rope_theta": 400, "rope_scaling": {"type": "linear", "factor": 2}`, 400, "linear"},
		{"legacy scaling replaces", `"rope_parameters": {"rope_theta": 7}, "rope_scaling": {"rope_type": "linear", "factor": 2}`, 10000, "linear"},
		{"legacy scaling without rotation", `"rope_theta": null, "rope_scaling": {"rope_type": "linear", "factor": 2}`, 0, ""},
		{"null scaling", `"rope_theta": 400, "rope_scaling": null`, 400, "default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustParse(t, zooConfig(params, c.rope)).Layers[3].Rope
			switch {
			case r == nil && c.theta != 0:
				t.Errorf("got no rotation, want theta %v", c.theta)
			case r != nil && (r.Theta != c.theta || r.Type != c.kind):
				t.Errorf("got %s with theta %v, want %s with %v", r.Type, r.Theta, c.kind, c.theta)
			}
		})
	}
}

func olmo3(rope string) string {
	return `{"model_type": "olmo3", "hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 4, "max_position_embeddings": 65536, ` + rope + `}`
}

func TestOlmo3Rope(t *testing.T) {
	const yarn = `{"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192, "attention_factor": 1.2079441541679836, "beta_fast": 32, "beta_slow": 1}`
	for _, c := range []struct {
		name, rope     string
		sliding, full  float64
		slideT, fullT  string
		fullScale      float32
		fullFrequency5 float64 // of dimension 25
	}{
		{"published", `"rope_theta": 500000, "rope_scaling": ` + yarn, 500000, 500000, "default", "yarn", 1.2079442, 0.0038003201667920743},
		{"outside", `"rope_theta": 10000`, 10000, 10000, "default", "default", 1, math.Pow(10000, -50./128)},
		{"keyed", `"rope_parameters": {"full_attention": {"rope_theta": 7}, "sliding_attention": {"rope_theta": 9}}`, 9, 7, "default", "default", 1, math.Pow(7, -50./128)},
		{"one key", `"rope_parameters": {"full_attention": ` + yarn + `}, "rope_theta": 500000`, 500000, 500000, "default", "yarn", 1.2079442, 0.0038003201667920743},
		{"scaling adds", `"rope_parameters": {"full_attention": {"rope_theta": 500000}, "sliding_attention": null}, "rope_scaling": ` + yarn, 500000, 500000, "default", "yarn", 1.2079442, 0.0038003201667920743},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := mustParse(t, olmo3(c.rope))
			s, f := m.Layers[0].Rope, m.Layers[3].Rope
			if s.Theta != c.sliding || s.Type != c.slideT || s.Scale != 1 || f.Theta != c.full || f.Type != c.fullT || f.Scale != c.fullScale {
				t.Errorf("got sliding %s %v %v, full %s %v %v", s.Type, s.Theta, s.Scale, f.Type, f.Theta, f.Scale)
			}
			near(t, "full", f.InvFreq[25], c.fullFrequency5)
		})
	}
}

func near(t *testing.T, what string, got float32, want float64) {
	t.Helper()
	if d := math.Abs(float64(got) - want); !(d <= 4e-7*math.Abs(want)) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestFrequencies holds values computed apart in float64.
func TestFrequencies(t *testing.T) {
	c, _ := goldenCase(t, "olmo3-sliding-yarn")
	for _, k := range []struct {
		name string
		rope *Rope
		want []float64
	}{
		{"yarn", c.Layers[3].Rope, []float64{1, 0.10908154392113574, 0.004700753866357992, 0.0009115830921521386, 0.00017677669529663688, 3.428102195952591e-05, 6.647869871181236e-06, 1.2891731721515574e-06}},
		{"default", mustParse(t, zooConfig(`"rope_theta": null`, `"rope_theta": 10000`, `"hidden_size": 128`, `"hidden_size": 64`)).Layers[3].Rope, []float64{1, 0.31622776601683794, 0.1, 0.03162277660168379, 0.01, 0.0031622776601683794, 0.001, 0.00031622776601683794}},
		{"partial", mustParse(t, zooConfig(`"rope_theta": null`, `"rope_theta": 10000, "partial_rotary_factor": 0.25`)).Layers[3].Rope, []float64{1, 0.1, 0.01, 0.001}},
		{"partial outside", mustParse(t, zooConfig(`"rope_theta": null`, `"rope_theta": 10000`, `"dtype"`, `"partial_rotary_factor": 0.25, "dtype"`)).Layers[3].Rope, []float64{1, 0.1, 0.01, 0.001}},
		{"linear", mustParse(t, zooConfig(`"rope_theta": null, "rope_type": "default"`, `"rope_theta": 10000, "rope_type": "linear", "factor": 4, "partial_rotary_factor": 0.25`)).Layers[3].Rope, []float64{.25, 0.025, 0.0025, 0.00025}},
	} {
		if len(k.rope.InvFreq) != len(k.want) || k.rope.Dim != 2*len(k.want) {
			t.Errorf("%s: got %d frequencies of %d dimensions, want %d", k.name, len(k.rope.InvFreq), k.rope.Dim, len(k.want))
			continue
		}
		for i, want := range k.want {
			near(t, fmt.Sprintf("%s %d", k.name, i), k.rope.InvFreq[i], want)
		}
	}
	if got := c.Layers[3].Rope.Scale; got != 1.2079442 {
		t.Errorf("scale: got %v", got)
	}
	scale := func(more string) float32 {
		return mustParse(t, olmo3(`"rope_parameters": {"full_attention": {"rope_type": "yarn", "original_max_position_embeddings": 8192`+more+`}}`)).Layers[3].Rope.Scale
	}
	// 65536/8192 = 8 stands for a factor that is not given.
	near(t, "scale from the lengths", scale(``), 0.1*math.Log(8)+1)
	near(t, "scale from the factor", scale(`, "factor": 4`), 0.1*math.Log(4)+1)
	near(t, "scale from mscale", scale(`, "factor": 4, "mscale": 2, "mscale_all_dim": 1`), (0.2*math.Log(4)+1)/(0.1*math.Log(4)+1))
	near(t, "scale from a lone mscale", scale(`, "factor": 4, "mscale": 2, "mscale_all_dim": 0`), 0.1*math.Log(4)+1)
}

func TestRefused(t *testing.T) {
	const params = `"rope_parameters": {"rope_theta": null, "rope_type": "default"}`
	for _, c := range []struct{ config, want string }{
		{``, `config.json: got nothing, want a JSON object`},
		{`<!DOCTYPE html>`, `config.json: got "<!DOCTYPE html>", want a JSON object`},
		{`[1]`, `config.json: got [1], want a JSON object`},
		{`{"model_type": "olmo3"`, `config.json: got "{\"model_type\": \"olmo3\"", want a JSON object`},
		{`{}`, `model_type: missing, want olmo3, olmo_hybrid, qwen3_5, qwen3_5_text or qwen3_next`},
		{`{"model_type": 3}`, `model_type: got 3, want a string`},
		{`{"model_type": "qwen3_5_moe"}`, `model_type: got "qwen3_5_moe", want olmo3, olmo_hybrid, qwen3_5, qwen3_5_text or qwen3_next`},
		{`{"Model_Type": "olmo3"}`, `model_type: missing, want olmo3, olmo_hybrid, qwen3_5, qwen3_5_text or qwen3_next`},
		{zooConfig(`"attention_bias": false`, `"attention_bias": true`), `attention_bias: got true, want false: not supported`},
		{zooConfig(`"silu"`, `"gelu"`), `hidden_act: got "gelu", want "silu": not supported`},
		{zooConfig(`"dtype"`, `"quantization_config": {"bits": 4}, "dtype"`), `quantization_config: got {"bits":4}, want none: not supported`},
		{zooConfig(`"dtype"`, `"num_experts": 8, "dtype"`), `num_experts: got 8, want 0, or every layer in mlp_only_layers (layer 0 is not): experts are not supported`},
		{zooConfig(`"dtype"`, `"linear_use_gate": false, "dtype"`), `linear_use_gate: got false, want true: not supported`},
		{zooConfig(`"vocab_size": 288`, `"vocab_size": 0`), `vocab_size: got 0, want an integer from 1 to 16777216`},
		{zooConfig(`"vocab_size": 288`, `"vocab_size": 288.0`), `vocab_size: got 288.0, want an integer from 1 to 16777216`},
		{zooConfig(`"hidden_size": 128`, `"hidden_size": -4`), `hidden_size: got -4, want an integer from 1 to 1048576`},
		{zooConfig(`"intermediate_size": 384`, `"intermediate_size": "384"`), `intermediate_size: got "384", want an integer from 1 to 1048576`},
		{zooConfig(`"num_hidden_layers": 4`, `"num_hidden_layers": 9999999999999999999`), `num_hidden_layers: got 9999999999999999999, want an integer from 1 to 4096`},
		{zooConfig(`"num_hidden_layers": 4`, `"num_hidden_layers": 5`), `layer_types: got 4 layers, want 5 (num_hidden_layers)`},
		{zooConfig(`"full_attention"`, `"sliding_attention"`), `layer_types: layer 3: got "sliding_attention", want full_attention or linear_attention (olmo_hybrid)`},
		{zooConfig(`"full_attention"`, `3`), `layer_types: got ["linear_attention","linear_attention","linear_attention",3], want an array of strings`},
		{zooConfig(`"num_attention_heads": 4`, `"num_attention_heads": 3`), `num_attention_heads: got 3, want a divisor of hidden_size 128`},
		{zooConfig(`"num_key_value_heads": 4`, `"num_key_value_heads": 3`), `num_key_value_heads: got 3, want a divisor of num_attention_heads 4`},
		{zooConfig(`"linear_num_value_heads": 4`, `"linear_num_value_heads": 6`), `linear_num_value_heads: got 6, want a multiple of linear_num_key_heads 4`},
		{zooConfig(`"linear_conv_kernel_dim": 4`, `"linear_conv_kernel_dim": 0`), `linear_conv_kernel_dim: got 0, want an integer from 1 to 64`},
		{zooConfig(`"linear_allow_neg_eigval": true`, `"linear_allow_neg_eigval": 1`), `linear_allow_neg_eigval: got 1, want true or false`},
		{zooConfig(`1e-06`, `0`), `rms_norm_eps: got 0, want a number above 0 and at most 1`},
		{zooConfig(`"bos_token_id": 1`, `"bos_token_id": 288`), `bos_token_id: got 288, want an integer from 0 to 287`},
		{zooConfig(`"eos_token_id": null`, `"eos_token_id": [2, 999]`), `eos_token_id: got [2,999], want integers from 0 to 287`},
		{zooConfig(params, `"rope_parameters": {"rope_type": "longrope"}`), `rope_parameters.rope_type: got "longrope", want default, linear or yarn`},
		{zooConfig(params, `"rope_parameters": {"long_factor": []}`), `rope_parameters.long_factor: not supported, want rope_theta, rope_type, type, partial_rotary_factor, factor, original_max_position_embeddings, attention_factor, beta_fast, beta_slow, mscale, mscale_all_dim, truncate, mrope_section, mrope_interleaved`},
		{zooConfig(params, `"rope_parameters": 7`), `rope_parameters: got 7, want a JSON object`},
		{zooConfig(params, `"rope_parameters": {"rope_theta": "x"}`), `rope_parameters.rope_theta: got "x", want a number above 1 and at most 1e+15`},
		{zooConfig(params, `"rope_theta": -1`), `rope_theta: got -1, want a number above 1 and at most 1e+15`},
		{zooConfig(params, `"rope_parameters": {"partial_rotary_factor": 0.1}`), `rope_parameters: got 3 rotated dimensions (head dimension 32, partial_rotary_factor 0.1), want an even number`},
		{zooConfig(params, `"rope_scaling": {"rope_type": "linear"}`), `rope_scaling.factor: got nothing, want a number`},
		{zooConfig(params, `"rope_scaling": {"rope_type": "yarn"}`), `rope_scaling.factor: missing, want a number (rope_type yarn)`},
		{olmo3(`"rope_parameters": {"rope_type": "default"}`), `rope_parameters: got key "rope_type", want full_attention and sliding_attention (olmo3 keys them by layer type)`},
		{olmo3(`"rope_theta": null`), `rope_theta of full_attention: got null, want a number (olmo3 always rotates)`},
		{olmo3(`"sliding_window": null`), `sliding_window: got null, want a number (layer 0 is sliding_attention)`},
		{olmo3(`"sliding_window": 0`), `sliding_window: got 0, want an integer from 1 to 1073741824`},
		{olmo3(`"layer_types": ["full_attention", "full_attention", "linear_attention", "full_attention"]`), `layer_types: layer 2: got "linear_attention", want full_attention or sliding_attention (olmo3)`},
	} {
		_, err := Parse([]byte(c.config))
		if err == nil || err.Error() != "config: "+c.want {
			t.Errorf("\ngot  %v\nwant config: %s", err, c.want)
		}
	}
}

// qwen is a config of Qwen3.5 with more keys, which win.
func qwen(more string) string {
	return `{"model_type": "qwen3_5_text", "num_hidden_layers": 4, "head_dim": 64, ` + more + `}`
}

func TestQwenDefaults(t *testing.T) {
	next := mustParse(t, `{"model_type": "qwen3_next", "num_experts": 0}`)
	if next.N != 151936 || next.D != 2048 || next.FF != 5632 || next.Heads != 16 || next.KVHeads != 2 || next.HeadDim != 256 ||
		next.HK != 16 || next.HV != 32 || next.K != 128 || next.V != 128 || next.W != 4 || next.NegEig || !next.HeadNorm || !next.AttnGate ||
		next.RMSEps != 1e-6 || next.ONormEps != 1e-6 || next.MaxPos != 32768 || next.Tied || next.EOS != -1 || next.Pad != -1 ||
		kinds(next) != strings.Repeat("ggga", 12) || !next.Layers[0].PreNorm || !next.Layers[3].PreNorm ||
		next.Layers[3].Rope.Theta != 10000 || next.Layers[3].Rope.Dim != 64 {
		t.Errorf("qwen3_next: got %+v", next)
	}
	text := mustParse(t, `{"model_type": "qwen3_5_text"}`)
	if text.N != 248320 || text.D != 4096 || text.FF != 12288 || text.KVHeads != 4 || kinds(text) != strings.Repeat("ggga", 8) || text.Layers[3].Rope.Dim != 64 {
		t.Errorf("qwen3_5_text: got %+v", text)
	}
	// The object inside counts; that embeddings are tied may stand in either.
	both := mustParse(t, `{"model_type": "qwen3_5", "hidden_size": 7, "tie_word_embeddings": true, "vision_config": {"hidden_act": "gelu"},
		"text_config": {"model_type": "qwen3_5_text", "hidden_size": 512, "full_attention_interval": 2, "num_hidden_layers": 5, "rms_norm_eps": 1e-5}}`)
	if both.ModelType != Qwen35 || both.D != 512 || !both.Tied || kinds(both) != "gagag" || both.ONormEps != 1e-5 {
		t.Errorf("qwen3_5: got %+v", both)
	}
	ends := mustParse(t, `{"model_type": "qwen3_5", "eos_token_id": [5, 6], "pad_token_id": 7, "text_config": {"pad_token_id": 8}}`)
	if ends.EOS != 5 || len(ends.EOSAll) != 2 || ends.Pad != 8 {
		t.Errorf("tokens: got %+v", ends)
	}
	// Legacy keys at the top, as Qwen3-Next was published with.
	old := mustParse(t, qwen(`"rope_theta": 5000000, "partial_rotary_factor": 0.5, "rope_scaling": {"rope_type": "linear", "factor": 2}`)).Layers[3].Rope
	if old.Theta != 5000000 || old.Dim != 32 || old.Type != "linear" {
		t.Errorf("legacy rope: got %+v", old)
	}
	// Text has one position: how the axes share the pairs out changes nothing.
	plain, axes := mustParse(t, qwen(`"x": 0`)).Layers[3].Rope, mustParse(t, qwen(`"rope_parameters": {"mrope_section": [3, 3, 2], "mrope_interleaved": true}`)).Layers[3].Rope
	if d := cmp.Diff(plain, axes); d != "" {
		t.Errorf("mrope: (-plain +sections)\n%s", d)
	}
	// Dense by its list of layers.
	mustParse(t, `{"model_type": "qwen3_next", "num_hidden_layers": 3, "mlp_only_layers": [0, 1, 2]}`)
	mustParse(t, `{"model_type": "qwen3_next", "num_hidden_layers": 3, "decoder_sparse_step": 2, "mlp_only_layers": [1]}`)
}

func TestQwenRefused(t *testing.T) {
	const next = `{"model_type": "qwen3_next", "num_hidden_layers": 3, `
	for _, c := range []struct{ config, want string }{
		{next + `"x": 0}`, `num_experts: got nothing, which stands for 512, want 0, or every layer in mlp_only_layers (layer 0 is not): experts are not supported`},
		{next + `"num_experts": 8, "mlp_only_layers": [0, 2]}`, `num_experts: got 8, want 0, or every layer in mlp_only_layers (layer 1 is not): experts are not supported`},
		{next + `"num_experts": 8, "decoder_sparse_step": 3}`, `num_experts: got 8, want 0, or every layer in mlp_only_layers (layer 2 is not): experts are not supported`},
		{next + `"num_experts": -1}`, `num_experts: got -1, want an integer from 0 to 16777216`},
		{next + `"mlp_only_layers": 3}`, `mlp_only_layers: got 3, want an array of integers`},
		{qwen(`"num_experts": 4`), `num_experts: got 4, want 0, or every layer in mlp_only_layers (layer 0 is not): experts are not supported`},
		{qwen(`"attention_bias": true`), `attention_bias: got true, want false: not supported`},
		{qwen(`"attn_output_gate": false`), `attn_output_gate: got false, want true: not supported`},
		{qwen(`"hidden_act": "gelu_pytorch_tanh"`), `hidden_act: got "gelu_pytorch_tanh", want "silu": not supported`},
		{qwen(`"quantization_config": {"quant_method": "fp8"}`), `quantization_config: got {"quant_method":"fp8"}, want none: not supported`},
		{qwen(`"layer_types": ["linear_attention", "linear_attention", "sliding_attention", "full_attention"]`), `layer_types: layer 2: got "sliding_attention", want full_attention or linear_attention (qwen3_5_text)`},
		{qwen(`"layer_types": ["full_attention"]`), `layer_types: got 1 layers, want 4 (num_hidden_layers)`},
		{qwen(`"full_attention_interval": 0`), `full_attention_interval: got 0, want an integer from 1 to 4096`},
		{qwen(`"linear_num_value_heads": 24`), `linear_num_value_heads: got 24, want a multiple of linear_num_key_heads 16`},
		{qwen(`"num_attention_heads": 6`), `num_key_value_heads: got 4, want a divisor of num_attention_heads 6`},
		{qwen(`"rope_parameters": {"mrope_section": [3, 3, 3]}`), `rope_parameters.mrope_section: got [3,3,3], want three numbers whose sum is 8`},
		{qwen(`"rope_parameters": {"mrope_section": [8]}`), `rope_parameters.mrope_section: got [8], want three numbers whose sum is 8`},
		{qwen(`"rope_parameters": {"mrope_section": "x"}`), `rope_parameters.mrope_section: got "x", want an array of integers`},
		{qwen(`"rope_parameters": {"rope_type": "mrope"}`), `rope_parameters.rope_type: got "mrope", want default, linear or yarn`},
		{qwen(`"partial_rotary_factor": 0.05`), `rope_parameters: got 3 rotated dimensions (head dimension 64, partial_rotary_factor 0.05), want an even number`},
		{`{"model_type": "qwen3_5"}`, `text_config: missing, want the language model's object (qwen3_5)`},
		{`{"model_type": "qwen3_5", "text_config": []}`, `text_config: got [], want a JSON object`},
		{`{"model_type": "qwen3_5", "text_config": {"model_type": "llama"}}`, `text_config.model_type: got "llama", want qwen3_5_text`},
		{`{"model_type": "qwen3_5", "text_config": {"hidden_size": 0}}`, `text_config.hidden_size: got 0, want an integer from 1 to 1048576`},
		{`{"model_type": "qwen3_5", "text_config": {"attention_bias": true}}`, `text_config.attention_bias: got true, want false: not supported`},
		{`{"model_type": "qwen3_5", "text_config": {"num_experts": 2}}`, `text_config.num_experts: got 2, want 0, or every layer in mlp_only_layers (layer 0 is not): experts are not supported`},
		{`{"model_type": "qwen3_5", "eos_token_id": -3, "text_config": {}}`, `eos_token_id: got -3, want an integer from 0 to 248319`},
		{`{"model_type": "qwen3_5", "eos_token_id": 3, "text_config": {"eos_token_id": "x"}}`, `text_config.eos_token_id: got "x", want an integer from 0 to 248319`},
		{`{"model_type": "qwen3_5", "quantization_config": {}, "text_config": {}}`, `quantization_config: got {}, want none: not supported`},
		{`{"model_type": "qwen3_5_moe", "text_config": {}}`, `model_type: got "qwen3_5_moe", want olmo3, olmo_hybrid, qwen3_5, qwen3_5_text or qwen3_next`},
	} {
		_, err := Parse([]byte(c.config))
		if err == nil || err.Error() != "config: "+c.want {
			t.Errorf("\ngot  %v\nwant config: %s", err, c.want)
		}
	}
}
