package shaders

import "slices"

// GDNParams are the parameters of [GDNStep], [GDNWY] and [GDNChunk].
type GDNParams struct {
	HK     uint32 // key heads
	HV     uint32 // value heads, a multiple of HK: value head h reads key head h/(HV/HK)
	Stride uint32 // from one token's row of qkv to the next
	Col    uint32 // first column of q; k and v follow
}

// MaxK is the largest key dim of [GDNStep]: a few tokens' keys and queries must fit the workgroup
// memory.
const MaxK = 432

// gdnShapes are the (K, V) of the models in use, and edges of the kernels' tiles.
var gdnShapes = []C{{"K": 5, "V": 1}, {"K": 12, "V": 24}, {"K": 32, "V": 64}, {"K": 96, "V": 192}, {"K": 128, "V": 128}}

// gdnStored are gdnShapes with the state kept as f32, and rounded to f16 and bf16.
func gdnStored() []C {
	all := slices.Clone(gdnShapes)
	for _, kind := range []uint32{F16, BF16} {
		for _, s := range gdnShapes {
			all = append(all, C{"K": s["K"], "V": s["V"], "STORE": kind})
		}
	}
	return all
}

// GDNStep is the gated delta rule in its recurrent form, token by token over any number of them
// (arXiv 2412.06464): S ← exp(g)S; u = β(v - Sᵀk); S ← S + kuᵀ; o = Sᵀq. The constants K and V
// are the key and value dim. STORE, one of F32, F16 and BF16, is the type that the state is rounded to
// after each token; what a token reads is not rounded.
//
// A sequence reads its state from SlotIn and leaves it in SlotOut, which may be the same slot. No
// sequence may write a slot that another one reads in the same play.
var GDNStep = register(&Kernel{
	Name:     "gdn_step",
	Doc:      "gated delta rule, token by token",
	Params:   GDNParams{},
	Slots:    []Slot{{"qkv", Read}, {"gates", Read}, {"seqs", Read}, {"state", ReadWrite}, {"o", Write}},
	Includes: []string{"seq", "stored"},
	Variants: append(gdnStored(), C{"K": 256, "V": 256}),
	Grid: func(a *Args) [3]uint32 {
		return fold(a.Step.Seqs * params[GDNParams](a).HV * ceilDiv(a.C["V"], a.C["COLS"]))
	},
	Twin: func(c *Call) {
		gdnStep(*params[GDNParams](&c.Args), int(c.C["K"]), int(c.C["V"]), c.C["STORE"], c.F32(0), c.F32(1), c.Seqs(2), c.F32(3), c.F32(4), c.Tick)
	},
})
