// Package kernelbench times one kernel, or the kernels that together do one job, at a given shape,
// after it has compared what they compute with a reference.
package kernelbench

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"unsafe"

	"shellgame/shaders"
	"shellgame/webgpu"
)

// Result is what was measured.
type Result struct {
	Kernel string  `json:"kernel"`
	Shape  string  `json:"shape"`
	Worst  float64 `json:"worst"` // largest error of the check, in units of its bound
	Time   float64 `json:"us"`    // microseconds a run, median
	Rate   float64 `json:"rate"`
	Unit   string  `json:"unit"` // of Rate
}

// job is a kernel's work on a device.
type job struct {
	ops  func(rec *webgpu.Recording) // one run
	step shaders.Step
	work float64 // floating-point operations or bytes of a run
	unit string
	// check runs the job and returns the largest error in units of its bound.
	check func() (float64, error)
}

// bench holds what a job needs to be set up.
type bench struct {
	ctx   context.Context
	dev   webgpu.Device
	shape map[string]int
	bufs  []webgpu.Buffer
	rng   *rand.Rand
	err   error
}

var jobs = map[string]struct {
	shape map[string]int // its dimensions and their defaults
	setup func(b *bench) job
}{
	"copy":        {map[string]int{"MIB": 128}, copyJob},
	"matmul":      {map[string]int{"R": 1024, "N": 1024, "D": 1024, "W": 0}, func(b *bench) job { return b.matmul(shaders.MatMul) }},
	"matmul_wide": {map[string]int{"R": 1024, "N": 1024, "D": 1024, "W": 0}, func(b *bench) job { return b.matmul(shaders.MatMulWide) }},
	"matvec":      {map[string]int{"N": 4096, "D": 4096, "W": 1}, func(b *bench) job { b.shape["R"] = 1; return b.matmul(shaders.MatVec) }},
	"matvec_wide": {map[string]int{"N": 4096, "D": 4096, "W": 1}, func(b *bench) job { b.shape["R"] = 1; return b.matmul(shaders.MatVecWide) }},
	"matvec_step": {map[string]int{"N": 4096, "D": 1024, "W": 1, "NORM": 1, "GLU": 0, "LANES": 0}, (*bench).matvecStep},
	"gdn_step":    {deltaShape, func(b *bench) job { return b.delta(nil, shaders.GDNStep) }},
	"gdn_chunk":   {deltaShape, func(b *bench) job { return b.delta(shaders.GDNWY, shaders.GDNChunk) }},
	"gdn_wide":    {deltaShape, func(b *bench) job { return b.delta(shaders.GDNWYWide, shaders.GDNChunkWide) }},
	"gdn_column":  {deltaShape, func(b *bench) job { return b.delta(nil, shaders.GDNColumn) }},
	"attention":   {map[string]int{"T": 1024, "H": 16, "HD": 128}, func(b *bench) job { return b.attention(shaders.Attention, b.shape["T"]) }},
	"decode":      {map[string]int{"T": 4096, "H": 16, "HD": 128}, func(b *bench) job { return b.attention(shaders.AttentionDecode, 1) }},
	"decode_far":  {map[string]int{"T": 4096, "H": 16, "HD": 128}, func(b *bench) job { return b.attention(shaders.AttentionSplit, 1) }},
}

var deltaShape = map[string]int{"T": 1024, "H": 4, "K": 32, "V": 64}

// Names lists the kernels that can be timed, with the dimensions that a shape gives.
func Names() []string {
	var names []string
	for name, j := range jobs {
		var dims []string
		for d, v := range j.shape {
			dims = append(dims, fmt.Sprintf("%s=%d", d, v))
		}
		slices.Sort(dims)
		names = append(names, name+" ("+strings.Join(dims, ",")+")")
	}
	slices.Sort(names)
	return names
}

