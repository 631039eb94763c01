package shaders

import "math"

// attention sets o [T, H, HD] to the causal softmax attention of q over the cached rows
// [rows, KVH, HD] of each token's sequence.
func attention(p AttentionParams, hd int, q, kCache, vCache []float32, rows []uint32, seqs []Seq, o []float32, tick func()) {
	sum := make([]float64, hd)
	p.softmaxRows(hd, q, kCache, rows, seqs, tick, func(t, h, first int, seen []uint32, probs []float64) {
		clear(sum)
		for j, row := range seen {
			v := vCache[p.kvHead(int(row), h, hd):][:hd]
			for d := range sum {
				sum[d] += probs[j] * float64(v[d])
			}
		}
		for d, s := range sum {
			o[(t*int(p.H)+h)*hd+d] = float32(s)
		}
	})
}

// softmaxRows calls f for each token t and head h with the first position that its query sees, the
// cache rows of the positions from there to its own, and their probabilities
// softmax(Scale · q·k).
func (p *AttentionParams) softmaxRows(hd int, q, kCache []float32, rows []uint32, seqs []Seq, tick func(), f func(t, h, first int, seen []uint32, probs []float64)) {
	var probs []float64
	for _, s := range seqs {
		for n := 0; n < int(s.Count); n++ {
			t, position, first := int(s.Start)+n, int(s.Past)+n, 0
			if p.Window > 0 {
				first = max(0, position-int(p.Window)+1)
			}
			seen := rows[int(s.Map)+first:][:position-first+1]
			for h := 0; h < int(p.H); h++ {
				query := q[t*int(p.QStride)+int(p.QCol)+h*hd:][:hd]
				probs = probs[:0]
				top := math.Inf(-1)
				for _, row := range seen {
					k := kCache[p.kvHead(int(row), h, hd):][:hd]
					score := 0.0
					for d, x := range query {
						score += float64(x) * float64(k[d])
					}
					score *= float64(p.Scale)
					top = math.Max(top, score)
					probs = append(probs, score)
				}
				total := 0.0
				for j, score := range probs {
					probs[j] = math.Exp(score - top)
					total += probs[j]
				}
				for j := range probs {
					probs[j] /= total
				}
				f(t, h, first, seen, probs)
				tick() // a row of some thousand keys takes milliseconds in a page
			}
		}
	}
}

// kvHead is where the key or value that query head h reads begins in a cache row.
func (p *AttentionParams) kvHead(row, h, hd int) int {
	return (row*int(p.KVH) + h/int(p.H/p.KVH)) * hd
}
