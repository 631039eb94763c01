package safetensors

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"syscall/js"
)

// Blobs is files that a page holds as Blob or File objects, by base name, such
// as those dropped on it.
type Blobs map[string]js.Value

// Names lists the files.
func (b Blobs) Names() ([]string, error) { return slices.Collect(maps.Keys(b)), nil }

// Open implements Files.
func (b Blobs) Open(name string) (io.ReaderAt, int64, io.Closer, error) {
	v, ok := b[name]
	if !ok {
		return nil, 0, nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	size := int64(v.Get("size").Float())
	return &blob{v, name, size}, size, io.NopCloser(nil), nil
}

type blob struct {
	value js.Value
	name  string
	size  int64
}

func (b *blob) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= b.size {
		return 0, io.EOF
	}
	end := min(b.size, off+int64(len(p)))
	buf, err := await(context.Background(), b.value.Call("slice", off, end).Call("arrayBuffer"))
	if err != nil {
		return 0, fmt.Errorf("%s: reading bytes %d-%d: %w", b.name, off, end, err)
	}
	n := js.CopyBytesToGo(p, js.Global().Get("Uint8Array").New(buf))
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
