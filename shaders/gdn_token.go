package shaders

import "maps"

// GDNToken is [GDNInputs] and [GDNStep] in one dispatch, for one token of each sequence: where a
// dispatch costs more than its sums. x [T, XStride] holds q, k and v from column 0 on; o [T, HV, V] is
// what the token reads. Its constants are those of [GDNInputsParams.TokenConsts]; a workgroup takes COLS
// columns of the state and SLICES invocations for each of them.
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
	Variants: gdnTokens(),
	Grid: func(a *Args) [3]uint32 {
		return fold(a.Step.Seqs * params[GDNInputsParams](a).HV * ceilDiv(a.C["V"], a.C["COLS"]))
	},
	Twin: func(c *Call) {
		gdnToken(*params[GDNInputsParams](&c.Args), int(c.Step.Tokens), c.F32(0), c.F32(1), c.F32(2), c.Seqs(3), c.F32(4), c.F32(5), c.F32(6), c.Tick)
	},
})

// gdnTokens are the shapes of the models in use, odd ones, and another number of slices.
func gdnTokens() []C {
	var list []C
	for _, p := range []GDNInputsParams{
		{HK: 4, K: 32, HV: 4, V: 64, W: 4},
		{HK: 16, K: 128, HV: 16, V: 128, W: 4},
		{HK: 2, K: 12, HV: 6, V: 24, W: 3},
		{HK: 1, K: 5, HV: 1, V: 1, W: 1},
		{HK: 30, K: 96, HV: 30, V: 192, W: 4},
	} {
		list = append(list, p.TokenConsts())
	}
	other := maps.Clone(list[1])
	other["SLICES"] = 4
	return append(list, other)
}

// TokenConsts are the constants of [GDNToken].
func (p *GDNInputsParams) TokenConsts() C {
	return C{"HK": p.HK, "K": p.K, "HV": p.HV, "V": p.V, "W": p.W}
}