// Run times a job: the median over plays of repeats runs in one submission, less an empty one.
// Dimensions that shape leaves out take their defaults; W is the kind of weights, 0 f32, 1 f16,
// 2 bf16, for matvec_step 3 int8 and 4 int4 too.
func Run(ctx context.Context, dev webgpu.Device, name string, shape map[string]int, repeats, plays int) (Result, error) {
	j, ok := jobs[name]
	if !ok {
		return Result{}, fmt.Errorf("kernelbench: got %q, want one of %s", name, strings.Join(Names(), ", "))
	}
	b := &bench{ctx: ctx, dev: dev, shape: maps.Clone(j.shape), rng: rand.New(rand.NewPCG(1, 2))}
	defer func() {
		for _, buf := range b.bufs {
			buf.Release()
		}
	}()
	for d, v := range shape {
		if _, ok := j.shape[d]; !ok || v < 0 || v == 0 && !slices.Contains([]string{"W", "NORM", "GLU", "LANES"}, d) {
			return Result{}, fmt.Errorf("kernelbench: %s has no dimension %s of %d: it takes %s", name, d, v, strings.Join(Names(), ", "))
		}
		b.shape[d] = v
	}
	if w := b.shape["W"]; w > 4 || w > 2 && name != "matvec_step" {
		return Result{}, fmt.Errorf("kernelbench: W is %d, want 0 (f32), 1 (f16) or 2 (bf16), for matvec_step 3 (int8) or 4 (int4) too", b.shape["W"])
	}
	work := j.setup(b)
	if b.err != nil {
		return Result{}, b.err
	}
	worst, err := work.check()
	if err == nil {
		err = b.err
	}
	if err != nil {
		return Result{}, err
	}
	if !(worst <= 1) {
		return Result{}, fmt.Errorf("kernelbench: %s is off by %.3g times its bound, so it was not timed", name, worst)
	}
	rec := &webgpu.Recording{Name: name}
	for range repeats {
		work.ops(rec)
	}
	t, err := webgpu.Time(ctx, dev, rec, work.step, plays)
	if err != nil {
		return Result{}, err
	}
	empty, err := webgpu.Time(ctx, dev, &webgpu.Recording{Name: "empty"}, work.step, plays)
	if err != nil {
		return Result{}, err
	}
	each := (t - empty).Seconds() / float64(repeats)
	var dims []string
	for d, v := range b.shape {
		dims = append(dims, fmt.Sprintf("%s=%d", d, v))
	}
	slices.Sort(dims)
	return Result{Kernel: name, Shape: strings.Join(dims, ","), Worst: worst, Time: each * 1e6, Rate: work.work / each / 1e9, Unit: work.unit}, nil
}

// buffer makes a buffer of words, filled in part or left as it is.
func (b *bench) buffer(name string, words int, data []uint32) webgpu.Buffer {
	if b.err != nil {
		return nil
	}
	buf, err := b.dev.NewBuffer("bench "+name, 4*max(words, len(data)))
	if err == nil && len(data) > 0 {
		err = b.dev.Write(buf, 0, unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), 4*len(data)))
	}
	if err != nil {
		b.err = err
		return nil
	}
	b.bufs = append(b.bufs, buf)
	return buf
}

func (b *bench) random(n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32((b.rng.Float64()*2 - 1) * scale)
	}
	return x
}

func words(x []float32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(&x[0])), len(x))
}

// play runs ops once and returns what buf holds from word off on.
func (b *bench) play(step shaders.Step, ops func(*webgpu.Recording), buf webgpu.Buffer, off, n int) ([]float32, error) {
	rec := &webgpu.Recording{Name: "check"}
	ops(rec)
	rec.Read(buf, 4*off, 4*n, 0)
	p, err := b.dev.Prepare(b.ctx, rec)
	if err != nil {
		return nil, err
	}
	defer p.Release()
	out, err := p.Play(b.ctx, step)
	if err != nil {
		return nil, err
	}
	got := make([]float32, n)
	copy(got, unsafe.Slice((*float32)(unsafe.Pointer(&out[0])), n))
	return got, nil
}

