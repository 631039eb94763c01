// Package webgpu plays recordings of compute dispatches: on a GPU through WebGPU (in the browser,
// or natively over Vulkan, Metal or DX12), or on the CPU with each kernel's plain-Go twin.
//
// This file is the whole contract. Everything above it talks to a [Device] and does not know
// which one it has.
package webgpu

import (
	"context"
	"errors"
	"time"

	"shellgame/shaders"
)

// Errors that a page or a command must be able to tell apart. They arrive wrapped, with the
// kernel or buffer concerned in the text.
var (
	ErrNoAdapter   = errors.New("no WebGPU adapter")
	ErrDeviceLost  = errors.New("GPU device lost")
	ErrOutOfMemory = errors.New("out of GPU memory")
	ErrLimit       = errors.New("beyond the device's limits")
	ErrNoAnswer    = errors.New("the GPU does not answer")
	ErrStale       = errors.New("read-back carries an earlier step's data")
	ErrGPU         = errors.New("GPU error")
)

// Info describes a device.
type Info struct {
	Kind     string // cpu, vulkan, metal, dx12 or browser
	Adapter  string // the adapter's own name
	Driver   string // driver or browser version, where known
	Software bool   // the adapter computes on the CPU
	Limits   Limits
}

// Limits are the bounds that recordings must respect, in bytes or counts.
type Limits struct {
	MaxBuffer  int // bytes in one buffer
	MaxBinding int // bytes of one storage binding
	Memory     int // bytes in all; 0 where nobody says
}

// Buffer is memory of a device, an array of 32-bit words. Its contents are undefined until
// written: clear what is read first.
type Buffer interface {
	Label() string
	Size() int // bytes
	Release()
}

// Device makes buffers and plays recordings. It is used by one goroutine at a time.
type Device interface {
	Info() Info
	// NewBuffer makes a buffer of at least size bytes, rounded up to a whole word.
	NewBuffer(label string, size int) (Buffer, error)
	// Write copies data, a multiple of 4 bytes, to offset. It takes effect before later plays.
	Write(b Buffer, offset int, data []byte) error
	// Prepare makes everything that playing r needs: pipelines, bindings, the staging buffer.
	Prepare(ctx context.Context, r *Recording) (Program, error)
	// Counts reports how many objects were made since the device was opened.
	Counts() Counts
	Close()
}

// Program is a recording made ready on one device.
type Program interface {
	// Play runs the recording's operations, Step.Times times over, and returns what it reads back, laid
	// out as [Recording.Read] said. The bytes are valid until the next Play. Counter is set by Play.
	Play(ctx context.Context, step shaders.Step) ([]byte, error)
	Release()
}

// Counts are objects made so far, and what is left of the buffers. Of objects and bytes none grows
// between two plays of a program.
type Counts struct {
	Buffers, Pipelines, BindGroups int
	Dispatches                     int           // encoded, over all plays
	Live, Bytes                    int           // buffers not yet released, and what they hold
	Compiling                      time.Duration // spent on Pipelines, as far as the driver does not put it off
}
