package shaders

import (
	"math"
	"sort"
)

// topK sets top [O, K, 2] to the ids and the probabilities (as float32 bits) of the K largest
// logits [O, N] of each row.
func topK(p TopKParams, outs int, logits []float32, top []uint32) {
	n, k := int(p.N), int(p.K)
	ids := make([]int, n)
	for o := 0; o < outs; o++ {
		row := logits[o*n:][:n]
		best := math.Inf(-1)
		for i, v := range row {
			ids[i] = i
			best = math.Max(best, float64(v))
		}
		total := 0.0
		for _, v := range row {
			total += math.Exp(float64(v) - best)
		}
		sort.Slice(ids, func(a, b int) bool {
			va, vb := row[ids[a]], row[ids[b]]
			return va > vb || (va == vb && ids[a] < ids[b])
		})
		for r := 0; r < k; r++ {
			top[(o*k+r)*2] = uint32(ids[r])
			top[(o*k+r)*2+1] = math.Float32bits(float32(math.Exp(float64(row[ids[r]])-best) / total))
		}
	}
}
