package shaders

// StampParams are the parameters of [Stamp]: all zero.
type StampParams struct{ _, _, _, _ uint32 }

// Stamp writes the step's counter, which is read back with every play: if it is not the play's
// own, nothing that was read back is.
var Stamp = register(&Kernel{
	Name:   "stamp",
	Doc:    "writes the step's counter",
	Params: StampParams{},
	Slots:  []Slot{{"stamp", Write}},
	Grid:   func(*Args) [3]uint32 { return [3]uint32{1, 1, 1} },
	Twin:   func(c *Call) { c.U32(0)[0] = c.Step.Counter },
})
