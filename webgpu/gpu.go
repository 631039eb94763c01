//go:build js || windows || !window

package webgpu

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/gogpu/gputypes"
	"github.com/gogpu/wgpu"

	"shellgame/shaders"
)

// uniformStride is the distance between two uniforms in one buffer: WebGPU's default
// minUniformBufferOffsetAlignment.
const uniformStride = 256

// gpuDevice plays recordings through gogpu/wgpu, natively and in the browser. What differs
// between the two is behind watch.
type gpuDevice struct {
	instance *wgpu.Instance
	adapter  *wgpu.Adapter
	dev      *wgpu.Device
	queue    *wgpu.Queue
	info     Info
	watch    *watch
	counts   Counts

	plays    int            // submitted so far
	released []*wgpu.Buffer // written to since the last play, to be freed after the next

	pipelines map[string]*gpuPipeline
	stamp     *gpuBuffer // holds the counter of the latest play
}

// gpuPipeline is a compiled variant. Its layouts live as long as it does: dispatching binds
// through them, and a native driver crashes on one that was released.
type gpuPipeline struct {
	group    *wgpu.BindGroupLayout
	layout   *wgpu.PipelineLayout
	pipeline *wgpu.ComputePipeline
}

func (p *gpuPipeline) release() {
	p.pipeline.Release()
	p.layout.Release()
	p.group.Release()
}

type gpuBuffer struct {
	d     *gpuDevice
	label string
	size  int
	buf   *wgpu.Buffer
	wrote int // plays of the device when it was last written to, plus one
}

func (b *gpuBuffer) Label() string { return b.label }
func (b *gpuBuffer) Size() int     { return b.size }

// Release frees the buffer, or puts it by until the next play: natively a write waits for that, and
// would go to freed memory.
func (b *gpuBuffer) Release() {
	buf := b.buf
	if buf == nil {
		return
	}
	b.buf = nil
	b.d.counts.Live--
	b.d.counts.Bytes -= b.size
	if b.wrote == b.d.plays+1 {
		b.d.released = append(b.d.released, buf)
		return
	}
	buf.Release()
}

// freeReleased frees the buffers put by, when the writes to them are done.
func (d *gpuDevice) freeReleased() {
	for _, b := range d.released {
		b.Release()
	}
	d.released = d.released[:0]
}

// OpenGPU opens the GPU: in a page what navigator.gpu gives, natively the first adapter of the
// wanted kind (vulkan, metal, dx12, or empty for this system's own). Without one the error wraps
// ErrNoAdapter.
func OpenGPU(ctx context.Context, kind string) (Device, error) {
	w, backends, err := newWatch(kind)
	if err != nil {
		return nil, err
	}
	type opened struct {
		d   *gpuDevice
		err error
	}
	// Neither request takes a context, and a browser's may never settle.
	done := make(chan opened, 1)
	go func() {
		// In a browser whatever a replaced navigator.gpu throws arrives as a panic.
		defer func() {
			if r := recover(); r != nil {
				done <- opened{nil, fmt.Errorf("webgpu: asking for an adapter: %v: %w", r, ErrNoAdapter)}
			}
		}()
		d, err := open(w, backends)
		done <- opened{d, err}
	}()
	select {
	case o := <-done:
		if o.err != nil {
			return nil, o.err
		}
		return o.d, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("webgpu: asking for an adapter: no answer in time: %w", errors.Join(ErrNoAdapter, ctx.Err()))
	}
}

func open(w *watch, backends wgpu.Backends) (d *gpuDevice, err error) {
	err = roomy(func() error {
		d, err = openNow(w, backends)
		return err
	})
	return d, err
}

