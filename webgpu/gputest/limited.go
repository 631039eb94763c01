package gputest

import (
	"context"
	"fmt"

	"shellgame/shaders"
	"shellgame/shaders/lint"
	"shellgame/webgpu"
)

// Limits are bounds that a device keeps: bytes of a buffer and of a binding, a pipeline's, and
// workgroups in a dimension.
type Limits struct {
	webgpu.Limits
	Pipeline lint.Limits
	Groups   uint32
}

// Defaults are what WebGPU promises on every device (https://www.w3.org/TR/webgpu/#limits).
var Defaults = Limits{webgpu.Limits{MaxBuffer: 256 << 20, MaxBinding: 128 << 20}, lint.Default, 65535}

// SmallBuffers are Defaults with buffers of half the size.
var SmallBuffers = Limits{webgpu.Limits{MaxBuffer: 128 << 20, MaxBinding: 128 << 20}, lint.Default, 65535}

// Limited is d with limits that it reports and enforces. A browser does so by itself. Natively devices
// are opened with all that the adapter has, and no one would count the bytes of workgroup memory.
func Limited(d webgpu.Device, l Limits) webgpu.Device { return &limited{d, l, map[string]bool{}} }

type limited struct {
	webgpu.Device
	l     Limits
	known map[string]bool // variants within the limits
}

func (d *limited) Info() webgpu.Info {
	i := d.Device.Info()
	i.Limits = d.l.Limits
	return i
}

func (d *limited) NewBuffer(label string, size int) (webgpu.Buffer, error) {
	if size > d.l.MaxBuffer {
		return nil, fmt.Errorf("webgpu: buffer %s of %d bytes: the device takes at most %d: %w", label, size, d.l.MaxBuffer, webgpu.ErrOutOfMemory)
	}
	return d.Device.NewBuffer(label, size)
}

func (d *limited) Prepare(ctx context.Context, r *webgpu.Recording) (webgpu.Program, error) {
	p := &limitedProgram{l: d.l, r: r}
	if r.Err() != nil {
		return d.Device.Prepare(ctx, r)
	}
	if r.ReadSize() > d.l.MaxBuffer {
		return nil, fmt.Errorf("webgpu: %s: reads back %d bytes: a buffer takes at most %d: %w", r.Name, r.ReadSize(), d.l.MaxBuffer, webgpu.ErrOutOfMemory)
	}
	for _, op := range r.Ops {
		if err := d.within(op.Kernel, op.C); err != nil {
			return nil, fmt.Errorf("webgpu: %s: %w", op.Name, err)
		}
		for _, b := range op.Bufs {
			if b.Size() > d.l.MaxBinding {
				return nil, fmt.Errorf("webgpu: %s: buffer %s of %d bytes: the device binds at most %d: %w", op.Name, b.Label(), b.Size(), d.l.MaxBinding, webgpu.ErrOutOfMemory)
			}
		}
		p.args = append(p.args, shaders.Args{P: op.P, C: op.Kernel.Fill(op.C)})
	}
	var err error
	p.Program, err = d.Device.Prepare(ctx, r)
	return p, err
}

// within measures a variant once.
func (d *limited) within(k *shaders.Kernel, c shaders.C) error {
	name := k.Variant(c)
	if d.known[name] {
		return nil
	}
	src, err := k.Source(c)
	if err != nil {
		return err
	}
	u := lint.Measure(src)
	if u.Storage != len(k.Slots) {
		return fmt.Errorf("kernel %s declares %d storage buffers for %d slots", name, u.Storage, len(k.Slots))
	}
	if over := u.Over(d.l.Pipeline); len(over) > 0 {
		return fmt.Errorf("kernel %s is over the limits: %v: %w", name, over, webgpu.ErrGPU)
	}
	d.known[name] = true
	return nil
}

type limitedProgram struct {
	webgpu.Program
	l    Limits
	r    *webgpu.Recording
	args []shaders.Args
}

func (p *limitedProgram) Play(ctx context.Context, step shaders.Step) ([]byte, error) {
	for i := range p.args {
		op, a := &p.r.Ops[i], &p.args[i]
		a.Step = step
		if g := op.Kernel.Grid(a); max(g[0], g[1], g[2]) > p.l.Groups {
			return nil, fmt.Errorf("webgpu: %s: kernel %s: grid %v exceeds %d workgroups in a dimension: %w", op.Name, op.Kernel.Name, g, p.l.Groups, webgpu.ErrGPU)
		}
	}
	return p.Program.Play(ctx, step)
}

var _ webgpu.Device = (*limited)(nil)

// Hardware is d without a word of that it computes on a CPU, so that a model plans what it would on a GPU.
func Hardware(d webgpu.Device) webgpu.Device { return hardware{d} }

type hardware struct{ webgpu.Device }

func (d hardware) Info() webgpu.Info {
	i := d.Device.Info()
	i.Software = false
	return i
}

// Lavapipe reports whether d is the Vulkan driver that computes on a CPU, and not too slowly for
// [Hardware].
func Lavapipe(d webgpu.Device) bool {
	i := d.Info()
	return i.Software && i.Kind == "vulkan"
}
