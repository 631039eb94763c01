package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Progress is told how many of total bytes are done. It is called from the
// goroutine that reads.
type Progress func(done, total int64)

// Files opens the files of one model by their base names. A missing file is an
// error that wraps fs.ErrNotExist. The Closer is never nil.
type Files interface {
	Open(name string) (r io.ReaderAt, size int64, c io.Closer, err error)
}

// lister is files whose names can be told.
type lister interface{ Names() ([]string, error) }

// Dir is the files of a directory on disk.
type Dir string

// Names lists them.
func (d Dir) Names() ([]string, error) { return FS(os.DirFS(string(d))).(lister).Names() }

// Open implements Files.
func (d Dir) Open(name string) (io.ReaderAt, int64, io.Closer, error) {
	f, err := os.Open(filepath.Join(string(d), name))
	if err != nil {
		return nil, 0, nil, err
	}
	return fromFile(f)
}

type fsFiles struct{ fsys fs.FS }

// FS is the files of a file system, such as an embedded one. A file that can't
// be read at an offset is held in memory.
func FS(fsys fs.FS) Files { return fsFiles{fsys} }

// Names lists the files.
func (f fsFiles) Names() ([]string, error) {
	list, err := fs.ReadDir(f.fsys, ".")
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = e.Name()
	}
	return names, err
}

// Open implements Files.
func (f fsFiles) Open(name string) (io.ReaderAt, int64, io.Closer, error) {
	file, err := f.fsys.Open(name)
	if err != nil {
		return nil, 0, nil, err
	}
	return fromFile(file)
}

func fromFile(f fs.File) (io.ReaderAt, int64, io.Closer, error) {
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: got a %s, want a regular file", info.Name(), info.Mode().Type())
	}
	if err != nil {
		f.Close()
		return nil, 0, nil, err
	}
	if r, ok := f.(io.ReaderAt); ok {
		return r, info.Size(), f, nil
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, 0, nil, err
	}
	return memory(b), int64(len(b)), io.NopCloser(nil), nil
}

// memory is a file that is held as a whole.
type memory []byte

