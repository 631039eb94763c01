package shaders

// AttentionProbs writes the probabilities that [Attention] weighs values with, for traces: a row a
// token and head, zero at positions that its query does not see. Positions from ProbsStride on are
// left out.
var AttentionProbs = register(&Kernel{
	Name:     "attention_probs",
	Doc:      "the rows of the attention map",
	Params:   AttentionParams{},
	Slots:    []Slot{{"q", Read}, {"k_cache", Read}, {"rows", Read}, {"seqs", Read}, {"token_seq", Read}, {"probs", Write}},
	Includes: []string{"seq"},
	Variants: headDims,
	Grid: func(a *Args) [3]uint32 {
		return fold(a.Step.Tokens * params[AttentionParams](a).H)
	},
	Twin: func(c *Call) {
		attentionProbs(*params[AttentionParams](&c.Args), int(c.C["HD"]), c.F32(0), c.F32(1), c.U32(2), c.Seqs(3), c.F32(5), c.Tick)
	},
})
