// Package faulty wraps a device so that it fails in a chosen way, to prove that what is above it
// notices.
package faulty

import (
	"context"
	"fmt"
	"math"
	"unsafe"

	"shellgame/shaders"
	"shellgame/webgpu"
)

// Fault is what is wrong with a device.
type Fault struct {
	Kind  Kind
	After int // plays that read something back, or with Memory buffers, that are right before it
	// Kernel, where it is not empty, is the one that is wrong, with Numbers and NaN on the CPU device
	// alone, from the first play on.
	Kernel string
	Err    error // what a play gives with Error
}

// Kind is a kind of fault.
type Kind int

// The kinds of faults.
const (
	None    Kind = iota
	Numbers      // numbers are off by 2 % and 0.001
	NaN          // the last number is NaN
	Stale        // a play returns what the one before returned, without an error
	Memory       // buffers do not fit
	Silent       // a play does not return until its context ends
	Error        // a play returns Err
)

// Device is a device with a fault. Kernels that it has prepared are in Seen.
type Device struct {
	webgpu.Device
	Fault Fault
	Name  string // where not empty, the device presents itself as a browser's adapter of this name
	Seen  map[string]bool
	Plays int
	made  int
}

// Info is that of the device, or of the adapter that it presents itself as.
func (d *Device) Info() webgpu.Info {
	i := d.Device.Info()
	if d.Name != "" {
		i.Kind, i.Adapter, i.Driver, i.Software = "browser", d.Name, d.Name, false
	}
	return i
}

// New wraps d.
func New(d webgpu.Device, f Fault) *Device {
	return &Device{Device: d, Fault: f, Seen: map[string]bool{}}
}

// NewBuffer fails with Memory.
func (d *Device) NewBuffer(label string, size int) (webgpu.Buffer, error) {
	if d.made++; d.Fault.Kind == Memory && d.made > d.Fault.After {
		return nil, fmt.Errorf("faulty: buffer %s of %d bytes: %w", label, size, webgpu.ErrOutOfMemory)
	}
	return d.Device.NewBuffer(label, size)
}

// Prepare makes a program that fails as the device does.
func (d *Device) Prepare(ctx context.Context, r *webgpu.Recording) (webgpu.Program, error) {
	bad := *r
	bad.Ops = append([]webgpu.Op(nil), r.Ops...)
	for i, op := range bad.Ops {
		d.Seen[op.Kernel.Name] = true
		if d.Fault.Kernel != "" && op.Kernel.Name == d.Fault.Kernel {
			bad.Ops[i].Kernel = d.broken(op.Kernel)
		}
	}
	p, err := d.Device.Prepare(ctx, &bad)
	if err != nil {
		return nil, err
	}
	if r.ReadSize() == 0 {
		return p, nil // nothing that could be wrong comes back
	}
	return &program{Program: p, d: d}, nil
}

// broken is k with a twin that writes what the fault makes of its first output, of all numbers, since
// a first token's decay falls on a state of zeros.
func (d *Device) broken(k *shaders.Kernel) *shaders.Kernel {
	bad := *k
	bad.Twin = func(c *shaders.Call) {
		k.Twin(c)
		for i, slot := range k.Slots {
			if slot.Access != shaders.Read {
				for n, x := range c.F32(i) {
					c.F32(i)[n] = d.wrong(x*1.5 + 0.05)
				}
				return
			}
		}
	}
	return &bad
}

func (d *Device) wrong(x float32) float32 {
	if d.Fault.Kind == NaN {
		return float32(math.NaN())
	}
	return x*1.02 + 0.001
}

type program struct {
	webgpu.Program
	d      *Device
	before []byte
}

// Play plays, and fails once it is time.
func (p *program) Play(ctx context.Context, s shaders.Step) ([]byte, error) {
	d, f := p.d, p.d.Fault
	d.Plays++
	ill := d.Plays > f.After && f.Kernel == ""
	switch {
	case ill && f.Kind == Silent:
		<-ctx.Done()
		return nil, fmt.Errorf("faulty: %w", ctx.Err())
	case ill && f.Kind == Error:
		return nil, fmt.Errorf("faulty: play %d: %w", d.Plays, f.Err)
	}
	out, err := p.Program.Play(ctx, s)
	if err != nil || len(out) == 0 {
		return out, err
	}
	now := append([]byte(nil), out...)
	if ill {
		words := unsafe.Slice((*float32)(unsafe.Pointer(&out[0])), len(out)/4)
		for i := len(words) - 1; i >= 0 && (f.Kind == Numbers || f.Kind == NaN); i-- {
			// Ids are numbers too small to be meant here.
			if size := math.Abs(float64(words[i])); !(size > 1e-6 && size < 1e6) {
				continue
			}
			words[i] = d.wrong(words[i])
			if f.Kind == NaN {
				break
			}
		}
		if f.Kind == Stale {
			clear(out)
			copy(out, p.before)
		}
	}
	p.before = now
	return out, nil
}

var _ webgpu.Device = (*Device)(nil)
