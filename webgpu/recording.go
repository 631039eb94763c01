package webgpu

import (
	"fmt"

	"shellgame/shaders"
)

// Recording is a list of named operations over named buffers: the forward pass. Devices play it;
// traces, timings and tests read it.
type Recording struct {
	Name  string
	Ops   []Op
	Reads []ReadBack

	readSize int
	err      error
}

// Op is a dispatch of a kernel.
type Op struct {
	Name   string // what it is for, as "layers.3.gdn.conv"
	Kernel *shaders.Kernel
	C      shaders.C
	P      []uint32 // parameters, as words
	Bufs   []Buffer
}

// ReadBack is a range of a buffer that every play returns.
type ReadBack struct {
	Buf    Buffer
	Off    int // bytes
	Size   int // bytes
	Stride int // bytes; the range is moved by Step.Slot times this
	At     int // where it starts in the bytes that Play returns
}

// Dispatch appends a dispatch of k with the given constants and parameters over bufs, one a slot.
// A broken call is kept and reported by Err, and so by Prepare.
func (r *Recording) Dispatch(name string, k *shaders.Kernel, c shaders.C, params any, bufs ...Buffer) {
	p, err := k.Words(params)
	if err == nil && len(bufs) != len(k.Slots) {
		err = fmt.Errorf("webgpu: %s: kernel %s takes %d buffers, got %d", name, k.Name, len(k.Slots), len(bufs))
	}
	if err == nil {
		for i, b := range bufs {
			if b == nil {
				err = fmt.Errorf("webgpu: %s: kernel %s: no buffer for slot %s", name, k.Name, k.Slots[i].Name)
				break
			}
		}
	}
	if err != nil {
		r.fail(err)
		return
	}
	r.Ops = append(r.Ops, Op{name, k, c, p, bufs})
}

// Read asks every play to return size bytes of b from off, moved by Step.Slot·stride bytes. It
// returns where they start in what Play returns.
func (r *Recording) Read(b Buffer, off, size, stride int) int {
	if b == nil || off < 0 || size <= 0 || off+size > b.Size() || (off|size|stride)%4 != 0 {
		r.fail(fmt.Errorf("webgpu: %s: read-back of %d bytes at %d does not fit its buffer", r.Name, size, off))
		return 0
	}
	at := r.readSize
	r.Reads = append(r.Reads, ReadBack{b, off, size, stride, at})
	r.readSize += size
	return at
}

// ReadSize is the number of bytes that every play returns.
func (r *Recording) ReadSize() int { return r.readSize }

// Err returns the first broken call made on r.
func (r *Recording) Err() error { return r.err }

func (r *Recording) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}
