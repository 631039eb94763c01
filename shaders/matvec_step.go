package shaders

// MatVecStepParams are the parameters of [MatVecStep]. Strides and columns are in elements.
type MatVecStepParams struct {
	D          uint32 // inner length: columns of x and of w
	N          uint32 // columns of the product; with GLU half the rows of w
	XStride    uint32 // from one row of x to the next
	YStride    uint32 // from one row of y to the next
	Rows       uint32 // 0: a row a token; 1: a row an output (Step.Outs)
	Add        uint32 // 1: y += the product
	Eps        float32
	V          uint32 // NORM 2: length of a head in x
	GateStride uint32 // NORM 2: from one token's gates to the next
	GateCol    uint32 // NORM 2: first column of the gates
	NoGate     uint32 // NORM 2: 1 leaves the gate out
	_          uint32
}

// What [MatVecStep] does to x first, its constant NORM.
const (
	NormNone  = iota
	NormRMS   // [RMSNorm]
	NormGated // [GatedNorm]
)

// maxGated is how long a row of x may be for NormGated, which holds it in workgroup memory.
const maxGated = 2048

// MatVecStep is [MatVecWide] together with what stands around it in a step of a small model, where
// a dispatch costs more than its sums: before it a norm of x, after it with GLU = 1 SwiGLU over the
// two halves of the product. Each workgroup forms the norm anew. W_KIND is at most BF16. ROOM is [MatVecStepParams.Room].
var MatVecStep = register(&Kernel{
	Name:     "matvec_step",
	Doc:      "y = norm(x)·wᵀ, then SwiGLU, or y += that, for one row or a few",
	Params:   MatVecStepParams{},
	Slots:    []Slot{{"x", Read}, {"scale", Read}, {"gate", Read}, {"w", Read}, {"y", ReadWrite}},
	Includes: []string{"silu"},
	Variants: matVecSteps(),
	Grid: func(a *Args) [3]uint32 {
		p := params[MatVecStepParams](a)
		return fold(rowCount(&a.Step, p.Rows) * ceilDiv(p.N, a.C["WG"]/a.C["LANES"]))
	},
	Twin: func(c *Call) {
		p := params[MatVecStepParams](&c.Args)
		matVecStep(*p, c.C["NORM"], c.C["GLU"], int(rowCount(&c.Step, p.Rows)), c.F32(0), c.F32(1), c.F32(2), weights{c.U32(3), c.C["W_KIND"], int(p.N * (1 + c.C["GLU"])), int(p.D)}, c.F32(4), c.Tick)
	},
})

// matVecSteps are the forms of a step: each weight kind as input of a mixer or the head, of the MLP
// behind either norm, and as a mixer's output.
func matVecSteps() []C {
	var list []C
	for _, kind := range []uint32{F32, F16, BF16} {
		list = append(list,
			C{"W_KIND": kind, "NORM": NormRMS}, C{"W_KIND": kind, "NORM": NormRMS, "GLU": 1}, C{"W_KIND": kind, "GLU": 1},
			C{"W_KIND": kind, "NORM": NormGated, "ROOM": maxGated / 4})
	}
	return list
}

// Room is the value of the constant ROOM for a norm of that kind.
func (p *MatVecStepParams) Room(norm uint32) uint32 {
	if norm == NormGated {
		return p.D / 4
	}
	return 1
}

// OK reports whether [MatVecStep] can compute it: rows of whole vectors, and none that is too long.
func (p *MatVecStepParams) OK(norm uint32) bool {
	if norm == NormGated && (p.D > maxGated || (p.V|p.GateStride|p.GateCol)%4 != 0) {
		return false
	}
	return (p.D|p.XStride)%8 == 0
}