func openNow(w *watch, backends wgpu.Backends) (*gpuDevice, error) {
	instance, err := wgpu.CreateInstance(&wgpu.InstanceDescriptor{Backends: backends})
	if err != nil {
		return nil, fmt.Errorf("webgpu: %v: %w", err, ErrNoAdapter)
	}
	adapter, err := instance.RequestAdapter(&wgpu.RequestAdapterOptions{PowerPreference: wgpu.PowerPreferenceHighPerformance})
	if err != nil {
		instance.Release()
		return nil, fmt.Errorf("webgpu: asking for an adapter: %v: %w", err, ErrNoAdapter)
	}
	info, err := w.adapterInfo(adapter)
	if err != nil {
		instance.Release()
		return nil, err
	}
	dev, err := adapter.RequestDevice(w.deviceDescriptor(adapter))
	if err != nil {
		instance.Release()
		return nil, fmt.Errorf("webgpu: asking adapter %s for a device: %v: %w", info.Adapter, err, ErrNoAdapter)
	}
	limits := dev.Limits()
	info.Limits = Limits{MaxBuffer: int(limits.MaxBufferSize), MaxBinding: int(limits.MaxStorageBufferBindingSize)}
	d := &gpuDevice{instance: instance, adapter: adapter, dev: dev, queue: dev.Queue(), info: info, watch: w, pipelines: map[string]*gpuPipeline{}}
	b, err := d.NewBuffer("stamp", 16)
	if err != nil {
		d.Close()
		return nil, err
	}
	d.stamp = b.(*gpuBuffer)
	return d, nil
}

func (d *gpuDevice) Info() Info     { return d.info }
func (d *gpuDevice) Counts() Counts { return d.counts }

func (d *gpuDevice) Close() {
	if d.stamp != nil {
		d.stamp.Release()
	}
	for _, p := range d.pipelines {
		p.release()
	}
	d.freeReleased()
	d.dev.Release()
	d.adapter.Release()
	d.instance.Release()
	d.watch.close()
}

func (d *gpuDevice) NewBuffer(label string, size int) (Buffer, error) {
	return d.newBuffer(label, size, wgpu.BufferUsageStorage|wgpu.BufferUsageCopyDst|wgpu.BufferUsageCopySrc)
}

func (d *gpuDevice) newBuffer(label string, size int, usage wgpu.BufferUsage) (*gpuBuffer, error) {
	size = max((size+3)&^3, 16)
	if size > d.info.Limits.MaxBuffer {
		return nil, fmt.Errorf("webgpu: buffer %s of %d bytes: the device takes at most %d: %w", label, size, d.info.Limits.MaxBuffer, ErrLimit)
	}
	var buf *wgpu.Buffer
	err := roomy(func() (err error) {
		buf, err = d.dev.CreateBuffer(&wgpu.BufferDescriptor{Label: label, Size: uint64(size), Usage: usage})
		return err
	})
	if err != nil {
		return nil, d.wrap("buffer "+label, err)
	}
	d.counts.Buffers++
	d.counts.Live++
	d.counts.Bytes += size
	return &gpuBuffer{d: d, label: label, size: size, buf: buf}, nil
}

func (d *gpuDevice) Write(b Buffer, offset int, data []byte) error {
	if len(data) == 0 {
		return nil
	}
	if err := checkWrite(b, offset, data); err != nil {
		return err
	}
	g := b.(*gpuBuffer)
	if err := roomy(func() error { return d.queue.WriteBuffer(g.buf, uint64(offset), data) }); err != nil {
		return d.wrap("write to "+b.Label(), err)
	}
	g.wrote = d.plays + 1
	return nil
}

// wrap turns an error of the GPU layer into one of ours, told apart by its sentinel.
func (d *gpuDevice) wrap(what string, err error) error {
	if lost := d.watch.lost(); lost != "" {
		return fmt.Errorf("webgpu: %s: %s: %w", what, lost, ErrDeviceLost)
	}
	s := strings.ToLower(err.Error())
	switch {
	case errors.Is(err, wgpu.ErrDeviceLost), strings.Contains(s, "device lost"), strings.Contains(s, "device is lost"), strings.Contains(s, "device was lost"):
		return fmt.Errorf("webgpu: %s: %v: %w", what, err, ErrDeviceLost)
	case errors.Is(err, wgpu.ErrOutOfMemory), strings.Contains(s, "out of memory"), strings.Contains(s, "out-of-memory"):
		return fmt.Errorf("webgpu: %s: %v: %w", what, err, ErrOutOfMemory)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("webgpu: %s: %w", what, err)
	}
	return fmt.Errorf("webgpu: %s: %v: %w", what, err, ErrGPU)
}

