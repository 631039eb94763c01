// Package goldentest reads golden files, which hold what a reference computed
// for a model and a prompt, and compares against them. A tensor is called
// PREFIX.KIND or PREFIX.KIND.LAYER; one prefix is one prompt:
//
//	input_ids [T], logits [T,N], hidden.K [T,D] (0 the embedding, the last after
//	the final norm), attn.L [H,T,T], state.L [HV,K,V] and conv.L [C,W] after the
//	prompt, decode_ids [n] and decode_logits [n,N] one token at a time after it,
//	full_logits_tail [n,N] the same in one pass.
package goldentest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"shellgame/model/safetensors"
)

// Kinds of tensors, without the layer.
const (
	InputIDs       = "input_ids"
	Logits         = "logits"
	Hidden         = "hidden"
	Attn           = "attn"
	State          = "state"
	Conv           = "conv"
	DecodeIDs      = "decode_ids"
	DecodeLogits   = "decode_logits"
	FullLogitsTail = "full_logits_tail"
)

// bounds are for one element; relative ones are times max(1, RMS of the golden
// tensor). transformers in float32 is itself at most half of them away from
// float64.
var bounds = map[string]struct {
	bound    float64
	relative bool
}{
	Logits:         {5e-4, true},
	DecodeLogits:   {5e-4, true},
	FullLogitsTail: {5e-4, true},
	Hidden:         {5e-4, true},
	Conv:           {5e-4, true},
	State:          {2e-4, true},
	Attn:           {5e-5, false},
}

// File is an opened golden file.
type File struct {
	f     *safetensors.File
	close func() error
	cases []Case
}

// Case is one prompt of a golden file.
type Case struct {
	Prefix  string // such as len65 or n8
	Tensors []Tensor
	f       *safetensors.File
}

// Tensor is one tensor of a case.
type Tensor struct {
	Name  string // in the file
	Kind  string // such as hidden
	Layer int    // K of hidden.K, -1 for a kind without
	Shape []int
}

// Open opens a golden file on disk.
func Open(path string) (*File, error) {
	r, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("golden: %w", err)
	}
	info, err := r.Stat()
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("golden: %w", err)
	}
	f, err := Read(r, info.Size())
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("golden: %s: %w", path, err)
	}
	f.close = r.Close
	return f, nil
}

// Read reads a golden file of size bytes. Every tensor must be of a known kind
// and every case must have input_ids.
func Read(r io.ReaderAt, size int64) (*File, error) {
	f, err := safetensors.Open(r, size)
	if err != nil {
		return nil, err
	}
	byPrefix := map[string]*Case{}
	for _, name := range f.Names() {
		t, _ := f.Tensor(name)
		prefix, g, err := parseName(name)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		g.Shape = t.Shape
		c := byPrefix[prefix]
		if c == nil {
			c = &Case{Prefix: prefix, f: f}
			byPrefix[prefix] = c
		}
		c.Tensors = append(c.Tensors, g)
	}
	file := &File{f: f, close: func() error { return nil }}
	for _, c := range byPrefix {
		if _, ok := c.Find(InputIDs, -1); !ok {
			return nil, fmt.Errorf("case %s: got no %s.input_ids, want it", c.Prefix, c.Prefix)
		}
		slices.SortFunc(c.Tensors, func(a, b Tensor) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.Layer-b.Layer) })
		file.cases = append(file.cases, *c)
	}
	if len(file.cases) == 0 {
		return nil, errors.New("got no tensor, want PREFIX.input_ids and what was computed from it")
	}
	slices.SortFunc(file.cases, func(a, b Case) int {
		return cmp.Or(cmp.Compare(number(a.Prefix), number(b.Prefix)), cmp.Compare(a.Prefix, b.Prefix))
	})
	return file, nil
}

// parseName splits PREFIX.KIND or PREFIX.KIND.LAYER.
func parseName(name string) (prefix string, t Tensor, err error) {
	parts := strings.Split(name, ".")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" {
		return "", t, errors.New("got this name, want PREFIX.KIND or PREFIX.KIND.LAYER")
	}
	t = Tensor{Name: name, Kind: parts[1], Layer: -1}
	layered := slices.Contains([]string{Hidden, Attn, State, Conv}, t.Kind)
	if _, ok := bounds[t.Kind]; !ok && t.Kind != InputIDs && t.Kind != DecodeIDs {
		return "", t, fmt.Errorf("got kind %q, want one that golden files have", t.Kind)
	}
	if layered != (len(parts) == 3) {
		return "", t, fmt.Errorf("got kind %q with %d parts, want a layer: %v", t.Kind, len(parts), layered)
	}
	if layered {
		if t.Layer, err = strconv.Atoi(parts[2]); err != nil || t.Layer < 0 {
			return "", t, fmt.Errorf("got layer %q, want a number", parts[2])
		}
	}
	return parts[0], t, nil
}

