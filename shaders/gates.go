package shaders

// GatesParams are the parameters of [Gates].
type GatesParams struct {
	H         uint32  // value heads
	XStride   uint32  // from one row of x to the next
	ACol      uint32  // first column of the decay's projection
	BCol      uint32  // first column of beta's projection
	BetaScale float32 // 2 with negative eigenvalues, 1 without
	BetaMax   float32 // beta is at most this; 0 is no limit
	NoDecay   uint32  // 1 sets the log decay to 0
	_         uint32
}

// Gates forms the delta rule's gates: the log decay g = -exp(A_log)·softplus(a + dt_bias), clamped
// at -88, and beta = scale·sigmoid(b) (OlmoHybridGatedDeltaNet; arXiv 2412.06464). A limit on beta
// and a decay of 1 are switches of the playground. The slot rates holds A_log, then dt_bias.
var Gates = register(&Kernel{
	Name:     "gates",
	Doc:      "log decay and beta of the delta rule",
	Params:   GatesParams{},
	Slots:    []Slot{{"x", Read}, {"rates", Read}, {"gates", Write}},
	Includes: []string{"silu", "decay"},
	Grid: func(a *Args) [3]uint32 {
		return fold(ceilDiv(a.Step.Tokens*params[GatesParams](a).H, 64))
	},
	Twin: func(c *Call) {
		gates(*params[GatesParams](&c.Args), int(c.Step.Tokens), c.F32(0), c.F32(1), c.F32(2))
	},
})
