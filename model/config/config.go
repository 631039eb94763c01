// Package config reads config.json of the model families that the project runs
// and knows the names and shapes of their weights.
//
// Keys, defaults and rules are those of the configuration classes of
// transformers 5.17 (https://github.com/huggingface/transformers,
// src/transformers/models), whose outputs the golden files hold. What can't be
// honoured is refused by name. Each family has a file, which holds what is its
// own and one table from the names of its weights to ours.
package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
	Kind    Kind
	PreNorm bool  // norms stand before the mixer and the MLP; else after them, before their output is added
	Window  int   // attention sees itself and Window-1 tokens before; 0 is all
	Rope    *Rope // rotation of q and k; nil is none (NoPE), and so for GDN
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
	HeadNorm  bool // q and k are normalised head by head, with weights [HeadDim]; else all heads as one row
	AttnGate  bool // attention's output is multiplied by the sigmoid of a gate
	RMSEps    float32

	HK       int     // heads of q and k in GDN layers; 0, as the next five, without such layers
	HV       int     // heads of v, a multiple of HK
	K        int     // dimension of a key
	V        int     // dimension of a value
	W        int     // convolution kernel
	NegEig   bool    // beta reaches 2, so that eigenvalues reach -1
	ONormEps float32 // of the norm after the delta rule

	Tied   bool // the head is the embedding
	MaxPos int
	BOS    int   // -1 is none
	EOS    int   // the first of EOSAll, -1 is none
	EOSAll []int // every token that ends a text
	Pad    int   // -1 is none
}

// C is the number of convolved channels of a GDN layer: q, k and v.
func (c *Config) C() int { return 2*c.HK*c.K + c.HV*c.V }

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
	{"num_local_experts", []string{"0"}},
	{"final_logit_softcapping", nil},
	{"attn_logit_softcapping", nil},
	{"logit_scale", []string{"1", "1.0"}},
	{"use_bidirectional_attention", []string{"false"}},
	{"linear_use_gate", []string{"true"}},
	{"attn_output_gate", []string{"true"}},
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
	name := o.text("model_type", "")
	if o.err != nil {
		return nil, o.err
	}
	f := families[name]
	switch {
	case name == "":
		return nil, fmt.Errorf("model_type: missing, want %s", familyNames())
	case f == nil:
		return nil, fmt.Errorf("model_type: got %q, want %s", name, familyNames())
	}
	tied := o.boolean("tie_word_embeddings", false)
	top := o
	if f.text != "" {
		if !o.given(f.text) {
			return nil, fmt.Errorf("%s: missing, want the language model's object (%s)", f.text, name)
		}
		if o, err = o.child(f.text); err != nil {
			return nil, err
		}
		if inner := o.text("model_type", name+"_text"); o.err == nil && inner != name+"_text" {
			return nil, fmt.Errorf("%s: got %q, want %s_text", o.path("model_type"), inner, name)
		}
	}
	for _, u := range unsupported {
		for _, o := range []*object{top, o} {
			if err := o.unsupported(u.key, u.ok...); err != nil {
				return nil, err
			}
		}
	}
	c := new(Config)
	*c = f.base
	c.ModelType = name
	c.N = o.integer("vocab_size", c.N, 1, maxVocab)
	c.D = o.integer("hidden_size", c.D, 1, maxDim)
	c.FF = o.integer("intermediate_size", c.FF, 1, maxDim)
	c.MaxPos = o.integer("max_position_embeddings", c.MaxPos, 1, maxPos)
	c.RMSEps = float32(o.number("rms_norm_eps", float64(c.RMSEps), 0, 1))
	if c.ONormEps == 0 {
		c.ONormEps = c.RMSEps
	}
	c.Tied = o.boolean("tie_word_embeddings", false) || tied
	heads := o.integer("num_attention_heads", c.Heads, 1, maxHeads)
	layers := o.integer("num_hidden_layers", f.count, 1, maxLayers)
	kinds := o.texts("layer_types")
	for _, o := range []*object{top, o} {
		if o.err != nil {
			return nil, o.err
		}
	}
	if kinds == nil {
		kinds = f.defaultLayers(o, layers)
	}
	if o.err != nil {
		return nil, o.err
	}
	if len(kinds) != layers {
		return nil, fmt.Errorf("%s: got %d layers, want %d (num_hidden_layers)", o.path("layer_types"), len(kinds), layers)
	}
	if err := f.dense(o, layers); err != nil {
		return nil, err
	}
	if err := c.setLayers(o, kinds); err != nil {
		return nil, err
	}
	if err := c.setAttention(o, kinds, heads); err != nil {
		return nil, err
	}
	if err := c.setGDN(o, heads); err != nil {
		return nil, err
	}
	return c, c.setTokens(top, o, c.EOS, c.Pad)
}

