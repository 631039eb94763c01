package safetensors

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// mapFS is files by name.
func mapFS(files map[string][]byte) fstest.MapFS {
	m := fstest.MapFS{}
	for name, b := range files {
		m[name] = &fstest.MapFile{Data: b}
	}
	return m
}

func shardFile(t testing.TB, names ...string) []byte {
	var entries []Entry
	for i, name := range names {
		entries = append(entries, mustEntry(t, name, F32, []int{2}, []float32{float32(i), -1}))
	}
	return mustWrite(t, nil, entries...)
}

const (
	shardA = "model-00001-of-00002.safetensors"
	shardB = "model-00002-of-00002.safetensors"
)

// index is an index.json of tensor, shard, tensor, shard, ...
func index(pairs ...string) []byte {
	var list []string
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, fmt.Sprintf("%q: %q", pairs[i], pairs[i+1]))
	}
	return []byte(`{"metadata": {"total_size": 1}, "weight_map": {` + strings.Join(list, ", ") + `}}`)
}

func TestCheckpoint(t *testing.T) {
	for name, files := range map[string]map[string][]byte{
		"single":  {singleName: shardFile(t, "a", "b", "c"), "notes.txt": nil},
		"sharded": {shardA: shardFile(t, "a", "b"), indexName: index("a", shardA, "b", shardA)},
		"two":     {shardA: shardFile(t, "a", "b"), shardB: shardFile(t, "c"), indexName: index("c", shardB, "a", shardA, "b", shardA)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, b := range files {
				if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for kind, files := range map[string]Files{"FS": FS(mapFS(files)), "Dir": Dir(dir)} {
				c, err := OpenCheckpoint(files)
				if err != nil {
					t.Fatal(kind, err)
				}
				var last, total int64
				c.Progress = func(d, n int64) { last, total = d, n }
				for _, name := range c.Names() {
					tensor, ok := c.Tensor(name)
					if !ok || !slices.Equal(tensor.Shape, []int{2}) {
						t.Errorf("%s: %s: got %v", kind, name, tensor)
					}
					if x, err := c.ReadF32(name); err != nil || x[1] != -1 {
						t.Errorf("%s: %s: got %v, %v", kind, name, x, err)
					}
				}
				if want := int64(8 * len(c.Names())); last != want || total != want || c.Size() != want || want < 16 {
					t.Errorf("%s: progress: got %d of %d, size %d, want %d", kind, last, total, c.Size(), want)
				}
				if _, err := c.ReadF32("zz"); err == nil {
					t.Error("read a tensor that is not there")
				}
				if err := c.Close(); err != nil {
					t.Error(kind, err)
				}
			}
		})
	}
}

