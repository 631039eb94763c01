package check

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
	"unsafe"

	"github.com/x448/float16"

	"shellgame/model"
	"shellgame/model/goldentest"
	"shellgame/shaders"
	"shellgame/webgpu"
)

// The sizes of the quick check are those of the zoo's heads, so that its pipelines are theirs.
const (
	quickPlays = 3
	quickD     = 64          // D
	quickHeads = 2           // HK, HV and attention's H; KVH is 1
	quickK     = 32          // K, and attention's HD
	quickV     = 64          // V
	quickN     = 48          // N
	quickKeys  = 8           // rows of the KV cache
	quickBound = lockstepFor // of what a kernel wrote
)

// lockstepFor is what f32 arithmetic in another order may differ by after five kernels in a row, three
// times over.
const lockstepFor = 1e-4

// Quick checks dev with six pipelines, the stamp of every recording included: a norm, the product with
// f16 weights, the delta rule with its state over three tokens, attention and the choice of words, each
// on what the one before gave. What each wrote is compared with the CPU's; the first that is wrong has
// got right numbers and is named.
func Quick(ctx context.Context, dev webgpu.Device) (*Report, error) {
	cpu := webgpu.NewCPU()
	want, err := newQuick(ctx, cpu, dev)
	if err != nil {
		return nil, err
	}
	defer want.release()
	got, err := newQuick(ctx, dev, dev)
	if err != nil {
		return nil, err
	}
	defer got.release()
	info := dev.Info()
	rep := &Report{Device: info.Kind, Adapter: info.Adapter, Pass: true}
	for t := range quickPlays {
		w, err := want.play(ctx, t)
		if err != nil {
			return nil, err
		}
		g, err := got.play(ctx, t)
		if err != nil {
			return nil, err
		}
		for i, op := range want.rec.Ops {
			k := Kernel{Name: op.Kernel.Variant(op.C), Shape: fmt.Sprintf("%s, token %d", op.Name, t), Bound: quickBound}
			for j, slot := range op.Kernel.Slots {
				if slot.Access != shaders.Read {
					at := want.at[op.Bufs[j]]
					k.Worst = goldentest.Number(math.Max(float64(k.Worst), model.Worst(op.Kernel, g[at[0]:at[1]], w[at[0]:at[1]])))
				}
			}
			if got.rec.Ops[i].Kernel.Name != op.Kernel.Name {
				return nil, fmt.Errorf("check: dispatch %d is %s on one device and %s on the other", i, got.rec.Ops[i].Kernel.Name, op.Kernel.Name)
			}
			k.Pass = k.Worst <= k.Bound
			rep.Kernels = append(rep.Kernels, k)
			if !k.Pass {
				rep.Pass = false
				return rep, nil // what follows has got wrong numbers
			}
		}
	}
	return rep, nil
}

// quick is the recording of the quick check on a device.
type quick struct {
	dev  webgpu.Device
	rec  *webgpu.Recording
	prog webgpu.Program
	bufs map[string]webgpu.Buffer
	at   map[webgpu.Buffer][2]int // where a buffer lies in what a play returns, in words
	rand *rand.Rand
}

// newQuick makes the recording on dev, with the kernels that a model takes for steps on like.
func newQuick(ctx context.Context, dev, like webgpu.Device) (*quick, error) {
	q := &quick{dev: dev, rec: &webgpu.Recording{Name: "self-test"}, bufs: map[string]webgpu.Buffer{}, at: map[webgpu.Buffer][2]int{}, rand: rand.New(rand.NewPCG(5, 0x5e11))}
	if err := q.build(like); err != nil {
		q.release()
		return nil, err
	}
	var err error
	if q.prog, err = dev.Prepare(ctx, q.rec); err != nil {
		q.release()
		return nil, err
	}
	return q, nil
}

