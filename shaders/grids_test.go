package shaders_test

import (
	"context"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"shellgame/shaders"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// long runs what the gate has no time for.
var long = os.Getenv("SHELLGAME_LONG") != ""

// beyond is a number of workgroups that one dimension does not hold. Folded over two, one is left
// over.
const beyond = shaders.MaxGroups + 4

// gridCase is a dispatch of more than MaxGroups workgroups, as small as it gets.
type gridCase struct {
	name   string
	kernel *shaders.Kernel
	c      shaders.C
	params any
	step   shaders.Step
	outs   []int
	gate   bool // it is quick
	bufs   func() [][]uint32
}

func random(n int) []uint32 { return gputest.F32(gputest.Rand(uint64(n), n, 1)) }

// alone are sequences of one token each, whose slots are their own and whose states are new.
func alone(n int) []shaders.Seq {
	seqs := make([]shaders.Seq, n)
	for i := range seqs {
		seqs[i] = shaders.Seq{Start: uint32(i), Count: 1, SlotIn: shaders.NoSlot, SlotOut: uint32(i), Map: uint32(i)}
	}
	return seqs
}

func upTo(n int) []uint32 {
	w := make([]uint32, n)
	for i := range w {
		w[i] = uint32(i)
	}
	return w
}

// gridCases are all kernels that a text of 300,000 tokens, as many heads, or a vocabulary of 248,320
// takes beyond MaxGroups. Bindings hold 128 MiB, which the products' outputs and the chunks' scratch
// exceed first, so here rows of products and chunks of sequences are one. For gdn_wy and gdn_wy_wide
// there is no such way, nor a device here that has larger buffers than 256 MiB.
func gridCases() []gridCase {
	const (
		lanes = 64 * beyond // elements, 64 a workgroup
		heads = 257         // times 256 tokens is more than MaxGroups
		texts = 256
	)
	elements := func(name string, k *shaders.Kernel, params any, per int, outs []int, bufs func(n int) [][]uint32) gridCase {
		n := (lanes + per - 1) / per
		step := shaders.Step{Tokens: uint32(n), Seqs: 1}
		if k == shaders.ConvTail {
			step.Seqs = uint32(n)
		}
		return gridCase{name: name, kernel: k, params: params, step: step, outs: outs, bufs: func() [][]uint32 { return bufs(n) }}
	}
	rows := func(name string, k *shaders.Kernel, params any, n int, outs []int, bufs func() [][]uint32) gridCase {
		return gridCase{name: name, kernel: k, params: params, step: shaders.Step{Tokens: uint32(n), Outs: uint32(n)}, outs: outs, gate: k != shaders.TopK && k != shaders.TopKJoin, bufs: bufs}
	}
	one := func(n int) []shaders.Seq { return []shaders.Seq{{Count: uint32(n), SlotIn: shaders.NoSlot}} }
	attention := shaders.AttentionParams{H: heads, KVH: 1, QStride: heads * 8, ProbsStride: 2, Scale: 0.5}
	attend := func(k *shaders.Kernel, out int) gridCase {
		bufs := [][]uint32{random(texts * heads * 8), random(texts * 8), random(texts * 8), upTo(texts), gputest.Seqs(alone(texts)...), upTo(texts), gputest.Poisoned(texts*heads*out + 1)}
		if k == shaders.AttentionProbs {
			bufs = slices.Delete(bufs, 2, 3)
		}
		return gridCase{name: k.Name, kernel: k, c: shaders.C{"HD": 8}, params: attention, step: shaders.Step{Tokens: texts, Seqs: texts, Keys: 1}, outs: []int{len(bufs) - 1}, gate: k == shaders.AttentionDecode, bufs: func() [][]uint32 { return bufs }}
	}
	wide := shaders.AttentionParams{H: heads, KVH: 1, Window: 1, Scale: 1}
	gdn := func(k *shaders.Kernel) gridCase {
		p := shaders.GDNParams{HK: 1, HV: heads, Stride: heads + 10}
		return gridCase{name: k.Name, kernel: k, c: shaders.C{"K": 5, "V": 1}, params: p, step: shaders.Step{Tokens: texts, Seqs: texts}, outs: []int{3, 4}, gate: true, bufs: func() [][]uint32 {
			return [][]uint32{random(texts * int(p.Stride)), random(texts * 2 * heads), gputest.Seqs(alone(texts)...), gputest.Poisoned(texts*heads*5 + 1), gputest.Poisoned(texts*heads + 1)}
		}}
	}
	matvec := func(k *shaders.Kernel, per int) gridCase {
		n := per * beyond
		p := shaders.MatMulParams{D: 8, N: uint32(n), XStride: 8, YStride: uint32(n)}
		return gridCase{name: k.Name, kernel: k, c: shaders.C{"W_KIND": shaders.F16}, params: p, step: shaders.Step{Tokens: 1}, outs: []int{2}, bufs: func() [][]uint32 {
			return [][]uint32{random(8), packed(shaders.F16, gputest.Rand(2, 8*n, 1)), gputest.Poisoned(n + 1)}
		}}
	}
	// All rows of x are one, and all rows of y: what the 64 or 128 rows of a tile write is the same.
	matmul := func(k *shaders.Kernel, tile int) gridCase {
		n := tile * beyond
		return gridCase{name: k.Name, kernel: k, c: shaders.C{"W_KIND": shaders.F16}, params: shaders.MatMulParams{D: 4, N: uint32(n)}, step: shaders.Step{Tokens: 2}, outs: []int{2}, bufs: func() [][]uint32 {
			return [][]uint32{random(4), packed(shaders.F16, gputest.Rand(2, 4*n, 1)), gputest.Poisoned(n + 1)}
		}}
	}
	// All sequences read one chunk, each into its own state. Their outputs overwrite each other.
	chunk := func(k *shaders.Kernel) gridCase {
		p := shaders.GDNParams{HK: 1, HV: heads, Stride: 4 * (2 + heads)}
		return gridCase{name: k.Name, kernel: k, c: shaders.C{"K": 4, "V": 4}, params: p, step: shaders.Step{Tokens: 1, Seqs: texts, Chunks: 1}, outs: []int{5}, bufs: func() [][]uint32 {
			seqs := alone(texts)
			for i := range seqs {
				seqs[i].Start, seqs[i].SlotIn = 0, uint32(i)
			}
			// What the first phase leaves of a token: rows beyond it are zero.
			nu, nw, na := shaders.ChunkScratch(1, heads, 4, 4)
			u, w, attn := make([]float32, nu), make([]float32, nw), make([]float32, na)
			const c = shaders.ChunkLen
			for h := range heads {
				copy(u[h*c*4:], gputest.Rand(uint64(h), 4, 1))
				copy(w[h*c*4:], gputest.Rand(uint64(h+1), 4, 0.5))
				scores := attn[h*(c+2)*c:][:(c+2)*c]
				scores[0], scores[(c+1)*c] = 0.5, 1
				for i := range c {
					scores[c*c+i] = 0.9
				}
			}
			return [][]uint32{random(int(p.Stride)), gputest.F32(u), gputest.F32(w), gputest.F32(attn), gputest.Seqs(seqs...), append(random(texts*heads*16), gputest.Poison), gputest.Poisoned(heads * 4)}
		}}
	}
	inputs := shaders.GDNInputsParams{HK: 1, K: 1, HV: heads, V: 1, W: 2, XStride: 2 + 3*heads, ACol: 2 + heads, BCol: 2 + 2*heads, QScale: 1, BetaScale: 2}
	token := shaders.GDNInputsParams{HK: 1, K: 5, HV: heads, V: 1, W: 2, XStride: 10 + 3*heads, ACol: 10 + heads, BCol: 10 + 2*heads, QScale: 1, BetaScale: 2}
	collected := shaders.CollectParams{Stamp: 256*beyond + 1}
	for i := range collected.Ranges {
		collected.Ranges[i] = shaders.CollectRange{Size: 1 << 20, At: uint32(i) << 20}
	}
	collected.Ranges[5].Size = 256*beyond - 5<<20
	vocabulary := matvec(shaders.MatVec, 8)
	vocabulary.name = "matvec, three outputs of a head of 248,320"
	vocabulary.params = shaders.MatMulParams{D: 8, N: 248320, XStride: 8, YStride: 248320, Rows: 1}
	vocabulary.step = shaders.Step{Outs: 3}
	vocabulary.bufs = func() [][]uint32 {
		return [][]uint32{random(3 * 8), packed(shaders.F16, gputest.Rand(2, 8*248320, 1)), gputest.Poisoned(3*248320 + 1)}
	}
	return []gridCase{
		rows("rms_norm", shaders.RMSNorm, shaders.RMSNormParams{D: 3, XStride: 3, YStride: 3, Eps: 1e-6}, beyond, []int{2}, func() [][]uint32 {
			return [][]uint32{random(3 * beyond), random(3), gputest.Poisoned(3*beyond + 1)}
		}),
		rows("l2norm", shaders.L2Norm, shaders.L2NormParams{Heads: 4, K: 2, Stride: 16, QScale: 1}, beyond, []int{0}, func() [][]uint32 {
			return [][]uint32{append(random(16*beyond), gputest.Poison)}
		}),
		rows("gated_norm", shaders.GatedNorm, shaders.GatedNormParams{H: 8, V: 2, GateStride: 16, Eps: 1e-5}, beyond, []int{3}, func() [][]uint32 {
			return [][]uint32{random(16 * beyond), random(2), random(16 * beyond), gputest.Poisoned(16*beyond + 1)}
		}),
		rows("top_k", shaders.TopK, shaders.TopKParams{N: 3, K: 1}, beyond, []int{1}, func() [][]uint32 {
			// Denormals would be ids of 1 and 2 read as floats: ids are compared as numbers below.
			return [][]uint32{random(3 * beyond), gputest.Poisoned(2*beyond + 1)}
		}),
		rows("top_k_join", shaders.TopKJoin, shaders.TopKParams{N: 3, K: 1}, beyond, []int{1}, func() [][]uint32 {
			parts := random(4 * beyond)
			for i := range beyond {
				parts[4*i] = uint32(i)
				parts[4*i+2] = math.Float32bits(1 + float32(i%5))
			}
			return [][]uint32{parts, gputest.Poisoned(2*beyond + 1)}
		}),
		gdn(shaders.GDNStep), gdn(shaders.GDNColumn), chunk(shaders.GDNChunk), chunk(shaders.GDNChunkWide),
		attend(shaders.AttentionDecode, 8), attend(shaders.AttentionProbs, 2), attend(shaders.AttentionSplit, 12),
		{name: "attention_join", kernel: shaders.AttentionJoin, c: shaders.C{"HD": 8}, params: attention, step: shaders.Step{Tokens: texts, Keys: 300}, outs: []int{1}, bufs: func() [][]uint32 {
			parts := gputest.Rand(1, texts*heads*3*12, 1) // three spans of 8 sums, the largest score, the total
			for i := 9; i < len(parts); i += 12 {
				parts[i] = 1 + parts[i]*parts[i] // sums of exponentials
			}
			return [][]uint32{gputest.F32(parts), gputest.Poisoned(texts*heads*8 + 1)}
		}},
		{name: "attention", kernel: shaders.Attention, c: shaders.C{"HD": 8}, params: wide, step: shaders.Step{Tokens: 32 * texts, Seqs: 1, Keys: 32 * texts}, outs: []int{6}, bufs: func() [][]uint32 {
			n := 32 * texts
			return [][]uint32{random(heads * 8), random(n * 8), random(n * 8), upTo(n), gputest.Seqs(one(n)...), make([]uint32, n), gputest.Poisoned(n*heads*8 + 1)}
		}},
		{name: "gdn_inputs", kernel: shaders.GDNInputs, params: inputs, step: shaders.Step{Tokens: 2 * texts, Seqs: 2 * texts}, outs: []int{4, 5, 6}, bufs: func() [][]uint32 {
			const n, c = 2 * texts, 2 + heads
			return [][]uint32{random(n * (c + 2*heads)), random(2 * c), random(2 * heads), gputest.Seqs(alone(n)...), gputest.Poisoned(n*c + 1), gputest.Poisoned(n*c + 1), gputest.Poisoned(n*2*heads + 1)}
		}},
		{name: "advance", kernel: shaders.Advance, params: shaders.AdvanceParams{K: 1, Most: 1}, step: shaders.Step{Seqs: beyond}, outs: []int{1, 3}, gate: true, bufs: func() [][]uint32 {
			return [][]uint32{random(2 * beyond), gputest.Poisoned(beyond + 1), gputest.Seqs(alone(beyond)...), gputest.Poisoned(2*beyond + 1)}
		}},
		{name: "gdn_token", kernel: shaders.GDNToken, c: token.TokenConsts(), params: token, step: shaders.Step{Tokens: texts, Seqs: texts}, outs: []int{4, 5, 6}, gate: true, bufs: func() [][]uint32 {
			const c = 2*5 + heads
			return [][]uint32{random(texts * (c + 2*heads)), random(2 * c), random(2 * heads), gputest.Seqs(alone(texts)...), gputest.Poisoned(texts*c + 1), gputest.Poisoned(texts*heads*5 + 1), gputest.Poisoned(texts*heads + 1)}
		}},
		{name: "attn_inputs", kernel: shaders.AttnInputs, params: shaders.AttnInputsParams{H: heads - 1, KVH: 1, HD: 1, XStride: heads + 1, Eps: 1e-6, Each: 1}, step: shaders.Step{Tokens: 2 * texts, Seqs: 2 * texts}, outs: []int{5, 6, 7}, bufs: func() [][]uint32 {
			const n = 2 * texts
			return [][]uint32{random(n * (heads + 1)), random(2), random(2), upTo(n), gputest.Seqs(alone(n)...), gputest.Poisoned(n*heads + 1), gputest.Poisoned(n + 1), gputest.Poisoned(n + 1)}
		}},
		{name: "attn_token", kernel: shaders.AttnToken, c: shaders.C{"HD": 4}, params: shaders.AttnTokenParams{H: heads, KVH: 1, XStride: (heads + 2) * 4, Eps: 1e-6, Each: 1, Scale: 0.5}, step: shaders.Step{Tokens: texts, Seqs: texts, Keys: 1}, outs: []int{5, 6, 7}, bufs: func() [][]uint32 {
			return [][]uint32{random(texts * (heads + 2) * 4), random(8), random(2), upTo(texts), gputest.Seqs(alone(texts)...), gputest.Poisoned((texts + 1) * 4), gputest.Poisoned((texts + 1) * 4), gputest.Poisoned(texts*heads*4 + 1)}
		}},
		{name: "matvec_step", kernel: shaders.MatVecStep, c: shaders.C{"W_KIND": shaders.F16, "PER": 2, "LANES": 32}, params: shaders.MatVecStepParams{D: 8, N: 8 * beyond, XStride: 8, YStride: 8 * beyond}, step: shaders.Step{Tokens: 1}, outs: []int{4}, bufs: func() [][]uint32 {
			return [][]uint32{random(8), random(8), random(8), packed(shaders.F16, gputest.Rand(2, 64*beyond, 1)), gputest.Poisoned(8*beyond + 1)}
		}},
		{name: "collect", kernel: shaders.Collect, params: collected, outs: []int{6}, bufs: func() [][]uint32 {
			one := random(1 << 20)
			return [][]uint32{one, one, one, one, one, random(256*beyond - 5<<20), gputest.Poisoned(256*beyond + 2)}
		}},
		matvec(shaders.MatVec, 8), matvec(shaders.MatVecRow, 16), matvec(shaders.MatVecWide, 8), vocabulary, matmul(shaders.MatMul, 64), matmul(shaders.MatMulWide, 128),
		elements("copy", shaders.Copy, shaders.CopyParams{D: 64}, 64, []int{1}, func(n int) [][]uint32 {
			return [][]uint32{upTo(64 * n), gputest.Poisoned(64*n + 1)}
		}),
		elements("embed", shaders.Embed, shaders.EmbedParams{D: 64, Entries: 3}, 64, []int{2}, func(n int) [][]uint32 {
			ids := upTo(n)
			for i := range ids {
				ids[i] %= 3
			}
			return [][]uint32{random(3 * 64), ids, gputest.Poisoned(64*n + 1)}
		}),
		elements("conv", shaders.Conv, shaders.ConvParams{C: 64, W: 1, XStride: 64}, 64, []int{5}, func(n int) [][]uint32 {
			return [][]uint32{random(64 * n), random(64), {0}, gputest.Seqs(one(n)...), make([]uint32, n), gputest.Poisoned(64*n + 1)}
		}),
		elements("conv_tail", shaders.ConvTail, shaders.ConvParams{C: 64, W: 2, XStride: 64}, 64, []int{2}, func(n int) [][]uint32 {
			return [][]uint32{random(64 * n), gputest.Seqs(alone(n)...), gputest.Poisoned(64*n + 1)}
		}),
		elements("gates", shaders.Gates, shaders.GatesParams{H: 64, XStride: 128, BCol: 64, BetaScale: 2}, 64, []int{2}, func(n int) [][]uint32 {
			return [][]uint32{random(128 * n), random(128), gputest.Poisoned(128*n + 1)}
		}),
		elements("head_mask", shaders.HeadMask, shaders.HeadMaskParams{Off0: 0b1010, H: 4, D: 16}, 64, []int{0}, func(n int) [][]uint32 {
			return [][]uint32{append(random(64*n), gputest.Poison)}
		}),
		elements("kv_write", shaders.KVWrite, shaders.KVWriteParams{D: 64, KStride: 64, VStride: 64}, 64, []int{5, 6}, func(n int) [][]uint32 {
			return [][]uint32{upTo(64 * n), upTo(64 * n), upTo(n), gputest.Seqs(one(n)...), make([]uint32, n), gputest.Poisoned(64*n + 1), gputest.Poisoned(64*n + 1)}
		}),
		elements("rope", shaders.RoPE, shaders.RoPEParams{Heads: 1, HD: 128, Rot: 128, Stride: 128, Positions: 2}, 64, []int{3}, func(n int) [][]uint32 {
			return [][]uint32{random(2 * 128), gputest.Seqs(one(n)...), make([]uint32, n), append(random(128*n), gputest.Poison)}
		}),
		elements("sigmoid_gate", shaders.SigmoidGate, shaders.SigmoidGateParams{D: 64, GateStride: 64}, 64, []int{1}, func(n int) [][]uint32 {
			return [][]uint32{random(64 * n), append(random(64*n), gputest.Poison)}
		}),
		elements("swiglu", shaders.SwiGLU, shaders.SwiGLUParams{F: 64}, 64, []int{1}, func(n int) [][]uint32 {
			return [][]uint32{random(128 * n), gputest.Poisoned(64*n + 1)}
		}),
	}
}

// unfolded are the kernels that TestGrids leaves out, with the reason.
var unfolded = map[string]string{
	"stamp":       "one workgroup",
	"top_k_split": "2,048 logits a workgroup: 512 MiB of them",
	"gdn_wy":      "285 MB of scratch, which no device here takes as one buffer",
	"gdn_wy_wide": "285 MB of scratch, which no device here takes as one buffer",
}

// tiled are the kernels whose workgroups compute a whole tile, span or chunk, however little is asked
// for.
var tiled = []*shaders.Kernel{shaders.Attention, shaders.AttentionSplit, shaders.AttnToken, shaders.MatMul, shaders.MatMulWide, shaders.GDNChunk, shaders.GDNChunkWide}

// More workgroups than a dimension holds are folded into y, and compute what the twin does: each of
// them, and none beyond.
func TestGrids(t *testing.T) {
	d := gputest.GPU(t)
	seen := map[string]bool{}
	for _, g := range gridCases() {
		seen[g.kernel.Name] = true
		p, err := g.kernel.Words(g.params)
		if err != nil {
			t.Fatal(err)
		}
		grid := g.kernel.Grid(&shaders.Args{Step: g.step, P: p, C: g.kernel.Fill(g.c)})
		if grid[0] > shaders.MaxGroups || grid[1] < 2 || grid[2] != 1 {
			t.Errorf("%s: grid %v, want it folded into y", g.name, grid)
		}
		// SwiftShader takes seconds for barriers in so many workgroups, and for whole tiles in each
		// more than the minute after which a GPU is taken not to answer.
		slow := d.Info().Kind == "browser" && d.Info().Software
		if !long && (!g.gate || slow && g.kernel != shaders.GDNColumn) || slow && slices.Contains(tiled, g.kernel) {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			gputest.Check(t, g.name, g.tolerance(), g.kernel, g.c, g.params, g.step, g.outs, g.bufs()...)
		})
	}
	for _, k := range shaders.Kernels() {
		if !seen[k.Name] && unfolded[k.Name] == "" {
			t.Errorf("%s: no test of a grid over %d workgroups", k.Name, shaders.MaxGroups)
		}
	}
}

