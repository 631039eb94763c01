package shaders_test

import (
	"fmt"
	"testing"

	"shellgame/shaders"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// runChunk plays the chunked form on d, both phases, over poisoned scratch.
func (c *deltaCase) runChunk(t testing.TB, d webgpu.Device) (o, state []float32) {
	_, _, _, o, state = c.phases(t, d)
	return o, state
}

func (c *deltaCase) phases(t testing.TB, d webgpu.Device) (u, w, attn, o, state []float32) {
	seqs := append([]shaders.Seq(nil), c.seqs...)
	chunks := shaders.Chunks(seqs)
	step := c.step()
	step.Chunks = uint32(len(chunks) / 4)
	if n := shaders.MaxChunks(c.tokens, len(seqs)); int(step.Chunks) > n {
		t.Fatalf("%d chunks, MaxChunks says %d", step.Chunks, n)
	}
	nu, nw, na := shaders.ChunkScratch(max(int(step.Chunks), 1), c.hv, c.k, c.v)
	wy, chunk := shaders.GDNWY, shaders.GDNChunk
	if c.wide {
		wy, chunk = shaders.GDNWYWide, shaders.GDNChunkWide
	}
	one := gputest.Run(t, d, wy, c.consts(), c.p, step, gputest.F32(c.qkv), gputest.F32(c.gates), append(chunks, 0, 0, 0, 0),
		gputest.Poisoned(nu), gputest.Poisoned(nw), gputest.Poisoned(na))
	two := gputest.Run(t, d, chunk, c.consts(), c.p, step, gputest.F32(c.qkv), one[3], one[4], one[5], gputest.Seqs(seqs...), c.state, c.out())
	return gputest.Floats(one[3]), gputest.Floats(one[4]), gputest.Floats(one[5]), gputest.Floats(two[6]), gputest.Floats(two[5])
}

// Each phase writes what its twin writes, and both together what the recurrent rule gives on the
// CPU: chunk = recurrence = CPU.
func TestGDNChunk(t *testing.T) {
	for _, wide := range []bool{false, true} {
		t.Run(fmt.Sprintf("wide=%v", wide), func(t *testing.T) { testGDNChunk(t, wide) })
	}
}

func testGDNChunk(t *testing.T, wide bool) {
	var phase, whole worst
	for _, s := range deltaShapes {
		for _, tokens := range deltaTimes {
			for name, decay := range decays {
				if name != "mixed" && tokens != 65 {
					continue
				}
				c := newDelta(s.k, s.v, s.hk, s.hv, decay, shaders.Seq{Count: uint32(tokens), SlotIn: 1, SlotOut: 0})
				if c.wide = wide; wide && !shaders.GDNWide(c.p, s.k, s.v) {
					continue
				}
				what := fmt.Sprintf("gdn_chunk %+v T %d decay %s", s, tokens, name)
				// Solving the system reorders sums over the chunk's tokens as well.
				tol := deltaTol(4*tokens, s.k)
				wantU, wantW, wantAttn, cpuO, cpuState := c.phases(t, webgpu.NewCPU())
				u, w, attn, o, state := c.phases(t, gputest.GPU(t))
				phase.add(what+" u", tol, gputest.Close(t, what+" u", tol, u, wantU))
				phase.add(what+" w", tol, gputest.Close(t, what+" w", tol, w, wantW))
				phase.add(what+" attn", tol, gputest.Close(t, what+" attn", tol, attn, wantAttn))
				wantO, wantState := c.runStep(t, webgpu.NewCPU())
				whole.add(what+" o, twins", tol, gputest.Close(t, what+" o, twins", tol, cpuO, wantO))
				whole.add(what+" state, twins", tol, gputest.Close(t, what+" state, twins", tol, cpuState, wantState))
				whole.add(what+" o", tol, gputest.Close(t, what+" o", tol, o, wantO))
				whole.add(what+" state", tol, gputest.Close(t, what+" state", tol, state, wantState))
			}
		}
	}
	phase.log(t)
	whole.log(t)
}

// A batch gives each sequence what it gets alone, on every device.
func TestGDNChunkBatch(t *testing.T) {
	for _, s := range deltaShapes {
		c := newDelta(s.k, s.v, s.hk, s.hv, decays["mixed"], deltaBatch()...)
		for _, c.wide = range []bool{false, true} {
			if c.wide && !shaders.GDNWide(c.p, s.k, s.v) {
				continue
			}
			gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
				o, state := c.runChunk(t, d)
				c.checkAlone(t, d, o, state, gputest.Tolerance{}, (*deltaCase).runChunk)
			})
		}
	}
}

// Two plays with the state carried over give what one gives, wherever the split is.
func TestGDNChunkSplit(t *testing.T) {
	const tokens = 70
	c := newDelta(12, 24, 2, 4, decays["mixed"], shaders.Seq{Count: tokens, SlotIn: 1, SlotOut: 0})
	for _, c.wide = range []bool{false, true} {
		gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
			var splits []int
			for at := range tokens + 1 {
				splits = append(splits, at)
			}
			c.checkSplits(t, d, deltaTol(4*tokens, 12), tokens, (*deltaCase).runChunk, splits)
		})
	}
}

// The chunk table covers every token of every sequence once, in order.
func TestChunks(t *testing.T) {
	seqs := deltaBatch()
	table := shaders.Chunks(seqs)
	at := 0
	for i, s := range seqs {
		if int(s.Chunk) != at/4 {
			t.Errorf("sequence %d: first chunk %d, want %d", i, s.Chunk, at/4)
		}
		next := s.Start
		for n := uint32(0); next < s.Start+s.Count; n++ {
			if table[at] != uint32(i) || table[at+1] != next || table[at+2] == 0 || table[at+2] > shaders.ChunkLen || table[at+3] != n {
				t.Fatalf("sequence %d: chunk %v at token %d", i, table[at:at+4], next)
			}
			next += table[at+2]
			at += 4
		}
		if next != s.Start+s.Count {
			t.Errorf("sequence %d: chunks end at %d, want %d", i, next, s.Start+s.Count)
		}
	}
	if at != len(table) {
		t.Errorf("%d words of chunks, %d used", len(table), at)
	}
}

// A broken second phase must be caught.
func TestGDNChunkBrokenTwin(t *testing.T) {
	c := newDelta(12, 24, 2, 4, decays["mixed"], shaders.Seq{Count: 40, SlotIn: 1, SlotOut: 0})
	wantO, _ := c.runStep(t, webgpu.NewCPU())
	c.gates[2*4*33+4] += 0.01 // a beta in the second chunk
	o, _ := c.runChunk(t, gputest.GPU(t))
	if d := gputest.Compare(deltaTol(4*40, 12), o, wantO); d.Err == nil {
		t.Error("a beta off by 0.01 in the second chunk passed")
	}
}
