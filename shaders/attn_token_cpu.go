package shaders

// attnToken forms q and k of x [T, XStride] and puts k and v into the caches as attnInputs does, and sets
// o [T, H, HD] to what each sequence's token reads there, as attentionSplit does.
func attnToken(p AttnTokenParams, hd, tokens int, x, norms, table []float32, rows []uint32, seqs []Seq, kCache, vCache, o []float32, tick func()) {
	stride := (p.H + p.KVH) * uint32(hd)
	qk := make([]float32, tokens*int(stride))
	attnInputs(AttnInputsParams{H: p.H, KVH: p.KVH, HD: uint32(hd), Rot: p.Rot, XStride: p.XStride, Positions: p.Positions, Eps: p.Eps, Each: p.Each}, tokens, x, norms, table, rows, seqs, qk, kCache, vCache)
	// What a token sees, as if its sequence began there: one span, wherever a window has moved to.
	seen := make([]Seq, len(seqs))
	for i, s := range seqs {
		if p.Window > 0 && s.Past >= p.Window {
			s.Map, s.Past = s.Map+s.Past-p.Window+1, p.Window-1
		}
		seen[i] = s
	}
	attentionSplit(AttentionParams{H: p.H, KVH: p.KVH, QStride: stride, Scale: p.Scale}, hd, AttentionSpan, true, qk, kCache, vCache, rows, seen, o, tick)
}
