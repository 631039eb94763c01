package shaders

// matVecStep sets N columns of y, from YCol on, to norm(x) [rows, D] · wᵀ, or adds that to them. With glu
// the halves of w are w₀ and w₁, and N / 2 columns are silu(norm(x)·w₀ᵀ) · (norm(x)·w₁ᵀ).
func matVecStep(p MatVecStepParams, norm, glu uint32, rows int, x, scale, gate []float32, w weights, y []float32, tick func()) {
	d, n := int(p.D), int(p.N)
	in := make([]float32, rows*d)
	for r := range rows {
		row := x[r*int(p.XStride):][:d]
		switch norm {
		case NormNone:
			copy(in[r*d:], row)
		case NormRMS:
			rmsNorm(RMSNormParams{D: p.D, XStride: p.D, YStride: p.D, Eps: p.Eps}, 1, row, scale, in[r*d:])
		case NormSigmoid:
			copy(in[r*d:], row)
			sigmoidGate(SigmoidGateParams{D: p.D, GateCol: p.GateCol}, 1, gate[r*int(p.GateStride):], in[r*d:])
		case NormGated:
			gatedNorm(GatedNormParams{H: p.D / p.V, V: p.V, GateCol: p.GateCol, Eps: p.Eps, NoGate: p.NoGate}, 1, gate[r*int(p.GateStride):], scale, row, in[r*d:])
		}
	}
	product := MatMulParams{D: p.D, N: p.N, XStride: p.D, YStride: p.YStride, YCol: p.YCol, Add: p.Add}
	if glu == 0 {
		matmul(product, rows, in, w, y, tick)
		return
	}
	both := make([]float32, rows*n)
	product.YStride, product.YCol, product.Add = p.N, 0, 0
	matmul(product, rows, in, w, both, tick)
	for r := range rows {
		for c := range n / 2 {
			at := r*int(p.YStride) + int(p.YCol) + c
			v := float32(silu(float64(both[n*r+c])) * float64(both[n*r+n/2+c]))
			if p.Add == 1 {
				v += y[at]
			}
			y[at] = v
		}
	}
}
