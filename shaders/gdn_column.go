package shaders

// GDNColumn is [GDNStep] without workgroup memory or barriers, an invocation a column of the state:
// for adapters that compute on a CPU, where a barrier costs more than the sums. It is for a token or
// a few: llvmpipe ends an invocation's loops after 65,536 turns, two a key element and token. Its
// twin is GDNStep's, and state slots are as there.
var GDNColumn = register(&Kernel{
	Name:     "gdn_column",
	Doc:      "gated delta rule, token by token, without barriers",
	Params:   GDNParams{},
	Slots:    []Slot{{"qkv", Read}, {"gates", Read}, {"seqs", Read}, {"state", ReadWrite}, {"o", Write}},
	Includes: []string{"seq", "stored"},
	Variants: gdnStored(),
	Grid: func(a *Args) [3]uint32 {
		return fold(a.Step.Seqs * params[GDNParams](a).HV * ceilDiv(a.C["V"], a.C["WG"]))
	},
	Twin: GDNStep.Twin,
})
