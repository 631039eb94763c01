package shaders

// gdnToken makes q, k, v and the gates of x [T, XStride] as gdnInputs does, with the tails' move from
// SlotIn to SlotOut, and advances state [slots, HV, K, V] by them as gdnStep does, o [T, HV, V] the read
// of every token.
func gdnToken(p GDNInputsParams, tokens int, x, weight, rates []float32, seqs []Seq, tail, state, o []float32, tick func()) {
	c := 2*p.HK*p.K + p.HV*p.V
	qkv, gate := make([]float32, tokens*int(c)), make([]float32, tokens*2*int(p.HV))
	gdnInputs(p, tokens, x, weight, rates, seqs, tail, qkv, gate)
	gdnStep(GDNParams{HK: p.HK, HV: p.HV, Stride: c}, int(p.K), int(p.V), F32, qkv, gate, seqs, state, o, tick)
}
