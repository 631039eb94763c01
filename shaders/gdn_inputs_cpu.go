package shaders

// gdnInputs sets y [T, C] to the layer's q and k of unit length, q scaled, and v, each after the
// convolution; gates [T, 2, HV] to log decay and beta; and the tails to the last W-1 inputs.
func gdnInputs(p GDNInputsParams, tokens int, x, weight, rates []float32, seqs []Seq, tail, y, gate []float32) {
	c := 2*p.HK*p.K + p.HV*p.V
	taps := ConvParams{C: c, W: p.W, XStride: p.XStride}
	conv(taps, x, weight, tail, seqs, y)
	convTail(taps, x, seqs, tail)
	l2norm(L2NormParams{Heads: p.HK, K: p.K, Stride: c, QScale: p.QScale}, tokens, y)
	gates(GatesParams{H: p.HV, XStride: p.XStride, ACol: p.ACol, BCol: p.BCol, BetaScale: p.BetaScale, BetaMax: p.BetaMax, NoDecay: p.NoDecay}, tokens, x, rates, gate)
}
