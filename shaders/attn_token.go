package shaders

// AttnTokenParams are the parameters of [AttnToken].
type AttnTokenParams struct {
	H         uint32  // query heads
	KVH       uint32  // heads of keys and values: query head h reads head h/(H/KVH)
	Rot       uint32  // rotated part of a head, as in [RoPEParams]; 0 for none, and the table is not read
	XStride   uint32  // from one row of x to the next
	Positions uint32  // rows of the table
	Eps       float32 // of the norms
	Each      uint32  // 1: q and k are normalised head by head; 0: each over all of its heads
	Window    uint32  // a query at position p sees the keys j with j > p - Window; 0: all
	Scale     float32 // factor on the scores
	_, _, _   uint32
}

// MostTokenHead is the largest head dim of [AttnToken].
const MostTokenHead = 256

// AttnToken is [AttnInputs] and [AttentionSplit] with ONE = 1 in one dispatch, for one token of each
// sequence: where a dispatch costs more than its sums. x [T, XStride] holds q [H, HD], k and v [KVH, HD]
// from column 0 on; o [T, H, HD] is what the token reads. The constant HD is a multiple of four, at most
// MostTokenHead.
//
// Every sequence has one token, Count 1, which sees at most [AttentionSpan] keys with its own; one of
// another count, or that sees more, is not this kernel's. The cache row that it writes is no row that
// another sequence of the play reads or writes. Several sequences may read the same rows.
var AttnToken = register(&Kernel{
	Name:     "attn_token",
	Doc:      "norms, rotation, the cache and causal attention, a token of each sequence",
	Params:   AttnTokenParams{},
	Slots:    []Slot{{"x", Read}, {"norms", Read}, {"table", Read}, {"rows", Read}, {"seqs", Read}, {"k_cache", ReadWrite}, {"v_cache", ReadWrite}, {"o", Write}},
	Includes: []string{"seq"},
	Variants: []C{{"HD": 32}, {"HD": 256}, {"HD": 12}, {"HD": 4}, {"HD": 8}, {"HD": 16}, {"HD": 20}, {"HD": 64}, {"HD": 128}},
	Grid: func(a *Args) [3]uint32 {
		return fold(a.Step.Seqs * params[AttnTokenParams](a).H)
	},
	Twin: func(c *Call) {
		attnToken(*params[AttnTokenParams](&c.Args), int(c.C["HD"]), int(c.Step.Tokens), c.F32(0), c.F32(1), c.F32(2), c.U32(3), c.Seqs(4), c.F32(5), c.F32(6), c.F32(7), c.Tick)
	},
})