// pipelineFor compiles a kernel's variant, once a device.
func (d *gpuDevice) pipelineFor(k *shaders.Kernel, c shaders.C) (*gpuPipeline, error) {
	name := k.Variant(c)
	if p := d.pipelines[name]; p != nil {
		return p, nil
	}
	start := time.Now()
	defer func() { d.counts.Compiling += time.Since(start) }()
	src, err := k.Source(c)
	if err != nil {
		return nil, err
	}
	entries := []wgpu.BindGroupLayoutEntry{
		{Binding: 0, Visibility: wgpu.ShaderStageCompute, Buffer: &gputypes.BufferBindingLayout{Type: gputypes.BufferBindingTypeUniform}},
		{Binding: 1, Visibility: wgpu.ShaderStageCompute, Buffer: &gputypes.BufferBindingLayout{Type: gputypes.BufferBindingTypeUniform}},
	}
	for i, s := range k.Slots {
		t := gputypes.BufferBindingTypeStorage
		if s.Access == shaders.Read {
			t = gputypes.BufferBindingTypeReadOnlyStorage
		}
		entries = append(entries, wgpu.BindGroupLayoutEntry{Binding: uint32(2 + i), Visibility: wgpu.ShaderStageCompute, Buffer: &gputypes.BufferBindingLayout{Type: t}})
	}
	desc, err := d.watch.shaderModule(name, src)
	if err != nil {
		return nil, d.wrap("shader "+name, err)
	}
	module, err := d.dev.CreateShaderModule(desc)
	if err != nil {
		return nil, d.wrap("shader "+name, err)
	}
	defer module.Release()
	group, err := d.dev.CreateBindGroupLayout(&wgpu.BindGroupLayoutDescriptor{Label: name, Entries: entries})
	if err != nil {
		return nil, d.wrap("bindings of "+name, err)
	}
	layout, err := d.dev.CreatePipelineLayout(&wgpu.PipelineLayoutDescriptor{Label: name, BindGroupLayouts: []*wgpu.BindGroupLayout{group}})
	if err != nil {
		return nil, d.wrap("bindings of "+name, err)
	}
	pipe, err := d.dev.CreateComputePipeline(&wgpu.ComputePipelineDescriptor{Label: name, Layout: layout, Module: module, EntryPoint: "main"})
	if err != nil {
		return nil, d.wrap("pipeline "+name, err)
	}
	d.counts.Pipelines++
	p := &gpuPipeline{group, layout, pipe}
	d.pipelines[name] = p
	return p, nil
}

type gpuOp struct {
	*Op
	args     shaders.Args
	pipeline *wgpu.ComputePipeline
	group    *wgpu.BindGroup
}

type gpuProgram struct {
	d       *gpuDevice
	r       *Recording
	ops     []gpuOp
	reads   []ReadBack // what is copied to staging, the counter of the play included
	all     *gpuBuffer // what [shaders.Collect] brings together, if anything
	uniform *gpuBuffer // the step, then a slice for every dispatch's parameters
	staging *gpuBuffer // what is read back, then the stamp
	out     []byte
	counter uint32
	stepped []byte // the step's bytes, reused

	slots      bool     // what is read back depends on the step's slot
	last, next commands // of the latest play; encoded while that ran, for one that dispatches the same
}

// commands are a play's commands and all that they depend on.
type commands struct {
	buf   *wgpu.CommandBuffer // nil once submitted
	grids [][3]uint32         // workgroups of each operation
	slot  uint32
	times int // passes over the recording's operations
}

