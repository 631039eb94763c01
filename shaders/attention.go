package shaders

// AttentionParams are the parameters of [Attention], [AttentionDecode] and [AttentionProbs].
type AttentionParams struct {
	H           uint32  // query heads
	KVH         uint32  // key-value heads: query head h reads head h/(H/KVH)
	QStride     uint32  // from one token's queries to the next
	QCol        uint32  // first column of the queries
	Window      uint32  // a query at position p sees the keys j with j > p - Window; 0: all
	ProbsStride uint32  // from one row of probs to the next; AttentionProbs only
	Scale       float32 // factor on the scores
	_           uint32
}

// headDims are the head dims in use, and edges of the kernels' slabs of 32.
var headDims = []C{{"HD": 8}, {"HD": 16}, {"HD": 20}, {"HD": 32}, {"HD": 64}, {"HD": 128}, {"HD": 256}}

// Attention is causal softmax attention over the key-value cache, for tiles of queries against
// tiles of keys, with a running maximum and sum (Milakov and Gimelshein, arXiv 1805.02867). The
// constant HD is the head dim. Run [KVWrite] first: a query sees its own key.
var Attention = register(&Kernel{
	Name:     "attention",
	Doc:      "causal attention, many tokens",
	Params:   AttentionParams{},
	Slots:    attentionSlots,
	Includes: []string{"seq"},
	Variants: headDims,
	Grid: func(a *Args) [3]uint32 {
		return fold(ceilDiv(a.Step.Tokens, a.C["TQ"]) * params[AttentionParams](a).H * ceilDiv(a.C["HD"], 128))
	},
	Twin: twinAttention,
})

var attentionSlots = []Slot{{"q", Read}, {"k_cache", Read}, {"v_cache", Read}, {"rows", Read}, {"seqs", Read}, {"token_seq", Read}, {"o", Write}}

func twinAttention(c *Call) {
	attention(*params[AttentionParams](&c.Args), int(c.C["HD"]), c.F32(0), c.F32(1), c.F32(2), c.U32(3), c.Seqs(4), c.F32(6), c.Tick)
}
