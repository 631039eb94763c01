package shaders

// convTail sets the tail [W-1, C] of each sequence's output slot to its last W-1 inputs, oldest
// first.
func convTail(p ConvParams, x []float32, seqs []Seq, tail []float32) {
	keep := int(p.W) - 1
	for _, s := range seqs {
		for j := 0; j < keep; j++ {
			for c := 0; c < int(p.C); c++ {
				tail[(int(s.SlotOut)*keep+j)*int(p.C)+c] = convInput(p, x, tail, s, int(s.Count)-keep+j, c)
			}
		}
	}
}
