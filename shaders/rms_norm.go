package shaders

// RMSNormParams are the parameters of [RMSNorm]. Strides and D are in elements.
type RMSNormParams struct {
	D       uint32 // length of a normalised row
	XStride uint32 // from one row of x to the next
	YStride uint32 // from one row of y to the next
	Rows    uint32 // 0: a row a token; 1: a row an output (Step.Outs)
	Eps     float32
	Add     uint32 // 1: y += norm(x), the residual add of a post-norm block
	XCol    uint32 // first column of x read
	YCol    uint32 // first column of y written
	Heads   uint32 // rows of D beside one another in a row of x, normalised each; 0 is one
	WCol    uint32 // first of the weights
	_, _    uint32
}

// RMSNorm normalises rows: y = x / sqrt(mean(x²) + eps) · weight (Zhang and Sennrich,
// arXiv 1910.07467; OlmoHybridRMSNorm).
var RMSNorm = register(&Kernel{
	Name:     "rms_norm",
	Doc:      "y = x / rms(x) · weight, or y += that; of each head for itself",
	Params:   RMSNormParams{},
	Slots:    []Slot{{"x", Read}, {"weight", Read}, {"y", ReadWrite}},
	Includes: []string{"reduce"},
	Grid: func(a *Args) [3]uint32 {
		p := params[RMSNormParams](a)
		return fold(rowCount(&a.Step, p.Rows) * max(p.Heads, 1))
	},
	Twin: func(c *Call) {
		p := params[RMSNormParams](&c.Args)
		rmsNorm(*p, int(rowCount(&c.Step, p.Rows)), c.F32(0), c.F32(1), c.F32(2))
	},
})

// rowCount is how many rows a per-row kernel has: 0 a row a token, 1 a row an output.
func rowCount(s *Step, kind uint32) uint32 {
	if kind == 1 {
		return s.Outs
	}
	return s.Tokens
}