func copyJob(b *bench) job {
	n := b.shape["MIB"] << 18
	x := b.random(n, 1)
	from, to := b.buffer("x", n, words(x)), b.buffer("y", n, nil)
	step := shaders.Step{Tokens: uint32(n / 1024)}
	ops := func(rec *webgpu.Recording) {
		rec.Dispatch("copy", shaders.Copy, nil, shaders.CopyParams{D: 1024}, from, to)
	}
	return job{ops: ops, step: step, work: 8 * float64(n), unit: "GB/s", check: func() (float64, error) {
		got, err := b.play(step, ops, to, n-4096, 4096)
		if err != nil || !slices.Equal(got, x[n-4096:]) {
			return math.Inf(1), err
		}
		return 0, nil
	}}
}

// half rounds down to what a two-byte kind holds, so that packing loses nothing.
func half(x float32) float32 {
	return math.Float32frombits(math.Float32bits(x) &^ 0xffff)
}

func (b *bench) matmul(k *shaders.Kernel) job {
	r, n, d, kind := b.shape["R"], b.shape["N"], b.shape["D"], uint32(b.shape["W"])
	x, w := b.random(r*d, 1), b.random(n*d, 1)
	stored := words(w)
	if kind != shaders.F32 {
		stored = make([]uint32, (n*d+1)/2)
		for i, v := range w {
			v = half(v)
			bits := math.Float32bits(v) >> 16 // bf16
			if kind == shaders.F16 {
				// Eighths are exact in f16.
				v = float32(math.Round(float64(v)*8) / 8)
				bits = halfBits(v)
			}
			w[i] = v
			stored[i/2] |= bits << (16 * (i % 2))
		}
	}
	p := shaders.MatMulParams{D: uint32(d), N: uint32(n), XStride: uint32(d), YStride: uint32(n)}
	if k == shaders.MatMulWide && !p.Wide() || k == shaders.MatVecWide && !p.WideRow() {
		b.err = fmt.Errorf("kernelbench: %s takes multiples of four, got N=%d, D=%d", k.Name, n, d)
		return job{}
	}
	xb, wb, yb := b.buffer("x", 0, words(x)), b.buffer("w", 0, stored), b.buffer("y", r*n, nil)
	step := shaders.Step{Tokens: uint32(r)}
	ops := func(rec *webgpu.Recording) {
		rec.Dispatch(k.Name, k, shaders.C{"W_KIND": kind}, p, xb, wb, yb)
	}
	j := job{ops: ops, step: step, work: 2 * float64(r) * float64(n) * float64(d), unit: "GFLOP/s"}
	if k == shaders.MatVec || k == shaders.MatVecWide {
		j.work, j.unit = 4*float64(len(stored)), "GB/s"
	}
	j.check = func() (float64, error) {
		worst := 0.0
		for range 4 { // rows, the last one among them
			row := b.rng.IntN(r)
			if worst == 0 {
				row = r - 1
			}
			got, err := b.play(step, ops, yb, row*n, n)
			if err != nil {
				return 0, err
			}
			for range 64 {
				c := b.rng.IntN(n)
				want := 0.0
				for i := range d {
					want += float64(x[row*d+i]) * float64(w[c*d+i])
				}
				worst = max(worst, math.Abs(float64(got[c])-want)/(1e-6*math.Sqrt(float64(d))*4))
			}
		}
		return worst, nil
	}
	return j
}

// beyondCache is how many bytes of weights a chain of products goes through before the first comes again:
// more than a GPU's caches hold.
const beyondCache = 256 << 20

