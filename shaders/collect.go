package shaders

// CollectRanges is from how many buffers one dispatch of [Collect] reads.
const CollectRanges = 6

// CollectRange is a range of a buffer for [Collect], in words.
type CollectRange struct {
	Size   uint32
	Off    uint32
	Stride uint32 // the range is moved by Step.Slot times this
	At     uint32 // where it goes
}

// CollectParams are the parameters of [Collect].
type CollectParams struct {
	Ranges  [CollectRanges]CollectRange
	Stamp   uint32 // where Step.Counter goes; 0 is nowhere
	_, _, _ uint32
}

// Collect copies ranges of several buffers into one, and the counter of the play: a device reads
// back one buffer for less than it takes to copy from many.
var Collect = register(&Kernel{
	Name:   "collect",
	Doc:    "ranges of several buffers side by side in one",
	Params: CollectParams{},
	Slots:  []Slot{{"a", Read}, {"b", Read}, {"c", Read}, {"d", Read}, {"e", Read}, {"f", Read}, {"all", Write}},
	Grid: func(a *Args) [3]uint32 {
		n := uint32(0)
		for _, r := range params[CollectParams](a).Ranges {
			n += r.Size
		}
		return fold(ceilDiv(n, a.C["WG"]))
	},
	Twin: func(c *Call) {
		p := params[CollectParams](&c.Args)
		collect(p, c.Step, c.Bufs[:CollectRanges], c.U32(CollectRanges))
	},
})
