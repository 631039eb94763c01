package safetensors

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/x448/float16"
)

// Entry is a tensor to write.
type Entry struct {
	Name  string
	DType DType
	Shape []int
	Data  []byte // product of Shape times DType.Size bytes, little endian
	// Fill, when set, writes what Data would hold.
	Fill func(io.Writer) error
}

// EntryF32 converts x to F32, F16 or BF16 (nearest, ties to even). It fails for
// another type and when shape does not hold len(x) elements.
func EntryF32(name string, d DType, shape []int, x []float32) (Entry, error) {
	e := Entry{Name: name, DType: d, Shape: slices.Clone(shape)}
	if n := elems(shape); n != len(x) {
		return e, fmt.Errorf("safetensors: writing %q: got %d values, want %d (shape %v)", name, len(x), n, shape)
	}
	for _, v := range x {
		switch d {
		case F32:
			e.Data = binary.LittleEndian.AppendUint32(e.Data, math.Float32bits(v))
		case F16:
			e.Data = binary.LittleEndian.AppendUint16(e.Data, float16.Fromfloat32(v).Bits())
		case BF16:
			e.Data = binary.LittleEndian.AppendUint16(e.Data, F32ToBF16(v))
		default:
			return e, fmt.Errorf("safetensors: writing %q: got dtype %s, want F32, F16 or BF16", name, d)
		}
	}
	return e, nil
}

func elems(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Write writes a file with the tensors in order of falling element size and
// then of name, as the reference implementation does, so that every tensor is
// aligned; the same input gives the same bytes.
func Write(w io.Writer, entries []Entry, meta map[string]string) error {
	entries = slices.SortedFunc(slices.Values(entries), func(a, b Entry) int {
		return cmp.Or(cmp.Compare(b.DType.Size(), a.DType.Size()), cmp.Compare(a.Name, b.Name))
	})
	header := []byte("{")
	member := func(key string, v any) error {
		k, err := json.Marshal(key)
		if err != nil {
			return err
		}
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if len(header) > 1 {
			header = append(header, ',')
		}
		header = append(append(append(header, k...), ':'), b...)
		return nil
	}
	if len(meta) > 0 {
		if err := member(metadataKey, maps.Clone(meta)); err != nil {
			return fmt.Errorf("safetensors: writing the metadata: %w", err)
		}
	}
	pos, seen := 0, map[string]bool{metadataKey: true}
	for _, e := range entries {
		if seen[e.Name] {
			return fmt.Errorf("safetensors: writing %q: the name stands twice or is reserved", e.Name)
		}
		seen[e.Name] = true
		if e.DType.Size() == 0 || e.Fill == nil && len(e.Data) != e.bytes() {
			return e.wrongSize(len(e.Data))
		}
		err := member(e.Name, struct {
			DType   DType  `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}{e.DType, append([]int{}, e.Shape...), [2]int{pos, pos + e.bytes()}})
		if err != nil {
			return fmt.Errorf("safetensors: writing %q: %w", e.Name, err)
		}
		pos += e.bytes()
	}
	header = append(header, '}')
	for len(header)%8 != 0 {
		header = append(header, ' ')
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))); err != nil {
		return fmt.Errorf("safetensors: writing: %w", err)
	}
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("safetensors: writing: %w", err)
	}
	for _, e := range entries {
		if err := e.write(w); err != nil {
			return err
		}
	}
	return nil
}

func (e *Entry) bytes() int { return elems(e.Shape) * e.DType.Size() }

func (e *Entry) wrongSize(got int) error {
	return fmt.Errorf("safetensors: writing %q: got %d bytes, want %d (shape %v of %s)", e.Name, got, e.bytes(), e.Shape, e.DType)
}

func (e *Entry) write(w io.Writer) error {
	fill := e.Fill
	if fill == nil {
		fill = func(w io.Writer) error {
			_, err := w.Write(e.Data)
			return err
		}
	}
	n := &tally{w: w}
	if err := fill(n); err != nil {
		return fmt.Errorf("safetensors: writing %q: %w", e.Name, err)
	}
	if n.n != e.bytes() {
		return e.wrongSize(n.n)
	}
	return nil
}

// tally counts what is written.
type tally struct {
	w io.Writer
	n int
}

func (t *tally) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	t.n += n
	return n, err
}

// Split shares entries out, in their order, among files of at most limit bytes of tensors, or of one
// tensor that is larger, and returns them by name with the model.safetensors.index.json of all.
func Split(entries []Entry, limit int64) (map[string][]Entry, []byte, error) {
	var files [][]Entry
	size, total := int64(0), int64(0)
	for _, e := range entries {
		n := int64(e.bytes())
		if len(files) == 0 || size+n > limit {
			files, size = append(files, nil), 0
		}
		files[len(files)-1] = append(files[len(files)-1], e)
		size, total = size+n, total+n
	}
	named, weightMap := map[string][]Entry{}, map[string]string{}
	for i, f := range files {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(files))
		named[name] = f
		for _, e := range f {
			weightMap[e.Name] = name
		}
	}
	index, err := json.MarshalIndent(map[string]any{"metadata": map[string]int64{"total_size": total}, "weight_map": weightMap}, "", "  ")
	return named, append(index, '\n'), err
}
