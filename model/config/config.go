// Package config reads config.json of the model families that the project runs
// and knows the names and shapes of their weights.
//
// Keys, defaults and rules are those of the classes OlmoHybridConfig and
// Olmo3Config of transformers 5.17 (https://github.com/huggingface/transformers,
// src/transformers/models/olmo_hybrid and olmo3), whose outputs the golden files
// hold. What can't be honoured is refused by name.
package config

import (
	"fmt"
	"slices"
	"strings"
)

// The model types that Parse accepts.
const (
	OlmoHybrid = "olmo_hybrid"
	Olmo3      = "olmo3"
)

// Kind is what mixes the tokens of a layer.
type Kind int

// The kinds of layers.
const (
	GDN       Kind = iota // gated delta rule
	Attention             // softmax attention
)

func (k Kind) String() string {
	if k == GDN {
		return "gdn"
	}
	return "attention"
}

// Layer is one block: a mixer and an MLP.
type Layer struct {
	Kind   Kind
	Window int   // attention sees itself and Window-1 tokens before; 0 is all
	Rope   *Rope // rotation of q and k; nil is none (NoPE), and so for GDN
}

// Config is a model's shape. Dimensions follow the project's alphabet.
type Config struct {
	ModelType string
	N         int // vocabulary
	D         int // model
	FF        int // MLP
	Layers    []Layer
	Heads     int // attention heads; 0, as KVHeads and HeadDim, without such layers
	KVHeads   int // heads of k and v, each shared by Heads/KVHeads heads of q
	HeadDim   int
	RMSEps    float32

	HK     int  // heads of q and k in GDN layers; 0, as the next five, without such layers
	HV     int  // heads of v, a multiple of HK
	K      int  // dimension of a key
	V      int  // dimension of a value
	W      int  // convolution kernel
	NegEig bool // beta reaches 2, so that eigenvalues reach -1

	Tied   bool // the head is the embedding
	MaxPos int
	BOS    int   // -1 is none
	EOS    int   // the first of EOSAll, -1 is none
	EOSAll []int // every token that ends a text
	Pad    int   // -1 is none
}

// C is the number of convolved channels of a GDN layer: q, k and v.
func (c *Config) C() int { return 2*c.HK*c.K + c.HV*c.V }

// OutputNormEps is the epsilon of the norm after the delta rule, whatever
// rms_norm_eps says.
const OutputNormEps = 1e-5

// Bounds keep products of sizes far from overflow; published models lie well
// below.
const (
	maxVocab  = 1 << 24
	maxDim    = 1 << 20
	maxHeads  = 1 << 12
	maxLayers = 1 << 12
	maxPos    = 1 << 30
)

// unsupported lists options that change the computation in a way that no kernel
// here does, with the values that leave it as it is.
var unsupported = []struct {
	key string
	ok  []string
}{
	{"attention_bias", []string{"false"}},
	{"mlp_bias", []string{"false"}},
	{"hidden_act", []string{`"silu"`, `"swish"`}},
	{"quantization_config", nil},
	{"clip_qkv", nil},
	{"num_experts", []string{"0"}},
	{"num_local_experts", []string{"0"}},
	{"final_logit_softcapping", nil},
	{"attn_logit_softcapping", nil},
	{"logit_scale", []string{"1", "1.0"}},
	{"use_bidirectional_attention", []string{"false"}},
	{"linear_use_gate", []string{"true"}},
	{"is_encoder_decoder", []string{"false"}},
}

// Parse reads a config.json. The error is one line that begins with "config: ".
func Parse(data []byte) (*Config, error) {
	c, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return c, nil
}

func parse(data []byte) (*Config, error) {
	o, err := parseObject("", data)
	if err != nil {
		return nil, err
	}
	c := &Config{ModelType: o.text("model_type", "")}
	if o.err != nil {
		return nil, o.err
	}
	switch c.ModelType {
	case OlmoHybrid, Olmo3:
	case "":
		return nil, fmt.Errorf("model_type: missing, want %s or %s", OlmoHybrid, Olmo3)
	default:
		return nil, fmt.Errorf("model_type: got %q, want %s or %s", c.ModelType, OlmoHybrid, Olmo3)
	}
	for _, u := range unsupported {
		raw := o.raw(u.key)
		if raw == "" || raw == "null" || slices.Contains(u.ok, raw) {
			continue
		}
		want := "none"
		if len(u.ok) > 0 {
			want = u.ok[0]
		}
		return nil, fmt.Errorf("%s: got %s, want %s: not supported", u.key, brief(raw), want)
	}
	hybrid := c.ModelType == OlmoHybrid
	pick := func(h, o3 int) int {
		if hybrid {
			return h
		}
		return o3
	}
	c.N = o.integer("vocab_size", pick(100352, 50304), 1, maxVocab)
	c.D = o.integer("hidden_size", pick(3840, 4096), 1, maxDim)
	c.FF = o.integer("intermediate_size", 11008, 1, maxDim)
	c.MaxPos = o.integer("max_position_embeddings", pick(65536, 2048), 1, maxPos)
	eps := 1e-5
	if hybrid {
		eps = 1e-6
	}
	c.RMSEps = float32(o.number("rms_norm_eps", eps, 0, 1))
	c.Tied = o.boolean("tie_word_embeddings", false)
	heads := o.integer("num_attention_heads", pick(30, 32), 1, maxHeads)
	layers := o.integer("num_hidden_layers", 32, 1, maxLayers)
	kinds := o.texts("layer_types")
	if o.err != nil {
		return nil, o.err
	}
	if kinds == nil {
		kinds = defaultLayers(hybrid, layers)
	}
	if len(kinds) != layers {
		return nil, fmt.Errorf("layer_types: got %d layers, want %d (num_hidden_layers)", len(kinds), layers)
	}
	if err := c.setLayers(o, kinds); err != nil {
		return nil, err
	}
	if c.has(Attention) {
		if err := c.setAttention(o, kinds, heads); err != nil {
			return nil, err
		}
	}
	if c.has(GDN) {
		if err := c.setGDN(o, heads); err != nil {
			return nil, err
		}
	}
	return c, c.setTokens(o, pick(100257, 50279), pick(100277, 1))
}

