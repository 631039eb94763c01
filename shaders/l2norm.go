package shaders

// L2NormParams are the parameters of [L2Norm].
type L2NormParams struct {
	Heads   uint32 // key heads
	K       uint32 // key dim
	Stride  uint32 // from one token's row to the next
	_       uint32
	QScale  float32 // factor on q after its norm: K^-1/2
	_, _, _ uint32
}

// L2Norm scales each head of q and of k, in place, to unit length: x / sqrt(Σx² + 1e-6); q also by
// QScale (OlmoHybridGatedDeltaNet, l2norm of flash-linear-attention).
var L2Norm = register(&Kernel{
	Name:     "l2norm",
	Doc:      "unit length for each head of q and k, scale on q",
	Params:   L2NormParams{},
	Slots:    []Slot{{"x", ReadWrite}},
	Includes: []string{"lanes"},
	Grid: func(a *Args) [3]uint32 {
		return fold(ceilDiv(a.Step.Tokens*2*params[L2NormParams](a).Heads, 8))
	},
	Twin: func(c *Call) { l2norm(*params[L2NormParams](&c.Args), int(c.Step.Tokens), c.F32(0)) },
})
