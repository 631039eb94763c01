package shaders

import "math"

// conv sets y [T, C] to silu(Σ_j weight[c, j] · x[t-(W-1)+j, c]), with x before a sequence's first
// token taken from tail [slots, W-1, C].
func conv(p ConvParams, x, weight, tail []float32, seqs []Seq, y []float32) {
	for _, s := range seqs {
		for n := 0; n < int(s.Count); n++ {
			t := int(s.Start) + n
			for c := 0; c < int(p.C); c++ {
				sum := 0.0
				for j := 0; j < int(p.W); j++ {
					sum += float64(weight[c*int(p.W)+j]) * float64(convInput(p, x, tail, s, n-(int(p.W)-1)+j, c))
				}
				y[t*int(p.C)+c] = float32(silu(sum))
			}
		}
	}
}

// convInput is channel c of token n of s in this play; n < 0 reads the tail.
func convInput(p ConvParams, x, tail []float32, s Seq, n, c int) float32 {
	switch {
	case n >= 0:
		return x[(int(s.Start)+n)*int(p.XStride)+int(p.XCol)+c]
	case s.SlotIn == NoSlot:
		return 0
	}
	keep := int(p.W) - 1
	return tail[(int(s.SlotIn)*keep+keep+n)*int(p.C)+c]
}

func silu(x float64) float64 { return x * sigmoid(x) }

func sigmoid(x float64) float64 {
	if x >= 0 {
		return 1 / (1 + math.Exp(-x))
	}
	e := math.Exp(x)
	return e / (1 + e)
}
