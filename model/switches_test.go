package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"

	"shellgame/model"
	"shellgame/model/config"
	"shellgame/model/safetensors"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// edited is the model of random with its weights changed: edit gets each by its role.
func edited(t testing.TB, d webgpu.Device, cfg string, edit func(role string, w []float32)) *model.Model {
	t.Helper()
	c, err := config.Parse([]byte(cfg))
	if err != nil {
		t.Fatal(err)
	}
	ck, err := model.RandomCheckpoint(c, safetensors.F16, 3)
	if err != nil {
		t.Fatal(err)
	}
	found, err := config.Resolve(c, ck)
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string][]float32{}
	for _, w := range config.Weights(c) {
		if w.Same != "" {
			continue
		}
		v, err := found[w.Role].ReadF32(ck)
		if err != nil {
			t.Fatal(err)
		}
		edit(w.Role, v)
		for i := range v {
			v[i] -= w.Plus
		}
		f := w.Forms[0]
		name := f.Names[0]
		if f.Groups == 0 {
			stored[name] = v
			continue
		}
		d := w.Shape[1]
		if stored[name] == nil {
			stored[name] = make([]float32, f.Groups*f.Step*d)
		}
		for g := range f.Groups {
			copy(stored[name][(g*f.Step+f.First)*d:], v[g*f.Count*d:][:f.Count*d])
		}
	}
	var entries []safetensors.Entry
	for _, w := range config.Tensors(c) {
		e, err := safetensors.EntryF32(w.Name, safetensors.F32, w.Shape, stored[w.Name])
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, entries, nil); err != nil {
		t.Fatal(err)
	}
	if ck, err = safetensors.OpenCheckpoint(inMemory(b.Bytes())); err != nil {
		t.Fatal(err)
	}
	m, err := model.Load(context.Background(), d, "edited", c, ck)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Release)
	return m
}

// inMemory is a folder that holds model.safetensors alone.
type inMemory []byte

func (f inMemory) Open(name string) (io.ReaderAt, int64, io.Closer, error) {
	if name != "model.safetensors" {
		return nil, 0, nil, fs.ErrNotExist
	}
	return bytes.NewReader(f), int64(len(f)), io.NopCloser(nil), nil
}

func no() *bool { return new(bool) }

// read plays a prompt and then tokens one by one, and returns the logits after each.
func read(t testing.TB, m *model.Model, sw model.Switches, list []int, prompt int) []float32 {
	t.Helper()
	r := runner(t, m, model.Options{Tokens: 64, Positions: 64, Seqs: 2, Slots: 2, Switches: sw})
	s := r.NewSession()
	out, err := r.Play(context.Background(), []model.Input{{Session: s, IDs: list[:prompt], Want: model.All}}, true)
	if err != nil {
		t.Fatal(err)
	}
	return append(copied(out.Logits), steps(t, s, list[prompt:])...)
}

// zeroColumns clears columns of a matrix [rows, cols] from from to to.
func zeroColumns(w []float32, cols, from, to int) {
	for at := 0; at < len(w); at += cols {
		clear(w[at+from : at+to])
	}
}

// A switched model is the model whose weights or configuration were changed to the same effect, in
// prompts and in steps.
func TestSwitchesAreEdits(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) { switchesAreEdits(t, d, hybrid) })
	switchesAreEdits(t, webgpu.NewCPU(), qwen)
}

