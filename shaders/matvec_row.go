package shaders

// MatVecRow is [MatVec] without workgroup memory or barriers, an invocation an element of y: for
// adapters that compute on a CPU, where a barrier costs more than the sums. Its twin is MatMul's.
var MatVecRow = register(&Kernel{
	Name:     "matvec_row",
	Doc:      "y = x·wᵀ, or y += that, for one row or a few, without barriers",
	Params:   MatMulParams{},
	Slots:    []Slot{{"x", Read}, {"w", Read}, {"y", ReadWrite}},
	Includes: []string{"halves", "scales"},
	Variants: weightKinds,
	Grid: func(a *Args) [3]uint32 {
		p := params[MatMulParams](a)
		return fold(rowCount(&a.Step, p.Rows) * ceilDiv(p.N, a.C["WG"]))
	},
	Twin: twinMatMul,
})
