package shaders

// GDNInputsParams are the parameters of [GDNInputs] and [GDNToken].
type GDNInputsParams struct {
	HK        uint32 // key heads
	K         uint32 // key dim
	HV        uint32 // value heads
	V         uint32 // value dim
	W         uint32 // taps of the convolution, at most four
	XStride   uint32 // from one row of x to the next
	ACol      uint32 // first column of the decay's projection
	BCol      uint32 // first column of beta's projection
	QScale    float32
	BetaScale float32
	BetaMax   float32
	NoDecay   uint32
}

// GDNInputs is all that stands between a GDN layer's projection and its delta rule, in one dispatch
// for a few tokens: [Conv], [ConvTail], [L2Norm] and [Gates]. Its constants are those of
// [GDNInputsParams.Consts].
var GDNInputs = register(&Kernel{
	Name:     "gdn_inputs",
	Doc:      "convolution, SiLU, norms and gates of the delta rule, a few tokens",
	Params:   GDNInputsParams{},
	Slots:    []Slot{{"x", Read}, {"weight", Read}, {"rates", Read}, {"seqs", Read}, {"tail", ReadWrite}, {"y", Write}, {"gates", Write}},
	Includes: []string{"seq", "silu", "decay"},
	Variants: gdnInputsForms(),
	Grid: func(a *Args) [3]uint32 {
		p := params[GDNInputsParams](a)
		return fold(a.Step.Seqs * ceilDiv(2*p.HK+p.HV, a.C["WG"]/a.C["LANES"]))
	},
	Twin: func(c *Call) {
		gdnInputs(*params[GDNInputsParams](&c.Args), int(c.Step.Tokens), c.F32(0), c.F32(1), c.F32(2), c.Seqs(3), c.F32(4), c.F32(5), c.F32(6))
	},
})

func gdnInputsForms() []C {
	var list []C
	for _, size := range []uint32{64, 300} {
		p := GDNInputsParams{K: size / 2, V: size}
		list = append(list, p.Consts(false), p.Consts(true))
	}
	return list
}

// OK reports whether [GDNInputs] and [GDNToken] can compute it: an invocation holds four inputs of a channel.
func (p *GDNInputsParams) OK() bool { return p.W <= 4 }

// Consts are the kernel's constants: an invocation a channel of a head, and where a CPU computes, to which
// a barrier of many costs more than the sums, eight a head.
func (p *GDNInputsParams) Consts(software bool) C {
	size, lanes := max(p.K, p.V), uint32(8)
	for !software && lanes < min(size, 256) {
		lanes *= 2
	}
	return C{"LANES": lanes, "EACH": ceilDiv(size, lanes), "WG": max(64, lanes)}
}
