package shaders

// TopKPart is how many logits a workgroup of [TopKSplit] sees.
const TopKPart = 2048

// TopKParts is the length, in words, of what [TopKSplit] leaves for [TopKJoin].
func TopKParts(outs, n, k int) int { return outs * ((n + TopKPart - 1) / TopKPart) * (2*k + 2) }

// TopKSplit and [TopKJoin] are [TopK] for large vocabularies: the largest of each part of the
// logits, and then the largest of these.
var TopKSplit = register(&Kernel{
	Name:     "top_k_split",
	Doc:      "the most probable tokens of parts of the vocabulary",
	Params:   TopKParams{},
	Slots:    []Slot{{"logits", Read}, {"parts", Write}},
	Includes: []string{"reduce", "best"},
	Grid: func(a *Args) [3]uint32 {
		return fold(a.Step.Outs * ceilDiv(params[TopKParams](a).N, TopKPart))
	},
	Twin: func(c *Call) {
		topKSplit(*params[TopKParams](&c.Args), int(c.Step.Outs), c.F32(0), c.U32(1))
	},
})

// TopKJoin is the second phase of [TopKSplit].
var TopKJoin = register(&Kernel{
	Name:     "top_k_join",
	Doc:      "the most probable tokens of those of the vocabulary's parts",
	Params:   TopKParams{},
	Slots:    []Slot{{"parts", Read}, {"top", Write}},
	Includes: []string{"reduce", "best"},
	Grid:     func(a *Args) [3]uint32 { return fold(a.Step.Outs) },
	Twin: func(c *Call) {
		topKJoin(*params[TopKParams](&c.Args), int(c.Step.Outs), c.U32(0), c.U32(1))
	},
})
