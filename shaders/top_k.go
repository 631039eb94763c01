package shaders

// TopKParams are the parameters of [TopK].
type TopKParams struct {
	N    uint32 // vocabulary
	K    uint32 // how many to find, at most N
	_, _ uint32
}

// TopK finds the K most probable next tokens of each output, best first, equal ones by id, with
// their softmax probabilities. K = 1 is arg-max.
var TopK = register(&Kernel{
	Name:     "top_k",
	Doc:      "the most probable tokens and their probabilities",
	Params:   TopKParams{},
	Slots:    []Slot{{"logits", Read}, {"top", Write}},
	Includes: []string{"reduce", "best"},
	Grid:     func(a *Args) [3]uint32 { return fold(a.Step.Outs) },
	Twin: func(c *Call) {
		topK(*params[TopKParams](&c.Args), int(c.Step.Outs), c.F32(0), c.U32(1))
	},
})
