package shaders

// MatVecWide is [MatVec] with reads of 16 bytes. D and XStride are multiples of eight.
var MatVecWide = register(&Kernel{
	Name:     "matvec_wide",
	Doc:      "y = x·wᵀ, or y += that, one row or few, 16 bytes of w at a time",
	Params:   MatMulParams{},
	Slots:    []Slot{{"x", Read}, {"w", Read}, {"y", ReadWrite}},
	Includes: []string{"scales"},
	Variants: weightKinds,
	Grid: func(a *Args) [3]uint32 {
		p := params[MatMulParams](a)
		return fold(rowCount(&a.Step, p.Rows) * ceilDiv(p.N, a.C["WG"]/a.C["LANES"]))
	},
	Twin: twinMatMul,
})

// WideRow reports whether [MatVecWide] can compute it.
func (p *MatMulParams) WideRow() bool { return (p.D|p.XStride)%8 == 0 }