func (c *commands) same(o *commands) bool {
	return c.slot == o.slot && c.times == o.times && slices.Equal(c.grids, o.grids)
}

func (c *commands) drop() {
	if c.buf != nil {
		c.buf.Release()
		c.buf = nil
	}
}

func (d *gpuDevice) Prepare(ctx context.Context, r *Recording) (Program, error) {
	if r.err != nil {
		return nil, r.err
	}
	p := &gpuProgram{d: d, r: r, out: make([]byte, r.readSize), stepped: make([]byte, 4*shaders.StepWords)}
	known := maps.Clone(d.pipelines)
	err := d.watch.scoped(r.Name, func() error { return roomy(func() error { return p.build(ctx) }) })
	if err != nil {
		p.Release()
		// A browser hands out an invalid pipeline like a good one: none of this build's is kept.
		for name, pl := range d.pipelines {
			if known[name] == nil {
				pl.release()
				delete(d.pipelines, name)
			}
		}
		for _, s := range []error{ErrGPU, ErrDeviceLost, ErrOutOfMemory, ErrLimit} {
			if errors.Is(err, s) {
				return nil, err
			}
		}
		return nil, d.wrap(r.Name, err)
	}
	return p, nil
}

func (p *gpuProgram) build(ctx context.Context) error {
	d := p.d
	ops, err := p.readOps()
	if err != nil {
		return err
	}
	if p.uniform, err = d.newBuffer(p.r.Name+" uniforms", uniformStride*(len(ops)+1), wgpu.BufferUsageUniform|wgpu.BufferUsageCopyDst); err != nil {
		return err
	}
	if p.staging, err = d.newBuffer(p.r.Name+" read-back", p.stampAt()+16, wgpu.BufferUsageMapRead|wgpu.BufferUsageCopyDst); err != nil {
		return err
	}
	p.slots = slices.ContainsFunc(p.reads, func(rb ReadBack) bool { return rb.Stride != 0 })
	uniforms := make([]byte, p.uniform.size)
	p.ops = make([]gpuOp, len(ops))
	for i := range ops {
		if err := ctx.Err(); err != nil {
			return err
		}
		op := &ops[i]
		copy(uniforms[uniformStride*(i+1):], wordBytes(op.P))
		pl, err := d.pipelineFor(op.Kernel, op.C)
		if err != nil {
			return fmt.Errorf("%s: %w", op.Name, err)
		}
		entries := []wgpu.BindGroupEntry{
			{Binding: 0, Buffer: p.uniform.buf, Offset: 0, Size: 4 * shaders.StepWords},
			{Binding: 1, Buffer: p.uniform.buf, Offset: uint64(uniformStride * (i + 1)), Size: uint64((4*len(op.P) + 15) &^ 15)},
		}
		for j, b := range op.Bufs {
			g := b.(*gpuBuffer)
			if g.size > d.info.Limits.MaxBinding {
				return fmt.Errorf("webgpu: %s: buffer %s of %d bytes: the device binds at most %d: %w", op.Name, g.label, g.size, d.info.Limits.MaxBinding, ErrLimit)
			}
			entries = append(entries, wgpu.BindGroupEntry{Binding: uint32(2 + j), Buffer: g.buf, Size: uint64(g.size)})
		}
		group, err := d.dev.CreateBindGroup(&wgpu.BindGroupDescriptor{Label: op.Name, Layout: pl.group, Entries: entries})
		if err != nil {
			return d.wrap("binding "+op.Name+" ("+op.Kernel.Name+")", err)
		}
		d.counts.BindGroups++
		p.ops[i] = gpuOp{Op: op, args: shaders.Args{P: op.P, C: op.Kernel.Fill(op.C)}, pipeline: pl.pipeline, group: group}
		d.watch.breathe()
	}
	return d.Write(p.uniform, 0, uniforms)
}

// stampAt is where in staging the counter of a play goes, in bytes.
func (p *gpuProgram) stampAt() int { return (p.r.readSize + 7) &^ 7 }

