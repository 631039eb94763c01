package shaders

// RoPEParams are the parameters of [RoPE].
type RoPEParams struct {
	Heads     uint32
	HD        uint32 // head dim
	Rot       uint32 // rotated part of a head, even; the rest passes through
	Stride    uint32 // from one token's row to the next
	Col       uint32 // first column of the heads
	Positions uint32 // rows of the table
	_, _      uint32
}

// RoPE rotates the first Rot elements of each head by the token's position, in place, pairing
// element i with i + Rot/2 (arXiv 2104.09864 as transformers lays it out). The angles' cosines and
// sines come from a table made on the CPU: a shader's own are too coarse far from zero.
var RoPE = register(&Kernel{
	Name:     "rope",
	Doc:      "rotary position embedding",
	Params:   RoPEParams{},
	Slots:    []Slot{{"table", Read}, {"seqs", Read}, {"token_seq", Read}, {"x", ReadWrite}},
	Includes: []string{"seq"},
	Grid: func(a *Args) [3]uint32 {
		p := params[RoPEParams](a)
		return fold(ceilDiv(a.Step.Tokens*p.Heads*(p.Rot/2), 64))
	},
	Twin: func(c *Call) {
		rope(*params[RoPEParams](&c.Args), c.F32(0), c.Seqs(1), c.F32(3))
	},
})
