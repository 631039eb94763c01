package shaders

// GDNToken is [GDNInputs] and [GDNStep] in one dispatch, for one token of each sequence: where a
// dispatch costs more than its sums. x [T, XStride] holds q, k and v from column 0 on; o [T, HV, V] is
// what the token reads. The constants K and V are the key and value dim; a workgroup takes COLS columns
// of the state and SLICES invocations for each of them.
//
// Every sequence has one token, Count 1; one of another count is not this kernel's. SlotOut is not
// SlotIn, of this sequence or of another in the same play: all workgroups of a head read the tail of
// SlotIn, and one writes that of SlotOut. Several sequences may read one slot.
var GDNToken = register(&Kernel{
	Name:     "gdn_token",
	Doc:      "convolution, SiLU, norms, gates and the delta rule, a token of each sequence",
	Params:   GDNInputsParams{},
	Slots:    []Slot{{"x", Read}, {"weight", Read}, {"rates", Read}, {"seqs", Read}, {"tail", ReadWrite}, {"state", ReadWrite}, {"o", Write}},
	Includes: []string{"seq", "silu", "decay"},
	Variants: []C{{"K": 32, "V": 64}, {"K": 128, "V": 128}, {"K": 128, "V": 128, "SLICES": 4}, {"K": 12, "V": 24}, {"K": 5, "V": 1}, {"K": 96, "V": 192}},
	Grid: func(a *Args) [3]uint32 {
		return fold(a.Step.Seqs * params[GDNInputsParams](a).HV * ceilDiv(a.C["V"], a.C["COLS"]))
	},
	Twin: func(c *Call) {
		gdnToken(*params[GDNInputsParams](&c.Args), int(c.Step.Tokens), c.F32(0), c.F32(1), c.F32(2), c.Seqs(3), c.F32(4), c.F32(5), c.F32(6), c.Tick)
	},
})