func (q *quick) build(like webgpu.Device) error {
	const (
		qk      = quickHeads * quickK
		columns = 2*qk + quickHeads*quickV // q, k, v
	)
	product, delta := shaders.MatVec, shaders.GDNStep
	if i := like.Info(); i.Software && i.Kind != "cpu" {
		product, delta = shaders.MatVecRow, shaders.GDNColumn
	}
	// Keys of length about 1, as the delta rule wants them.
	in := q.normal(columns*quickD, 1.0/8)
	for i := range in[:2*qk*quickD] {
		in[i] /= 5.7
	}
	var err error
	buf := func(name string, words []uint32) webgpu.Buffer {
		b, e := q.dev.NewBuffer("self-test "+name, 4*len(words))
		if e == nil {
			q.bufs[name] = b
			e = q.dev.Write(b, 0, bytesOf(words))
		}
		if err == nil {
			err = e
		}
		return b
	}
	poison := func(n int) []uint32 {
		w := make([]uint32, n)
		for i := range w {
			w[i] = 0x7fc0dead
		}
		return w
	}
	x, norm, h := buf("x", poison(quickD)), buf("norm", floats(q.normal(quickD, 1))), buf("h", poison(quickD))
	wIn, y := buf("w_in", halves(in)), buf("y", poison(columns))
	gates, seqs, state, o := buf("gates", poison(2*quickHeads)), buf("seqs", make([]uint32, shaders.SeqWords)), buf("state", poison(quickHeads*quickK*quickV)), buf("o", poison(quickHeads*quickV))
	keys, values := buf("keys", floats(q.normal(quickKeys*quickK, 1))), buf("values", floats(q.normal(quickKeys*quickK, 1)))
	rows, of, a := buf("rows", []uint32{3, 1, 6, 0, 7, 2, 5, 4}), buf("token_seq", []uint32{0}), buf("a", poison(qk))
	wO, wA := buf("w_o", halves(q.normal(quickN*quickHeads*quickV, 1.0/8))), buf("w_a", halves(q.normal(quickN*qk, 1.0/8)))
	logits, top := buf("logits", poison(quickN)), buf("top", poison(8))
	if err != nil {
		return err
	}
	half := shaders.C{"W_KIND": shaders.F16}
	q.rec.Dispatch("norm", shaders.RMSNorm, nil, shaders.RMSNormParams{D: quickD, XStride: quickD, YStride: quickD, Eps: 1e-6}, x, norm, h)
	q.rec.Dispatch("in", product, half, shaders.MatMulParams{N: columns, D: quickD, XStride: quickD, YStride: columns}, h, wIn, y)
	q.rec.Dispatch("delta rule", delta, shaders.C{"K": quickK, "V": quickV}, shaders.GDNParams{HK: quickHeads, HV: quickHeads, Stride: columns}, y, gates, seqs, state, o)
	q.rec.Dispatch("attention", shaders.AttentionDecode, shaders.C{"HD": quickK}, shaders.AttentionParams{H: quickHeads, KVH: 1, QStride: columns, Scale: float32(1 / math.Sqrt(quickK))}, y, keys, values, rows, seqs, of, a)
	q.rec.Dispatch("out", product, half, shaders.MatMulParams{N: quickN, D: quickHeads * quickV, XStride: quickHeads * quickV, YStride: quickN}, o, wO, logits)
	q.rec.Dispatch("out, added", product, half, shaders.MatMulParams{N: quickN, D: qk, XStride: qk, YStride: quickN, Add: 1}, a, wA, logits)
	q.rec.Dispatch("words", shaders.TopK, nil, shaders.TopKParams{N: quickN, K: 4}, logits, top)
	for _, b := range []webgpu.Buffer{h, y, state, o, a, logits, top} {
		from := q.rec.Read(b, 0, b.Size(), 0) / 4
		q.at[b] = [2]int{from, from + b.Size()/4}
	}
	return q.rec.Err()
}

