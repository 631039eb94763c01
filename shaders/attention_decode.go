package shaders

// AttentionDecode is [Attention] for a token or a few: a workgroup a token and head. Its twin is
// Attention's.
var AttentionDecode = register(&Kernel{
	Name:     "attention_decode",
	Doc:      "causal attention, one token a sequence",
	Params:   AttentionParams{},
	Slots:    attentionSlots,
	Includes: []string{"seq"},
	Variants: headDims,
	Grid: func(a *Args) [3]uint32 {
		return fold(a.Step.Tokens * params[AttentionParams](a).H)
	},
	Twin: twinAttention,
})
