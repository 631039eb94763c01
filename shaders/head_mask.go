package shaders

// HeadMaskParams are the parameters of [HeadMask].
type HeadMaskParams struct {
	Off0, Off1, Off2, Off3 uint32 // bit h%32 of word h/32: head h is off
	H                      uint32 // heads, at most 128
	D                      uint32 // elements a head
	_, _                   uint32
}

// HeadMask sets the heads of a mask to zero, in place: what a head that is off passes on.
var HeadMask = register(&Kernel{
	Name:   "head_mask",
	Doc:    "sets heads that are switched off to zero",
	Params: HeadMaskParams{},
	Slots:  []Slot{{"x", ReadWrite}},
	Grid: func(a *Args) [3]uint32 {
		p := params[HeadMaskParams](a)
		return fold(ceilDiv(a.Step.Tokens*p.H*p.D, 64))
	},
	Twin: func(c *Call) {
		headMask(*params[HeadMaskParams](&c.Args), int(c.Step.Tokens), c.F32(0))
	},
})
