package shaders

// GDNChunk is the second phase of the chunked gated delta rule: it passes the state from chunk to
// chunk. With U, W and the scores of [GDNWY], a chunk whose state before it is S writes u = U - W S,
// gives o_i = e^{G_i} q_i S + Σ_{j≤i} e^{G_i - G_j} (q_i·k_j) u_j, and leaves
// e^{G_last} S + Σ_j e^{G_last - G_j} k_j u_jᵀ.
//
// State slots are as in [GDNStep].
var GDNChunk = register(&Kernel{
	Name:     "gdn_chunk",
	Doc:      "chunked delta rule: the state from chunk to chunk",
	Params:   GDNParams{},
	Slots:    []Slot{{"qkv", Read}, {"u", Read}, {"w", Read}, {"attn", Read}, {"seqs", Read}, {"state", ReadWrite}, {"o", Write}},
	Includes: []string{"seq", "rolled"},
	Variants: chunkShapes,
	Grid: func(a *Args) [3]uint32 {
		return fold(a.Step.Seqs * params[GDNParams](a).HV * ceilDiv(a.C["V"], a.C["COLS"]))
	},
	Twin: func(c *Call) {
		gdnChunk(*params[GDNParams](&c.Args), int(c.C["K"]), int(c.C["V"]), c.F32(0), c.F32(1), c.F32(2), c.F32(3), c.Seqs(4), c.F32(5), c.F32(6), c.Tick)
	},
})