// number is the digits at the end of a prefix, by which cases are sorted.
func number(prefix string) int {
	n, _ := strconv.Atoi(strings.TrimLeftFunc(prefix, func(r rune) bool { return r < '0' || r > '9' }))
	return n
}

// Cases lists the prompts, short ones first.
func (f *File) Cases() []Case { return slices.Clone(f.cases) }

// Close closes a file that Open opened.
func (f *File) Close() error { return f.close() }

// Find returns the tensor of a kind and layer (-1 for a kind without), or false.
func (c Case) Find(kind string, layer int) (Tensor, bool) {
	for _, t := range c.Tensors {
		if t.Kind == kind && t.Layer == layer {
			return t, true
		}
	}
	return Tensor{}, false
}

// LastHidden is the highest K of hidden.K, which stands after the final norm, or
// -1.
func (c Case) LastHidden() int {
	last := -1
	for _, t := range c.Tensors {
		if t.Kind == Hidden {
			last = max(last, t.Layer)
		}
	}
	return last
}

// F32 reads a tensor's values.
func (c Case) F32(t Tensor) ([]float32, error) {
	x, err := c.f.ReadF32(t.Name)
	if err != nil {
		return nil, fmt.Errorf("golden: %w", err)
	}
	return x, nil
}

// IDs reads input_ids or decode_ids; a case without the kind gives nil.
func (c Case) IDs(kind string) ([]int, error) {
	t, ok := c.Find(kind, -1)
	if !ok {
		return nil, nil
	}
	x, err := c.f.ReadI32(t.Name)
	if err != nil {
		return nil, fmt.Errorf("golden: %w", err)
	}
	ids := make([]int, len(x))
	for i, v := range x {
		ids[i] = int(v)
	}
	return ids, nil
}

// DropOldest removes the first column of x [rows, W], the convolution input that
// a session no longer needs: golden files hold W of them, a session W-1.
func DropOldest(x []float32, w int) []float32 {
	out := make([]float32, 0, len(x)-len(x)/w)
	for i := 0; i < len(x); i += w {
		out = append(out, x[i+1:i+w]...)
	}
	return out
}

// Number is a value of a report; a NaN or an infinity is null in JSON.
type Number float64

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', -1, 64), nil
}

// UnmarshalJSON reads null as NaN, so that what was not finite passes no bound.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = Number(math.NaN())
		return nil
	}
	f, err := strconv.ParseFloat(string(b), 64)
	*n = Number(f)
	return err
}

// Result is the comparison of one tensor; its JSON is a part of what verify
// prints. Worst is the largest error, at Index of the flat tensor.
type Result struct {
	Name  string `json:"name"`
	Worst Number `json:"worst"`
	Bound Number `json:"bound"`
	Index int    `json:"index"`
	Got   Number `json:"got"`
	Want  Number `json:"want"`
	Note  string `json:"note,omitempty"` // why nothing could be compared
	Pass  bool   `json:"-"`
}

// String is one line that says what was compared and how far it was off.
func (r Result) String() string {
	if r.Note != "" {
		return fmt.Sprintf("%s: %s", r.Name, r.Note)
	}
	op := "<="
	if !r.Pass {
		op = ">"
	}
	return fmt.Sprintf("%s: worst at %d: got %v, want %v, error %.3g %s %.3g", r.Name, r.Index, r.Got, r.Want, float64(r.Worst), op, float64(r.Bound))
}

// Compare compares got with the golden tensor want of that kind, which has
// elements in the same order. Other lengths, no element and an unknown kind
// fail, and so does a NaN or an infinity on either side.
func Compare(name string, want, got []float32, kind string) Result {
	r := Result{Name: name, Worst: Number(math.Inf(1)), Index: -1}
	b, ok := bounds[kind]
	switch {
	case !ok:
		r.Note = fmt.Sprintf("got kind %q, want one that has a bound", kind)
		return r
	case len(got) != len(want):
		r.Note = fmt.Sprintf("got %d values, want %d", len(got), len(want))
		return r
	case len(want) == 0:
		r.Note = "got no values, want some to compare"
		return r
	}
	r.Bound = Number(b.bound)
	if b.relative {
		sum := 0.0
		for _, v := range want {
			sum += float64(v) * float64(v)
		}
		r.Bound *= Number(max(1, math.Sqrt(sum/float64(len(want)))))
	}
	worst := -1.0
	for i := range want {
		g, w := float64(got[i]), float64(want[i])
		err := math.Abs(g - w)
		if math.IsNaN(err) || math.IsInf(g, 0) || math.IsInf(w, 0) {
			err = math.Inf(1)
		}
		if err > worst {
			worst, r.Index, r.Got, r.Want = err, i, Number(g), Number(w)
		}
	}
	r.Worst = Number(worst)
	// An infinite value makes its own bound infinite or NaN.
	r.Pass = !math.IsInf(worst, 1) && worst <= float64(r.Bound)
	return r
}

// Passed tells whether there are results and all passed.
func Passed(results []Result) bool {
	return len(results) > 0 && !slices.ContainsFunc(results, func(r Result) bool { return !r.Pass })
}
