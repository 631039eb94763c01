package model

import (
	"context"
	"fmt"
	"math"

	"shellgame/model/config"
	"shellgame/model/safetensors"
	"shellgame/shaders"
	"shellgame/webgpu"
)

// OpDiff compares what one dispatch of a forward pass wrote on a device with what the kernel's
// twin wrote from the same buffers.
type OpDiff struct {
	Op, Kernel string
	Tokens     int
	Worst      float64 // largest error of an element, relative to max(1, RMS of the twin's)
	Bound      float64
}

// lockstepBound is what f32 arithmetic in another order may differ by over the short sums of a
// tiny model.
const lockstepBound = 2e-5

// Lockstep reads a prompt, a token, and one more as [Session.Continue] does, on the CPU, dispatch by
// dispatch, and replays each dispatch alone on dev from the same buffers. So an error shows in the kernel
// that makes it and not in those that follow. A state that sw rounds is beyond its bounds: rounding is not continuous.
// Before each dispatch tell is called with how many are done, and how many there are; it may let
// others run.
func Lockstep(ctx context.Context, dev webgpu.Device, cfg *config.Config, ck *safetensors.Checkpoint, prompt int, sw Switches, tell func(done, total int)) ([]OpDiff, error) {
	cpu := webgpu.NewCPU()
	m, err := Load(ctx, cpu, "check", cfg, ck)
	if err != nil {
		return nil, err
	}
	defer m.Release()
	// The prompt is read in chunks, however short, so that their kernels are compared too.
	r, err := m.NewRunner(Options{Tokens: prompt, Seqs: 1, Positions: prompt + 2, Trace: true, Switches: sw, ChunkFrom: 16})
	if err != nil {
		return nil, err
	}
	defer r.Release()
	ids := checkIDs(cfg, prompt+1)
	var all []OpDiff
	s := r.NewSession()
	plans := []func() (form, *plan, error){
		func() (form, *plan, error) { return s.reads(ids[:prompt]) },
		func() (form, *plan, error) { return s.reads(ids[prompt:]) },
		func() (form, *plan, error) { return s.goOn(ids[0], 1) },
	}
	total := 0
	for _, plan := range plans {
		f, p, err := plan()
		if err != nil {
			return nil, err
		}
		total += len(r.record(f).rec.Ops)
		p.undo(r)
	}
	for _, plan := range plans {
		f, p, err := plan()
		if err != nil {
			return nil, err
		}
		step, err := r.upload(f, p)
		if err != nil {
			return nil, err
		}
		diffs, err := lockstep(ctx, cpu, dev, r.record(f).rec, step, func(done int) { tell(len(all)+done, total) })
		if err != nil {
			return nil, err
		}
		all = append(all, diffs...)
		p.commit(r)
	}
	return all, nil
}

// reads plans the reading of ids with all that is kept of a prompt.
func (s *Session) reads(ids []int) (form, *plan, error) {
	in := []Input{{Session: s, IDs: ids, Want: Last}}
	p, err := s.r.plan(in)
	if err != nil {
		p.undo(s.r)
		return form{}, nil, err
	}
	return s.r.form(in, false, tracePrompt), p, nil
}

// Compare reads a prompt, if it has tokens, and then some tokens one by one, on the CPU and on dev, and compares all
// that both leave behind: hidden values, states, tails, attention, logits and the candidates. It
// makes two programs where [Lockstep] makes one a dispatch, but cannot tell which kernel is wrong.
// pause, where it is not nil, may let others run: it is called after each kernel of a step is made
// ready on dev, and before each step.
func Compare(ctx context.Context, dev webgpu.Device, cfg *config.Config, ck *safetensors.Checkpoint, prompt, steps int, pause func()) ([]OpDiff, error) {
	want, err := readAll(ctx, webgpu.NewCPU(), cfg, ck, prompt, steps, pause)
	if err != nil {
		return nil, err
	}
	got, err := readAll(ctx, dev, cfg, ck, prompt, steps, pause)
	if err != nil {
		return nil, err
	}
	var diffs []OpDiff
	for i, w := range want {
		d := OpDiff{Op: w.name, Tokens: prompt + steps, Worst: math.Inf(1), Bound: compareBound}
		if g := got[i]; len(g.v) == len(w.v) {
			d.Worst = Worst(nil, wordsOf(g.v), wordsOf(w.v))
		}
		diffs = append(diffs, d)
	}
	return diffs, nil
}