// defaultLayers is the pattern that stands for absent layer_types: every fourth
// layer is full attention, and a hybrid of fewer than four ends in one.
func defaultLayers(hybrid bool, layers int) []string {
	other := "sliding_attention"
	if hybrid {
		other = "linear_attention"
	}
	kinds := make([]string, layers)
	for i := range kinds {
		kinds[i] = other
		if i%4 == 3 {
			kinds[i] = "full_attention"
		}
	}
	if hybrid && layers < 4 {
		kinds[layers-1] = "full_attention"
	}
	return kinds
}

func (c *Config) has(k Kind) bool {
	return slices.ContainsFunc(c.Layers, func(l Layer) bool { return l.Kind == k })
}

func (c *Config) setLayers(o *object, kinds []string) error {
	other := "sliding_attention"
	if c.ModelType == OlmoHybrid {
		other = "linear_attention"
	}
	window := 0
	for i, kind := range kinds {
		if kind != "full_attention" && kind != other {
			return fmt.Errorf("layer_types: layer %d: got %q, want full_attention or %s (%s)", i, kind, other, c.ModelType)
		}
		l := Layer{Kind: Attention}
		switch kind {
		case "linear_attention":
			l.Kind = GDN
		case "sliding_attention":
			if window == 0 {
				if o.raw("sliding_window") == "null" {
					return fmt.Errorf("sliding_window: got null, want a number (layer %d is sliding_attention)", i)
				}
				if window = o.integer("sliding_window", 4096, 1, maxPos); o.err != nil {
					return o.err
				}
			}
			l.Window = window
		}
		c.Layers = append(c.Layers, l)
	}
	return nil
}

func (c *Config) setAttention(o *object, kinds []string, heads int) error {
	c.Heads = heads
	c.KVHeads = o.integer("num_key_value_heads", heads, 1, maxHeads)
	c.HeadDim = o.integer("head_dim", c.D/heads, 1, maxDim)
	if o.err != nil {
		return o.err
	}
	if !o.given("head_dim") && c.D%heads != 0 {
		return fmt.Errorf("num_attention_heads: got %d, want a divisor of hidden_size %d", heads, c.D)
	}
	if heads%c.KVHeads != 0 {
		return fmt.Errorf("num_key_value_heads: got %d, want a divisor of num_attention_heads %d", c.KVHeads, heads)
	}
	ropes, err := c.ropes(o)
	if err != nil {
		return err
	}
	for i, kind := range kinds {
		if c.Layers[i].Kind == Attention {
			c.Layers[i].Rope = ropes[kind]
		}
	}
	return nil
}

func (c *Config) setGDN(o *object, heads int) error {
	c.HK = o.integer("linear_num_key_heads", heads, 1, maxHeads)
	c.HV = o.integer("linear_num_value_heads", heads, 1, maxHeads)
	if o.err != nil {
		return o.err
	}
	c.K = o.integer("linear_key_head_dim", int(0.75*float64(c.D)/float64(c.HK)), 1, maxDim)
	c.V = o.integer("linear_value_head_dim", 2*c.K, 1, maxDim)
	c.W = o.integer("linear_conv_kernel_dim", 4, 1, 64)
	c.NegEig = o.boolean("linear_allow_neg_eigval", true)
	if o.err != nil {
		return o.err
	}
	if c.K == 0 {
		return fmt.Errorf("linear_key_head_dim: missing, want it (hidden_size %d is too small for %d key heads)", c.D, c.HK)
	}
	if c.HV%c.HK != 0 {
		return fmt.Errorf("linear_num_value_heads: got %d, want a multiple of linear_num_key_heads %d", c.HV, c.HK)
	}
	return nil
}

// setTokens reads the special tokens. A class's default that lies outside the
// vocabulary, as for every small model that leaves it out, counts as none.
func (c *Config) setTokens(o *object, eos, pad int) error {
	one := func(key string, def int) int {
		if !o.given(key) {
			if o.raw(key) == "null" || def >= c.N {
				return -1
			}
			return def
		}
		return o.integer(key, -1, 0, c.N-1)
	}
	c.BOS = one("bos_token_id", -1)
	c.Pad = one("pad_token_id", pad)
	c.EOS = -1
	if strings.HasPrefix(o.raw("eos_token_id"), "[") {
		c.EOSAll = o.integers("eos_token_id", 0, c.N-1)
	} else if id := one("eos_token_id", eos); id >= 0 {
		c.EOSAll = []int{id}
	}
	if len(c.EOSAll) > 0 {
		c.EOS = c.EOSAll[0]
	}
	return o.err
}
