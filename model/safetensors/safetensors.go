// Package safetensors reads and writes checkpoints in the safetensors layout:
// eight bytes of header length (little endian), a JSON header that gives each
// tensor's dtype, shape and byte range, then the bytes. A header is checked in
// full before anything of it is used; each fault is one line that says what
// was found and what was expected.
//
// The layout is described at https://huggingface.co/docs/safetensors.
package safetensors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// MaxHeader is the longest header that is read, in bytes, as in the reference
// implementation.
const MaxHeader = 100_000_000

// DType is an element type, spelled as in the header.
type DType string

// The element types that a header may name. ReadF32 converts F32, F16 and BF16.
const (
	F64  DType = "F64"
	F32  DType = "F32"
	F16  DType = "F16"
	BF16 DType = "BF16"
	I64  DType = "I64"
	I32  DType = "I32"
	I16  DType = "I16"
	I8   DType = "I8"
	U64  DType = "U64"
	U32  DType = "U32"
	U16  DType = "U16"
	U8   DType = "U8"
	Bool DType = "BOOL"
	F8E4 DType = "F8_E4M3"
	F8E5 DType = "F8_E5M2"
	C64  DType = "C64"
)

var dtypeSize = map[DType]int{
	F64: 8, I64: 8, U64: 8, C64: 8,
	F32: 4, I32: 4, U32: 4,
	F16: 2, BF16: 2, I16: 2, U16: 2,
	I8: 1, U8: 1, Bool: 1, F8E4: 1, F8E5: 1,
}

// Size is the number of bytes of one element, 0 for an unknown type.
func (d DType) Size() int { return dtypeSize[d] }

// Tensor says where a tensor lies in its file.
type Tensor struct {
	Name   string
	DType  DType
	Shape  []int // row-major; empty for a scalar
	Offset int64 // first byte, from the start of the file
	Bytes  int64 // product of Shape times DType.Size
}

// Elems is the number of elements.
func (t Tensor) Elems() int { return int(t.Bytes) / t.DType.Size() }

// File is one opened safetensors file. Its methods may be called from several
// goroutines when its reader allows that.
type File struct {
	r       io.ReaderAt
	tensors map[string]Tensor
	names   []string
	meta    map[string]string
	size    int64
}

// Open reads and checks the header of the file that r holds in size bytes. No
// tensor is read. The error is one line that begins with "safetensors: ".
func Open(r io.ReaderAt, size int64) (*File, error) {
	f, err := open(r, size)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %w", err)
	}
	return f, nil
}

func open(r io.ReaderAt, size int64) (*File, error) {
	head := make([]byte, min(max(size, 0), 512))
	if err := readFull(r, head, 0); err != nil {
		return nil, fmt.Errorf("reading the first %d bytes: %w", len(head), err)
	}
	if len(head) < 8 {
		if what := sniff(head); what != "" {
			return nil, fmt.Errorf("got %s, want a safetensors file", what)
		}
		return nil, fmt.Errorf("got %d bytes, want at least 8 (the header's length)", size)
	}
	n := binary.LittleEndian.Uint64(head)
	if n > MaxHeader || int64(n) > size-8 {
		if what := sniff(head); what != "" {
			return nil, fmt.Errorf("got %s, want a safetensors file", what)
		}
	}
	switch {
	case n > MaxHeader:
		return nil, fmt.Errorf("header length: got %d bytes, want at most %d: not a safetensors file", n, MaxHeader)
	case int64(n) > size-8:
		return nil, fmt.Errorf("header length: got %d bytes, but only %d follow: the file is cut short or no safetensors file", n, size-8)
	}
	header := make([]byte, n)
	if err := readFull(r, header, 8); err != nil {
		return nil, fmt.Errorf("reading the header of %d bytes: %w", n, err)
	}
	f := &File{r: r, size: size}
	if err := f.parse(header); err != nil {
		return nil, err
	}
	if err := f.checkRanges(8 + int64(n)); err != nil {
		return nil, err
	}
	return f, nil
}