// compareBound is lockstepBound for errors that a few layers and steps pass on.
const compareBound = 1e-4

// named is what a part of a play left.
type named struct {
	name string
	v    []float32
}

func readAll(ctx context.Context, dev webgpu.Device, cfg *config.Config, ck *safetensors.Checkpoint, prompt, steps int, pause func()) ([]named, error) {
	m, err := Load(ctx, dev, "check", cfg, ck)
	if err != nil {
		return nil, err
	}
	defer m.Release()
	r, err := m.NewRunner(Options{Tokens: max(prompt, 1), Seqs: 1, Positions: prompt + steps, Trace: true})
	if err != nil {
		return nil, err
	}
	defer r.Release()
	s := r.NewSession()
	ids := checkIDs(cfg, prompt+steps)
	var all []named
	if prompt > 0 {
		p, err := s.ReadPrompt(ctx, ids[:prompt])
		if err != nil {
			return nil, err
		}
		all = append(all, named{"prompt logits", p.Logits})
		for i, h := range p.Hidden {
			all = append(all, named{fmt.Sprintf("prompt hidden %d", i), h})
		}
		for i := range cfg.Layers {
			all = append(all, named{fmt.Sprintf("prompt state %d", i), p.State[i]}, named{fmt.Sprintf("prompt tail %d", i), p.Tail[i]}, named{fmt.Sprintf("prompt attention %d", i), p.Probs[i]})
		}
	}
	if pause != nil {
		for _, op := range r.record(form{step: true, few: true, trace: traceStep}).rec.Ops {
			p, err := dev.Prepare(ctx, &webgpu.Recording{Name: op.Name, Ops: []webgpu.Op{op}})
			if err != nil {
				return nil, err
			}
			p.Release()
			pause()
		}
	}
	for t, id := range ids[prompt:] {
		if pause != nil {
			pause()
		}
		step, err := s.TraceStep(ctx, id)
		if err != nil {
			return nil, err
		}
		var top []float32
		for _, c := range step.Top {
			top = append(top, float32(c.ID), c.P)
		}
		all = append(all, named{fmt.Sprintf("step %d candidates", t), top})
		for i, l := range step.Layers {
			for _, a := range []*Array{l.Q, l.K, l.V, l.State, l.Out, l.Rows} {
				if a != nil {
					all = append(all, named{fmt.Sprintf("step %d layer %d", t, i), a.Data})
				}
			}
			all = append(all, named{fmt.Sprintf("step %d gates %d", t, i), append(clone(l.Alpha), l.Beta...)})
		}
	}
	return all, nil
}

// checkIDs is a text of n tokens that visits the vocabulary.
func checkIDs(cfg *config.Config, n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = (i*7 + 3) % cfg.N
	}
	return ids
}

