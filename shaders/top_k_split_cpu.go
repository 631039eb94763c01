package shaders

import (
	"math"
	"sort"
)

// topKSplit sets parts [O, parts, 2K+2] to each part's K largest logits: ids, the logits, the sum of
// exp(logit - largest), and 0. What a part has too few for is id NoSlot and a logit below all.
func topKSplit(p TopKParams, outs int, logits []float32, parts []uint32) {
	n, k := int(p.N), int(p.K)
	ids := make([]int, TopKPart)
	out := parts
	for o := range outs {
		for first := 0; first < n; first += TopKPart {
			part := logits[o*n+first : o*n+min(first+TopKPart, n)]
			for i := range part {
				ids[i] = i
			}
			best := ids[:len(part)]
			sort.Slice(best, func(a, b int) bool {
				va, vb := part[best[a]], part[best[b]]
				return va > vb || va == vb && best[a] < best[b]
			})
			for r := range k {
				out[r], out[k+r] = NoSlot, math.Float32bits(-3e38)
				if r < len(best) {
					out[r], out[k+r] = uint32(first+best[r]), math.Float32bits(part[best[r]])
				}
			}
			total := 0.0
			for _, v := range part {
				total += math.Exp(float64(v) - float64(part[best[0]]))
			}
			out[2*k], out[2*k+1] = math.Float32bits(float32(total)), 0
			out = out[2*k+2:]
		}
	}
}

// topKJoin sets top [O, K, 2] to the ids and probabilities of the K largest in parts.
func topKJoin(p TopKParams, outs int, parts, top []uint32) {
	k := int(p.K)
	size := TopKParts(1, int(p.N), k)
	type token struct {
		id    uint32
		logit float32
	}
	for o := range outs {
		row := parts[o*size:][:size]
		var found []token
		best := float32(math.Inf(-1))
		for at := 0; at < size; at += 2*k + 2 {
			for r := range k {
				if id := row[at+r]; id != NoSlot {
					found = append(found, token{id, math.Float32frombits(row[at+k+r])})
				}
			}
			best = max(best, math.Float32frombits(row[at+k]))
		}
		total := 0.0
		for at := 0; at < size; at += 2*k + 2 {
			total += math.Exp(float64(math.Float32frombits(row[at+k]))-float64(best)) * float64(math.Float32frombits(row[at+2*k]))
		}
		sort.Slice(found, func(a, b int) bool {
			return found[a].logit > found[b].logit || found[a].logit == found[b].logit && found[a].id < found[b].id
		})
		for r, f := range found[:k] {
			top[(o*k+r)*2] = f.id
			top[(o*k+r)*2+1] = math.Float32bits(float32(math.Exp(float64(f.logit)-float64(best)) / total))
		}
	}
}