func (c *Config) has(k Kind) bool {
	return slices.ContainsFunc(c.Layers, func(l Layer) bool { return l.Kind == k })
}

func (c *Config) setLayers(o *object, kinds []string) error {
	f := c.family()
	window := 0
	for i, kind := range kinds {
		l, ok := f.layers[kind]
		if !ok {
			return fmt.Errorf("%s: layer %d: got %q, want full_attention or %s (%s)", o.path("layer_types"), i, kind, f.other(), c.ModelType)
		}
		if kind == "sliding_attention" {
			if window == 0 {
				if o.raw("sliding_window") == "null" {
					return fmt.Errorf("%s: got null, want a number (layer %d is sliding_attention)", o.path("sliding_window"), i)
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
	if !c.has(Attention) {
		c.Heads, c.KVHeads, c.HeadDim = 0, 0, 0
		return nil
	}
	c.Heads = heads
	c.KVHeads = o.integer("num_key_value_heads", cmp.Or(c.KVHeads, heads), 1, maxHeads)
	derived := c.HeadDim == 0 && !o.given("head_dim")
	c.HeadDim = o.integer("head_dim", cmp.Or(c.HeadDim, c.D/heads), 1, maxDim)
	if o.err != nil {
		return o.err
	}
	if derived && c.D%heads != 0 {
		return fmt.Errorf("%s: got %d, want a divisor of hidden_size %d", o.path("num_attention_heads"), heads, c.D)
	}
	if heads%c.KVHeads != 0 {
		return fmt.Errorf("%s: got %d, want a divisor of num_attention_heads %d", o.path("num_key_value_heads"), c.KVHeads, heads)
	}
	ropes, err := c.family().ropes(c, o)
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
	if !c.has(GDN) {
		c.HK, c.HV, c.K, c.V, c.W, c.NegEig, c.ONormEps = 0, 0, 0, 0, 0, false, 0
		return nil
	}
	c.HK = o.integer("linear_num_key_heads", cmp.Or(c.HK, heads), 1, maxHeads)
	c.HV = o.integer("linear_num_value_heads", cmp.Or(c.HV, heads), 1, maxHeads)
	if o.err != nil {
		return o.err
	}
	c.K = o.integer("linear_key_head_dim", cmp.Or(c.K, int(0.75*float64(c.D)/float64(c.HK))), 1, maxDim)
	c.V = o.integer("linear_value_head_dim", cmp.Or(c.V, 2*c.K), 1, maxDim)
	c.W = o.integer("linear_conv_kernel_dim", c.W, 1, 64)
	if c.family().negEig {
		c.NegEig = o.boolean("linear_allow_neg_eigval", c.NegEig)
	}
	if o.err != nil {
		return o.err
	}
	if c.K == 0 {
		return fmt.Errorf("%s: missing, want it (hidden_size %d is too small for %d key heads)", o.path("linear_key_head_dim"), c.D, c.HK)
	}
	if c.HV%c.HK != 0 {
		return fmt.Errorf("%s: got %d, want a multiple of linear_num_key_heads %d", o.path("linear_num_value_heads"), c.HV, c.HK)
	}
	return nil
}

// setTokens reads the special tokens. A class's default that lies outside the
// vocabulary, as for every small model that leaves it out, counts as none. Keys
// that the language model's own object lacks may stand beside it, in top.
func (c *Config) setTokens(top, inner *object, eos, pad int) error {
	has := func(key string) *object {
		if inner.raw(key) == "" {
			return top
		}
		return inner
	}
	one := func(key string, def int) int {
		o := has(key)
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
	if o := has("eos_token_id"); strings.HasPrefix(o.raw("eos_token_id"), "[") {
		c.EOSAll = o.integers("eos_token_id", 0, c.N-1)
	} else if id := one("eos_token_id", eos); id >= 0 {
		c.EOSAll = []int{id}
	}
	if len(c.EOSAll) > 0 {
		c.EOS = c.EOSAll[0]
	}
	return cmp.Or(inner.err, top.err)
}