// sniff names what the first bytes of another kind of file look like, or "".
func sniff(head []byte) string {
	s := strings.ToLower(strings.TrimLeft(string(head), "\ufeff \t\r\n"))
	for _, m := range []struct{ prefix, what string }{
		{"version https://git-lfs", "a Git-LFS pointer (git lfs pull fetches the file itself)"},
		{"<!doctype", "an HTML page"},
		{"<html", "an HTML page"},
		{"<?xml", "an XML page"},
		{"gguf", "a GGUF file"},
		{"pk\x03\x04", "a zip archive (as PyTorch writes)"},
		{"{", "JSON"},
	} {
		if strings.HasPrefix(s, m.prefix) {
			return m.what
		}
	}
	if len(s) >= 8 && strings.IndexFunc(s[:8], func(r rune) bool { return r < ' ' || r > '~' }) < 0 {
		return fmt.Sprintf("text that begins with %q", s[:8])
	}
	return ""
}

// Names lists the tensors in byte order of their names.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Tensor returns the tensor of that name, or false.
func (f *File) Tensor(name string) (Tensor, bool) {
	t, ok := f.tensors[name]
	return t, ok
}

// Metadata returns the header's __metadata__; it may be nil.
func (f *File) Metadata() map[string]string { return f.meta }

func (f *File) find(name string) (Tensor, error) {
	t, ok := f.tensors[name]
	if !ok {
		return t, fmt.Errorf("safetensors: tensor %q: not in the file, which has %d tensors", name, len(f.names))
	}
	return t, nil
}

// ReadRaw fills p with the bytes of a tensor from byte off of it on. It fails
// when the tensor has fewer than off + len(p) bytes.
func (f *File) ReadRaw(name string, p []byte, off int64) error {
	t, err := f.find(name)
	if err != nil {
		return err
	}
	if off < 0 || off > t.Bytes || int64(len(p)) > t.Bytes-off {
		return fmt.Errorf("safetensors: tensor %q: asked for %d bytes from %d, it has %d", name, len(p), off, t.Bytes)
	}
	if err := readFull(f.r, p, t.Offset+off); err != nil {
		return fmt.Errorf("safetensors: tensor %q: reading %d bytes at %d: %w", name, len(p), t.Offset+off, err)
	}
	return nil
}

// piece is how much of a tensor is held undecoded at a time.
const piece = 1 << 18

// ReadF32 reads a tensor of F32, F16 or BF16 as float32, in pieces, so that no
// second whole copy exists.
func (f *File) ReadF32(name string) ([]float32, error) { return f.readF32(name, nil) }

func (f *File) readF32(name string, read func(bytes int64)) ([]float32, error) {
	t, err := f.find(name)
	if err != nil {
		return nil, err
	}
	decode := decoders[t.DType]
	if decode == nil {
		return nil, fmt.Errorf("safetensors: tensor %q: got dtype %s, want F32, F16 or BF16", name, t.DType)
	}
	out := make([]float32, t.Elems())
	buf := make([]byte, min(t.Bytes, piece))
	width := int64(t.DType.Size())
	for off := int64(0); off < t.Bytes; {
		b := buf[:min(t.Bytes-off, piece)]
		if err := f.ReadRaw(name, b, off); err != nil {
			return nil, err
		}
		decode(out[off/width:], b)
		off += int64(len(b))
		if read != nil {
			read(int64(len(b)))
		}
	}
	return out, nil
}

// ReadI32 reads a tensor of I32 or I64; a value beyond 32 bits is an error.
func (f *File) ReadI32(name string) ([]int32, error) {
	t, err := f.find(name)
	if err != nil {
		return nil, err
	}
	if t.DType != I32 && t.DType != I64 {
		return nil, fmt.Errorf("safetensors: tensor %q: got dtype %s, want I32 or I64", name, t.DType)
	}
	raw := make([]byte, t.Bytes)
	if err := f.ReadRaw(name, raw, 0); err != nil {
		return nil, err
	}
	out := make([]int32, t.Elems())
	for i := range out {
		if t.DType == I32 {
			out[i] = int32(binary.LittleEndian.Uint32(raw[4*i:]))
			continue
		}
		v := int64(binary.LittleEndian.Uint64(raw[8*i:]))
		if v < math.MinInt32 || v > math.MaxInt32 {
			return nil, fmt.Errorf("safetensors: tensor %q: element %d: got %d, want 32 bits", name, i, v)
		}
		out[i] = int32(v)
	}
	return out, nil
}

// readFull is io.ReaderAt.ReadAt for which the end of the file is an error only
// when p is not full.
func readFull(r io.ReaderAt, p []byte, off int64) error {
	if len(p) == 0 {
		return nil
	}
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("got %d of %d bytes: %w", n, len(p), io.ErrUnexpectedEOF)
	}
	return err
}