func TestCheckpointBroken(t *testing.T) {
	ab, c := shardFile(t, "a", "b"), shardFile(t, "c")
	good := index("a", shardA, "b", shardA, "c", shardB)
	for _, k := range []struct {
		name  string
		files map[string][]byte
		want  string
	}{
		{"nothing", map[string][]byte{"a.bin": nil}, `found neither model.safetensors nor model.safetensors.index.json, want one of them: `},
		{"missing shard", map[string][]byte{shardA: ab, indexName: good}, `shard ` + shardB + `: missing, want it beside the model.safetensors.index.json that names it: `},
		{"broken shard", map[string][]byte{shardA: ab, shardB: c[:len(c)-1], indexName: good}, shardB + `: tensor "c": data_offsets: got [0 8], beyond the 7 bytes`},
		{"broken single", map[string][]byte{singleName: []byte("<html></html>")}, `model.safetensors: got an HTML page, want a safetensors file`},
		{"in no shard", map[string][]byte{shardA: ab, shardB: c, indexName: index("a", shardA, "b", shardA, "c", shardB, "d", shardB)}, `tensor "d": in no shard, but model.safetensors.index.json puts it in ` + shardB},
		{"in another shard", map[string][]byte{shardA: ab, shardB: c, indexName: index("a", shardA, "b", shardB, "c", shardB)}, `tensor "b": found in ` + shardA + `, but model.safetensors.index.json puts it in ` + shardB},
		{"in both", map[string][]byte{shardA: ab, shardB: shardFile(t, "c", "b"), indexName: good}, `tensor "b": found in ` + shardB + `, but model.safetensors.index.json puts it in ` + shardA},
		{"not in index", map[string][]byte{shardA: ab, shardB: c, indexName: index("a", shardA, "c", shardB)}, `tensor "b": found in ` + shardA + `, but model.safetensors.index.json does not name it`},
		{"index is HTML", map[string][]byte{indexName: []byte("<!doctype html>")}, `model.safetensors.index.json: got an HTML page, want a JSON object with weight_map`},
		{"index is cut", map[string][]byte{indexName: good[:20]}, `model.safetensors.index.json: got invalid JSON in 20 bytes, want one object`},
		{"index without map", map[string][]byte{indexName: []byte(`{"metadata": {"weight_map": {"a": "b"}}}`)}, `model.safetensors.index.json: got no weight_map or an empty one, want an object of tensors and shards`},
		{"index twice", map[string][]byte{indexName: index("a", shardA, "a", shardB)}, `model.safetensors.index.json: key "a": stands twice, want it once`},
		{"index number", map[string][]byte{indexName: []byte(`{"weight_map": {"a": 1}}`)}, `model.safetensors.index.json: weight_map: "a": got 1, want a string`},
		{"index climbs", map[string][]byte{indexName: index("a", "../x.safetensors")}, `model.safetensors.index.json: weight_map: "a": got shard "../x.safetensors", want the name of a .safetensors file in the same folder`},
		{"index other file", map[string][]byte{indexName: index("a", "config.json")}, `model.safetensors.index.json: weight_map: "a": got shard "config.json", want the name of a .safetensors file in the same folder`},
	} {
		t.Run(k.name, func(t *testing.T) {
			_, err := OpenCheckpoint(FS(mapFS(k.files)))
			if err == nil {
				t.Fatal("got no error")
			}
			if s := err.Error(); !strings.HasPrefix(s, "safetensors: "+k.want) || strings.Contains(s, "\n") {
				t.Errorf("\ngot  %s\nwant safetensors: %s", s, k.want)
			}
		})
	}
}

func TestDirRefusesADirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, singleName), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCheckpoint(Dir(dir)); err == nil || !strings.Contains(err.Error(), "want a regular file") {
		t.Errorf("got %v, want it to name a regular file", err)
	}
	if _, _, _, err := Dir(dir).Open("no"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

// streamFS hides ReadAt.
type streamFS struct{ fstest.MapFS }

func (s streamFS) Open(name string) (fs.File, error) {
	f, err := s.MapFS.Open(name)
	return struct{ fs.File }{f}, err
}

func TestFSWithoutReadAt(t *testing.T) {
	c, err := OpenCheckpoint(FS(streamFS{mapFS(map[string][]byte{singleName: shardFile(t, "a")})}))
	if err != nil {
		t.Fatal(err)
	}
	if x, err := c.ReadF32("a"); err != nil || len(x) != 2 {
		t.Errorf("got %v, %v", x, err)
	}
}

func TestReadFile(t *testing.T) {
	files := FS(mapFS(map[string][]byte{"config.json": []byte("{}"), "empty": nil}))
	if b, err := ReadFile(files, "config.json", 2); err != nil || !bytes.Equal(b, []byte("{}")) {
		t.Errorf("got %q, %v", b, err)
	}
	if b, err := ReadFile(files, "empty", 2); err != nil || len(b) != 0 {
		t.Errorf("got %q, %v", b, err)
	}
	if _, err := ReadFile(files, "config.json", 1); err == nil || err.Error() != "config.json: got 2 bytes, want at most 1" {
		t.Errorf("got %v", err)
	}
	m := memory("abc")
	if n, err := m.ReadAt(make([]byte, 5), 1); n != 2 || err != io.EOF {
		t.Errorf("got %d, %v", n, err)
	}
}
