package shaders

// attentionProbs sets probs [T, H, ProbsStride] to each query's probabilities by position.
func attentionProbs(p AttentionParams, hd int, q, kCache []float32, rows []uint32, seqs []Seq, probs []float32, tick func()) {
	n := int(p.ProbsStride)
	p.softmaxRows(hd, q, kCache, rows, seqs, tick, func(t, h, first int, _ []uint32, pr []float64) {
		out := probs[(t*int(p.H)+h)*n:][:n]
		clear(out)
		for j, x := range pr {
			if first+j < n {
				out[first+j] = float32(x)
			}
		}
	})
}
