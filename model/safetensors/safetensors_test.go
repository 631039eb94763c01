package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/x448/float16"
)

// file is a header, its length, and n bytes of data.
func file(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

func openBytes(b []byte) (*File, error) { return Open(bytes.NewReader(b), int64(len(b))) }

func TestOpen(t *testing.T) {
	b := file(`{"__metadata__":{"format":"pt"},"b":{"shape":[2,3],"dtype":"F16","data_offsets":[4,16]},`+
		`"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"none":{"dtype":"I8","shape":[5,0],"data_offsets":[16,16]}}   `, 16)
	f, err := openBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.Names(), []string{"a", "b", "none"}; !slices.Equal(got, want) {
		t.Errorf("names: got %v, want %v", got, want)
	}
	base := int64(len(b) - 16)
	for _, want := range []Tensor{
		{"a", F32, []int{}, base, 4},
		{"b", F16, []int{2, 3}, base + 4, 12},
		{"none", I8, []int{5, 0}, base + 16, 0},
	} {
		got, ok := f.Tensor(want.Name)
		if d := cmp.Diff(want, got); !ok || d != "" {
			t.Errorf("%s: found %v, (-want +got)\n%s", want.Name, ok, d)
		}
	}
	if _, ok := f.Tensor("c"); ok {
		t.Error("found a tensor that is not there")
	}
	if f.Metadata()["format"] != "pt" {
		t.Errorf("metadata: got %v", f.Metadata())
	}
	if f, err := openBytes(file(`{"__metadata__":{"only":"this"}}`, 0)); err != nil || len(f.Names()) != 0 {
		t.Errorf("metadata only: got %v, %v", f, err)
	}
	if _, err := openBytes(file(`{}`, 0)); err != nil {
		t.Errorf("empty: %v", err)
	}
}

func one(dtype, shape, offsets string) string {
	return fmt.Sprintf(`{"w":{"dtype":%s,"shape":%s,"data_offsets":%s}}`, dtype, shape, offsets)
}

func two(a, b string) string {
	return fmt.Sprintf(`{"a":{"dtype":"U8","shape":[4],"data_offsets":%s},"b":{"dtype":"U8","shape":[4],"data_offsets":%s}}`, a, b)
}

var broken = []struct {
	name string
	data []byte
	want string
}{
	{"empty", nil, `got 0 bytes, want at least 8 (the header's length)`},
	{"short", []byte("PK\x03\x04"), `got a zip archive (as PyTorch writes), want a safetensors file`},
	{"2^63", append(binary.LittleEndian.AppendUint64(nil, 1<<63), "{}"...), `header length: got 9223372036854775808 bytes, want at most 100000000: not a safetensors file`},
	{"2^64-1", bytes.Repeat([]byte{255}, 64), `header length: got 18446744073709551615 bytes, want at most 100000000: not a safetensors file`},
	{"100 MB", binary.LittleEndian.AppendUint64(nil, MaxHeader+1), `header length: got 100000001 bytes, want at most 100000000: not a safetensors file`},
	{"cut in header", file(one(`"F32"`, "[1]", "[0,4]"), 4)[:40], `header length: got 54 bytes, but only 32 follow: the file is cut short or no safetensors file`},
	{"cut in data", file(one(`"F32"`, "[2]", "[0,8]"), 7), `tensor "w": data_offsets: got [0 8], beyond the 7 bytes that follow the header: the file is cut short or its header is wrong`},
	{"lfs", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n"), `got a Git-LFS pointer (git lfs pull fetches the file itself), want a safetensors file`},
	{"html", []byte("\n<!DOCTYPE html><html></html>"), `got an HTML page, want a safetensors file`},
	{"html tag", []byte("<HTML><body>404"), `got an HTML page, want a safetensors file`},
	{"json", []byte(`{"error":"not found"}`), `got JSON, want a safetensors file`},
	{"not an object", file(`[1]`, 0), `header: got "[1]" at its start, want {`},
	{"no header", file(``, 0), `header: got "" at its start, want {`},
	{"not JSON", file(`{"w":}`, 0), `header: got invalid JSON in 6 bytes, want one object`},
	{"text after", file(`{} {}`, 0), `header: got invalid JSON in 5 bytes, want one object`},
	{"deep", file(`{"a":`+strings.Repeat("[", 1<<20), 0), `header: got invalid JSON in 1048581 bytes, want one object`},
	{"not UTF-8", file("{\"\xff\":1}", 0), `header: got bytes that are not UTF-8, want JSON`},
	{"duplicate", file(`{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0077":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1), `header: key "w": stands twice, want it once`},
	{"duplicate inside", file(`{"w":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}}`, 1), `header: tensor "w": key "dtype": stands twice, want it once`},
	{"metadata number", file(`{"__metadata__":{"a":1}}`, 0), `header: __metadata__: "a": got 1, want a string`},
	{"metadata list", file(`{"__metadata__":[]}`, 0), `header: __metadata__: got [, want {`},
	{"tensor null", file(`{"w":null}`, 0), `header: tensor "w": got null, want {`},
	{"unknown key", file(`{"w":{"type":"U8"}}`, 0), `header: tensor "w": got key "type", want dtype, shape and data_offsets`},
	{"unknown dtype", file(one(`"Q4"`, "[1]", "[0,1]"), 1), `header: tensor "w": dtype: got unknown "Q4", want one of BF16 BOOL C64 F16 F32 F64 F8_E4M3 F8_E5M2 I16 I32 I64 I8 U16 U32 U64 U8`},
	{"dtype number", file(one(`3`, "[1]", "[0,1]"), 1), `header: tensor "w": dtype: got 3, want a string`},
	{"no dtype", file(`{"w":{"shape":[1],"data_offsets":[0,1]}}`, 1), `header: tensor "w": dtype: missing`},
	{"no shape", file(`{"w":{"dtype":"U8","data_offsets":[0,1]}}`, 1), `header: tensor "w": shape: missing`},
	{"no offsets", file(`{"w":{"dtype":"U8","shape":[1]}}`, 1), `header: tensor "w": data_offsets: got 0 numbers, want [begin, end]`},
	{"shape and range", file(one(`"F32"`, "[2,3]", "[0,20]"), 20), `header: tensor "w": data_offsets: got [0 20], 20 bytes, want 24 (shape [2 3] of F32)`},
	{"negative size", file(one(`"U8"`, "[-1]", "[0,1]"), 1), `header: tensor "w": shape: got -1, want an integer from 0 to 2^63-1`},
	{"fraction", file(one(`"U8"`, "[1.0]", "[0,1]"), 1), `header: tensor "w": shape: got 1.0, want an integer from 0 to 2^63-1`},
	{"size text", file(one(`"U8"`, `["1"]`, "[0,1]"), 1), `header: tensor "w": shape: got "1", want integers`},
	{"shape nested", file(one(`"U8"`, `[[1]]`, "[0,1]"), 1), `header: tensor "w": shape: got [, want integers`},
	{"shape text", file(one(`"U8"`, `"1"`, "[0,1]"), 1), `header: tensor "w": shape: got "1", want [`},
	{"product overflow", file(one(`"F32"`, "[4294967296,4294967296]", "[0,0]"), 0), `header: tensor "w": shape: got [4294967296 4294967296] of F32, which is more than 2^63 bytes`},
	{"negative offset", file(one(`"U8"`, "[1]", "[-1,0]"), 1), `header: tensor "w": data_offsets: got -1, want an integer from 0 to 2^63-1`},
	{"backwards", file(one(`"U8"`, "[1]", "[1,0]"), 1), `header: tensor "w": data_offsets: got [1 0], want an end that is not before the begin`},
	{"beyond", file(one(`"U8"`, "[1]", "[9223372036854775806,9223372036854775807]"), 1), `tensor "w": data_offsets: got [9223372036854775806 9223372036854775807], beyond the 1 bytes that follow the header: the file is cut short or its header is wrong`},
	{"overlap", file(two("[0,4]", "[3,7]"), 8), `tensor "b": data_offsets: got [3 7], which overlaps tensor "a" that ends at 4`},
	{"same range", file(two("[0,4]", "[0,4]"), 4), `tensor "b": data_offsets: got [0 4], which overlaps tensor "a" that ends at 4`},
	{"hole", file(two("[0,4]", "[5,9]"), 9), `tensor "b": data_offsets: got a begin of 5, want 4: a hole of 1 bytes`},
	{"hole at the start", file(two("[1,5]", "[5,9]"), 9), `tensor "a": data_offsets: got a begin of 1, want 0: a hole of 1 bytes`},
	{"trailing", file(two("[0,4]", "[4,8]"), 10), `got 2 bytes after the last tensor, want none: trailing bytes or a wrong header`},
}

func TestOpenBroken(t *testing.T) {
	for _, c := range broken {
		t.Run(c.name, func(t *testing.T) {
			f, err := openBytes(c.data)
			if err == nil {
				t.Fatalf("got %v, want an error", f.Names())
			}
			if got := err.Error(); got != "safetensors: "+c.want {
				t.Errorf("\ngot  %s\nwant safetensors: %s", got, c.want)
			}
		})
	}
}

type failing struct{ err error }

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

func TestOpenKeepsReadErrors(t *testing.T) {
	want := errors.New("disk gone")
	if _, err := Open(failing{want}, 100); !errors.Is(err, want) {
		t.Errorf("got %v, want %v wrapped", err, want)
	}
	if _, err := Open(bytes.NewReader(make([]byte, 20)), 100); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("size that lies: got %v, want %v", err, io.ErrUnexpectedEOF)
	}
}

func mustWrite(t testing.TB, meta map[string]string, entries ...Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, entries, meta); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func mustEntry(t testing.TB, name string, d DType, shape []int, x []float32) Entry {
	t.Helper()
	e, err := EntryF32(name, d, shape, x)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestWriteRead(t *testing.T) {
	x := make([]float32, 3*piece/4+5) // several pieces of F32, no multiple of one
	for i := range x {
		x[i] = float32(i%2048) - 7 // exact in F16
	}
	small := []float32{1, -2, 0.5}
	b := mustWrite(t, map[string]string{"z": "1", "a": "2"},
		mustEntry(t, "big", F32, []int{len(x)}, x),
		mustEntry(t, "half", F16, []int{len(x)}, x),
		mustEntry(t, "brain", BF16, []int{3, 1}, small),
		Entry{Name: "ids", DType: I32, Shape: []int{2}, Data: []byte{1, 0, 0, 0, 255, 255, 255, 255}},
		Entry{Name: "long", DType: I64, Shape: []int{1}, Data: []byte{0, 0, 0, 0, 1, 0, 0, 0}},
	)
	f, err := openBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float32{"big": x, "half": x, "brain": small} {
		got, err := f.ReadF32(name)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %d values, %v", name, len(got), err)
		}
	}
	if got, err := f.ReadI32("ids"); err != nil || !slices.Equal(got, []int32{1, -1}) {
		t.Errorf("ids: got %v, %v", got, err)
	}
	raw := make([]byte, 2)
	if err := f.ReadRaw("brain", raw, 2); err != nil || !bytes.Equal(raw, []byte{0x00, 0xc0}) {
		t.Errorf("raw: got %x, %v", raw, err)
	}
	for name, got := range map[string]error{
		`tensor "long": element 0: got 4294967296, want 32 bits`:         second(f.ReadI32("long")),
		`tensor "ids": got dtype I32, want F32, F16 or BF16`:             second(f.ReadF32("ids")),
		`tensor "big": got dtype F32, want I32 or I64`:                   second(f.ReadI32("big")),
		`tensor "no": not in the file, which has 5 tensors`:              second(f.ReadF32("no")),
		`tensor "brain": asked for 2 bytes from 5, it has 6`:             f.ReadRaw("brain", raw, 5),
		`tensor "brain": asked for 2 bytes from -1, it has 6`:            f.ReadRaw("brain", raw, -1),
		`tensor "brain": asked for 2 bytes from 9000000000000, it has 6`: f.ReadRaw("brain", raw, 9e12),
	} {
		if got == nil || got.Error() != "safetensors: "+name {
			t.Errorf("got %v, want %s", got, name)
		}
	}
	if again := mustWrite(t, map[string]string{"a": "2", "z": "1"}, mustEntry(t, "w", F32, nil, []float32{1})); !bytes.Equal(again,
		mustWrite(t, map[string]string{"z": "1", "a": "2"}, mustEntry(t, "w", F32, nil, []float32{1}))) {
		t.Error("the same input gave other bytes")
	}
}

func second[T any](_ T, err error) error { return err }

func TestWriteRefuses(t *testing.T) {
	for _, c := range []struct {
		entries []Entry
		want    string
	}{
		{[]Entry{{Name: "w", DType: F32, Shape: []int{2}, Data: make([]byte, 4)}}, `safetensors: writing "w": got 4 bytes, want 8 (shape [2] of F32)`},
		{[]Entry{{Name: "w", DType: "Q4", Shape: []int{1}, Data: make([]byte, 1)}}, `safetensors: writing "w": got 1 bytes, want 0 (shape [1] of Q4)`},
		{[]Entry{{Name: "w", DType: F32, Shape: []int{2}, Fill: func(w io.Writer) error { _, err := w.Write(make([]byte, 7)); return err }}}, `safetensors: writing "w": got 7 bytes, want 8 (shape [2] of F32)`},
		{[]Entry{{Name: "w", DType: U8, Data: []byte{1}}, {Name: "w", DType: U8, Data: []byte{1}}}, `safetensors: writing "w": the name stands twice or is reserved`},
	} {
		if err := Write(io.Discard, c.entries, nil); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	if _, err := EntryF32("w", I8, nil, []float32{1}); err == nil {
		t.Error("EntryF32 took I8")
	}
	if _, err := EntryF32("w", F32, []int{2}, []float32{1}); err == nil {
		t.Error("EntryF32 took a wrong shape")
	}
}

// TestBF16 goes through all 65,536 values: widening is judged by arithmetic on
// sign, exponent and fraction, and rounding back must be the identity.
func TestBF16(t *testing.T) {
	for i := range 1 << 16 {
		b := uint16(i)
		sign, exp, frac := 1.0, int(b>>7&0xff), float64(b&0x7f)
		if b>>15 == 1 {
			sign = -1
		}
		var want float64
		switch exp {
		case 0:
			want = sign * math.Ldexp(frac, -133)
		case 255:
			want = sign * math.Inf(1)
			if frac != 0 {
				want = math.NaN()
			}
		default:
			want = sign * math.Ldexp(128+frac, exp-134)
		}
		got := BF16ToF32(b)
		if math.IsNaN(want) {
			if got == got || F32ToBF16(got)&0x7fff <= 0x7f80 {
				t.Fatalf("%#04x: got %v, want NaN both ways", b, got)
			}
			continue
		}
		if float64(got) != want || math.Signbit(float64(got)) != (sign < 0) {
			t.Fatalf("%#04x: got %v, want %v", b, got, want)
		}
		if back := F32ToBF16(got); back != b {
			t.Fatalf("%#04x: back to %#04x", b, back)
		}
		if exp == 255 || exp == 254 && frac == 127 {
			continue
		}
		// Half way to the next value goes to the even one, a bit more goes up.
		half := math.Float32frombits(uint32(b)<<16 | 0x8000)
		if r := F32ToBF16(half); r != b+b&1 {
			t.Fatalf("half way above %#04x: got %#04x, want %#04x", b, r, b+b&1)
		}
		if r := F32ToBF16(math.Float32frombits(uint32(b)<<16 | 0x8001)); r != b+1 {
			t.Fatalf("more than half way above %#04x: got %#04x", b, r)
		}
	}
}

// TestF16 goes through all 65,536 values by arithmetic.
func TestF16(t *testing.T) {
	raw := make([]byte, 2)
	out := make([]float32, 1)
	for i := range 1 << 16 {
		binary.LittleEndian.PutUint16(raw, uint16(i))
		decoders[F16](out, raw)
		exp, frac := i>>10&31, float64(i&0x3ff)
		want := math.Ldexp(1024+frac, exp-25)
		if exp == 0 {
			want = math.Ldexp(frac, -24)
		}
		if i>>15 == 1 {
			want = -want
		}
		got := float64(out[0])
		if exp == 31 {
			if frac == 0 && !math.IsInf(got, 1-2*(i>>15)) || frac != 0 && !math.IsNaN(got) {
				t.Fatalf("%#04x: got %v", i, got)
			}
		} else if got != want || math.Signbit(got) != math.Signbit(want) {
			t.Fatalf("%#04x: got %v, want %v", i, got, want)
		}
	}
}

func TestNonFinite(t *testing.T) {
	for _, d := range []DType{F16, BF16} {
		for i := range 1 << 16 {
			raw := binary.LittleEndian.AppendUint16([]byte{0, 0}, uint16(i))
			out := make([]float32, 2)
			decoders[d](out, raw)
			want := -1
			if v := float64(out[1]); math.IsNaN(v) || math.IsInf(v, 0) {
				want = 1
			}
			if got := NonFinite(d, raw); got != want {
				t.Fatalf("%s %#04x: got %d, want %d", d, i, got, want)
			}
		}
	}
	for bits, want := range map[uint32]int{0x7f7fffff: -1, 0x7f800000: 1, 0xff800000: 1, 0x7fc00000: 1, 0x7f800001: 1, 0x80000000: -1, 0x3f800000: -1} {
		if got := NonFinite(F32, binary.LittleEndian.AppendUint32(make([]byte, 4), bits)); got != want {
			t.Errorf("F32 %#x: got %d, want %d", bits, got, want)
		}
	}
}

func FuzzOpen(f *testing.F) {
	for _, c := range broken {
		if len(c.data) < 1<<12 {
			f.Add(c.data)
		}
	}
	f.Add(file(`{"__metadata__":{"format":"pt"},"w":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]}}`, 4))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := openBytes(data)
		if err != nil {
			if s := err.Error(); !strings.HasPrefix(s, "safetensors: ") || strings.ContainsAny(s, "\n\r") {
				t.Fatalf("got error %q, want one line that begins with safetensors:", s)
			}
			return
		}
		covered := int64(0)
		for _, name := range file.Names() {
			tensor, ok := file.Tensor(name)
			if !ok || tensor.Offset < 8 || tensor.Offset+tensor.Bytes > int64(len(data)) {
				t.Fatalf("tensor %q: got bytes [%d %d] of %d", name, tensor.Offset, tensor.Offset+tensor.Bytes, len(data))
			}
			covered += tensor.Bytes
			if err := file.ReadRaw(name, make([]byte, tensor.Bytes), 0); err != nil {
				t.Fatal(err)
			}
			if decoders[tensor.DType] != nil {
				if x, err := file.ReadF32(name); err != nil || len(x) != tensor.Elems() {
					t.Fatalf("tensor %q: got %d values, %v", name, len(x), err)
				}
			}
		}
		if n := int64(binary.LittleEndian.Uint64(data)); 8+n+covered != int64(len(data)) {
			t.Fatalf("tensors cover %d bytes, want %d", covered, int64(len(data))-8-n)
		}
	})
}

// Every float16 is widened exactly.
func TestF16ToF32(t *testing.T) {
	for i := range 1 << 16 {
		got, want := f16ToF32(uint16(i)), float16.Frombits(uint16(i)).Float32()
		if math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("%#04x: got %v, want %v", i, got, want)
		}
	}
}
