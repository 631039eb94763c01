package shaders

// collect copies range i of bufs[i] to all from its At on, and the step's counter to Stamp.
func collect(p *CollectParams, step Step, bufs [][]uint32, all []uint32) {
	for i, r := range p.Ranges {
		copy(all[r.At:][:r.Size], bufs[i][r.Off+step.Slot*r.Stride:])
	}
	if p.Stamp > 0 {
		all[p.Stamp] = step.Counter
	}
}
