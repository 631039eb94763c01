package shaders

// ConvParams are the parameters of [Conv] and [ConvTail].
type ConvParams struct {
	C       uint32 // channels: q, k and v side by side
	W       uint32 // taps
	XStride uint32 // from one row of x to the next
	XCol    uint32 // first column of x read
}

// Conv is the causal depthwise convolution of a gated-delta-net layer, without bias, followed by
// SiLU. Inputs before a sequence's first token of the play come from its tail, or are zero.
// (OlmoHybridGatedDeltaNet.)
var Conv = register(&Kernel{
	Name:     "conv",
	Doc:      "causal depthwise convolution, then SiLU",
	Params:   ConvParams{},
	Slots:    []Slot{{"x", Read}, {"weight", Read}, {"tail", Read}, {"seqs", Read}, {"token_seq", Read}, {"y", Write}},
	Includes: []string{"seq", "silu"},
	Grid: func(a *Args) [3]uint32 {
		return fold(ceilDiv(a.Step.Tokens*params[ConvParams](a).C, 64))
	},
	Twin: func(c *Call) {
		conv(*params[ConvParams](&c.Args), c.F32(0), c.F32(1), c.F32(2), c.Seqs(3), c.F32(5))
	},
})
