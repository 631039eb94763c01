package shaders

// CopyParams are the parameters of [Copy].
type CopyParams struct {
	D       uint32 // elements a token
	_, _, _ uint32
}

// Copy keeps a tensor [T, D] that later dispatches overwrite, for traces.
var Copy = register(&Kernel{
	Name:   "copy",
	Doc:    "y = x",
	Params: CopyParams{},
	Slots:  []Slot{{"x", Read}, {"y", Write}},
	Grid: func(a *Args) [3]uint32 {
		return fold(ceilDiv(a.Step.Tokens*params[CopyParams](a).D, 64))
	},
	Twin: func(c *Call) {
		n := int(c.Step.Tokens * params[CopyParams](&c.Args).D)
		copy(c.U32(1)[:n], c.U32(0)[:n])
	},
})
