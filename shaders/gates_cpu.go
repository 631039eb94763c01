package shaders

import "math"

// MinLogDecay is the least log decay of a token: exp of it is the smallest that f32 still holds.
const MinLogDecay = -88

// gates sets gates [T, 2H] to the log decay -exp(A_log)·softplus(a + dt_bias) and to
// beta = scale·sigmoid(b) of each head, with NoDecay and BetaMax to 0 and to at most that.
func gates(p GatesParams, tokens int, x, rates, gates []float32) {
	h := int(p.H)
	for t := 0; t < tokens; t++ {
		row := x[t*int(p.XStride):]
		for i := 0; i < h; i++ {
			z := float64(row[int(p.ACol)+i]) + float64(rates[h+i])
			g := -math.Exp(float64(rates[i]) + logSoftplus(z))
			if p.NoDecay != 0 {
				g = 0
			}
			beta := float64(p.BetaScale) * sigmoid(float64(row[int(p.BCol)+i]))
			if p.BetaMax > 0 {
				beta = math.Min(beta, float64(p.BetaMax))
			}
			gates[t*2*h+i] = float32(math.Max(g, MinLogDecay))
			gates[t*2*h+h+i] = float32(beta)
		}
	}
}

// logSoftplus is log(log(1 + exp(z))).
func logSoftplus(z float64) float64 {
	if z < -30 {
		return z // softplus(z) = exp(z) to the last bit
	}
	if z > 30 {
		return math.Log(z)
	}
	return math.Log(math.Log1p(math.Exp(z)))
}
