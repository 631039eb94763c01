package shaders

// gdnToken makes q, k, v and the gates of x [T, XStride] as gdnInputs does, with the tails' move from
// SlotIn to SlotOut, and advances state [slots, HV, K, V] by them as gdnStep does, o [T, HV, V] the read
// of every token.
func gdnToken(p GDNTokenParams, K, V, tokens int, x, weight, rates []float32, seqs []Seq, tail, state, o []float32, tick func()) {
	in := GDNInputsParams{
		HK: p.HK, K: uint32(K), HV: p.HV, V: uint32(V), W: p.W, XStride: p.XStride, ACol: p.ACol, BCol: p.BCol,
		QScale: p.QScale, BetaScale: p.BetaScale, BetaMax: p.BetaMax, NoDecay: p.NoDecay,
	}
	c := 2*p.HK*in.K + p.HV*in.V
	qkv, gate := make([]float32, tokens*int(c)), make([]float32, tokens*2*int(p.HV))
	gdnInputs(in, tokens, x, weight, rates, seqs, tail, qkv, gate)
	gdnStep(GDNParams{HK: p.HK, HV: p.HV, Stride: c}, K, V, F32, qkv, gate, seqs, state, o, tick)
}
