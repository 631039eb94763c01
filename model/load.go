package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"shellgame/model/config"
	"shellgame/model/safetensors"
	"shellgame/shaders"
	"shellgame/webgpu"
)

// LoadOptions say how a checkpoint is brought to a device. The zero value loads it as it is stored.
type LoadOptions struct {
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
	m := &Model{Name: s.Name, Config: s.Config, Skipped: config.Skips(s.Config, s.ck), dev: dev, w: map[string]weight{}}
	l := &loader{m: m, o: o, flush: &webgpu.Recording{Name: s.Name + " upload"}}
	if err := l.load(ctx, s); err != nil {
		m.Release()
		l.settle(context.WithoutCancel(ctx)) // what waits for a play to be freed
		return nil, fmt.Errorf("model %s: %w", s.Name, err)
	}
	return m, nil
}

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
	groups := fused(s.Config, s.found)
	inMatrix := map[string]bool{}
	for _, parts := range groups {
		for _, p := range parts {
			inMatrix[p] = true
		}
	}
	for role, f := range s.found {
		if !inMatrix[role] && f.Same == "" {
			groups[role] = []string{role}
		}
	}
	var runs []run
	for _, role := range slices.Sorted(maps.Keys(groups)) {
		parts := groups[role]
		rows := 0
		for _, p := range parts {
			rows += s.found[p].Shape[0]
		}
		d := width(s.found[parts[0]])
		l.m.Params += rows * d
		w, err := l.m.newWeight(role, kindOf(s.found, parts, inMatrix[parts[0]]), rows, d)
		if err != nil {
			return nil, err
		}
		l.m.w[role] = w
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
		l.m.w["head"] = l.m.w["embed"]
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

// kindOf is how a weight made of parts is kept on the device. Matrices keep their stored type if
// their parts share it and their rows are whole words; all else is f32.
func kindOf(found map[string]config.Found, parts []string, matrix bool) uint32 {
	first := found[parts[0]]
	for _, p := range parts {
		if found[p].DType != first.DType {
			matrix = false
		}
	}
	if !matrix || width(first)*first.DType.Size()%4 != 0 {
		return shaders.F32
	}
	return kinds[first.DType]
}

// newWeight makes the buffer of a weight.
func (m *Model) newWeight(role string, kind uint32, rows, d int) (weight, error) {
	buf, err := m.dev.NewBuffer(m.Name+" "+role, rows*rowBytes(kind, d))
	if err != nil {
		return weight{}, fmt.Errorf("weights: %s: %w", role, err)
	}
	return weight{buf, kind, rows, d}, nil
}

func rowBytes(kind uint32, d int) int {
	if kind == shaders.F32 {
		return 4 * d
	}
	return 2 * d
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
	data := c.data
	if kinds[t.DType] != w.kind || c.run.plus != 0 {
		n := len(data) / t.DType.Size()
		if cap(l.scratch) < n {
			l.scratch = make([]float32, n)
		}
		safetensors.Decode(t.DType, l.scratch[:n], data)
		for i := range l.scratch[:n] {
			l.scratch[i] += c.run.plus
		}
		data = byteView(wordsOf(l.scratch[:n]))
	}
	if err := l.m.dev.Write(w.buf, (c.run.at+c.row)*rowBytes(w.kind, w.d), data); err != nil {
		return fmt.Errorf("weights: %s: %w", c.run.role, err)
	}
	l.done += int64(len(c.data))
	if l.o.Progress != nil {
		l.o.Progress(l.done, l.total)
	}
	if l.waiting += int64(len(data)); l.waiting >= flushBytes {
		return l.settle(ctx)
	}
	return nil
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
