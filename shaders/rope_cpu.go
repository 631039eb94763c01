package shaders

// rope rotates each pair (x[i], x[i+Rot/2]) of each head by the angle of its position, whose cos
// and sin are table [positions, Rot/2, 2].
func rope(p RoPEParams, table []float32, seqs []Seq, x []float32) {
	half := int(p.Rot) / 2
	for _, s := range seqs {
		for n := 0; n < int(s.Count); n++ {
			position := min(int(s.Past)+n, int(p.Positions)-1)
			angles := table[position*half*2:]
			for h := 0; h < int(p.Heads); h++ {
				v := x[(int(s.Start)+n)*int(p.Stride)+int(p.Col)+h*int(p.HD):]
				for j := 0; j < half; j++ {
					c, sn := float64(angles[2*j]), float64(angles[2*j+1])
					a, b := float64(v[j]), float64(v[j+half])
					v[j], v[j+half] = float32(a*c-b*sn), float32(b*c+a*sn)
				}
			}
		}
	}
}