func (m memory) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(m)) {
		return 0, io.EOF
	}
	n := copy(p, m[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// ReadFile reads a whole small file such as config.json. A file of more than
// limit bytes is an error.
func ReadFile(files Files, name string, limit int64) ([]byte, error) {
	r, size, c, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if size > limit {
		return nil, fmt.Errorf("%s: got %d bytes, want at most %d", name, size, limit)
	}
	b := make([]byte, size)
	if err := readFull(r, b, 0); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b, nil
}

const (
	singleName = "model.safetensors"
	indexName  = "model.safetensors.index.json"
	maxIndex   = 64 << 20
)

// shardName is how the parts of a checkpoint are called.
var shardName = regexp.MustCompile(`^model-\d+-of-\d+\.safetensors$`)

// Checkpoint is the weights of one model, in one file or in shards. Read it from
// one goroutine.
type Checkpoint struct {
	// Progress, when set, is told the bytes of tensors read so far and Size.
	Progress Progress

	shards  []*File
	of      map[string]*File
	closers []io.Closer
	size    int64
	done    int64
}

// OpenCheckpoint opens model.safetensors or, when there is none, the shards
// that model.safetensors.index.json names. Index and shards must agree on every
// tensor.
func OpenCheckpoint(files Files) (*Checkpoint, error) {
	c := &Checkpoint{of: map[string]*File{}}
	err := c.openAll(files)
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Checkpoint) openAll(files Files) error {
	single, err := c.openFile(files, singleName)
	if err == nil {
		for _, name := range single.names {
			c.of[name] = single
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	data, indexErr := ReadFile(files, indexName, maxIndex)
	if errors.Is(indexErr, fs.ErrNotExist) {
		return fmt.Errorf("safetensors: found neither %s nor %s, want one of them: %w", singleName, indexName, err)
	}
	if indexErr != nil {
		return fmt.Errorf("safetensors: %w", indexErr)
	}
	shardOf, err := parseIndex(data)
	if err != nil {
		return fmt.Errorf("safetensors: %s: %w", indexName, err)
	}
	byShard := map[string]*File{}
	for _, shard := range slices.Compact(slices.Sorted(maps.Values(shardOf))) {
		f, err := c.openFile(files, shard)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("safetensors: shard %s: missing, want it beside the %s that names it: %w", shard, indexName, err)
		}
		if err != nil {
			return err
		}
		byShard[shard] = f
	}
	if err := c.checkIndex(shardOf, byShard); err != nil {
		return err
	}
	if l, ok := files.(lister); ok {
		names, err := l.Names()
		if err != nil {
			return fmt.Errorf("safetensors: %w", err)
		}
		for _, name := range names {
			if shardName.MatchString(name) && byShard[name] == nil {
				return fmt.Errorf("safetensors: %s: a shard that %s does not name, want it gone or the index that belongs to it", name, indexName)
			}
		}
	}
	return nil
}

func (c *Checkpoint) openFile(files Files, name string) (*File, error) {
	r, size, closer, err := files.Open(name)
	if errors.Is(err, fs.ErrNotExist) { // the caller says what that means
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", name, err)
	}
	c.closers = append(c.closers, closer)
	f, err := open(r, size)
	if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", name, err)
	}
	c.shards = append(c.shards, f)
	for _, t := range f.tensors {
		c.size += t.Bytes
	}
	return f, nil
}

// parseIndex reads the weight_map: tensor to shard.
func parseIndex(data []byte) (map[string]string, error) {
	var shardOf map[string]string
	if what := sniff(data); what != "" && what != "JSON" {
		return nil, fmt.Errorf("got %s, want a JSON object with weight_map", what)
	}
	err := eachMember(data, func(d *json.Decoder, key string) error {
		if key != "weight_map" {
			var skip json.RawMessage
			return d.Decode(&skip)
		}
		shardOf = map[string]string{}
		return members(d, func(d *json.Decoder, tensor string) error {
			shard, err := text(d)
			if err != nil {
				return fmt.Errorf("weight_map: %q: %w", tensor, err)
			}
			if !fs.ValidPath(shard) || path.Base(shard) != shard || strings.ContainsAny(shard, `\:`) || !strings.HasSuffix(shard, ".safetensors") {
				return fmt.Errorf("weight_map: %q: got shard %q, want the name of a .safetensors file in the same folder", tensor, shard)
			}
			shardOf[tensor] = shard
			return nil
		})
	})
	if err == nil && len(shardOf) == 0 {
		err = errors.New("got no weight_map or an empty one, want an object of tensors and shards")
	}
	return shardOf, err
}

func (c *Checkpoint) checkIndex(shardOf map[string]string, byShard map[string]*File) error {
	shards := slices.Sorted(maps.Keys(byShard))
	for _, tensor := range slices.Sorted(maps.Keys(shardOf)) {
		want := shardOf[tensor]
		if _, ok := byShard[want].tensors[tensor]; ok {
			c.of[tensor] = byShard[want]
			continue
		}
		for _, other := range shards {
			if _, ok := byShard[other].tensors[tensor]; ok {
				return fmt.Errorf("safetensors: tensor %q: found in %s, but %s puts it in %s", tensor, other, indexName, want)
			}
		}
		return fmt.Errorf("safetensors: tensor %q: in no shard, but %s puts it in %s", tensor, indexName, want)
	}
	for _, shard := range shards {
		for _, tensor := range byShard[shard].names {
			if want, ok := shardOf[tensor]; !ok {
				return fmt.Errorf("safetensors: tensor %q: found in %s, but %s does not name it", tensor, shard, indexName)
			} else if want != shard {
				return fmt.Errorf("safetensors: tensor %q: found in %s, but %s puts it in %s", tensor, shard, indexName, want)
			}
		}
	}
	return nil
}

// Names lists the tensors of all shards in byte order of their names.
func (c *Checkpoint) Names() []string { return slices.Sorted(maps.Keys(c.of)) }

// Tensor returns the tensor of that name, or false. Its Offset counts from the
// start of its own shard.
func (c *Checkpoint) Tensor(name string) (Tensor, bool) {
	f, ok := c.of[name]
	if !ok {
		return Tensor{}, false
	}
	return f.Tensor(name)
}

// Shard is the number of the file that holds a tensor, in the order of the files' names, or -1.
func (c *Checkpoint) Shard(name string) int { return slices.Index(c.shards, c.of[name]) }

// Size is the number of bytes of all tensors.
func (c *Checkpoint) Size() int64 { return c.size }

func (c *Checkpoint) find(name string) (*File, error) {
	f, ok := c.of[name]
	if !ok {
		return nil, fmt.Errorf("safetensors: tensor %q: not in the checkpoint, which has %d tensors", name, len(c.of))
	}
	return f, nil
}

func (c *Checkpoint) read(bytes int64) {
	c.done += bytes
	if c.Progress != nil {
		c.Progress(c.done, c.size)
	}
}

// ReadRaw is File.ReadRaw of the shard that holds the tensor.
func (c *Checkpoint) ReadRaw(name string, p []byte, off int64) error {
	f, err := c.find(name)
	if err != nil {
		return err
	}
	if err := f.ReadRaw(name, p, off); err != nil {
		return err
	}
	c.read(int64(len(p)))
	return nil
}

// ReadF32 is File.ReadF32 of the shard that holds the tensor.
func (c *Checkpoint) ReadF32(name string) ([]float32, error) {
	f, err := c.find(name)
	if err != nil {
		return nil, err
	}
	return f.readF32(name, c.read)
}

// Close closes all files.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, f := range c.closers {
		errs = append(errs, f.Close())
	}
	c.closers = nil
	return errors.Join(errs...)
}
