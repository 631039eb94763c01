package shaders_test

import (
	"fmt"
	"testing"

	"shellgame/shaders"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// runColumn plays the form without barriers on d.
func (c *deltaCase) runColumn(t testing.TB, d webgpu.Device) (o, state []float32) {
	out := gputest.Run(t, d, shaders.GDNColumn, c.rounded(), c.p, c.step(),
		gputest.F32(c.qkv), gputest.F32(c.gates), gputest.Seqs(c.seqs...), c.state, c.out())
	return gputest.Floats(out[4]), gputest.Floats(out[3])
}

func TestGDNColumn(t *testing.T) {
	var w worst
	for _, s := range deltaShapes {
		for _, tokens := range []int{1, 2, 63, 64, 65} {
			c := newDelta(s.k, s.v, s.hk, s.hv, decays["mixed"], shaders.Seq{Count: uint32(tokens), SlotIn: 1, SlotOut: 0})
			what := fmt.Sprintf("gdn_column %+v T %d", s, tokens)
			tol := deltaTol(tokens, s.k)
			o, state := c.runColumn(t, gputest.GPU(t))
			wantO, wantState := c.runStep(t, webgpu.NewCPU())
			w.add(what+" o", tol, gputest.Close(t, what+" o", tol, o, wantO))
			w.add(what+" state", tol, gputest.Close(t, what+" state", tol, state, wantState))
		}
		c := newDelta(s.k, s.v, s.hk, s.hv, decays["mixed"], deltaBatch()...)
		o, state := c.runColumn(t, gputest.GPU(t))
		c.checkAlone(t, gputest.GPU(t), o, state, gputest.Tolerance{}, (*deltaCase).runColumn)
	}
	w.log(t)
}