func switchesAreEdits(t *testing.T, d webgpu.Device, base string) {
	t.Helper()
	c, err := config.Parse([]byte(base))
	if err != nil {
		t.Fatal(err)
	}
	positive := strings.Replace(base, `"linear_allow_neg_eigval":true`, `"linear_allow_neg_eigval":false`, 1)
	gdnOut, attnOut := c.HV*c.V, c.Heads*c.HeadDim
	cases := map[string]struct {
		sw   model.Switches
		cfg  string
		edit func(role string, w []float32)
	}{
		"beta sigmoid": {model.Switches{Beta: "sigmoid"}, positive, func(string, []float32) {}},
		"decay": {model.Switches{Decay: no()}, base, func(role string, w []float32) {
			if strings.HasSuffix(role, "A_log") {
				for i := range w {
					w[i] = -1e4
				}
			}
		}},
		"conv": {model.Switches{Conv: no()}, base, func(role string, w []float32) {
			if strings.HasSuffix(role, "gdn.conv") {
				for i := range w {
					w[i] = 0
					if i%c.W == c.W-1 {
						w[i] = 1
					}
				}
			}
		}},
		"layers": {model.Switches{Layers: []int{0, 2}}, base, func(role string, w []float32) {
			if role == "layers.0.gdn.o" || role == "layers.2.attn.o" {
				clear(w)
			}
		}},
		"heads": {model.Switches{Heads: [][2]int{{1, 0}, {1, 3}, {2, 2}}}, base, func(role string, w []float32) {
			switch role {
			case "layers.1.gdn.o":
				zeroColumns(w, gdnOut, 0, c.V)
				zeroColumns(w, gdnOut, 3*c.V, 4*c.V)
			case "layers.2.attn.o":
				zeroColumns(w, attnOut, 2*c.HeadDim, 3*c.HeadDim)
			}
		}},
		"together": {model.Switches{Beta: "sigmoid", Decay: no(), Heads: [][2]int{{0, 1}}}, positive, func(role string, w []float32) {
			if strings.HasSuffix(role, "A_log") {
				for i := range w {
					w[i] = -1e4
				}
			}
			if role == "layers.0.gdn.o" {
				zeroColumns(w, gdnOut, c.V, 2*c.V)
			}
		}},
	}
	list := ids(60, c.N)
	m := random(t, d, base)
	plain := read(t, m, model.Switches{}, list, 40)
	if !c.NegEig { // beta never reaches 2
		delete(cases, "beta sigmoid")
		delete(cases, "together")
	}
	for name, k := range cases {
		got := read(t, m, k.sw, list, 40)
		gputest.Close(t, name, close4, got, read(t, edited(t, d, k.cfg, k.edit), model.Switches{}, list, 40))
		if gputest.Compare(gputest.Tolerance{RMS: 1e-2, Max: 1e-2}, got, plain).Err == nil {
			t.Errorf("%s: the model does what it did without the switch", name)
		}
	}
	// Switches that say what the model is anyway change nothing at all.
	yes := true
	gputest.Close(t, "all on", gputest.Tolerance{}, read(t, m, model.Switches{Decay: &yes, Conv: &yes, Gate: &yes}, list, 40), plain)
	pos := edited(t, d, positive, func(string, []float32) {})
	for _, beta := range []string{"sigmoid", "clamp"} {
		gputest.Close(t, "without negative eigenvalues, "+beta, gputest.Tolerance{}, read(t, pos, model.Switches{Beta: beta}, list, 40), read(t, pos, model.Switches{}, list, 40))
	}
}

// Beta clamped is what it was where it was below 1, and 1 above; in the first layer, whose beta knows
// only the token, exactly so.
func TestSwitchClamp(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		m := random(t, d, hybrid)
		o := model.Options{Tokens: 64, Positions: 64, Seqs: 2, Slots: 2, Trace: true}
		plain := runner(t, m, o).NewSession()
		o.Switches.Beta = "clamp"
		clamped := runner(t, m, o).NewSession()
		above := 0
		for i, id := range ids(20, m.Config.N) {
			a, err := plain.TraceStep(context.Background(), id)
			if err != nil {
				t.Fatal(err)
			}
			b, err := clamped.TraceStep(context.Background(), id)
			if err != nil {
				t.Fatal(err)
			}
			for h, beta := range a.Layers[0].Beta {
				if beta > 1 {
					above++
				}
				if got := b.Layers[0].Beta[h]; got != min(beta, 1) {
					t.Errorf("step %d head %d: beta %v, clamped %v", i, h, beta, got)
				}
			}
			if m := slices.Max(b.Layers[1].Beta); m > 1 {
				t.Errorf("step %d: beta %v in layer 1, want at most 1", i, m)
			}
		}
		if above == 0 {
			t.Error("no beta was above 1: nothing was tested")
		}
	})
}

