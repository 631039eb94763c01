package shaders

// attnInputs sets y [tokens, H+KVH, HD] to q and k of x after their norms and rotation, and writes k and
// v into the caches.
func attnInputs(p AttnInputsParams, tokens int, x, norms, table []float32, rows []uint32, seqs []Seq, y, kCache, vCache []float32) {
	q, kv := p.H*p.HD, p.KVH*p.HD
	of := RMSNormParams{D: q, XStride: p.XStride, YStride: q + kv, Eps: p.Eps}
	if p.Each == 1 {
		of.D, of.Heads = p.HD, p.H
	}
	rmsNorm(of, tokens, x, norms, y)
	of.WCol, of.XCol, of.YCol = of.D, q, q
	if of.D, of.Heads = kv, 0; p.Each == 1 {
		of.D, of.Heads = p.HD, p.KVH
	}
	rmsNorm(of, tokens, x, norms, y)
	rope(RoPEParams{Heads: p.H + p.KVH, HD: p.HD, Rot: p.Rot, Stride: q + kv, Positions: p.Positions}, table, seqs, y)
	kvWrite(KVWriteParams{D: kv, KStride: q + kv, KCol: q, VStride: p.XStride, VCol: q + kv}, y, x, rows, seqs, kCache, vCache)
}
