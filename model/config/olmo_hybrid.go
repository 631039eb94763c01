package config

// OlmoHybrid is Olmo Hybrid (transformers' OlmoHybridConfig): GDN layers that
// normalise what enters a sublayer, attention layers that normalise what leaves
// it. Of the norms two spellings are in use.
var OlmoHybrid = register(&family{
	name: "olmo_hybrid",
	base: Config{
		N: 100352, D: 3840, FF: 11008, Heads: 30, RMSEps: 1e-6,
		W: 4, NegEig: true, ONormEps: 1e-5, MaxPos: 65536, BOS: -1, EOS: 100257, Pad: 100277,
	},
	count:    32,
	layers:   map[string]Layer{"linear_attention": {Kind: GDN, PreNorm: true}, fullAttention: {Kind: Attention}},
	lastFull: true,
	negEig:   true,
	theta:    10000,
	partial:  1,
	ropes:    oneRope,

	model: []line{
		{"model.embed_tokens.weight", "embed", whole},
		{"model.norm.weight", "norm", whole},
		{"lm_head.weight", "head", whole},
	},
	gdn: []line{
		{"attention_layer_norm.weight", "norm_a", whole},
		{"input_layernorm.weight", "norm_a", whole},
		{"linear_attn.q_proj.weight", "gdn.q", whole},
		{"linear_attn.k_proj.weight", "gdn.k", whole},
		{"linear_attn.v_proj.weight", "gdn.v", whole},
		{"linear_attn.a_proj.weight", "gdn.a", whole},
		{"linear_attn.b_proj.weight", "gdn.b", whole},
		{"linear_attn.g_proj.weight", "gdn.g", whole},
		{"linear_attn.conv1d.weight", "gdn.conv", whole},
		// transformers cuts the rows into equal parts, not at the borders of q, k and v.
		{"linear_attn.q_conv1d.weight linear_attn.k_conv1d.weight linear_attn.v_conv1d.weight", "gdn.conv", whole},
		{"linear_attn.A_log", "gdn.A_log", whole},
		{"linear_attn.dt_bias", "gdn.dt_bias", whole},
		{"linear_attn.o_norm.weight", "gdn.o_norm", whole},
		{"linear_attn.o_proj.weight", "gdn.o", whole},
		{"feedforward_layer_norm.weight", "norm_m", whole},
		{"post_attention_layernorm.weight", "norm_m", whole},
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