// matvecStep sets up a chain of products with a row, each of other weights, as a model's layers are.
func (b *bench) matvecStep() job {
	n, d, kind, norm, glu := b.shape["N"], b.shape["D"], uint32(b.shape["W"]), uint32(b.shape["NORM"]), uint32(b.shape["GLU"])
	p := shaders.MatVecStepParams{D: uint32(d), N: uint32(n), XStride: uint32(d), YStride: uint32(n), Eps: 1e-6}
	if !p.OK(kind, norm) || norm > shaders.NormRMS || glu > 1 {
		b.err = fmt.Errorf("kernelbench: matvec_step does not take D=%d with W=%d, or NORM=%d beyond 1, or GLU=%d beyond 1", d, kind, norm, glu)
		return job{}
	}
	c := p.Consts(kind, norm, glu)
	if lanes := b.shape["LANES"]; lanes > 0 {
		c["LANES"] = uint32(lanes)
	}
	x, scale, w := b.random(d, 1), b.random(d, 1), b.random(n*d, 1)
	row, scales := shaders.RowBytes(kind, d)
	stored := make([]byte, (n*(row+scales)+15)&^15)
	for r := range n {
		line := w[r*d:][:d]
		for i, v := range line {
			switch kind { // sixteenths and eighths are exact
			case shaders.F32:
				binary.LittleEndian.PutUint32(stored[r*row+4*i:], math.Float32bits(v))
			case shaders.F16:
				line[i] = float32(math.Round(float64(v)*8) / 8)
				binary.LittleEndian.PutUint16(stored[r*row+2*i:], uint16(halfBits(line[i])))
			case shaders.BF16:
				line[i] = half(v)
				binary.LittleEndian.PutUint16(stored[r*row+2*i:], uint16(math.Float32bits(line[i])>>16))
			case shaders.I8: // so that the row's largest is the scale's 127
				line[i] = float32(math.Round(float64(v) * 127))
			case shaders.I4:
				line[i] = float32(math.Round(float64(v) * 7))
			}
		}
		if kind >= shaders.I8 {
			most := map[uint32]float32{shaders.I8: 127, shaders.I4: 7}[kind]
			for i := 0; i < d; i += shaders.Group {
				line[i] = most
			}
			shaders.Quantize(kind, line, stored[r*row:][:row], stored[n*row+r*scales:][:scales])
		}
	}
	xb, sb, yb := b.buffer("x", 0, words(x)), b.buffer("scale", 0, words(scale)), b.buffer("y", n, nil)
	data := unsafe.Slice((*uint32)(unsafe.Pointer(&stored[0])), len(stored)/4)
	var ws []webgpu.Buffer
	for range max(1, beyondCache/len(stored)) {
		ws = append(ws, b.buffer("w", 0, data))
	}
	at := 0
	ops := func(rec *webgpu.Recording) {
		rec.Dispatch("matvec_step", shaders.MatVecStep, c, p, xb, sb, xb, ws[at%len(ws)], yb)
		at++
	}
	step := shaders.Step{Tokens: 1}
	j := job{ops: ops, step: step, work: float64(len(stored)), unit: "GB/s"}
	j.check = func() (float64, error) {
		made := n / (1 + int(glu))
		got, err := b.play(step, ops, yb, 0, made)
		if err != nil {
			return 0, err
		}
		by := 1.0
		if norm == shaders.NormRMS {
			sum := 0.0
			for _, v := range x {
				sum += float64(v) * float64(v)
			}
			by = 1 / math.Sqrt(sum/float64(d)+1e-6)
		}
		product := func(r int) (sum, size float64) {
			for i, v := range w[r*d:][:d] {
				t := float64(v) * float64(x[i]) * by
				if norm == shaders.NormRMS {
					t *= float64(scale[i])
				}
				sum, size = sum+t, size+t*t
			}
			return sum, math.Sqrt(size)
		}
		worst := 0.0
		for range 64 {
			r := b.rng.IntN(made)
			want, size := product(r)
			if glu == 1 {
				other, more := product(made + r)
				want, size = want/(1+math.Exp(-want))*other, (1+size)*(1+more)+math.Abs(want*other)
			}
			worst = max(worst, math.Abs(float64(got[r])-want)/(4e-6*size))
		}
		return worst, nil
	}
	return j
}

// halfBits is v, a multiple of an eighth in [-1, 1], as float16.
func halfBits(v float32) uint32 {
	if v == 0 {
		return 0
	}
	bits := math.Float32bits(v)
	return bits>>16&0x8000 | (bits>>23&0xff-127+15)<<10 | bits>>13&0x3ff
}

