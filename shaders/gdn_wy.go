package shaders

// ChunkLen is how many tokens the chunked delta rule takes at a time: the triangular system of a
// chunk of 64 would fill WebGPU's 16 KiB of workgroup memory by itself.
const ChunkLen = 32

// ChunkFrom and ChunkFromBrowser are the lengths of a sequence from which the chunked form is the
// faster one on a GPU, natively and in a browser (docs/performance.md). On a CPU it never is.
const (
	ChunkFrom        = 128
	ChunkFromBrowser = 224
)

// GDNChunkOK reports whether the chunked form takes a key dim and a value dim: its state must fit
// the workgroup memory beside what a chunk writes.
func GDNChunkOK(k, v int) bool { return k > 0 && v > 0 && k <= 128 }

// Chunks lists the chunks of a batch, four words each: sequence, first packed token, count, number
// in the sequence. It sets each sequence's Chunk to its first.
func Chunks(seqs []Seq) []uint32 {
	var list []uint32
	for i := range seqs {
		s := &seqs[i]
		s.Chunk = uint32(len(list) / 4)
		for at := uint32(0); at < s.Count; at += ChunkLen {
			list = append(list, uint32(i), s.Start+at, min(ChunkLen, s.Count-at), at/ChunkLen)
		}
	}
	return list
}

// MaxChunks bounds the chunks of a batch of so many tokens and sequences.
func MaxChunks(tokens, seqs int) int { return tokens/ChunkLen + min(seqs, tokens) }

// ChunkScratch is the length, in words, of the buffers u, w and attn between the two phases.
func ChunkScratch(chunks, hv, k, v int) (u, w, attn int) {
	n := chunks * hv * ChunkLen
	return n * v, n * k, chunks * hv * (ChunkLen + 2) * ChunkLen
}

var chunkShapes = gdnShapes

// GDNWY is the first phase of the chunked gated delta rule (arXiv 2412.06464, section 3.3; the WY
// representation of arXiv 2406.06484 in its UT form). Within a chunk whose state before it is S₀,
// token i writes u_i = U_i - S₀ᵀW_i along its key, where U and W solve one unit triangular system:
//
//	(I + A) U = β v,  (I + A) W = β e^{G} k,  A_ij = β_i e^{G_i - G_j} k_i·k_j for j < i
//
// with G the cumulative log decay. It also leaves what the second phase needs of the chunk by
// itself: e^{G_i - G_j} q_i·k_j for j ≤ i, e^{G_i}, and e^{G_last - G_j}.
var GDNWY = register(&Kernel{
	Name:     "gdn_wy",
	Doc:      "chunked delta rule: the triangular system of each chunk",
	Params:   GDNParams{},
	Slots:    []Slot{{"qkv", Read}, {"gates", Read}, {"chunks", Read}, {"u", Write}, {"w", Write}, {"attn", Write}},
	Includes: []string{"rolled"},
	Variants: chunkShapes,
	Grid: func(a *Args) [3]uint32 {
		return fold(a.Step.Chunks * params[GDNParams](a).HV)
	},
	Twin: func(c *Call) {
		gdnWY(*params[GDNParams](&c.Args), int(c.C["K"]), int(c.C["V"]), int(c.Step.Chunks), c.F32(0), c.F32(1), c.U32(2), c.F32(3), c.F32(4), c.F32(5), c.Tick)
	},
})
