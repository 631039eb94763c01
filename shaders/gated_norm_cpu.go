package shaders

import "math"

// gatedNorm sets y [T, H, V] to o / sqrt(mean(o²) + eps) · weight [V] · silu(gate), the last factor 1
// with NoGate.
func gatedNorm(p GatedNormParams, tokens int, gate, weight, o, y []float32) {
	v := int(p.V)
	for t := 0; t < tokens; t++ {
		for h := 0; h < int(p.H); h++ {
			row, out := o[(t*int(p.H)+h)*v:][:v], y[(t*int(p.H)+h)*v:][:v]
			g := gate[t*int(p.GateStride)+int(p.GateCol)+h*v:][:v]
			sum := 0.0
			for _, e := range row {
				sum += float64(e) * float64(e)
			}
			scale := 1 / math.Sqrt(sum/float64(v)+float64(p.Eps))
			for j := range row {
				factor := silu(float64(g[j]))
				if p.NoGate != 0 {
					factor = 1
				}
				out[j] = float32(float64(row[j]) * scale * float64(weight[j]) * factor)
			}
		}
	}
}