func (g *gridCase) tolerance() gputest.Tolerance {
	switch g.kernel {
	case shaders.GDNStep, shaders.GDNColumn:
		return deltaTol(1, 5)
	case shaders.GDNToken:
		return tokenTol(5)
	case shaders.GDNChunk, shaders.GDNChunkWide:
		return deltaTol(4, 4)
	}
	return gputest.Tolerance{RMS: 1e-5, Max: 1e-5}
}

// A grid that is not folded is refused, and one that leaves workgroups out is found out.
func TestGridsBroken(t *testing.T) {
	cases := gridCases()
	g := cases[slices.IndexFunc(cases, func(g gridCase) bool { return g.kernel == shaders.GDNColumn })]
	k := *g.kernel
	k.Grid = func(*shaders.Args) [3]uint32 { return [3]uint32{shaders.MaxGroups, 1, 1} }
	got := gputest.Run(t, gputest.GPU(t), &k, g.c, g.params, g.step, g.bufs()...)
	want := gputest.Run(t, webgpu.NewCPU(), &k, g.c, g.params, g.step, g.bufs()...)
	if gputest.Compare(g.tolerance(), gputest.Floats(got[3]), gputest.Floats(want[3])).Err == nil {
		t.Error("a grid without its last workgroups passed")
	}
	k.Grid = func(*shaders.Args) [3]uint32 { return [3]uint32{beyond, 1, 1} }
	rec := &webgpu.Recording{Name: "flat"}
	var bufs []webgpu.Buffer
	for i, words := range g.bufs() {
		b, err := gputest.GPU(t).NewBuffer(k.Slots[i].Name, 4*len(words))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Release()
		bufs = append(bufs, b)
	}
	rec.Dispatch("flat", &k, g.c, g.params, bufs...)
	p, err := gputest.Unlimited(t).Prepare(context.Background(), rec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	if _, err := p.Play(context.Background(), g.step); err == nil || !strings.Contains(err.Error(), "workgroups in a dimension") {
		t.Errorf("a grid that is not folded: %v, want it refused", err)
	}
}
