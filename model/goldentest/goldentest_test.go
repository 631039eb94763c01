package goldentest

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"shellgame/model/config"
	"shellgame/model/safetensors"
)

const dir = "../../testdata/golden"

// TestGoldenFiles: what the tree holds has the cases, kinds and shapes that its
// config gives, and finite values. decode_logits and full_logits_tail agree within
// the bounds (transformers ran the model twice, the NumPy reference once).
func TestGoldenFiles(t *testing.T) {
	for name, layers := range map[string]string{
		"olmo-hybrid": "ggga", "olmo-hybrid-nope": "ggga", "olmo-hybrid-rope-gqa-poseig": "aggag",
		"olmo-hybrid-vheads-odd": "gag", "olmo3-sliding-yarn": "aaaa", "qwen3-next-dense": "ggga", "qwen3.5-text": "ggga",
	} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(dir, name, "config.json"))
			if err != nil {
				t.Fatal(err)
			}
			c, err := config.Parse(data)
			if err != nil {
				t.Fatal(err)
			}
			f, err := Open(filepath.Join(dir, name, "golden.safetensors"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var prefixes []string
			for _, k := range f.Cases() {
				prefixes = append(prefixes, k.Prefix)
				checkCase(t, c, layers, k)
			}
			if want := []string{"len1", "len5", "len65"}; !slices.Equal(prefixes, want) {
				t.Errorf("got cases %v, want %v", prefixes, want)
			}
		})
	}
}

func checkCase(t *testing.T, c *config.Config, layers string, k Case) {
	t.Helper()
	ids, err := k.IDs(InputIDs)
	if err != nil {
		t.Fatal(err)
	}
	T := number(k.Prefix)
	if len(ids) != T || slices.Min(ids) < 0 || slices.Max(ids) >= c.N {
		t.Errorf("%s: got input_ids %v, want %d of 0 to %d", k.Prefix, ids, T, c.N-1)
	}
	decode, err := k.IDs(DecodeIDs)
	if err != nil || len(decode) == 0 {
		t.Errorf("%s: got decode_ids %v, %v", k.Prefix, decode, err)
	}
	n := len(decode)
	want := map[string][]int{
		"input_ids": {T}, "decode_ids": {n}, "logits": {T, c.N}, "decode_logits": {n, c.N}, "full_logits_tail": {n, c.N},
	}
	if last := k.LastHidden(); last != len(layers) {
		t.Errorf("%s: got last hidden state %d, want %d", k.Prefix, last, len(layers))
	}
	key := func(kind string, i int) string { return kind + "." + string(rune('0'+i)) }
	want[key(Hidden, 0)], want[key(Hidden, len(layers))] = []int{T, c.D}, []int{T, c.D}
	for i, l := range layers {
		if l == 'g' {
			want[key(State, i)], want[key(Conv, i)] = []int{c.HV, c.K, c.V}, []int{c.C(), c.W}
		} else {
			want[key(Attn, i)] = []int{c.Heads, T, T}
		}
	}
	for _, g := range k.Tensors {
		short := strings.TrimPrefix(g.Name, k.Prefix+".")
		if !slices.Equal(g.Shape, want[short]) {
			t.Errorf("%s: got shape %v, want %v", g.Name, g.Shape, want[short])
		}
		delete(want, short)
		if g.Kind == InputIDs || g.Kind == DecodeIDs {
			continue
		}
		x, err := k.F32(g)
		if err != nil {
			t.Fatal(err)
		}
		if r := Compare(g.Name, x, x, g.Kind); !r.Pass || r.Worst != 0 {
			t.Errorf("against itself: %v", r)
		}
	}
	if len(want) > 0 {
		t.Errorf("%s: missing %v", k.Prefix, want)
	}
	one, _ := k.Find(DecodeLogits, -1)
	all, _ := k.Find(FullLogitsTail, -1)
	x, err1 := k.F32(one)
	y, err2 := k.F32(all)
	if r := Compare(one.Name, y, x, DecodeLogits); err1 != nil || err2 != nil || !r.Pass {
		t.Errorf("decoded against one pass: %v", r)
	}
}

