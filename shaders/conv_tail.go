package shaders

// ConvTail keeps the last W-1 inputs of [Conv] for the next play, in each sequence's output slot.
var ConvTail = register(&Kernel{
	Name:     "conv_tail",
	Doc:      "carries the convolution's last inputs over to the next play",
	Params:   ConvParams{},
	Slots:    []Slot{{"x", Read}, {"seqs", Read}, {"tail", ReadWrite}},
	Includes: []string{"seq"},
	Grid: func(a *Args) [3]uint32 {
		return fold(ceilDiv(a.Step.Seqs*params[ConvParams](a).C, 64))
	},
	Twin: func(c *Call) {
		convTail(*params[ConvParams](&c.Args), c.F32(0), c.Seqs(1), c.F32(2))
	},
})
