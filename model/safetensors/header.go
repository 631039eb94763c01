package safetensors

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const metadataKey = "__metadata__"

// parse reads the header's JSON into f; offsets are still counted from the end
// of the header.
func (f *File) parse(header []byte) error {
	if !utf8.Valid(header) {
		return errors.New("header: got bytes that are not UTF-8, want JSON")
	}
	if len(header) == 0 || header[0] != '{' {
		return fmt.Errorf("header: got %q at its start, want {", header[:min(len(header), 8)])
	}
	f.tensors = map[string]Tensor{}
	err := eachMember(header, func(d *json.Decoder, name string) error {
		if name == metadataKey {
			return f.parseMetadata(d)
		}
		t, err := parseTensor(d, name)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		f.tensors[name] = t
		return nil
	})
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	f.names = slices.Sorted(maps.Keys(f.tensors))
	return nil
}

// eachMember calls fn for each member of the JSON object in data, in order;
// fn takes the member's value off d. A key that stands twice is an error, which
// a decode into a map would hide.
func eachMember(data []byte, fn func(d *json.Decoder, key string) error) error {
	if !json.Valid(data) {
		return fmt.Errorf("got invalid JSON in %d bytes, want one object", len(data))
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return members(d, fn)
}

// members is eachMember on a decoder that stands before an object of valid JSON.
func members(d *json.Decoder, fn func(d *json.Decoder, key string) error) error {
	if err := delim(d, '{'); err != nil {
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return err
		}
		key, ok := tok.(string)
		if !ok {
			return fmt.Errorf("got %v, want a key", tok)
		}
		if seen[key] {
			return fmt.Errorf("key %q: stands twice, want it once", key)
		}
		seen[key] = true
		if err := fn(d, key); err != nil {
			return err
		}
	}
	return delim(d, '}')
}

func delim(d *json.Decoder, want json.Delim) error {
	tok, err := d.Token()
	if err != nil {
		return err
	}
	if tok != want {
		return fmt.Errorf("got %s, want %v", describe(tok), want)
	}
	return nil
}

func describe(tok json.Token) string {
	switch v := tok.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(v)
	}
	return fmt.Sprint(tok)
}

func text(d *json.Decoder) (string, error) {
	tok, err := d.Token()
	if err != nil {
		return "", err
	}
	s, ok := tok.(string)
	if !ok {
		return "", fmt.Errorf("got %s, want a string", describe(tok))
	}
	return s, nil
}

// naturals reads an array of non-negative integers below 2^63.
func naturals(d *json.Decoder) ([]int64, error) {
	if err := delim(d, '['); err != nil {
		return nil, err
	}
	list := []int64{}
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return nil, err
		}
		num, ok := tok.(json.Number)
		if !ok {
			return nil, fmt.Errorf("got %s, want integers", describe(tok))
		}
		v, err := strconv.ParseUint(num.String(), 10, 63)
		if err != nil {
			return nil, fmt.Errorf("got %s, want an integer from 0 to 2^63-1", num)
		}
		list = append(list, int64(v))
	}
	return list, delim(d, ']')
}

func (f *File) parseMetadata(d *json.Decoder) error {
	f.meta = map[string]string{}
	err := members(d, func(d *json.Decoder, key string) error {
		v, err := text(d)
		if err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
		f.meta[key] = v
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", metadataKey, err)
	}
	return nil
}

func parseTensor(d *json.Decoder, name string) (Tensor, error) {
	t := Tensor{Name: name}
	var shape, offsets []int64
	err := members(d, func(d *json.Decoder, key string) error {
		var err error
		switch key {
		case "dtype":
			var s string
			s, err = text(d)
			t.DType = DType(s)
		case "shape":
			shape, err = naturals(d)
		case "data_offsets":
			offsets, err = naturals(d)
		default:
			return fmt.Errorf("got key %q, want dtype, shape and data_offsets", key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
	if err != nil {
		return t, err
	}
	width := int64(t.DType.Size())
	switch {
	case t.DType == "":
		return t, errors.New("dtype: missing")
	case width == 0:
		known := make([]string, 0, len(dtypeSize))
		for k := range dtypeSize {
			known = append(known, string(k))
		}
		slices.Sort(known)
		return t, fmt.Errorf("dtype: got unknown %q, want one of %s", string(t.DType), strings.Join(known, " "))
	case shape == nil:
		return t, errors.New("shape: missing")
	case len(offsets) != 2:
		return t, fmt.Errorf("data_offsets: got %d numbers, want [begin, end]", len(offsets))
	case offsets[1] < offsets[0]:
		return t, fmt.Errorf("data_offsets: got %v, want an end that is not before the begin", offsets)
	}
	t.Shape = make([]int, len(shape))
	bytes, overflow := width, false
	for i, n := range shape {
		if n > math.MaxInt {
			return t, fmt.Errorf("shape: got %v, want sizes that this machine can count", shape)
		}
		t.Shape[i] = int(n)
		overflow = overflow || n != 0 && bytes > math.MaxInt64/n
		bytes *= n
	}
	if overflow && !slices.Contains(shape, 0) {
		return t, fmt.Errorf("shape: got %v of %s, which is more than 2^63 bytes", shape, t.DType)
	}
	if slices.Contains(shape, 0) {
		bytes = 0
	}
	t.Offset, t.Bytes = offsets[0], offsets[1]-offsets[0]
	if bytes != t.Bytes {
		return t, fmt.Errorf("data_offsets: got %v, %d bytes, want %d (shape %v of %s)", offsets, t.Bytes, bytes, shape, t.DType)
	}
	return t, nil
}

// checkRanges makes the offsets absolute, base being where the data begins, and
// sees that the ranges cover the rest of the file without overlap or hole.
func (f *File) checkRanges(base int64) error {
	order := slices.SortedFunc(maps.Values(f.tensors), func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Name, b.Name))
	})
	data := f.size - base
	end, last := int64(0), ""
	for _, t := range order {
		switch {
		case t.Offset > data || t.Bytes > data-t.Offset:
			return fmt.Errorf("tensor %q: data_offsets: got [%d %d], beyond the %d bytes that follow the header: the file is cut short or its header is wrong",
				t.Name, t.Offset, t.Offset+t.Bytes, data)
		case t.Offset < end:
			return fmt.Errorf("tensor %q: data_offsets: got [%d %d], which overlaps tensor %q that ends at %d", t.Name, t.Offset, t.Offset+t.Bytes, last, end)
		case t.Offset > end:
			return fmt.Errorf("tensor %q: data_offsets: got a begin of %d, want %d: a hole of %d bytes", t.Name, t.Offset, end, t.Offset-end)
		}
		end, last = t.Offset+t.Bytes, t.Name
		t.Offset += base
		f.tensors[t.Name] = t
	}
	if end != data {
		return fmt.Errorf("got %d bytes after the last tensor, want none: trailing bytes or a wrong header", data-end)
	}
	return nil
}
