package shaders

import "math"

// gdnWY solves each chunk's triangular system for u [chunks, HV, C, V] and w [chunks, HV, C, K], and
// sets attn [chunks, HV, C+2, C] to the decayed scores of q and k, the decay from the chunk's start
// through each token, and the decay from each token to the chunk's end.
func gdnWY(p GDNParams, k, v, chunks int, qkv, gates []float32, table []uint32, u, w, attn []float32, tick func()) {
	const c = ChunkLen
	hv := int(p.HV)
	var a, decay [c][c]float64
	var from [c]float64
	x := make([]float64, c)
	for n := range chunks {
		start, count := int(table[4*n+1]), int(table[4*n+2])
		for h := range hv {
			hk := h / (hv / int(p.HK))
			row := func(t int) []float32 { return qkv[(start+t)*int(p.Stride)+int(p.Col):] }
			key := func(t int) []float32 { return row(t)[(int(p.HK)+hk)*k:][:k] }
			gate := func(t int) (g, beta float64) {
				if t >= count {
					return 0, 0
				}
				at := (start+t)*2*hv + h
				return float64(gates[at]), float64(gates[at+hv])
			}
			scores := attn[(n*hv+h)*(c+2)*c:][:(c+2)*c]
			sum := 0.0
			for i := range c {
				g, _ := gate(i)
				sum += g
				from[i] = math.Exp(sum)
				scores[c*c+i] = float32(from[i])
				scores[c*c+c+i] = 0
				for j := range c {
					decay[i][j], a[i][j] = 0, 0
					scores[i*c+j] = 0
				}
			}
			for j := range c {
				log := 0.0
				for i := j; i < c; i++ {
					if i > j {
						g, _ := gate(i)
						log += g
					}
					decay[i][j] = math.Exp(log)
				}
			}
			for i := range count {
				_, beta := gate(i)
				q := row(i)[hk*k:][:k]
				for j := 0; j <= i; j++ {
					scores[i*c+j] = float32(decay[i][j] * dot(q, key(j)))
					if j < i {
						a[i][j] = beta * decay[i][j] * dot(key(i), key(j))
					}
				}
				scores[c*c+c+i] = float32(decay[count-1][i])
			}
			for col := range v + k {
				for i := range c {
					b := 0.0
					if i < count {
						_, beta := gate(i)
						if col < v {
							b = beta * float64(row(i)[2*int(p.HK)*k+h*v+col])
						} else {
							b = beta * from[i] * float64(key(i)[col-v])
						}
						for j := range i {
							b -= a[i][j] * x[j]
						}
					}
					x[i] = b
					if col < v {
						u[((n*hv+h)*c+i)*v+col] = float32(b)
					} else {
						w[((n*hv+h)*c+i)*k+col-v] = float32(b)
					}
				}
			}
			tick()
		}
	}
}
