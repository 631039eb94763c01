package model

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/x448/float16"

	"shellgame/model/config"
	"shellgame/model/safetensors"
	"shellgame/shaders"
	"shellgame/webgpu"
)

// LoadOptions say how a checkpoint is brought to a device. The zero value loads it as it is stored.
type LoadOptions struct {
	// Weights is how matrices are kept: "" as they are stored, or as f32 those of a small model where a
	// browser's GPU computes on the CPU; "f16" with f32 rounded to that, "int8" with a scale a row,
	// "int4" with one for 32 neighbours. Rows of a length that does not fit take the next larger kind.
	Weights  string
	Progress safetensors.Progress // told the bytes of weights that are on their way to the device
	// Pause, when set, is called while nothing has arrived instead of waiting, and Wake, by another
	// goroutine, each time that something has.
	Pause, Wake func()
}

// Source is a checkpoint whose config.json and headers were read and agree; no weight was.
type Source struct {
	Name   string
	Config *config.Config

	ck    *safetensors.Checkpoint
	found map[string]config.Found
}

// Look reads config.json and the headers of model.safetensors, or of the shards that
// model.safetensors.index.json names. It needs no device. Close the source in the end.
func Look(name string, files safetensors.Files) (*Source, error) {
	s := &Source{Name: name}
	if err := s.read(files); err != nil {
		s.Close()
		return nil, fmt.Errorf("model %s: %w", name, err)
	}
	return s, nil
}

func (s *Source) read(files safetensors.Files) error {
	data, err := safetensors.ReadFile(files, "config.json", fileLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("found no config.json, want it beside the weights: %w", err)
	}
	if err != nil {
		return err
	}
	if s.Config, err = config.Parse(data); err != nil {
		return err
	}
	if s.ck, err = safetensors.OpenCheckpoint(files); err != nil {
		return err
	}
	s.found, err = config.Resolve(s.Config, s.ck)
	return err
}

// Close closes the files.
func (s *Source) Close() error {
	if s.ck == nil {
		return nil
	}
	return s.ck.Close()
}

// Load brings every weight to the device, in the order of the files and a piece at a time, so that
// no second whole copy exists. A value that is not finite is an error that names the weight. After an
// error nothing is left on the device.
func (s *Source) Load(ctx context.Context, dev webgpu.Device, o LoadOptions) (*Model, error) {
	if err := s.check(dev, o); err != nil {
		return nil, fmt.Errorf("model %s: %w", s.Name, err)
	}
	// SwiftShader takes a quarter longer to unpack halves for each token; a small model's are unpacked once.
	if i := dev.Info(); o.Weights == "" && i.Kind == "browser" && i.Software && s.Bytes(LoadOptions{Weights: unpacked}) <= unpackedBytes {
		o.Weights = unpacked
	}
	m := &Model{Name: s.Name, Config: s.Config, Skipped: config.Skips(s.Config, s.ck), dev: dev, w: map[string]weight{}}
	l := &loader{m: m, o: o, flush: &webgpu.Recording{Name: s.Name + " upload"}}
	if err := l.load(ctx, s); err != nil {
		m.Release()
		l.settle(context.WithoutCancel(ctx)) // what waits for a play to be freed
		return nil, fmt.Errorf("model %s: %w", s.Name, err)
	}
	return m, nil
}

// unpacked keeps matrices as f32, whatever they are stored as; such weights take unpackedBytes at most.
const (
	unpacked      = "f32"
	unpackedBytes = 64 << 20
)

// Load is [Source.Load] of an opened checkpoint.
func Load(ctx context.Context, dev webgpu.Device, name string, cfg *config.Config, ck *safetensors.Checkpoint) (*Model, error) {
	found, err := config.Resolve(cfg, ck)
	if err != nil {
		return nil, err
	}
	return (&Source{Name: name, Config: cfg, ck: ck, found: found}).Load(ctx, dev, LoadOptions{Progress: ck.Progress})
}

// loader brings one checkpoint to a device.
type loader struct {
	m     *Model
	o     LoadOptions
	flush *webgpu.Recording // nothing but the wait for what was written

	done, total, waiting int64 // bytes: read, to be read, written and not waited for
	scratch              []float32
	packed, scales       []byte // quantized rows
}

// run is a piece of a tensor that becomes neighbouring rows of a weight.
type run struct {
	config.Piece
	role     string // of the tensor, for errors
	shard    int
	to       weight
	at, rows int     // in it: the first, how many
	plus     float32 // is added
}

const (
	readChunk  = 1 << 20  // bytes read at a time
	ahead      = 3        // chunks that are read before they are wanted
	flushBytes = 32 << 20 // bytes written before the device has to take them
)

