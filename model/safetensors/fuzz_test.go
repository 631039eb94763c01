package safetensors

import (
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// FuzzIndex: whatever the index and the shards hold, either all that the index names is there and
// nothing else, or the error is one line.
func FuzzIndex(f *testing.F) {
	one := file(`{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}`, 4)
	two := file(`{"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4)
	for _, index := range []string{
		`{"metadata":{"total_size":8},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`,
		`{"weight_map":{"a":"1.safetensors"}}`, `{"weight_map":{"a":"2.safetensors","b":"2.safetensors"}}`, `{"weight_map":{"a":"1.safetensors","b":"2.safetensors","c":"2.safetensors"}}`,
		`{"weight_map":{"a":"../1.safetensors"}}`, `{"weight_map":{"a":"/etc/passwd"}}`, `{"weight_map":{"a":"c:\\1.safetensors"}}`, `{"weight_map":{"a":"3.safetensors"}}`,
		`{"weight_map":{}}`, `{"weight_map":null}`, `{"weight_map":[]}`, `{"weight_map":{"a":1}}`, `{"weight_map":{"a":"1.safetensors"},"weight_map":{}}`, `{`, ``, `[]`, "<!DOCTYPE html>", "version https://git-lfs.github.com/spec/v1\n",
	} {
		f.Add([]byte(index), one, two)
	}
	f.Fuzz(func(t *testing.T, index, one, two []byte) {
		names := map[string][]byte{indexName: index, "1.safetensors": one, "2.safetensors": two}
		files := fstest.MapFS{}
		for name, data := range names {
			files[name] = &fstest.MapFile{Data: data}
		}
		opened := &opens{Files: FS(files)}
		ck, err := OpenCheckpoint(opened)
		for _, name := range opened.names {
			if strings.ContainsAny(name, `/\:`) || name == "" || name == "." || name == ".." {
				t.Fatalf("the index made it open %q", name)
			}
		}
		if err != nil {
			if s := err.Error(); !strings.HasPrefix(s, "safetensors: ") || strings.ContainsAny(s, "\n\r") {
				t.Fatalf("got error %q, want one line that begins with safetensors:", s)
			}
			return
		}
		defer ck.Close()
		read := int64(0)
		for _, name := range ck.Names() {
			tensor, ok := ck.Tensor(name)
			if !ok {
				t.Fatalf("tensor %q is named and not there", name)
			}
			if err := ck.ReadRaw(name, make([]byte, tensor.Bytes), 0); err != nil {
				t.Fatal(err)
			}
			read += tensor.Bytes
		}
		if read != ck.Size() {
			t.Fatalf("the tensors have %d bytes, want %d", read, ck.Size())
		}
		if !slices.IsSorted(ck.Names()) {
			t.Fatalf("got names %q", ck.Names())
		}
	})
}

// opens notes which files were asked for.
type opens struct {
	Files
	names []string
}

func (o *opens) Open(name string) (io.ReaderAt, int64, io.Closer, error) {
	o.names = append(o.names, name)
	return o.Files.Open(name)
}