// play reads token t and returns what all kernels wrote.
func (q *quick) play(ctx context.Context, t int) ([]uint32, error) {
	s := shaders.Seq{Count: 1, Past: uint32(2*t + 1), SlotIn: 0}
	if t == 0 {
		s.SlotIn = shaders.NoSlot
	}
	write := func(name string, words []uint32) error { return q.dev.Write(q.bufs[name], 0, bytesOf(words)) }
	if err := write("x", floats(q.normal(quickD, 1))); err != nil {
		return nil, err
	}
	// Log decays, and beta to both sides of 1.
	if err := write("gates", floats([]float32{-0.1 * float32(t), -1.5, 1.9 - 0.1*float32(t), 0.4})); err != nil {
		return nil, err
	}
	if err := write("seqs", unsafe.Slice((*uint32)(unsafe.Pointer(&s)), shaders.SeqWords)); err != nil {
		return nil, err
	}
	out, err := q.prog.Play(ctx, shaders.Step{Tokens: 1, Seqs: 1, Outs: 1, Keys: s.Past + 1})
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*uint32)(unsafe.Pointer(&out[0])), len(out)/4), nil
}

func (q *quick) release() {
	if q.prog != nil {
		q.prog.Release()
	}
	for _, b := range q.bufs {
		b.Release()
	}
}

func (q *quick) normal(n int, sigma float64) []float32 {
	f := make([]float32, n)
	for i := range f {
		f[i] = float32(q.rand.NormFloat64() * sigma)
	}
	return f
}

func floats(f []float32) []uint32 { return unsafe.Slice((*uint32)(unsafe.Pointer(&f[0])), len(f)) }
func bytesOf(w []uint32) []byte   { return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), 4*len(w)) }

// halves packs an even number of floats as f16, two to a word.
func halves(f []float32) []uint32 {
	w := make([]uint32, len(f)/2)
	for i := range w {
		w[i] = uint32(float16.Fromfloat32(f[2*i])) | uint32(float16.Fromfloat32(f[2*i+1]))<<16
	}
	return w
}

// How fast an adapter must be to be taken for hardware where it calls itself so. SwiftShader on two
// cores reaches 0.5 GFLOP/s, on many cores some; the slowest GPUs with WebGPU tens. A slower one is of
// no use in any case: plain Go is as fast.
const (
	slowest   = 2e9 // operations a second
	paceSize  = 512 // D and N of the product
	paceRows  = 64
	paceTries = 5 // at most, since a busy page adds to what a play takes
	paceTime  = time.Second
)

// likeHardware refuses an adapter of a browser that computes as slowly as a CPU and does not say that
// it is one. It takes no pipeline that [Quick] has not made.
func likeHardware(ctx context.Context, dev webgpu.Device) error {
	info := dev.Info()
	if info.Kind != "browser" || info.Software {
		return nil
	}
	var bufs [3]webgpu.Buffer
	defer func() {
		for _, b := range bufs {
			if b != nil {
				b.Release()
			}
		}
	}()
	for i, words := range []int{paceRows * paceSize, paceSize * paceSize / 2, paceRows * paceSize} {
		var err error
		if bufs[i], err = dev.NewBuffer("pace", 4*words); err != nil {
			return err
		}
		if err := dev.Write(bufs[i], 0, make([]byte, 4*words)); err != nil {
			return err
		}
	}
	rec := &webgpu.Recording{Name: "pace"}
	rec.Dispatch("pace", shaders.MatVec, shaders.C{"W_KIND": shaders.F16}, shaders.MatMulParams{N: paceSize, D: paceSize, XStride: paceSize, YStride: paceSize}, bufs[0], bufs[1], bufs[2])
	for range 7 { // as many as the check reads back, which the device then collects with the same pipeline
		rec.Read(bufs[2], 0, 4, 0)
	}
	p, err := dev.Prepare(ctx, rec)
	if err != nil {
		return err
	}
	defer p.Release()
	best, first := 0.0, time.Now()
	for i := 0; i < paceTries && (i < 2 || time.Since(first) < paceTime); i++ {
		start := time.Now()
		if _, err := p.Play(ctx, shaders.Step{Tokens: paceRows, Seqs: 1}); err != nil {
			return err
		}
		best = math.Max(best, 2*paceRows*paceSize*paceSize/time.Since(start).Seconds())
		if best > slowest {
			return nil
		}
	}
	return fmt.Errorf("check: it calls itself hardware and computes %.2g GFLOP/s, want at least %.0f: %w", best/1e9, slowest/1e9, ErrSlow)
}
