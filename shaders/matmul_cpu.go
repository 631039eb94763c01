package shaders

import (
	"runtime"
	"sync"
)

// matmul sets columns YCol..YCol+N of y to x [rows, D] · wᵀ with w [N, D], or adds that to them.
// Each product is summed in float64, in one order however the rows of w are shared out.
func matmul(p MatMulParams, rows int, x []float32, w weights, y []float32, tick func()) {
	d := int(p.D)
	share(int(p.N), rows*d, func(from, to int) {
		wn := make([]float32, d)
		for n := from; n < to; n++ {
			w.row(wn, n)
			for r := 0; r < rows; r++ {
				o := r*int(p.YStride) + int(p.YCol) + n
				v := float32(dot(x[r*int(p.XStride):][:d], wn))
				if p.Add == 1 {
					v += y[o]
				}
				y[o] = v
			}
			tick()
		}
	})
}

// worthSharing is how many products take about a millisecond, much longer than starting goroutines.
const worthSharing = 1 << 20

// share calls f for [0, n) in as many parts as there are cores, if n items of that many products
// each are worth it. A page has one.
func share(n, products int, f func(from, to int)) {
	parts := min(runtime.GOMAXPROCS(0), n)
	if parts < 2 || n*products < worthSharing {
		f(0, n)
		return
	}
	var all sync.WaitGroup
	for i := range parts {
		all.Go(func() { f(i*n/parts, (i+1)*n/parts) })
	}
	all.Wait()
}

// dot sums a·b in float64, in four chains that the processor can overlap.
func dot(a, b []float32) float64 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += float64(a[i]) * float64(b[i])
		s1 += float64(a[i+1]) * float64(b[i+1])
		s2 += float64(a[i+2]) * float64(b[i+2])
		s3 += float64(a[i+3]) * float64(b[i+3])
	}
	for ; i < len(a); i++ {
		s0 += float64(a[i]) * float64(b[i])
	}
	return (s0 + s1) + (s2 + s3)
}
