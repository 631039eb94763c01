package shaders

// MatVec is [MatMul] for a token or a few: it reads the weights once a row instead of by tiles.
// Its twin is MatMul's.
var MatVec = register(&Kernel{
	Name:     "matvec",
	Doc:      "y = x·wᵀ, or y += that, for one row or a few",
	Params:   MatMulParams{},
	Slots:    []Slot{{"x", Read}, {"w", Read}, {"y", ReadWrite}},
	Includes: []string{"halves", "lanes", "scales"},
	Variants: weightKinds,
	Grid: func(a *Args) [3]uint32 {
		p := params[MatMulParams](a)
		return fold(rowCount(&a.Step, p.Rows) * ceilDiv(p.N, 8))
	},
	Twin: twinMatMul,
})
