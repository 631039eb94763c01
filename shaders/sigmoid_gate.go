package shaders

// SigmoidGateParams are the parameters of [SigmoidGate].
type SigmoidGateParams struct {
	D          uint32 // elements a token
	GateStride uint32 // from one token's gates to the next
	GateCol    uint32 // first column of the gates
	_          uint32
}

// SigmoidGate multiplies y by the sigmoid of its gate, in place: the output gate of attention
// (Qwen3NextAttention; arXiv 2505.06708).
var SigmoidGate = register(&Kernel{
	Name:     "sigmoid_gate",
	Doc:      "y · sigmoid(gate)",
	Params:   SigmoidGateParams{},
	Slots:    []Slot{{"gate", Read}, {"y", ReadWrite}},
	Includes: []string{"silu"},
	Grid: func(a *Args) [3]uint32 {
		return fold(ceilDiv(a.Step.Tokens*params[SigmoidGateParams](a).D, 64))
	},
	Twin: func(c *Call) {
		sigmoidGate(*params[SigmoidGateParams](&c.Args), int(c.Step.Tokens), c.F32(0), c.F32(1))
	},
})
