package shaders

// GDNTokenParams are the parameters of [GDNToken].
type GDNTokenParams struct {
	HK        uint32 // key heads
	HV        uint32 // value heads, a multiple of HK: value head h reads key head h/(HV/HK)
	W         uint32 // taps of the convolution, at most four
	XStride   uint32 // from one row of x to the next
	ACol      uint32 // first column of the decay's projection
	BCol      uint32 // first column of beta's projection
	QScale    float32
	BetaScale float32
	BetaMax   float32
	NoDecay   uint32
	_, _      uint32
}

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
	Params:   GDNTokenParams{},
	Slots:    []Slot{{"x", Read}, {"weight", Read}, {"rates", Read}, {"seqs", Read}, {"tail", ReadWrite}, {"state", ReadWrite}, {"o", Write}},
	Includes: []string{"seq", "silu", "decay"},
	Variants: []C{{"K": 32, "V": 64}, {"K": 128, "V": 128}, {"K": 128, "V": 128, "SLICES": 4}, {"K": 12, "V": 24}, {"K": 5, "V": 1}, {"K": 96, "V": 192}},
	Grid: func(a *Args) [3]uint32 {
		return fold(a.Step.Seqs * params[GDNTokenParams](a).HV * ceilDiv(a.C["V"], a.C["COLS"]))
	},
	Twin: func(c *Call) {
		gdnToken(*params[GDNTokenParams](&c.Args), int(c.C["K"]), int(c.C["V"]), int(c.Step.Tokens), c.F32(0), c.F32(1), c.F32(2), c.Seqs(3), c.F32(4), c.F32(5), c.F32(6), c.Tick)
	},
})

// OK reports whether [GDNToken] can compute it: an invocation holds four inputs of a channel.
func (p *GDNTokenParams) OK() bool { return p.W <= 4 }
