package config

// Qwen35Text is the language model of Qwen3.5 (transformers' Qwen3_5TextConfig).
var Qwen35Text = register(qwen35("qwen3_5_text", ""))

// Qwen35 is a Qwen3.5 that also sees (transformers' Qwen3_5Config), of which the
// language model alone is read. Text moves all three of its position axes alike,
// so that interleaved M-RoPE is plain RoPE.
var Qwen35 = register(qwen35("qwen3_5", "text_config"))

func qwen35(name, text string) *family {
	return &family{
		name: name,
		text: text,
		base: Config{
			N: 248320, D: 4096, FF: 12288, Heads: 16, KVHeads: 4, HeadDim: 256, RMSEps: 1e-6, HeadNorm: true, AttnGate: true,
			HK: 16, HV: 32, K: 128, V: 128, W: 4, MaxPos: 32768, BOS: -1, EOS: -1, Pad: -1,
		},
		count:    32,
		layers:   qwenLayers,
		interval: "full_attention_interval",
		theta:    10000,
		partial:  0.25,
		ropes:    oneRope,

		model: qwenModel,
		gdn: append([]line{
			{"linear_attn.in_proj_qkv.weight", "gdn.q gdn.k gdn.v", whole},
			{"linear_attn.in_proj_z.weight", "gdn.g", whole},
			{"linear_attn.in_proj_b.weight", "gdn.b", whole},
			{"linear_attn.in_proj_a.weight", "gdn.a", whole},
		}, qwenGDN...),
		attention: qwenAttention,
		every:     qwenEvery,
		nested:    true,
		skip: map[string]string{
			"mtp.": mtp, "model.visual.": "vision", "visual.": "vision",
		},
	}
}