func (l *loader) load(ctx context.Context, s *Source) error {
	runs, err := l.plan(s)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	chunks := make(chan chunk, ahead)
	go l.read(ctx, s.ck, runs, chunks)
	defer func() {
		cancel()
		for range chunks { // the files are read until this is closed
		}
	}()
	for {
		c, ok, err := l.next(ctx, chunks)
		if err != nil {
			return fmt.Errorf("loading: %w", err)
		}
		if !ok {
			return l.settle(ctx)
		}
		if c.err != nil {
			return c.err
		}
		if err := l.put(ctx, c); err != nil {
			return err
		}
		c.free <- c.data
	}
}

// next waits for a chunk; after the last there is none.
func (l *loader) next(ctx context.Context, chunks <-chan chunk) (c chunk, ok bool, err error) {
	for l.o.Pause != nil && ctx.Err() == nil {
		select {
		case c, ok = <-chunks:
			return c, ok, ctx.Err()
		default:
			l.o.Pause()
		}
	}
	c, ok = <-chunks
	return c, ok, ctx.Err()
}

// plan makes the buffers and lists what goes where, in the order of the files.
func (l *loader) plan(s *Source) ([]run, error) {
	groups, shapes := s.layout(l.o.Weights)
	var runs []run
	for _, role := range slices.Sorted(maps.Keys(groups)) {
		parts := groups[role]
		w := shapes[role]
		d := w.d
		l.m.Params += w.rows * d
		w, err := l.m.allocate(role, w)
		l.m.w[role] = w
		if err != nil {
			return nil, err
		}
		at := 0
		for _, p := range parts {
			for _, piece := range s.found[p].Pieces() {
				rows := int(piece.Bytes) / (d * piece.Tensor.DType.Size())
				runs = append(runs, run{piece, p, s.ck.Shard(piece.Tensor.Name), w, at, rows, s.found[p].Plus})
				l.total += piece.Bytes
				at += rows
			}
		}
	}
	if s.found["head"].Same != "" {
		l.m.w["head"], l.m.tied = l.m.w["embed"], true
	}
	slices.SortStableFunc(runs, func(a, b run) int {
		return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(a.Tensor.Offset, b.Tensor.Offset), cmp.Compare(a.Off, b.Off))
	})
	return runs, nil
}

// width is how many numbers a row of a weight has.
func width(f config.Found) int {
	d := 1
	for _, n := range f.Shape[1:] {
		d *= n
	}
	return d
}

// kinds maps stored types to the kernels' own.
var kinds = map[safetensors.DType]uint32{safetensors.F32: shaders.F32, safetensors.F16: shaders.F16, safetensors.BF16: shaders.BF16}

// layout says of which roles each weight on the device is made, and how it will be stored there.
func (s *Source) layout(wanted string) (groups map[string][]string, shapes map[string]weight) {
	groups, shapes = fused(s.Config, s.found), map[string]weight{}
	inMatrix := map[string]bool{}
	for _, parts := range groups {
		for _, p := range parts {
			inMatrix[p] = true
		}
	}
	for role, f := range s.found {
		layer, rates := strings.CutSuffix(role, "gdn.A_log")
		of, norms := strings.CutSuffix(role, "attn.q_norm")
		switch {
		case inMatrix[role] || f.Same != "" || strings.HasSuffix(role, "gdn.dt_bias") || strings.HasSuffix(role, "attn.k_norm"):
		case rates:
			groups[layer+"gdn.rates"] = []string{role, layer + "gdn.dt_bias"}
		case norms:
			groups[of+"attn.norms"] = []string{role, of + "attn.k_norm"}
		default:
			groups[role] = []string{role}
		}
	}
	for role, parts := range groups {
		w := weight{kind: shaders.F32, d: width(s.found[parts[0]])}
		for _, p := range parts {
			w.rows += s.found[p].Shape[0]
		}
		if inMatrix[parts[0]] {
			w.kind = kindOf(s.found, parts, wanted, w.d)
		}
		shapes[role] = w
	}
	return groups, shapes
}

// kindOf is how a matrix made of parts is kept on the device: as wanted, where its rows fit, else in
// the type that its parts share, else in f32.
func kindOf(found map[string]config.Found, parts []string, wanted string, d int) uint32 {
	kind := kinds[found[parts[0]].DType]
	for _, p := range parts {
		if kinds[found[p].DType] != kind {
			kind = shaders.F32
		}
	}
	var try []uint32
	switch wanted {
	case "int4":
		try = []uint32{shaders.I4, shaders.I8}
	case "int8":
		try = []uint32{shaders.I8}
	case unpacked:
		return shaders.F32
	case "f16":
		if kind == shaders.F32 {
			try = []uint32{shaders.F16}
		}
	}
	for _, k := range append(try, kind) {
		if shaders.Fits(k, d) {
			return k
		}
	}
	return shaders.F32
}