// collectFrom is from how many ranges on they are collected before they are read back. On an NVIDIA
// H200 a copy takes as long as a dispatch, and recording it three times as long.
const collectFrom = 4

// readOps returns the recording's operations and those that make ready what is read back: the
// counter of the play, and the ranges brought together if they are many.
func (p *gpuProgram) readOps() ([]Op, error) {
	d, reads := p.d, p.r.Reads
	ops := append([]Op(nil), p.r.Ops...)
	if len(reads) < collectFrom || d.info.Software {
		p.reads = append(append(p.reads, reads...), ReadBack{Buf: d.stamp, Size: 4, At: p.stampAt()})
		return append(ops, Op{Name: "stamp", Kernel: shaders.Stamp, P: make([]uint32, 4), Bufs: []Buffer{d.stamp}}), nil
	}
	size := p.stampAt() + 4
	all, err := d.NewBuffer(p.r.Name+" collected", size)
	if err != nil {
		return nil, err
	}
	p.all = all.(*gpuBuffer)
	p.reads = []ReadBack{{Buf: all, Size: size}}
	for part := range slices.Chunk(reads, shaders.CollectRanges) {
		var params shaders.CollectParams
		bufs := slices.Repeat([]Buffer{part[0].Buf}, shaders.CollectRanges)
		for i, rb := range part {
			params.Ranges[i] = shaders.CollectRange{Size: uint32(rb.Size / 4), Off: uint32(rb.Off / 4), Stride: uint32(rb.Stride / 4), At: uint32(rb.At / 4)}
			bufs[i] = rb.Buf
		}
		params.Stamp = uint32(p.stampAt() / 4)
		words, err := shaders.Collect.Words(params)
		if err != nil {
			return nil, err
		}
		ops = append(ops, Op{Name: "collect", Kernel: shaders.Collect, P: words, Bufs: append(bufs, all)})
	}
	return ops, nil
}

func (p *gpuProgram) Play(ctx context.Context, step shaders.Step) (out []byte, err error) {
	err = roomy(func() error {
		out, err = p.play(ctx, step)
		return err
	})
	return out, err
}

func (p *gpuProgram) play(ctx context.Context, step shaders.Step) ([]byte, error) {
	d := p.d
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("webgpu: %s: %w", p.r.Name, err)
	}
	if err := d.watch.err(); err != nil {
		return nil, err
	}
	p.counter++
	step.Counter = p.counter
	copy(p.stepped, wordBytes(step.Words()[:]))
	if err := d.Write(p.uniform, 0, p.stepped); err != nil {
		return nil, err
	}
	if err := p.submit(&step); err != nil {
		return nil, err
	}
	n := uint64(p.staging.size)
	mapping, done := d.watch.guard(ctx)
	d.watch.wait(d.dev)
	err := p.staging.buf.Map(mapping, wgpu.MapModeRead, 0, n)
	silent := done()
	if err != nil {
		if silent != "" {
			return nil, fmt.Errorf("webgpu: %s: reading back: %s: %w", p.r.Name, silent, ErrNoAnswer)
		}
		d.watch.explain()
		if gpuErr := d.watch.err(); gpuErr != nil {
			return nil, gpuErr
		}
		return nil, d.wrap(p.r.Name+": reading back", err)
	}
	d.freeReleased()
	mapped, err := p.staging.buf.MappedRange(0, n)
	if err != nil {
		return nil, d.wrap(p.r.Name+": reading back", err)
	}
	data := mapped.Bytes()
	copy(p.out, data)
	at := p.stampAt()
	var stamp uint32
	if len(data) >= at+4 {
		stamp = *(*uint32)(unsafe.Pointer(&data[at]))
	}
	mapped.Release()
	if err := p.staging.buf.Unmap(); err != nil {
		return nil, d.wrap(p.r.Name+": reading back", err)
	}
	if stamp != p.counter {
		d.watch.explain()
		if err := d.watch.err(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("webgpu: %s: play %d read back the stamp of play %d: %w", p.r.Name, p.counter, stamp, ErrStale)
	}
	if err := d.watch.err(); err != nil {
		return nil, err
	}
	return p.out, nil
}

