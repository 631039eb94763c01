package shaders

// MatMulParams are the parameters of [MatMul] and [MatVec]. Strides and columns are in elements.
type MatMulParams struct {
	D       uint32 // inner length: columns of x and of w
	N       uint32 // rows of w, columns of the product
	XStride uint32 // from one row of x to the next
	YStride uint32 // from one row of y to the next
	YCol    uint32 // first column of y written
	Rows    uint32 // 0: a row a token; 1: a row an output (Step.Outs)
	Add     uint32 // 1: y += x·wᵀ, the residual add of a pre-norm block
	_       uint32
}

// MatMul is the linear layer over packed tokens: y = x·wᵀ with w stored as any kind and everything
// computed in f32. D is a multiple of 16 where that is I8, and of 64 where it is I4.
var MatMul = register(&Kernel{
	Name:     "matmul",
	Doc:      "y = x·wᵀ, or y += that, many rows",
	Params:   MatMulParams{},
	Slots:    []Slot{{"x", Read}, {"w", Read}, {"y", ReadWrite}},
	Includes: []string{"halves", "scales"},
	Variants: weightKinds,
	Grid: func(a *Args) [3]uint32 {
		p := params[MatMulParams](a)
		return fold(ceilDiv(rowCount(&a.Step, p.Rows), 64) * ceilDiv(p.N, 64))
	},
	Twin: twinMatMul,
})

func twinMatMul(c *Call) {
	p := params[MatMulParams](&c.Args)
	matmul(*p, int(rowCount(&c.Step, p.Rows)), c.F32(0), weights{c.U32(1), c.C["W_KIND"], int(p.N), int(p.D)}, c.F32(2), c.Tick)
}
