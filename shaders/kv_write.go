package shaders

// KVWriteParams are the parameters of [KVWrite].
type KVWriteParams struct {
	D       uint32 // key-value heads times head dim: a row of the cache
	KStride uint32 // from one token's keys to the next
	KCol    uint32 // first column of the keys
	VStride uint32 // from one token's values to the next
	VCol    uint32 // first column of the values
	_, _, _ uint32
}

// KVWrite puts the keys and values of this play's tokens into the cache, in the rows that each
// sequence's row map gives to their positions. k and v may be the same buffer.
var KVWrite = register(&Kernel{
	Name:     "kv_write",
	Doc:      "keys and values of the new tokens into the cache",
	Params:   KVWriteParams{},
	Slots:    []Slot{{"k", Read}, {"v", Read}, {"rows", Read}, {"seqs", Read}, {"token_seq", Read}, {"k_cache", Write}, {"v_cache", Write}},
	Includes: []string{"seq"},
	Grid: func(a *Args) [3]uint32 {
		return fold(ceilDiv(a.Step.Tokens*params[KVWriteParams](a).D, 64))
	},
	Twin: func(c *Call) {
		kvWrite(*params[KVWriteParams](&c.Args), c.F32(0), c.F32(1), c.U32(2), c.Seqs(3), c.F32(5), c.F32(6))
	},
})
