package shaders

// SwiGLUParams are the parameters of [SwiGLU].
type SwiGLUParams struct {
	F       uint32 // hidden size of the MLP
	_, _, _ uint32
}

// SwiGLU is the MLP's activation: silu(gate) · up (arXiv 2002.05202).
var SwiGLU = register(&Kernel{
	Name:     "swiglu",
	Doc:      "silu(gate) · up",
	Params:   SwiGLUParams{},
	Slots:    []Slot{{"x", Read}, {"y", Write}},
	Includes: []string{"silu"},
	Grid: func(a *Args) [3]uint32 {
		return fold(ceilDiv(a.Step.Tokens*params[SwiGLUParams](a).F, 64))
	},
	Twin: func(c *Call) {
		swiglu(int(params[SwiGLUParams](&c.Args).F), int(c.Step.Tokens), c.F32(0), c.F32(1))
	},
})
