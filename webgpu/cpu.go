package webgpu

import (
	"context"
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"shellgame/shaders"
)

// sliceTime is how long CPU work may run in a page before it lets the page breathe.
const sliceTime = 8 * time.Millisecond

type cpuDevice struct {
	counts Counts
	last   time.Time // when the page had its last turn, as far as is known
	ended  time.Time // the last play
}

// NewCPU returns the device that plays every kernel's plain-Go twin: the oracle of the tests and
// the fallback where no GPU is to be trusted.
func NewCPU() Device { return &cpuDevice{} }

type cpuBuffer struct {
	d     *cpuDevice
	label string
	words []uint32
}

func (b *cpuBuffer) Label() string { return b.label }
func (b *cpuBuffer) Size() int     { return 4 * len(b.words) }

func (b *cpuBuffer) Release() {
	if b.words != nil {
		b.d.counts.Live--
		b.d.counts.Bytes -= b.Size()
	}
	b.words = nil
}

func (b *cpuBuffer) bytes() []byte { return wordBytes(b.words) }

func wordBytes(w []uint32) []byte {
	if len(w) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), 4*len(w))
}

func (d *cpuDevice) Info() Info {
	return Info{
		Kind: "cpu", Adapter: "plain Go (" + runtime.GOOS + "/" + runtime.GOARCH + ")", Driver: runtime.Version(), Software: true,
		Limits: Limits{MaxBuffer: 1 << 31, MaxBinding: 1 << 31, Memory: cpuMemory},
	}
}

func (d *cpuDevice) NewBuffer(label string, size int) (Buffer, error) {
	if size < 0 || size > 1<<31 {
		return nil, fmt.Errorf("webgpu: buffer %s of %d bytes: %w", label, size, ErrOutOfMemory)
	}
	b := &cpuBuffer{d, label, make([]uint32, max((size+3)/4, 1))}
	d.counts.Buffers++
	d.counts.Live++
	d.counts.Bytes += b.Size()
	return b, nil
}

func (d *cpuDevice) Write(b Buffer, offset int, data []byte) error {
	if err := checkWrite(b, offset, data); err != nil {
		return err
	}
	copy(b.(*cpuBuffer).bytes()[offset:], data)
	return nil
}

func checkWrite(b Buffer, offset int, data []byte) error {
	if offset < 0 || offset%4 != 0 || len(data)%4 != 0 || offset+len(data) > b.Size() {
		return fmt.Errorf("webgpu: write of %d bytes at %d to %s: want whole words within its %d bytes", len(data), offset, b.Label(), b.Size())
	}
	return nil
}

func (d *cpuDevice) Prepare(_ context.Context, r *Recording) (Program, error) {
	if r.err != nil {
		return nil, r.err
	}
	p := &cpuProgram{d: d, r: r, out: make([]byte, r.readSize)}
	for _, op := range r.Ops {
		c := shaders.Call{Args: shaders.Args{P: op.P, C: op.Kernel.Fill(op.C)}, Tick: func() {}}
		p.calls = append(p.calls, c)
	}
	return p, nil
}

func (d *cpuDevice) Counts() Counts { return d.counts }
func (d *cpuDevice) Close()         {}

type cpuProgram struct {
	d     *cpuDevice
	r     *Recording
	calls []shaders.Call
	out   []byte
	n     uint32
}

func (p *cpuProgram) Play(ctx context.Context, step shaders.Step) ([]byte, error) {
	p.n++
	step.Counter = p.n
	var stop error
	tick := func() {
		if runtime.GOOS == "js" && time.Since(p.d.last) > sliceTime {
			time.Sleep(time.Millisecond) // Gosched would not let the page run
			p.d.last = time.Now()
		}
	}
	if runtime.GOOS == "js" {
		// Plays that follow each other count as one, or short ones would keep the page out to their end.
		if time.Since(p.d.ended) > sliceTime {
			p.d.last = time.Now()
		}
		defer func() { p.d.ended = time.Now() }()
	}
	for n := range len(p.calls) * int(max(step.Times, 1)) {
		if stop = ctx.Err(); stop != nil {
			return nil, fmt.Errorf("webgpu: %s: %w", p.r.Name, stop)
		}
		i := n % len(p.calls)
		op, c := &p.r.Ops[i], &p.calls[i]
		c.Step, c.Tick = step, tick
		if c.Bufs == nil {
			c.Bufs = make([][]uint32, len(op.Bufs))
		}
		for j, b := range op.Bufs {
			c.Bufs[j] = b.(*cpuBuffer).words
		}
		op.Kernel.Twin(c)
		p.d.counts.Dispatches++
		tick()
	}
	for _, rb := range p.r.Reads {
		off := rb.Off + int(step.Slot)*rb.Stride
		b := rb.Buf.(*cpuBuffer)
		if off+rb.Size > b.Size() {
			return nil, fmt.Errorf("webgpu: %s: read-back of slot %d is outside %s", p.r.Name, step.Slot, b.label)
		}
		copy(p.out[rb.At:][:rb.Size], b.bytes()[off:])
	}
	return p.out, nil
}

func (p *cpuProgram) Release() {}

var _ Device = (*cpuDevice)(nil)
