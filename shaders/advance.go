package shaders

// AdvanceParams are the parameters of [Advance].
type AdvanceParams struct {
	K    uint32 // candidates of an output
	Most uint32 // outputs of a sequence that are kept
	_, _ uint32
}

// Advance ends a pass of a play of several (Step.Times), each of a token a sequence with its output: the
// next pass reads the most probable token, one position on. What was found is kept, that of the token at
// position j in row j mod Most.
var Advance = register(&Kernel{
	Name:     "advance",
	Doc:      "the most probable token is the next one",
	Params:   AdvanceParams{},
	Slots:    []Slot{{"top", Read}, {"ids", Write}, {"seqs", ReadWrite}, {"tops", Write}},
	Includes: []string{"seq"},
	Grid:     func(a *Args) [3]uint32 { return fold(a.Step.Seqs) },
	Twin: func(c *Call) {
		advance(*params[AdvanceParams](&c.Args), c.U32(0), c.U32(1), c.Seqs(2), c.U32(3))
	},
})