// delta sets up the gated delta rule over one sequence from a state of zeros: in two phases, or
// token by token.
func (b *bench) delta(wy, k *shaders.Kernel) job {
	t, h, kd, vd := b.shape["T"], b.shape["H"], b.shape["K"], b.shape["V"]
	p := shaders.GDNParams{HK: uint32(h), HV: uint32(h), Stride: uint32(h * (2*kd + vd))}
	if wy == shaders.GDNWYWide && !shaders.GDNWide(p, kd, vd) || wy != nil && !shaders.GDNChunkOK(kd, vd) {
		b.err = fmt.Errorf("kernelbench: %s does not take K=%d, V=%d", k.Name, kd, vd)
		return job{}
	}
	stride := int(p.Stride)
	qkv := b.random(t*stride, 1)
	for i := range t {
		for g := range 2 * h {
			row := qkv[i*stride+g*kd:][:kd]
			sum := 0.0
			for _, x := range row {
				sum += float64(x) * float64(x)
			}
			scale := 1 / math.Sqrt(sum)
			if g < h {
				scale /= math.Sqrt(float64(kd))
			}
			for j := range row {
				row[j] *= float32(scale)
			}
		}
	}
	gates := make([]float32, 2*t*h)
	for i := range t {
		for g := range h {
			gates[2*i*h+g] = float32(-0.1 * b.rng.Float64())
			gates[2*i*h+h+g] = float32(2 * b.rng.Float64())
		}
	}
	seqs := []shaders.Seq{{Count: uint32(t), SlotIn: shaders.NoSlot}}
	table := shaders.Chunks(seqs)
	step := shaders.Step{Tokens: uint32(t), Seqs: 1, Chunks: uint32(len(table) / 4)}
	seqWords := unsafe.Slice((*uint32)(unsafe.Pointer(&seqs[0])), shaders.SeqWords)
	qb, gb, sb := b.buffer("qkv", 0, words(qkv)), b.buffer("gates", 0, words(gates)), b.buffer("seqs", 0, seqWords)
	state, o := b.buffer("state", h*kd*vd, nil), b.buffer("o", t*h*vd, nil)
	consts := shaders.C{"K": uint32(kd), "V": uint32(vd)}
	recurrent := func(rec *webgpu.Recording) {
		rec.Dispatch("step", shaders.GDNStep, consts, p, qb, gb, sb, state, o)
	}
	ops := func(rec *webgpu.Recording) { rec.Dispatch(k.Name, k, consts, p, qb, gb, sb, state, o) }
	if wy != nil {
		nu, nw, na := shaders.ChunkScratch(int(step.Chunks), h, kd, vd)
		u, w, attn, cb := b.buffer("u", nu, nil), b.buffer("w", nw, nil), b.buffer("attn", na, nil), b.buffer("chunks", 0, table)
		ops = func(rec *webgpu.Recording) {
			rec.Dispatch("wy", wy, consts, p, qb, gb, cb, u, w, attn)
			rec.Dispatch("chunk", k, consts, p, qb, u, w, attn, sb, state, o)
		}
	}
	// The multiplications and additions of the recurrence itself, however it is computed.
	j := job{ops: ops, step: step, work: 7 * float64(t) * float64(h) * float64(kd) * float64(vd), unit: "GFLOP/s of the recurrence"}
	j.check = func() (float64, error) {
		n := min(t, 256)
		got, err := b.play(step, ops, o, (t-n)*h*vd, n*h*vd)
		if err != nil {
			return 0, err
		}
		want, err := b.play(step, recurrent, o, (t-n)*h*vd, n*h*vd)
		if err != nil {
			return 0, err
		}
		first, err := b.play(step, ops, o, 0, n*h*vd)
		if err != nil {
			return 0, err
		}
		// The recurrence on the host, in float64, of one head's first tokens.
		g := h - 1
		twin := recurrence(qkv, gates, n, h, g, kd, vd, stride)
		worst := 0.0
		for i := range got {
			worst = max(worst, math.Abs(float64(got[i]-want[i]))/1e-4)
		}
		for i := range n {
			for v := range vd {
				worst = max(worst, math.Abs(float64(first[(i*h+g)*vd+v])-twin[i*vd+v])/1e-4)
			}
		}
		return worst, nil
	}
	return j
}

