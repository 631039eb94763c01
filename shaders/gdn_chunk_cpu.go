package shaders

// gdnChunk passes the state [slots, HV, K, V] of each sequence through its chunks and sets
// o [T, HV, V], from u [chunks, HV, C, V], w [chunks, HV, C, K] and attn [chunks, HV, C+2, C].
func gdnChunk(p GDNParams, k, v int, qkv, u, w, attn []float32, seqs []Seq, state, o []float32, tick func()) {
	const c = ChunkLen
	hv := int(p.HV)
	s := make([]float64, k*v)
	write := make([]float64, c*v)
	for _, seq := range seqs {
		for h := range hv {
			hk := h / (hv / int(p.HK))
			clear(s)
			if seq.SlotIn != NoSlot {
				for i, x := range state[(int(seq.SlotIn)*hv+h)*k*v:][:k*v] {
					s[i] = float64(x)
				}
			}
			for t0 := 0; t0 < int(seq.Count); t0 += c {
				n := (int(seq.Chunk)+t0/c)*hv + h
				count := min(c, int(seq.Count)-t0)
				scores := attn[n*(c+2)*c:][:(c+2)*c]
				row := func(t int) []float32 { return qkv[(int(seq.Start)+t0+t)*int(p.Stride)+int(p.Col):] }
				for t := range count {
					for j := range v {
						sum := float64(u[(n*c+t)*v+j])
						for i := range k {
							sum -= float64(w[(n*c+t)*k+i]) * s[i*v+j]
						}
						write[t*v+j] = sum
					}
				}
				for t := range count {
					q := row(t)[hk*k:][:k]
					for j := range v {
						sum := 0.0
						for i := range k {
							sum += float64(q[i]) * s[i*v+j]
						}
						sum *= float64(scores[c*c+t])
						for m := 0; m <= t; m++ {
							sum += float64(scores[t*c+m]) * write[m*v+j]
						}
						o[((int(seq.Start)+t0+t)*hv+h)*v+j] = float32(sum)
					}
				}
				keep := float64(scores[c*c+count-1])
				for i := range s {
					s[i] *= keep
				}
				for t := range count {
					key := row(t)[(int(p.HK)+hk)*k:][:k]
					for i := range k {
						f := float64(scores[c*c+c+t]) * float64(key[i])
						for j := range v {
							s[i*v+j] += f * write[t*v+j]
						}
					}
				}
				tick()
			}
			out := state[(int(seq.SlotOut)*hv+h)*k*v:][:k*v]
			for i, x := range s {
				out[i] = float32(x)
			}
		}
	}
}
