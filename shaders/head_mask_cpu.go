package shaders

// headMask clears the heads of x [T, H, D] whose bit is set.
func headMask(p HeadMaskParams, tokens int, x []float32) {
	off := [4]uint32{p.Off0, p.Off1, p.Off2, p.Off3}
	for t := range tokens {
		for h := range int(p.H) {
			if off[h/32]>>(h%32)&1 != 0 {
				clear(x[(t*int(p.H)+h)*int(p.D):][:p.D])
			}
		}
	}
}