func TestZooFiles(t *testing.T) {
	for name, want := range map[string]string{
		"st-gdn-neg":         "input_ids logits state state state state",
		"recall-transformer": "attn attn attn attn input_ids logits",
		"sbr-hybrid-neg":     "attn input_ids logits state state state",
	} {
		f, err := Open(filepath.Join(dir, "zoo", name+".safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cases := f.Cases()
		if len(cases) != 1 || cases[0].Prefix != "n8" {
			t.Fatalf("%s: got cases %v, want n8", name, cases)
		}
		var kinds []string
		for _, g := range cases[0].Tensors {
			kinds = append(kinds, g.Kind)
		}
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if ids, err := cases[0].IDs(DecodeIDs); ids != nil || err != nil {
			t.Errorf("%s: decode_ids: got %v, %v, want none", name, ids, err)
		}
	}
}

func TestTreeIsSmall(t *testing.T) {
	total := int64(0)
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		total += info.Size()
		return err
	})
	if err != nil || total == 0 || total > 6<<20 {
		t.Errorf("got %d bytes, %v, want at most %d", total, err, 6<<20)
	}
}

func golden(t *testing.T, entries ...safetensors.Entry) (*File, error) {
	t.Helper()
	var b bytes.Buffer
	if err := safetensors.Write(&b, entries, nil); err != nil {
		t.Fatal(err)
	}
	return Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
}

