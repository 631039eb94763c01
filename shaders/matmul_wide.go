package shaders

// MatMulWide is [MatMul] with larger tiles, for devices with many cores. D, N, the strides and YCol
// are multiples of four.
var MatMulWide = register(&Kernel{
	Name:     "matmul_wide",
	Doc:      "y = x·wᵀ, or y += that, very many rows",
	Params:   MatMulParams{},
	Slots:    []Slot{{"x", Read}, {"w", Read}, {"y", ReadWrite}},
	Includes: []string{"scales"},
	Variants: weightKinds,
	Grid: func(a *Args) [3]uint32 {
		p := params[MatMulParams](a)
		return fold(ceilDiv(rowCount(&a.Step, p.Rows), 128) * ceilDiv(p.N, 128))
	},
	Twin: twinMatMul,
})

// Wide reports whether [MatMulWide] can compute it.
func (p *MatMulParams) Wide() bool { return (p.D|p.N|p.XStride|p.YStride|p.YCol)%4 == 0 }
