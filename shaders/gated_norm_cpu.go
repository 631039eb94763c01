package shaders

import "math"

// gatedNorm sets o [T, H, V] to o / sqrt(mean(o²) + eps) · weight [V] · silu(gate).
func gatedNorm(p GatedNormParams, tokens int, gate, weight, o []float32) {
	v := int(p.V)
	for t := 0; t < tokens; t++ {
		for h := 0; h < int(p.H); h++ {
			row := o[(t*int(p.H)+h)*v:][:v]
			g := gate[t*int(p.GateStride)+int(p.GateCol)+h*v:][:v]
			sum := 0.0
			for _, e := range row {
				sum += float64(e) * float64(e)
			}
			scale := 1 / math.Sqrt(sum/float64(v)+float64(p.Eps))
			for j := range row {
				row[j] = float32(float64(row[j]) * scale * float64(weight[j]) * silu(float64(g[j])))
			}
		}
	}
}