func TestRead(t *testing.T) {
	ids := func(name string) safetensors.Entry {
		return safetensors.Entry{Name: name, DType: safetensors.I32, Shape: []int{1}, Data: make([]byte, 4)}
	}
	f, err := golden(t, ids("len200.input_ids"), ids("len5.input_ids"), ids("n8.input_ids"), ids("x.input_ids"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range f.Cases() {
		got = append(got, c.Prefix)
	}
	if want := []string{"x", "len5", "n8", "len200"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, want := range map[string]string{
		"logits":             `tensor "logits": got this name, want PREFIX.KIND or PREFIX.KIND.LAYER`,
		"n8.input_ids.0":     `tensor "n8.input_ids.0": got kind "input_ids" with 3 parts, want a layer: false`,
		"n8.hidden":          `tensor "n8.hidden": got kind "hidden" with 2 parts, want a layer: true`,
		"n8.hidden.x":        `tensor "n8.hidden.x": got layer "x", want a number`,
		"n8.hidden.-1":       `tensor "n8.hidden.-1": got layer "-1", want a number`,
		"n8.beliefs":         `tensor "n8.beliefs": got kind "beliefs", want one that golden files have`,
		"n8.decode_ids":      `case n8: got no n8.input_ids, want it`,
		"model.norm.0.extra": `tensor "model.norm.0.extra": got this name, want PREFIX.KIND or PREFIX.KIND.LAYER`,
	} {
		if _, err := golden(t, ids(name)); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := golden(t); err == nil {
		t.Error("took a file without tensors")
	}
	if _, err := Open(filepath.Join(t.TempDir(), "no")); err == nil {
		t.Error("opened nothing")
	}
}

func TestCompare(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name      string
		want, got []float32
		kind      string
		bound     float64
		index     int
		pass      bool
	}{
		{"equal", []float32{0, 1}, []float32{0, 1}, Logits, 5e-4, 0, true},
		{"inside", []float32{0, 1}, []float32{4.9e-4, 1}, Logits, 5e-4, 0, true},
		{"outside", []float32{0, 1}, []float32{0, 1.00051}, Hidden, 5e-4, 1, false},
		{"outside below", []float32{0, 1}, []float32{0, 0.99949}, Conv, 5e-4, 1, false},
		{"large values widen", []float32{30, 40}, []float32{30.017, 40}, DecodeLogits, 5e-4 * 25 * math.Sqrt2, 0, true},
		{"but only by the RMS", []float32{30, 40}, []float32{30, 40.018}, FullLogitsTail, 5e-4 * 25 * math.Sqrt2, 1, false},
		{"small values do not narrow", []float32{0.01, 0}, []float32{0.01019, 0}, State, 2e-4, 0, true},
		{"state is stricter", []float32{0, 0}, []float32{0, 2.1e-4}, State, 2e-4, 1, false},
		{"attn", []float32{0, 0}, []float32{0, 4.9e-5}, Attn, 5e-5, 1, true},
		{"attn is not relative", []float32{100, 0}, []float32{100, 5.1e-5}, Attn, 5e-5, 1, false},
		{"NaN got", []float32{0, 0, 0}, []float32{0, nan, 0}, Logits, 5e-4, 1, false},
		{"NaN want", []float32{0, nan}, []float32{0, 0}, Attn, 5e-5, 1, false},
		{"NaN both", []float32{nan}, []float32{nan}, Attn, 5e-5, 0, false},
		{"infinite got", []float32{0, 0}, []float32{inf, 0}, Logits, 5e-4, 0, false},
		{"infinite both", []float32{inf}, []float32{inf}, Attn, 5e-5, 0, false},
	} {
		r := Compare(c.name, c.want, c.got, c.kind)
		if r.Pass != c.pass || r.Index != c.index || math.Abs(float64(r.Bound)-c.bound) > 1e-12 {
			t.Errorf("%s: got %+v, want pass %v, index %d, bound %v", c.name, r, c.pass, c.index, c.bound)
		}
	}
	// An infinite golden value may not open its own bound.
	if r := Compare("x", []float32{inf, 0}, []float32{inf, 1e30}, Logits); r.Pass {
		t.Errorf("infinite golden value: got %+v", r)
	}
	for _, r := range []Result{
		Compare("short", []float32{1}, nil, Logits),
		Compare("empty", nil, nil, Logits),
		Compare("kind", []float32{1}, []float32{1}, "belief"),
		{Name: "zero value"},
	} {
		if r.Pass {
			t.Errorf("got %+v, want a failure", r)
		}
	}
	ok, bad := Result{Pass: true}, Result{}
	if Passed(nil) || Passed([]Result{ok, bad}) || !Passed([]Result{ok, ok}) {
		t.Error("Passed takes nothing or a failure")
	}
}

func TestResultJSON(t *testing.T) {
	got, err := json.Marshal([]Result{
		Compare("n8.attn.3", []float32{0.5, 0}, []float32{0.5, 0.25}, Attn),
		Compare("n8.logits", []float32{0}, []float32{float32(math.NaN())}, Logits),
		Compare("n8.state.0", []float32{0}, nil, State),
	})
	const want = `[{"name":"n8.attn.3","worst":0.25,"bound":5e-05,"index":1,"got":0.25,"want":0},` +
		`{"name":"n8.logits","worst":null,"bound":0.0005,"index":0,"got":null,"want":0},` +
		`{"name":"n8.state.0","worst":null,"bound":0,"index":-1,"got":0,"want":0,"note":"got 0 values, want 1"}]`
	if err != nil || string(got) != want {
		t.Errorf("got  %s %v\nwant %s", got, err, want)
	}
	if s := Compare("a", []float32{0}, []float32{1}, Attn).String(); s != "a: worst at 0: got 1, want 0, error 1 > 5e-05" {
		t.Errorf("got %s", s)
	}
}

func TestDropOldest(t *testing.T) {
	if got, want := DropOldest([]float32{1, 2, 3, 4, 5, 6}, 3), []float32{2, 3, 5, 6}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := DropOldest([]float32{1, 2}, 1); len(got) != 0 {
		t.Errorf("got %v, want nothing", got)
	}
}

// What is not finite is null in JSON and must fail its bound when read again.
func TestNullFails(t *testing.T) {
	var r Result
	if err := json.Unmarshal([]byte(`{"name":"a","worst":null,"bound":1}`), &r); err != nil {
		t.Fatal(err)
	}
	if float64(r.Worst) <= float64(r.Bound) {
		t.Errorf("a worst of null was read as %v, within %v", r.Worst, r.Bound)
	}
}
