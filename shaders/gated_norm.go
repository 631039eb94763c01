package shaders

// GatedNormParams are the parameters of [GatedNorm].
type GatedNormParams struct {
	H          uint32 // value heads
	V          uint32 // value dim
	GateStride uint32 // from one token's gates to the next
	GateCol    uint32 // first column of the gates
	Eps        float32
	NoGate     uint32 // 1 leaves the gate out
	_, _       uint32
}

// GatedNorm normalises the delta rule's output over each head's value dim, and gates it:
// y = o / sqrt(mean(o²) + eps) · weight · silu(gate) (OlmoHybridRMSNormGated).
var GatedNorm = register(&Kernel{
	Name:     "gated_norm",
	Doc:      "RMS norm over a head's values, then the output gate",
	Params:   GatedNormParams{},
	Slots:    []Slot{{"gate", Read}, {"weight", Read}, {"o", Read}, {"y", Write}},
	Includes: []string{"lanes", "silu"},
	Grid: func(a *Args) [3]uint32 {
		return fold(ceilDiv(a.Step.Tokens*params[GatedNormParams](a).H, 8))
	},
	Twin: func(c *Call) {
		gatedNorm(*params[GatedNormParams](&c.Args), int(c.Step.Tokens), c.F32(0), c.F32(1), c.F32(2), c.F32(3))
	},
})
