package config

import (
	"fmt"
	"maps"
	"slices"
)

// Olmo3 is OLMo 3 (transformers' Olmo3Config): attention alone, most of it over
// a window.
var Olmo3 = register(&family{
	name: "olmo3",
	base: Config{
		N: 50304, D: 4096, FF: 11008, Heads: 32, RMSEps: 1e-5,
		MaxPos: 2048, BOS: -1, EOS: 50279, Pad: 1,
	},
	count:   32,
	layers:  map[string]Layer{"sliding_attention": {Kind: Attention}, fullAttention: {Kind: Attention}},
	theta:   500000,
	partial: 1,
	ropes:   ropeByType,

	model: []line{
		{"model.embed_tokens.weight", "embed", whole},
		{"model.norm.weight", "norm", whole},
		{"lm_head.weight", "head", whole},
	},
	attention: []line{
		{"self_attn.q_proj.weight", "attn.q", whole},
		{"self_attn.k_proj.weight", "attn.k", whole},
		{"self_attn.v_proj.weight", "attn.v", whole},
		{"self_attn.q_norm.weight", "attn.q_norm", whole},
		{"self_attn.k_norm.weight", "attn.k_norm", whole},
		{"self_attn.o_proj.weight", "attn.o", whole},
		{"post_attention_layernorm.weight", "norm_a", whole},
		{"feedforward_layer_norm.weight", "norm_a", whole},
		{"post_feedforward_layernorm.weight", "norm_m", whole},
	},
	every: swiglu,
})

// ropeByType reads a rotation for each layer type. The legacy rope_scaling adds
// to that of full attention, so that sliding layers rotate plainly.
//
// transformers 5.17 gives olmo3's top-level rope_theta to full attention only,
// which is an oversight (the value is popped before it is used again); here, as
// in the releases that wrote such files, it holds for both.
func ropeByType(c *Config, o *object) (map[string]*Rope, error) {
	params, err := o.child("rope_parameters")
	if err != nil {
		return nil, err
	}
	scaling, err := o.child("rope_scaling")
	if err != nil {
		return nil, err
	}
	kinds := []string{fullAttention, "sliding_attention"}
	for key := range params.fields {
		if !slices.Contains(kinds, key) {
			return nil, fmt.Errorf("rope_parameters: got key %q, want full_attention and sliding_attention (olmo3 keys them by layer type)", key)
		}
	}
	ropes := map[string]*Rope{}
	for _, kind := range kinds {
		p, err := params.child(kind)
		if err != nil {
			return nil, err
		}
		if kind == fullAttention {
			maps.Copy(p.fields, scaling.fields)
		}
		r, err := c.rope(o, p)
		if err != nil {
			return nil, err
		}
		if r == nil {
			return nil, fmt.Errorf("rope_theta of %s: got null, want a number (olmo3 always rotates)", kind)
		}
		ropes[kind] = r
	}
	return ropes, nil
}
