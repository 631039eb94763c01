package shaders

// swiglu sets y [T, F] to silu(gate) · up of x [T, 2F].
func swiglu(f, tokens int, x, y []float32) {
	for t := 0; t < tokens; t++ {
		gate, up := x[t*2*f:][:f], x[t*2*f+f:][:f]
		for i := range gate {
			y[t*f+i] = float32(silu(float64(gate[i])) * float64(up[i]))
		}
	}
}
