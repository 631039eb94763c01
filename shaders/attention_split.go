package shaders

import (
	"math"
	"slices"
)

// AttentionSpan is how many keys a workgroup of [AttentionSplit] sees.
const AttentionSpan = 256

// AttentionParts is the length, in words, of what [AttentionSplit] leaves for [AttentionJoin], for
// so many tokens that see at most keys keys each.
func AttentionParts(tokens, heads, hd, keys int) int {
	return tokens * heads * ((keys + AttentionSpan - 1) / AttentionSpan) * (hd + 4)
}

// AttentionSplit and [AttentionJoin] are [Attention] for a token or a few that see very many keys:
// a workgroup a span of them, and then the spans brought together, as in Flash-Decoding. HD is a
// multiple of four; Step.Keys bounds the keys that a token sees. With ONE = 1 it is at most AttentionSpan,
// and AttentionSplit gives the output itself.
var AttentionSplit = register(&Kernel{
	Name:     "attention_split",
	Doc:      "causal attention, one token a sequence, a span of the keys",
	Params:   AttentionParams{},
	Slots:    []Slot{{"q", Read}, {"k_cache", Read}, {"v_cache", Read}, {"rows", Read}, {"seqs", Read}, {"token_seq", Read}, {"parts", Write}},
	Includes: []string{"seq"},
	Variants: slices.Concat(headDims, []C{{"HD": 32, "ONE": 1}, {"HD": 256, "ONE": 1}}),
	Grid: func(a *Args) [3]uint32 {
		return fold(a.Step.Tokens * params[AttentionParams](a).H * ceilDiv(a.Step.Keys, AttentionSpan))
	},
	Twin: func(c *Call) {
		attentionSplit(*params[AttentionParams](&c.Args), int(c.C["HD"]), int(c.Step.Keys), c.C["ONE"] == 1, c.F32(0), c.F32(1), c.F32(2), c.U32(3), c.Seqs(4), c.F32(6), c.Tick)
	},
})

// AttentionJoin is the second phase of [AttentionSplit].
var AttentionJoin = register(&Kernel{
	Name:     "attention_join",
	Doc:      "causal attention, the spans of the keys brought together",
	Params:   AttentionParams{},
	Slots:    []Slot{{"parts", Read}, {"o", Write}},
	Variants: headDims,
	Grid: func(a *Args) [3]uint32 {
		return fold(a.Step.Tokens * params[AttentionParams](a).H)
	},
	Twin: func(c *Call) {
		attentionJoin(int(c.Step.Tokens*params[AttentionParams](&c.Args).H), int(c.C["HD"]), int(ceilDiv(c.Step.Keys, AttentionSpan)), c.F32(0), c.F32(1))
	},
})

// attentionSplit sets parts [T, H, spans, HD+4] to each span's sum of exp(score - largest)·value, its
// largest score, its sum of the exponentials, and two zeros; with one to the output [T, H, HD].
func attentionSplit(p AttentionParams, hd, keys int, one bool, q, kCache, vCache []float32, rows []uint32, seqs []Seq, parts []float32, tick func()) {
	spans := (keys + AttentionSpan - 1) / AttentionSpan
	sum, weights := make([]float64, hd), make([]float64, AttentionSpan)
	for _, s := range seqs {
		for n := range int(s.Count) {
			t, position, first := int(s.Start)+n, int(s.Past)+n, 0
			if p.Window > 0 {
				first = max(0, position-int(p.Window)+1)
			}
			for h := range int(p.H) {
				query := q[t*int(p.QStride)+int(p.QCol)+h*hd:][:hd]
				for span := range spans {
					low, high := max(span*AttentionSpan, first), min((span+1)*AttentionSpan, position+1)
					at := func(j int) int { return p.kvHead(int(rows[int(s.Map)+j]), h, hd) }
					top, total := -3e38, 0.0
					for j := low; j < high; j++ {
						weights[j-low] = dot(query, kCache[at(j):][:hd]) * float64(p.Scale)
						top = max(top, weights[j-low])
					}
					clear(sum)
					for j := low; j < high; j++ {
						w := math.Exp(weights[j-low] - top)
						total += w
						for d, v := range vCache[at(j):][:hd] {
							sum[d] += w * float64(v)
						}
					}
					if one {
						for d, x := range sum {
							parts[(t*int(p.H)+h)*hd+d] = float32(x / total)
						}
						continue
					}
					out := parts[((t*int(p.H)+h)*spans+span)*(hd+4):]
					for d, x := range sum {
						out[d] = float32(x)
					}
					out[hd], out[hd+1], out[hd+2], out[hd+3] = float32(top), float32(total), 0, 0
				}
				tick()
			}
		}
	}
}

// attentionJoin sets o [rows, HD] from parts [rows, spans, HD+4].
func attentionJoin(rows, hd, spans int, parts, o []float32) {
	for r := range rows {
		part := func(s int) []float32 { return parts[(r*spans+s)*(hd+4):][:hd+2] }
		top, total := math.Inf(-1), 0.0
		for s := range spans {
			top = max(top, float64(part(s)[hd]))
		}
		for s := range spans {
			total += math.Exp(float64(part(s)[hd])-top) * float64(part(s)[hd+1])
		}
		for d := range hd {
			sum := 0.0
			for s := range spans {
				sum += math.Exp(float64(part(s)[hd])-top) * float64(part(s)[d])
			}
			o[r*hd+d] = float32(sum / total)
		}
	}
}