// recurrence is head g's output [n, V] of the first n tokens.
func recurrence(qkv, gates []float32, n, h, g, kd, vd, stride int) []float64 {
	s := make([]float64, kd*vd)
	out := make([]float64, n*vd)
	for t := range n {
		row := qkv[t*stride:]
		q, k, v := row[g*kd:][:kd], row[(h+g)*kd:][:kd], row[2*h*kd+g*vd:][:vd]
		alpha, beta := math.Exp(float64(gates[2*t*h+g])), float64(gates[2*t*h+h+g])
		for j := range vd {
			had := 0.0
			for i := range kd {
				s[i*vd+j] *= alpha
				had += float64(k[i]) * s[i*vd+j]
			}
			u := beta * (float64(v[j]) - had)
			for i := range kd {
				s[i*vd+j] += float64(k[i]) * u
				out[t*vd+j] += float64(q[i]) * s[i*vd+j]
			}
		}
	}
	return out
}

// attention sets up causal attention of the last queries over T cached tokens.
func (b *bench) attention(k *shaders.Kernel, queries int) job {
	t, h, hd := b.shape["T"], b.shape["H"], b.shape["HD"]
	d := h * hd
	q, keys, values := b.random(queries*d, 1), b.random(t*d, 1), b.random(t*d, 1)
	rows := make([]uint32, t)
	for i := range rows {
		rows[i] = uint32(i)
	}
	seqs := []shaders.Seq{{Count: uint32(queries), Past: uint32(t - queries)}}
	seqWords := unsafe.Slice((*uint32)(unsafe.Pointer(&seqs[0])), shaders.SeqWords)
	scale := 1 / math.Sqrt(float64(hd))
	p := shaders.AttentionParams{H: uint32(h), KVH: uint32(h), QStride: uint32(d), Scale: float32(scale)}
	o := b.buffer("o", queries*d, nil)
	bufs := []webgpu.Buffer{b.buffer("q", 0, words(q)), b.buffer("k", 0, words(keys)), b.buffer("v", 0, words(values)), b.buffer("rows", 0, rows), b.buffer("seqs", 0, seqWords), b.buffer("token_seq", queries, make([]uint32, queries)), o}
	step := shaders.Step{Tokens: uint32(queries), Seqs: 1, Keys: uint32(t)}
	consts := shaders.C{"HD": uint32(hd)}
	ops := func(rec *webgpu.Recording) { rec.Dispatch(k.Name, k, consts, p, bufs...) }
	if k == shaders.AttentionSplit {
		parts := b.buffer("parts", shaders.AttentionParts(queries, h, hd, t), nil)
		bufs[6] = parts
		ops = func(rec *webgpu.Recording) {
			rec.Dispatch("split", k, consts, p, bufs...)
			rec.Dispatch("join", shaders.AttentionJoin, consts, p, parts, o)
		}
	}
	j := job{ops: ops, step: step, work: 4 * float64(queries) * (float64(t) - float64(queries-1)/2) * float64(d), unit: "GFLOP/s"}
	if queries == 1 {
		j.work, j.unit = 8*float64(t)*float64(d), "GB/s"
	}
	j.check = func() (float64, error) {
		got, err := b.play(step, ops, o, (queries-1)*d, d)
		if err != nil {
			return 0, err
		}
		worst := 0.0
		for g := range h {
			scores := make([]float64, t)
			most := math.Inf(-1)
			for i := range t {
				for e := range hd {
					scores[i] += float64(q[(queries-1)*d+g*hd+e]) * float64(keys[i*d+g*hd+e]) * scale
				}
				most = max(most, scores[i])
			}
			sum := 0.0
			for i := range scores {
				scores[i] = math.Exp(scores[i] - most)
				sum += scores[i]
			}
			for e := range hd {
				want := 0.0
				for i := range t {
					want += scores[i] / sum * float64(values[i*d+g*hd+e])
				}
				worst = max(worst, math.Abs(float64(got[g*hd+e])-want)/1e-5)
			}
		}
		return worst, nil
	}
	return j
}