// bytes is the size of so many rows of the weight.
func (w weight) bytes(rows int) int {
	row, scales := shaders.RowBytes(w.kind, w.d)
	return (rows*(row+scales) + 15) &^ 15 // whole vectors
}

// partRows is how many rows a buffer of the device may have; of several buffers all but the last have
// as many.
func (w weight) partRows(l webgpu.Limits) int {
	most := min(l.MaxBinding, l.MaxBuffer)
	if w.bytes(w.rows) <= most {
		return w.rows
	}
	return max(1, (most-16)/max(1, w.bytes(64)/64)&^63) // columns of a product begin at whole tiles
}

// allocate makes the buffers of a weight. After an error it has those made so far.
func (m *Model) allocate(role string, w weight) (weight, error) {
	each := w.partRows(m.dev.Info().Limits)
	for from := 0; from < w.rows; from += each {
		rows := min(each, w.rows-from)
		buf, err := m.dev.NewBuffer(m.Name+" "+role, w.bytes(rows))
		if err != nil {
			return w, fmt.Errorf("weights: %s: %w", role, err)
		}
		w.parts = append(w.parts, part{buf, from, rows})
	}
	return w, nil
}

// Bytes is what the weights take on a device.
func (s *Source) Bytes(o LoadOptions) int64 {
	_, shapes := s.layout(o.Weights)
	var n int64
	for _, w := range shapes {
		n += int64(w.bytes(w.rows))
	}
	return n
}

// Weights are the values of [LoadOptions.Weights].
var Weights = []string{"", "f16", "int8", "int4"}

// check compares what the weights and the smallest runner need with what the device has room for.
func (s *Source) check(dev webgpu.Device, o LoadOptions) error {
	if !slices.Contains(Weights, o.Weights) {
		return fmt.Errorf("weights %q: want f16, int8 or int4, or none for as they are stored", o.Weights)
	}
	limits := dev.Info().Limits
	_, shapes := s.layout(o.Weights)
	for role, w := range shapes {
		if w.bytes(1) > min(limits.MaxBinding, limits.MaxBuffer) {
			return fmt.Errorf("weights: %s: a row has %s, the device binds at most %s: %w", role, size(w.bytes(1)), size(limits.MaxBinding), webgpu.ErrOutOfMemory)
		}
	}
	run, err := runBytes(s.Config, limits)
	if err != nil {
		return err
	}
	weights := s.Bytes(o)
	if limits.Memory > 0 && weights+run > int64(limits.Memory) {
		smaller := ""
		for _, kind := range []string{"int8", "int4"} {
			if n := s.Bytes(LoadOptions{Weights: kind}); n < weights && n+run <= int64(limits.Memory) {
				smaller = fmt.Sprintf(": with %s weights %s", kind, size(int(n+run)))
				break
			}
		}
		return fmt.Errorf("it needs %s, %s for its weights and %s to run, and %s has room for %s%s: %w", size(int(weights+run)), size(int(weights)), size(int(run)), dev.Info().Adapter, size(limits.Memory), smaller, webgpu.ErrOutOfMemory)
	}
	return nil
}

// size is a number of bytes for people.
func size(n int) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f kB", float64(n)/1e3)
}

// chunk is whole rows of a run as stored, or why they could not be read.
type chunk struct {
	run  run
	row  int // first, counted within the run
	data []byte
	free chan<- []byte
	err  error
}

// chunk is how many rows of a run are read at a time, and the bytes of one.
func (r run) chunk() (rows, size int) {
	size = r.to.d * r.Tensor.DType.Size()
	return min(r.rows, max(1, readChunk/size)), size
}

// read reads the runs in order into chunks and closes that.
func (l *loader) read(ctx context.Context, ck *safetensors.Checkpoint, runs []run, chunks chan<- chunk) {
	free := make(chan []byte, ahead)
	for range ahead {
		free <- nil
	}
	wake := func() {
		if l.o.Wake != nil {
			l.o.Wake()
		}
	}
	defer wake()
	defer close(chunks)
	most := 0
	for _, r := range runs {
		rows, size := r.chunk()
		most = max(most, rows*size)
	}
	for _, r := range runs {
		rows, size := r.chunk()
		for row := 0; row < r.rows; row += rows {
			var data []byte
			select {
			case data = <-free:
			case <-ctx.Done():
				return
			}
			n := min(rows, r.rows-row) * size
			if data == nil {
				data = make([]byte, most)
			}
			c := chunk{run: r, row: row, data: data[:n], free: free}
			if err := ck.ReadRaw(r.Tensor.Name, c.data, r.Off+int64(row)*int64(size)); err != nil {
				c.err = fmt.Errorf("weights: %s: %w", r.role, err)
			}
			select {
			case chunks <- c:
			case <-ctx.Done():
				return
			}
			wake()
			if c.err != nil {
				return
			}
		}
	}
}

