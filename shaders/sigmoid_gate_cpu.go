package shaders

// sigmoidGate multiplies y [T, D] by sigmoid(gate).
func sigmoidGate(p SigmoidGateParams, tokens int, gate, y []float32) {
	d := int(p.D)
	for t := 0; t < tokens; t++ {
		g := gate[t*int(p.GateStride)+int(p.GateCol):][:d]
		for i, v := range y[t*d:][:d] {
			y[t*d+i] = float32(float64(v) * sigmoid(float64(g[i])))
		}
	}
}
