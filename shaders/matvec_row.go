package shaders

import "slices"

// MatVecRow is [MatVec] without workgroup memory or barriers, an invocation an element of y: for
// adapters that compute on a CPU, where a barrier costs more than the sums. With GLU = 1 it ends in
// SwiGLU over the two halves of the product, as [MatVecStep] does.
var MatVecRow = register(&Kernel{
	Name:     "matvec_row",
	Doc:      "y = x·wᵀ, or y += that, for one row or a few, without barriers",
	Params:   MatMulParams{},
	Slots:    []Slot{{"x", Read}, {"w", Read}, {"y", ReadWrite}},
	Includes: []string{"halves", "scales", "silu"},
	Variants: slices.Concat(weightKinds, []C{{"W_KIND": F32, "GLU": 1}, {"W_KIND": F16, "GLU": 1}, {"W_KIND": BF16, "GLU": 1}}),
	Grid: func(a *Args) [3]uint32 {
		p := params[MatMulParams](a)
		return fold(rowCount(&a.Step, p.Rows) * ceilDiv(p.N, a.C["WG"]))
	},
	Twin: func(c *Call) {
		if c.C["GLU"] == 0 {
			twinMatMul(c)
			return
		}
		p := params[MatMulParams](&c.Args)
		step := MatVecStepParams{D: p.D, N: 2 * p.N, XStride: p.XStride, YStride: p.YStride, Add: p.Add}
		matVecStep(step, NormNone, 1, int(rowCount(&c.Step, p.Rows)), c.F32(0), nil, nil, weights{c.U32(1), c.C["W_KIND"], int(2 * p.N), int(p.D)}, c.F32(2)[p.YCol:], c.Tick)
	},
})