func lockstep(ctx context.Context, cpu, dev webgpu.Device, rec *webgpu.Recording, step shaders.Step, tell func(done int)) ([]OpDiff, error) {
	if err := rec.Err(); err != nil {
		return nil, err
	}
	var diffs []OpDiff
	for i, op := range rec.Ops {
		if tell(i); ctx.Err() != nil {
			return nil, ctx.Err()
		}
		before, err := contents(ctx, cpu, op.Bufs)
		if err != nil {
			return nil, err
		}
		got, err := replay(ctx, dev, op, before, step)
		if err != nil {
			return nil, err
		}
		one := &webgpu.Recording{Name: op.Name, Ops: []webgpu.Op{op}}
		prog, err := cpu.Prepare(ctx, one)
		if err != nil {
			return nil, err
		}
		if _, err := prog.Play(ctx, step); err != nil {
			return nil, err
		}
		want, err := contents(ctx, cpu, op.Bufs)
		if err != nil {
			return nil, err
		}
		d := OpDiff{Op: op.Name, Kernel: op.Kernel.Variant(op.C), Tokens: int(step.Tokens), Bound: lockstepBound}
		for i, slot := range op.Kernel.Slots {
			if slot.Access != shaders.Read {
				d.Worst = math.Max(d.Worst, Worst(op.Kernel, got[i], want[i]))
			}
		}
		diffs = append(diffs, d)
	}
	return diffs, nil
}

// contents copies buffers of the CPU device.
func contents(ctx context.Context, cpu webgpu.Device, bufs []webgpu.Buffer) ([][]uint32, error) {
	rec := &webgpu.Recording{Name: "contents"}
	for _, b := range bufs {
		rec.Read(b, 0, b.Size(), 0)
	}
	p, err := cpu.Prepare(ctx, rec)
	if err != nil {
		return nil, err
	}
	defer p.Release()
	out, err := p.Play(ctx, shaders.Step{})
	if err != nil {
		return nil, err
	}
	var all [][]uint32
	for i, b := range bufs {
		all = append(all, wordView(out[rec.Reads[i].At:][:b.Size()]))
	}
	return all, nil
}

// replay runs one dispatch on dev over buffers that hold before, and returns what they hold after.
func replay(ctx context.Context, dev webgpu.Device, op webgpu.Op, before [][]uint32, step shaders.Step) ([][]uint32, error) {
	rec := &webgpu.Recording{Name: op.Name}
	var bufs []webgpu.Buffer
	defer func() {
		for _, b := range bufs {
			b.Release()
		}
	}()
	for i, words := range before {
		b, err := dev.NewBuffer(op.Kernel.Slots[i].Name, 4*len(words))
		if err != nil {
			return nil, err
		}
		bufs = append(bufs, b)
		if err := dev.Write(b, 0, byteView(words)); err != nil {
			return nil, err
		}
		rec.Read(b, 0, 4*len(words), 0)
	}
	rec.Ops = []webgpu.Op{{Name: op.Name, Kernel: op.Kernel, C: op.C, P: op.P, Bufs: bufs}}
	p, err := dev.Prepare(ctx, rec)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.Kernel.Name, err)
	}
	defer p.Release()
	out, err := p.Play(ctx, step)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op.Kernel.Name, err)
	}
	var after [][]uint32
	for i, words := range before {
		after = append(after, append([]uint32(nil), wordView(out[rec.Reads[i].At:][:4*len(words)])...))
	}
	return after, nil
}

// Worst is the largest error of an element of what a kernel wrote, relative to max(1, RMS of want).
// What is not finite on one side only, or an id of [shaders.TopK] that differs, is an infinite error.
// k may be nil.
func Worst(k *shaders.Kernel, got, want []uint32) float64 {
	sum, n, w := 0.0, 0, 0.0
	for i := range want {
		if got[i] == want[i] {
			if x := math.Float32frombits(want[i]); finite(x) {
				sum += float64(x) * float64(x)
				n++
			}
			continue
		}
		g, x := math.Float32frombits(got[i]), math.Float32frombits(want[i])
		if !finite(g) || !finite(x) || k == shaders.TopK && i%2 == 0 {
			return math.Inf(1)
		}
		sum += float64(x) * float64(x)
		n++
		w = math.Max(w, math.Abs(float64(g)-float64(x)))
	}
	if n == 0 {
		return 0
	}
	return w / math.Max(1, math.Sqrt(sum/float64(n)))
}