// put writes a chunk to the device.
func (l *loader) put(ctx context.Context, c chunk) error {
	t, w := c.run.Tensor, c.run.to
	if i := safetensors.NonFinite(t.DType, c.data); i >= 0 {
		return fmt.Errorf("weights: %s: element %d of %s: got NaN or infinity, want finite numbers: the checkpoint is damaged or its training diverged", c.run.role, int(c.run.Off)/t.DType.Size()+c.row*w.d+i, t.Name)
	}
	at := c.run.at + c.row
	var wrote int
	var err error
	switch {
	case w.kind == shaders.I8 || w.kind == shaders.I4:
		wrote, err = l.quantized(w, at, l.floats(c))
	case kinds[t.DType] == w.kind && c.run.plus == 0:
		wrote, err = l.m.write(w, at, c.data, nil)
	case w.kind == shaders.F16:
		l.packed = l.packed[:0]
		for i, v := range l.floats(c) {
			h := float16.Fromfloat32(v)
			if h.IsInf(0) {
				return fmt.Errorf("weights: %s: element %d of %s: got %v, want at most 65504 for f16 weights: load it as it is stored", c.run.role, int(c.run.Off)/t.DType.Size()+c.row*w.d+i, t.Name, v)
			}
			l.packed = binary.LittleEndian.AppendUint16(l.packed, h.Bits())
		}
		wrote, err = l.m.write(w, at, l.packed, nil)
	default:
		wrote, err = l.m.write(w, at, byteView(wordsOf(l.floats(c))), nil)
	}
	if err != nil {
		return fmt.Errorf("weights: %s: %w", c.run.role, err)
	}
	l.done += int64(len(c.data))
	if l.o.Progress != nil {
		l.o.Progress(l.done, l.total)
	}
	if l.waiting += int64(wrote); l.waiting >= flushBytes {
		return l.settle(ctx)
	}
	return nil
}

// floats decodes a chunk.
func (l *loader) floats(c chunk) []float32 {
	t := c.run.Tensor.DType
	n := len(c.data) / t.Size()
	if cap(l.scratch) < n {
		l.scratch = make([]float32, n)
	}
	x := l.scratch[:n]
	safetensors.Decode(t, x, c.data)
	if c.run.plus != 0 {
		for i := range x {
			x[i] += c.run.plus
		}
	}
	return x
}

// quantized rounds rows of a weight from row at on and writes them.
func (l *loader) quantized(w weight, at int, x []float32) (int, error) {
	row, scales := shaders.RowBytes(w.kind, w.d)
	rows := len(x) / w.d
	l.packed = slices.Grow(l.packed[:0], rows*row)[:rows*row]
	l.scales = slices.Grow(l.scales[:0], rows*scales)[:rows*scales]
	var all sync.WaitGroup
	parts := min(runtime.GOMAXPROCS(0), rows)
	for part := range parts {
		all.Go(func() {
			for r := part * rows / parts; r < (part+1)*rows/parts; r++ {
				shaders.Quantize(w.kind, x[r*w.d:][:w.d], l.packed[r*row:][:row], l.scales[r*scales:][:scales])
			}
		})
	}
	all.Wait()
	return l.m.write(w, at, l.packed, l.scales)
}

// write puts rows of a weight, from row at on, and their scales where they belong, and returns how
// many bytes that were.
func (m *Model) write(w weight, at int, rows, scales []byte) (int, error) {
	row, scale := shaders.RowBytes(w.kind, w.d)
	n := len(rows) / row
	for _, p := range w.parts {
		from, to := max(at, p.from), min(at+n, p.from+p.rows)
		if from >= to {
			continue
		}
		if err := m.dev.Write(p.buf, (from-p.from)*row, rows[(from-at)*row:(to-at)*row]); err != nil {
			return 0, err
		}
		if scale > 0 {
			if err := m.dev.Write(p.buf, p.rows*row+(from-p.from)*scale, scales[(from-at)*scale:(to-at)*scale]); err != nil {
				return 0, err
			}
		}
	}
	return len(rows) + len(scales), nil
}

// settle waits until the device has taken what was written, and reports what became of it: a
// browser says so only then.
func (l *loader) settle(ctx context.Context) error {
	l.waiting = 0
	p, err := l.m.dev.Prepare(ctx, l.flush)
	if err != nil {
		return err
	}
	defer p.Release()
	_, err = p.Play(ctx, shaders.Step{})
	return err
}
