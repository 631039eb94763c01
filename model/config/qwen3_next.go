package config

// Qwen3Next is Qwen3-Next without experts (transformers' Qwen3NextConfig). q, k,
// v and the output gate lie in one tensor, those of a key head together, and so
// do both gates of the delta rule.
var Qwen3Next = register(&family{
	name: "qwen3_next",
	base: Config{
		N: 151936, D: 2048, FF: 5632, Heads: 16, KVHeads: 2, HeadDim: 256, RMSEps: 1e-6, HeadNorm: true, AttnGate: true,
		HK: 16, HV: 32, K: 128, V: 128, W: 4, MaxPos: 32768, BOS: -1, EOS: -1, Pad: -1,
	},
	count:    48,
	layers:   qwenLayers,
	interval: "full_attention_interval",
	theta:    10000,
	partial:  0.25,
	ropes:    oneRope,
	experts:  512,

	model: qwenModel,
	gdn: append([]line{
		{"linear_attn.in_proj_qkvz.weight", "gdn.q gdn.k gdn.v gdn.g", keyHeads},
		{"linear_attn.in_proj_ba.weight", "gdn.b gdn.a", keyHeads},
	}, qwenGDN...),
	attention: qwenAttention,
	every:     qwenEvery,
	skip:      map[string]string{"mtp.": mtp},
})

const mtp = "multi-token prediction"

// What Qwen3-Next and Qwen3.5 share: norms before each sublayer, whose weights
// are stored less one, and a gate for each element of the attention's output,
// whose rows follow those of its head's query.
var (
	qwenLayers = map[string]Layer{
		"linear_attention": {Kind: GDN, PreNorm: true},
		fullAttention:      {Kind: Attention, PreNorm: true},
	}
	qwenModel = []line{
		{"model.embed_tokens.weight", "embed", whole},
		{"model.norm.weight", "norm-1", whole},
		{"lm_head.weight", "head", whole},
	}
	qwenGDN = []line{
		{"linear_attn.conv1d.weight", "gdn.conv", whole},
		{"linear_attn.A_log", "gdn.A_log", whole},
		{"linear_attn.dt_bias", "gdn.dt_bias", whole},
		{"linear_attn.norm.weight", "gdn.o_norm", whole},
		{"linear_attn.out_proj.weight", "gdn.o", whole},
	}
	qwenAttention = []line{
		{"self_attn.q_proj.weight", "attn.q attn.gate", qHeads},
		{"self_attn.k_proj.weight", "attn.k", whole},
		{"self_attn.v_proj.weight", "attn.v", whole},
		{"self_attn.q_norm.weight", "attn.q_norm-1", whole},
		{"self_attn.k_norm.weight", "attn.k_norm-1", whole},
		{"self_attn.o_proj.weight", "attn.o", whole},
	}
	qwenEvery = append([]line{
		{"input_layernorm.weight", "norm_a-1", whole},
		{"post_attention_layernorm.weight", "norm_m-1", whole},
	}, swiglu...)
)
