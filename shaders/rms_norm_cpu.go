package shaders

import "math"

// rmsNorm sets y [rows, heads, D] to x / sqrt(mean(x²) + eps) · weight, or adds that to it.
func rmsNorm(p RMSNormParams, rows int, x, weight, y []float32) {
	d, heads := int(p.D), max(int(p.Heads), 1)
	weight = weight[p.WCol:][:d]
	for n := 0; n < rows*heads; n++ {
		r, h := n/heads, n%heads
		xr := x[r*int(p.XStride)+int(p.XCol)+h*d:][:d]
		yr := y[r*int(p.YStride)+int(p.YCol)+h*d:][:d]
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
