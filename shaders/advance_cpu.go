package shaders

// advance makes of the tables of one pass those of the next, and keeps top [B, K, 2] in tops
// [B, Most, K, 2], row past mod Most.
func advance(p AdvanceParams, top, ids []uint32, seqs []Seq, tops []uint32) {
	size := int(2 * p.K)
	for b := range seqs {
		s := &seqs[b]
		found := top[b*size:][:size]
		copy(tops[(b*int(p.Most)+int(s.Past%p.Most))*size:], found)
		ids[s.Start] = found[0]
		s.Past++
		s.SlotIn, s.SlotOut, s.Turn = s.SlotOut, s.Turn, s.SlotOut
	}
}