// Without the gate a layer adds o_proj of the normed output of the delta rule, as computed here.
func TestSwitchGate(t *testing.T) {
	const layer = 1
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		var norm, out []float32
		m := edited(t, d, hybrid, func(role string, w []float32) {
			switch role {
			case "layers.1.gdn.o_norm":
				norm = copied(w)
			case "layers.1.gdn.o":
				out = copied(w)
			case "layers.1.mlp.down":
				clear(w) // so that the layer adds nothing else
			}
		})
		c := m.Config
		o := model.Options{Tokens: 64, Positions: 64, Seqs: 2, Slots: 2, Trace: true}
		for _, sw := range []model.Switches{{Gate: no()}, {Gate: no(), Heads: [][2]int{{layer, 2}}}, {}} {
			o.Switches = sw
			r := runner(t, m, o)
			list := ids(5, c.N)
			p, err := r.NewSession().ReadPrompt(context.Background(), list)
			if err != nil {
				t.Fatal(err)
			}
			s := r.NewSession()
			var got, want []float32
			for i, id := range list {
				step, err := s.TraceStep(context.Background(), id)
				if err != nil {
					t.Fatal(err)
				}
				y := make([]float64, c.HV*c.V)
				for h := range c.HV {
					if len(sw.Heads) > 0 && h == sw.Heads[0][1] {
						continue
					}
					row := step.Layers[layer].Out.Data[h*c.V:][:c.V]
					scale := 1 / math.Sqrt(math.Pow(rms(row), 2)+float64(c.ONormEps))
					for j, v := range row {
						y[h*c.V+j] = float64(v) * scale * float64(norm[j])
					}
				}
				for j := range c.D {
					sum := 0.0
					for k, v := range y {
						sum += float64(out[j*len(y)+k]) * v
					}
					want = append(want, float32(sum))
					got = append(got, p.Hidden[layer+1][i*c.D+j]-p.Hidden[layer][i*c.D+j])
				}
			}
			if diff := gputest.Compare(close4, got, want); (diff.Err == nil) == sw.Zero() {
				t.Errorf("%+v: %v", sw, diff.Err)
			}
		}
	})
}

func rms(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum / float64(len(x)))
}

// A state that is stored as bf16 or f16 holds only their numbers, after a prompt and after a step; the
// rest of the model runs on, a little off.
func TestSwitchStore(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		m := random(t, d, hybrid)
		list := ids(60, m.Config.N)
		plain := read(t, m, model.Switches{}, list, 40)
		for store, drop := range map[string]int{"bf16": 16, "f16": 13} { // bits of float32 that are zero, but for subnormals
			sw := model.Switches{Store: store}
			unit := math.Ldexp(1, drop-24)
			got := read(t, m, sw, list, 40)
			gputest.Close(t, store, gputest.Tolerance{RMS: 8 * unit, Max: 64 * unit}, got, plain)
			if gputest.Compare(gputest.Tolerance{RMS: unit / 64, Max: unit / 64}, got, plain).Err == nil {
				t.Errorf("%s: the model does what it did in float32", store)
			}
			r := runner(t, m, model.Options{Tokens: 64, Positions: 64, Seqs: 2, Slots: 2, Trace: true, Switches: sw})
			s := r.NewSession()
			p, err := s.ReadPrompt(context.Background(), list[:40])
			if err != nil {
				t.Fatal(err)
			}
			step, err := s.TraceStep(context.Background(), list[40])
			if err != nil {
				t.Fatal(err)
			}
			for layer := range 2 {
				for what, state := range map[string][]float32{"prompt": p.State[layer], "step": step.Layers[layer].State.Data} {
					for i, v := range state {
						if math.Float32bits(v)<<(32-drop) != 0 && math.Abs(float64(v)) > 0x1p-14 {
							t.Fatalf("%s: layer %d after a %s: state[%d] = %v (%#08x) is no number of the type", store, layer, what, i, v, math.Float32bits(v))
						}
					}
				}
			}
			for _, op := range r.Dispatches(false) {
				if strings.Contains(op, "gdn_wy") || strings.Contains(op, "gdn_chunk") {
					t.Errorf("%s: a prompt is read by %s", store, op)
				}
			}
		}
	})
}

