package shaders

import "math"

// rmsNorm sets y [rows, D] to x / sqrt(mean(x²) + eps) · weight [D], or adds that to it.
func rmsNorm(p RMSNormParams, rows int, x, weight, y []float32) {
	d := int(p.D)
	for r := 0; r < rows; r++ {
		xr := x[r*int(p.XStride)+int(p.XCol):][:d]
		yr := y[r*int(p.YStride)+int(p.YCol):][:d]
		sum := 0.0
		for _, v := range xr {
			sum += float64(v) * float64(v)
		}
		scale := 1 / math.Sqrt(sum/float64(d)+float64(p.Eps))
		for i, v := range xr {
			o := float32(float64(v) * scale * float64(weight[i]))
			if p.Add == 1 {
				o += yr[i]
			}
			yr[i] = o
		}
	}
}
