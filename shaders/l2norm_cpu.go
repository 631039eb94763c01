package shaders

import "math"

// l2norm scales q [heads, K] and k [heads, K] at the front of each row of x to x / sqrt(Σx² + 1e-6),
// q by QScale besides.
func l2norm(p L2NormParams, tokens int, x []float32) {
	for t := 0; t < tokens; t++ {
		for h := 0; h < 2*int(p.Heads); h++ {
			v := x[t*int(p.Stride)+h*int(p.K):][:p.K]
			sum := 0.0
			for _, e := range v {
				sum += float64(e) * float64(e)
			}
			scale := 1 / math.Sqrt(sum+1e-6)
			if h < int(p.Heads) {
				scale *= float64(p.QScale)
			}
			for i := range v {
				v[i] = float32(float64(v[i]) * scale)
			}
		}
	}
}
