package shaders

// AttnInputsParams are the parameters of [AttnInputs].
type AttnInputsParams struct {
	H         uint32 // query heads
	KVH       uint32 // heads of keys and values
	HD        uint32 // head dim
	Rot       uint32 // rotated part of a head, as in [RoPEParams]; 0 for none, and the table is not read
	XStride   uint32 // from one row of x to the next
	Positions uint32 // rows of the table
	Eps       float32
	Each      uint32 // 1: q and k are normalised head by head; 0: each over all of its heads
}

// AttnInputs is all that stands between an attention layer's projection and its attention, in one
// dispatch for a few tokens: [RMSNorm] of q and of k, [RoPE] and [KVWrite].
var AttnInputs = register(&Kernel{
	Name:     "attn_inputs",
	Doc:      "norms and rotation of q and k, keys and values into the cache, a few tokens",
	Params:   AttnInputsParams{},
	Slots:    []Slot{{"x", Read}, {"norms", Read}, {"table", Read}, {"rows", Read}, {"seqs", Read}, {"y", Write}, {"k_cache", Write}, {"v_cache", Write}},
	Includes: []string{"seq", "reduce"},
	Variants: []C{nil, {"RED_WG": 16}},
	Grid: func(a *Args) [3]uint32 {
		p := params[AttnInputsParams](a)
		return fold(a.Step.Seqs * (p.H + p.KVH))
	},
	Twin: func(c *Call) {
		attnInputs(*params[AttnInputsParams](&c.Args), int(c.Step.Tokens), c.F32(0), c.F32(1), c.F32(2), c.U32(3), c.Seqs(4), c.F32(5), c.F32(6), c.F32(7))
	},
})