// submit encodes a play and submits it. What is played over and over is encoded while the play before
// runs: that the next dispatches what the last two did is a good guess.
func (p *gpuProgram) submit(step *shaders.Step) error {
	d := p.d
	for _, rb := range p.r.Reads {
		if rb.Off+int(step.Slot)*rb.Stride+rb.Size > rb.Buf.Size() {
			return fmt.Errorf("webgpu: %s: read-back of slot %d is outside %s", p.r.Name, step.Slot, rb.Buf.Label())
		}
	}
	now := commands{grids: make([][3]uint32, len(p.ops)), times: int(max(step.Times, 1))}
	if p.slots {
		now.slot = step.Slot
	}
	for i := range p.ops {
		op := &p.ops[i]
		op.args.Step = *step
		g := op.Kernel.Grid(&op.args)
		if max(g[0], g[1], g[2]) > shaders.MaxGroups {
			return fmt.Errorf("webgpu: %s: kernel %s: grid %v exceeds %d workgroups in a dimension", op.Name, op.Kernel.Name, g, shaders.MaxGroups)
		}
		now.grids[i] = g
	}
	again := now.same(&p.last)
	if p.next.buf != nil && now.same(&p.next) {
		now.buf, p.next.buf = p.next.buf, nil
	} else {
		p.next.drop()
		if err := p.encode(&now); err != nil {
			return err
		}
	}
	p.last = commands{nil, now.grids, now.slot, now.times}
	if _, err := d.queue.Submit(now.buf); err != nil {
		return d.wrap(p.r.Name, err)
	}
	d.plays++
	for i, g := range now.grids {
		switch {
		case min(g[0], g[1], g[2]) == 0:
		case i < len(p.r.Ops):
			d.counts.Dispatches += now.times
		default: // of the read-back
			d.counts.Dispatches++
		}
	}
	if again {
		now.buf = nil
		if p.encode(&now) == nil { // else the next play says what is wrong
			p.next = now
		}
	}
	return nil
}

// encode makes the buffer of c.
func (p *gpuProgram) encode(c *commands) error {
	d := p.d
	enc, err := d.dev.CreateCommandEncoder(&wgpu.CommandEncoderDescriptor{Label: p.r.Name})
	if err != nil {
		return d.wrap(p.r.Name, err)
	}
	pass, err := enc.BeginComputePass(nil)
	if err != nil {
		return d.wrap(p.r.Name, err)
	}
	dispatch := func(from, to int) {
		for i := from; i < to; i++ {
			g := c.grids[i]
			if g[0] == 0 || g[1] == 0 || g[2] == 0 {
				continue
			}
			pass.SetPipeline(p.ops[i].pipeline)
			pass.SetBindGroup(0, p.ops[i].group, nil)
			pass.Dispatch(g[0], g[1], g[2])
		}
	}
	for range c.times {
		dispatch(0, len(p.r.Ops))
	}
	dispatch(len(p.r.Ops), len(p.ops))
	if err := pass.End(); err != nil {
		return d.wrap(p.r.Name, err)
	}
	for _, rb := range p.reads {
		enc.CopyBufferToBuffer(rb.Buf.(*gpuBuffer).buf, uint64(rb.Off+int(c.slot)*rb.Stride), p.staging.buf, uint64(rb.At), uint64(rb.Size))
	}
	c.buf, err = enc.Finish()
	if err != nil {
		return d.wrap(p.r.Name, err)
	}
	return nil
}

func (p *gpuProgram) Release() {
	p.next.drop()
	for i := range p.ops {
		if p.ops[i].group != nil {
			p.ops[i].group.Release()
		}
	}
	for _, b := range []*gpuBuffer{p.uniform, p.staging, p.all} {
		if b != nil {
			b.Release()
		}
	}
}

var _ Device = (*gpuDevice)(nil)