// What a switch takes out of a recording or puts in is all that it takes or puts.
func TestSwitchDispatches(t *testing.T) {
	m := random(t, webgpu.NewCPU(), hybrid)
	list := func(sw model.Switches, step bool) []string {
		return runner(t, m, model.Options{Tokens: 64, Positions: 64, Seqs: 2, Slots: 2, Trace: true, Switches: sw}).Dispatches(step)
	}
	for _, step := range []bool{false, true} {
		plain := list(model.Switches{}, step)
		for _, op := range plain {
			if strings.Contains(op, "head_mask") {
				t.Errorf("without switches there is %s", op)
			}
		}
		for _, sw := range []model.Switches{{Beta: "clamp"}, {Decay: no(), Conv: no(), Gate: no()}} {
			if got := list(sw, step); !slices.Equal(got, plain) {
				t.Errorf("%+v: got %v, want %v", sw, got, plain)
			}
		}
		heads := slices.DeleteFunc(list(model.Switches{Heads: [][2]int{{0, 1}, {0, 2}, {2, 0}}}, step), func(op string) bool {
			return op == "layers.0.gdn.heads head_mask" || op == "layers.2.attn.heads head_mask"
		})
		want := plain
		if step { // the mask comes between the norm and the product, which are one dispatch without it
			i := slices.Index(plain, "layers.0.gdn.out matvec_step")
			want = slices.Concat(plain[:i], []string{"layers.0.gdn.o_norm gated_norm", "layers.0.gdn.out matvec_step"}, plain[i+1:])
		}
		if !slices.Equal(heads, want) {
			t.Errorf("heads: got %v, want %v and two masks", heads, want)
		}
		layers := slices.DeleteFunc(slices.Clone(plain), func(op string) bool {
			name, _, _ := strings.Cut(op, " ")
			return slices.Contains([]string{"layers.1.gdn.o_norm", "layers.1.gdn.out", "layers.2.attn.out", "layers.2.norm_a"}, name)
		})
		drops := 4
		if step {
			drops = 3
		}
		if got := list(model.Switches{Layers: []int{1, 2}}, step); !slices.Equal(got, layers) || len(layers) != len(plain)-drops {
			t.Errorf("layers: got %v, want %v", got, layers)
		}
	}
}

func TestSwitchesCheck(t *testing.T) {
	c, err := config.Parse([]byte(hybrid))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{"beta":"sigmoid","decay":false,"conv":true,"layers":[2],"heads":[[0,3],[2,3]],"store":"f16"}`: "",
		`{"beta":"tanh"}`:     `model: switches: beta: got "tanh", want sigmoid or clamp`,
		`{"store":"f64"}`:     `model: switches: store: got "f64", want bf16 or f16`,
		`{"layers":[0,3]}`:    `model: switches: layers: got layer 3, want 0 to 2`,
		`{"layers":[-1]}`:     `model: switches: layers: got layer -1, want 0 to 2`,
		`{"heads":[[3,0]]}`:   `model: switches: heads: got layer 3, want 0 to 2`,
		`{"heads":[[0,4]]}`:   `model: switches: heads: got head 4 of layer 0, want 0 to 3`,
		`{"heads":[[2,-1]]}`:  `model: switches: heads: got head -1 of layer 2, want 0 to 3`,
		`{"gate":false}`:      "",
		`{}`:                  "",
		`{"heads":[],"a":[]}`: "",
	} {
		var s model.Switches
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got := ""
		if err := s.Check(c); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
		back, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var again model.Switches
		if err := json.Unmarshal(back, &again); err != nil || again.Zero() != s.Zero() || s.Zero() != (text == `{}` || text == `{"heads":[],"a":[]}`) {
			t.Errorf("%s: written as %s, Zero %v", text, back, s.Zero())
		}
	}
	m := random(t, webgpu.NewCPU(), hybrid)
	if _, err := m.NewRunner(model.Options{Switches: model.Switches{Layers: []int{9}}}); err == nil {
		t.Error("a runner took a switch that the model does not have")
	}
}
