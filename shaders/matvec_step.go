package shaders

// MatVecStepParams are the parameters of [MatVecStep]. Strides and columns are in elements.
type MatVecStepParams struct {
	D          uint32 // inner length: columns of x and of w; a constant of the kernel too
	N          uint32 // rows of w: columns of the product; with GLU two of them make one of y; a constant too
	XStride    uint32 // from one row of x to the next
	YStride    uint32 // from one row of y to the next
	Rows       uint32 // 0: a row a token; 1: a row an output (Step.Outs)
	Add        uint32 // 1: y += the product
	Eps        float32
	V          uint32 // NORM 2: length of a head in x
	GateStride uint32 // NORM 2, 3: from one token's gates to the next
	GateCol    uint32 // NORM 2, 3: first column of the gates
	NoGate     uint32 // NORM 2: 1 leaves the gate out
	YCol       uint32 // column of y where the product goes
}

// What [MatVecStep] does to x first, its constant NORM.
const (
	NormNone    = iota
	NormRMS     // [RMSNorm]
	NormGated   // [GatedNorm]
	NormSigmoid // [SigmoidGate], no norm
)

// mostRow is the longest row of x that [MatVecStep] may hold: with all else in the 16 KiB that WebGPU gives
// a workgroup by default.
const mostRow = 3584

// headLanes is the constant HEAD_LANES, and mostHead is how long a head may be, whose parts they hold in
// registers.
const (
	headLanes = 8
	mostHead  = 256
)

// MatVecStep is [MatVecWide] together with what stands around it in a step of one token or a few, where
// a dispatch costs more than its sums: before it a norm or a gate of x, which each workgroup forms anew
// while its first reads of w are on their way, after it with GLU = 1 SwiGLU over the two halves of the
// product. Its constants are those of [MatVecStepParams.Consts].
var MatVecStep = register(&Kernel{
	Name:     "matvec_step",
	Doc:      "y = norm(x)·wᵀ, then SwiGLU, or y += that, for one row or a few",
	Params:   MatVecStepParams{},
	Slots:    []Slot{{"x", Read}, {"scale", Read}, {"gate", Read}, {"w", Read}, {"y", ReadWrite}},
	Includes: []string{"silu", "scales"},
	Variants: matVecSteps(),
	Grid: func(a *Args) [3]uint32 {
		p := params[MatVecStepParams](a)
		return fold(rowCount(&a.Step, p.Rows) * ceilDiv(p.N, 2*a.C["WG"]/a.C["LANES"]))
	},
	Twin: func(c *Call) {
		p := params[MatVecStepParams](&c.Args)
		matVecStep(*p, c.C["NORM"], c.C["GLU"], int(rowCount(&c.Step, p.Rows)), c.F32(0), c.F32(1), c.F32(2), weights{c.U32(3), c.C["W_KIND"], int(p.N), int(p.D)}, c.F32(4), c.Tick)
	},
})

// matVecSteps are the forms of a step with f16, as input of a mixer or the head, of the MLP behind either norm,
// as its output, as a mixer's output, and with the longest rows; and of each kind of weights two.
func matVecSteps() []C {
	small, large := MatVecStepParams{D: 128, N: 256, V: 32}, MatVecStepParams{D: mostRow, N: 2048}
	list := []C{small.Consts(F16, NormNone, 1), small.Consts(F16, NormRMS, 0), small.Consts(F16, NormGated, 0), small.Consts(F16, NormSigmoid, 0), large.Consts(F16, NormRMS, 1)}
	for _, kind := range []uint32{F32, F16, BF16, I8, I4} {
		list = append(list, small.Consts(kind, NormRMS, 1), small.Consts(kind, NormNone, 0))
	}
	return list
}

// Consts are the kernel's constants for weights of a kind. So many invocations share two rows that each
// has up to four vectors of them; of long rows they have more, and most of these on their way at once.
func (p *MatVecStepParams) Consts(kind, norm, glu uint32) C {
	c := C{"W_KIND": kind, "NORM": norm, "GLU": glu, "PER": vectorOf(kind) / 4, "D": p.D, "N": p.N, "LANES": 8}
	if norm == NormGated {
		c["HEAD_EACH"] = ceilDiv(p.V, 4*headLanes)
	}
	vectors := p.D / vectorOf(kind)
	for c["LANES"] < 64 && 4*c["LANES"] < vectors {
		c["LANES"] *= 2
	}
	c["DEPTH"] = min(ceilDiv(vectors, c["LANES"]), 8)
	return c
}

// vectorOf is how many elements of a kind are 16 bytes.
func vectorOf(kind uint32) uint32 {
	return map[uint32]uint32{F32: 4, F16: 8, BF16: 8, I8: 16, I4: 32}[kind]
}

// OK reports whether [MatVecStep] can compute it: rows of whole vectors, and none that is too long.
func (p *MatVecStepParams) OK(kind, norm uint32) bool {
	if norm >= NormGated && (p.GateStride|p.GateCol)%4 != 0 || norm == NormGated && (p.V%4 != 0 || p.V > mostHead) {
		return false
	}
	return p.D <= mostRow && p.D%vectorOf(kind) == 0 && p.XStride%4 == 0
}
