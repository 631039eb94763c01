package shaders

// kvWrite copies each token's k [D] and v [D] to row rows[Map+position] of the caches [rows, D].
func kvWrite(p KVWriteParams, k, v []float32, rows []uint32, seqs []Seq, kCache, vCache []float32) {
	d := int(p.D)
	for _, s := range seqs {
		for n := uint32(0); n < s.Count; n++ {
			t, at := int(s.Start+n), int(rows[s.Map+s.Past+n])*d
			copy(kCache[at:][:d], k[t*int(p.KStride)+int(p.KCol):])
			copy(vCache[at:][:d], v[t*int(p.VStride)+int(p.VCol):])
		}
	}
}
