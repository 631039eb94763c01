package model_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"shellgame/model"
	"shellgame/model/config"
	"shellgame/model/safetensors"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// counting is a device that knows how many of its buffers have not been released.
type counting struct {
	webgpu.Device
	live, made int
	fail       error // of the writes from the one after writes on
	writes     int
}

type countedBuffer struct {
	webgpu.Buffer
	d *counting
}

func (b countedBuffer) Release() {
	b.d.live--
	b.Buffer.Release()
}

func (d *counting) NewBuffer(label string, size int) (webgpu.Buffer, error) {
	b, err := d.Device.NewBuffer(label, size)
	if err != nil {
		return nil, err
	}
	d.live++
	d.made++
	return countedBuffer{b, d}, nil
}

func (d *counting) Write(b webgpu.Buffer, offset int, data []byte) error {
	if d.writes--; d.writes < 0 && d.fail != nil {
		return d.fail
	}
	return d.Device.Write(b.(countedBuffer).Buffer, offset, data)
}

// files is a checkpoint in memory that fails, or does something else, where a file is read.
type files struct {
	all map[string][]byte
	at  func(off int64) error // called before model.safetensors is read at off
}

func (f files) Open(name string) (io.ReaderAt, int64, io.Closer, error) {
	data, ok := f.all[name]
	if !ok {
		return nil, 0, nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	r := io.ReaderAt(bytes.NewReader(data))
	if name == "model.safetensors" && f.at != nil {
		r = watched{r, f.at}
	}
	return r, int64(len(data)), io.NopCloser(nil), nil
}

type watched struct {
	io.ReaderAt
	at func(off int64) error
}

func (w watched) ReadAt(p []byte, off int64) (int, error) {
	if err := w.at(off); err != nil {
		return 0, err
	}
	return w.ReaderAt.ReadAt(p, off)
}

const loadConfig = `{"model_type": "olmo_hybrid", "vocab_size": 3000, "max_position_embeddings": 128, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
	"layer_types": ["linear_attention", "full_attention"], "num_attention_heads": 4, "num_key_value_heads": 2,
	"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
	"rope_parameters": {"rope_theta": null}}`

func loadFiles(t testing.TB, dtype safetensors.DType) files {
	t.Helper()
	cfg, err := config.Parse([]byte(loadConfig))
	if err != nil {
		t.Fatal(err)
	}
	var entries []safetensors.Entry
	for _, x := range config.Tensors(cfg) {
		entries = append(entries, model.RandomTensor(x, dtype, 3))
	}
	var b bytes.Buffer
	if err := safetensors.Write(&b, entries, nil); err != nil {
		t.Fatal(err)
	}
	return files{all: map[string][]byte{"config.json": []byte(loadConfig), "model.safetensors": b.Bytes()}}
}

// A load that ends half-way, for whatever reason, leaves no buffer behind and says why.
func TestLoadLeavesNothing(t *testing.T) {
	whole := loadFiles(t, safetensors.F16)
	half := int64(len(whole.all["model.safetensors"]) / 2)
	broken := errors.New("the disk is gone")
	gputest.Devices(t, func(t *testing.T, dev webgpu.Device) {
		ctx, cancel := context.WithCancel(t.Context())
		for _, c := range []struct {
			name  string
			ctx   context.Context
			files files
			dev   *counting
			want  error
		}{
			{"reading fails", t.Context(), files{whole.all, func(off int64) error {
				if off > half {
					return broken
				}
				return nil
			}}, &counting{Device: dev}, broken},
			{"writing fails", t.Context(), whole, &counting{Device: dev, fail: webgpu.ErrDeviceLost, writes: 9}, webgpu.ErrDeviceLost},
			{"cancelled", ctx, files{whole.all, func(off int64) error {
				if off > half {
					cancel()
				}
				return nil
			}}, &counting{Device: dev}, context.Canceled},
		} {
			src, err := model.Look("half", c.files)
			if err != nil {
				t.Fatal(err)
			}
			m, err := src.Load(c.ctx, c.dev, model.LoadOptions{})
			src.Close()
			if m != nil || !errors.Is(err, c.want) || !strings.HasPrefix(err.Error(), "model half: ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: got %v, want %v", c.name, err, c.want)
			}
			if c.dev.made == 0 || c.dev.live != 0 {
				t.Errorf("%s: %d of %d buffers are left", c.name, c.dev.live, c.dev.made)
			}
		}
	})
}

// The files are read in their order, each byte of the weights once, and what waits for them is told.
func TestLoadReadsInOrder(t *testing.T) {
	f := loadFiles(t, safetensors.BF16)
	var last int64
	back := 0
	f.at = func(off int64) error {
		if off < last {
			back++
		}
		last = off
		return nil
	}
	src, err := model.Look("ordered", f)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	back = 0
	var paused int
	var woken atomic.Int64
	var done, total int64
	wake := make(chan struct{}, 1)
	m, err := src.Load(t.Context(), webgpu.NewCPU(), model.LoadOptions{
		Progress: func(d, n int64) {
			if d <= done || total != 0 && n != total {
				t.Errorf("progress %d of %d after %d of %d", d, n, done, total)
			}
			done, total = d, n
		},
		Pause: func() { paused++; <-wake },
		Wake: func() {
			woken.Add(1)
			select {
			case wake <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	if back != 0 {
		t.Errorf("went back %d times", back)
	}
	if done != total || total != int64(2*m.Params) {
		t.Errorf("progress ends at %d of %d, want %d", done, total, 2*m.Params)
	}
	if woken.Load() < 10 || paused > int(woken.Load()) {
		t.Errorf("paused %d times, woken %d times", paused, woken.Load())
	}
}

// The same weights give the same logits however they are stored: exactly in f32, single or sharded,
// and in halves as far as those differ.
func TestLoadSharded(t *testing.T) {
	one := loadFiles(t, safetensors.F32)
	data := one.all["model.safetensors"]
	f, err := safetensors.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	shards := map[string][]byte{"config.json": one.all["config.json"]}
	parts := make([][]safetensors.Entry, 3)
	var index []string
	for i, name := range f.Names() {
		x, _ := f.Tensor(name)
		parts[i%3] = append(parts[i%3], safetensors.Entry{Name: name, DType: x.DType, Shape: x.Shape, Data: data[x.Offset:][:x.Bytes]})
		index = append(index, fmt.Sprintf("%q: \"model-0000%d-of-00003.safetensors\"", name, i%3+1))
	}
	for i, entries := range parts {
		var b bytes.Buffer
		if err := safetensors.Write(&b, entries, nil); err != nil {
			t.Fatal(err)
		}
		shards[fmt.Sprintf("model-0000%d-of-00003.safetensors", i+1)] = b.Bytes()
	}
	shards["model.safetensors.index.json"] = []byte(`{"weight_map": {` + strings.Join(index, ", ") + `}}`)
	want := logitsOf(t, webgpu.NewCPU(), one)
	got := logitsOf(t, webgpu.NewCPU(), files{all: shards})
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("logit %d: got %v, want %v", i, got[i], want[i])
		}
	}
}

func logitsOf(t testing.TB, dev webgpu.Device, f safetensors.Files) []float32 {
	t.Helper()
	m, err := model.Open(t.Context(), dev, "m", f, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	return logits(t, m)
}

func logits(t testing.TB, m *model.Model) []float32 {
	t.Helper()
	r, err := m.NewRunner(model.Options{Seqs: 1, Positions: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	out, err := r.NewSession().Prefill(t.Context(), []int{1, 2, 3, 499, 250, 7, 7, 8, 9, 10, 11, 12, 13, 14}, true)
	if err != nil {
		t.Fatal(err)
	}
	return append([]float32(nil), out.Logits...)
}

// narrow is a device that says that it binds and holds less.
type narrow struct {
	webgpu.Device
	limits webgpu.Limits
}

func (d narrow) Info() webgpu.Info {
	i := d.Device.Info()
	i.Limits = d.limits
	return i
}

func loadWith(t testing.TB, dev webgpu.Device, f safetensors.Files, o model.LoadOptions) (*model.Model, error) {
	t.Helper()
	src, err := model.Look("m", f)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	return src.Load(t.Context(), dev, o)
}

// Weights in several buffers give the logits of weights in one, to the last bit, by every kernel.
func TestLoadSplit(t *testing.T) {
	for dtype, kinds := range map[safetensors.DType][]string{safetensors.F32: {""}, safetensors.F16: {"", "int8", "int4"}} {
		f := loadFiles(t, dtype)
		for _, kind := range kinds {
			gputest.Devices(t, func(t *testing.T, dev webgpu.Device) {
				var want []float32
				pieces := 0
				for _, most := range []int{1 << 27, 45_000} {
					m, err := loadWith(t, narrow{dev, webgpu.Limits{MaxBuffer: 1 << 27, MaxBinding: most}}, f, model.LoadOptions{Weights: kind})
					if err != nil {
						t.Fatal(err)
					}
					before := m.Buffers()
					got := append(prompts(t, m, dev, 14), prompts(t, m, dev, 120)...)
					m.Release()
					if want == nil {
						want, pieces = got, before
						continue
					}
					if before < pieces+4 {
						t.Errorf("%s %q at %d: %d buffers: nothing is split", dtype, kind, most, before)
					}
					for i := range want {
						if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
							t.Fatalf("%s %q at %d: logit %d: got %v, want %v", dtype, kind, most, i, got[i], want[i])
						}
					}
				}
			})
		}
	}
}

// prompts reads so many tokens at once, then one, on a device with its own limits.
func prompts(t testing.TB, m *model.Model, dev webgpu.Device, n int) []float32 {
	t.Helper()
	r, err := m.On(dev).NewRunner(model.Options{Seqs: 1, Positions: 128, Tokens: 120})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	s := r.NewSession()
	out, err := s.Prefill(t.Context(), ids(n, 3000), true)
	if err != nil {
		t.Fatal(err)
	}
	all := copied(out.Logits)
	if out, err = s.Step(t.Context(), 499, true); err != nil {
		t.Fatal(err)
	}
	return append(all, out.Logits...)
}

// Quantized weights move the logits by what their rounding explains, fewer bits by more.
func TestLoadQuantized(t *testing.T) {
	f := loadFiles(t, safetensors.BF16)
	gputest.Devices(t, func(t *testing.T, dev webgpu.Device) {
		var ref *model.Model
		last := 0.0
		for _, c := range []struct {
			kind        string
			least, most float64 // of the error's RMS over the logits'
		}{{"", 0, 0}, {"f16", 0, 0}, {"int8", 1e-3, 0.1}, {"int4", 0.1, 1}} {
			m, err := loadWith(t, dev, f, model.LoadOptions{Weights: c.kind})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Release()
			if ref == nil {
				ref = m
			}
			e, err := model.LogitError(t.Context(), ref, m)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%q: %v", c.kind, e)
			if e.RMS < c.least || e.RMS > c.most || e.RMS < last {
				t.Errorf("%q: RMS %.3g, want %.3g to %.3g and no less than before, %.3g", c.kind, e.RMS, c.least, c.most, last)
			}
			if ratio := e.RMS / last; c.kind == "int4" && (ratio < 8 || ratio > 25) { // units are 127/7 apart, but smaller in a group
				t.Errorf("int4 is off by %.1f times what int8 is, want about 15", ratio)
			}
			last = e.RMS
		}
	})
}

// A model that cannot fit is refused before anything is loaded, with the numbers and what would fit.
func TestLoadRefused(t *testing.T) {
	f := loadFiles(t, safetensors.F32)
	src, err := model.Look("m", f)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	whole := int(src.Bytes(model.LoadOptions{}))
	for _, c := range []struct {
		limits webgpu.Limits
		want   string
	}{
		{webgpu.Limits{MaxBuffer: 1 << 28, MaxBinding: 1 << 27, Memory: whole}, fmt.Sprintf(`model m: it needs \d\.\d\d? MB, %.1[1]f MB for its weights and \d+\.\d kB to run, and plain Go \(.*\) has room for %.1[1]f MB: with int8 weights `, float64(whole)/1e6)},
		{webgpu.Limits{MaxBuffer: 1 << 28, MaxBinding: 200}, "model m: weights: "},
		{webgpu.Limits{MaxBuffer: 1 << 28, MaxBinding: 10_000}, "model m: running it needs "},
	} {
		d := &counting{Device: narrow{webgpu.NewCPU(), c.limits}}
		m, err := src.Load(t.Context(), d, model.LoadOptions{})
		if m != nil || err == nil || !regexp.MustCompile("^"+c.want).MatchString(err.Error()) || !errors.Is(err, webgpu.ErrOutOfMemory) || d.made != 0 {
			t.Errorf("%+v: got %v after %d buffers, want %q", c.limits, err, d.made, c.want)
		}
		t.Log(err)
	}
	if _, err := src.Load(t.Context(), webgpu.NewCPU(), model.LoadOptions{Weights: "int3"}); err == nil || !strings.Contains(err.Error(), `weights "int3": want f16, int8 or int4`) {
		t.Errorf("int3: got %v", err)
	}
}

// The most probable tokens of a large vocabulary, which are found in parts, are those of the logits.
func TestTopOfMany(t *testing.T) {
	const n = 7001
	cfg := strings.Replace(loadConfig, `"vocab_size": 3000`, fmt.Sprintf(`"vocab_size": %d`, n), 1)
	gputest.Devices(t, func(t *testing.T, dev webgpu.Device) {
		m := random(t, dev, cfg)
		r := runner(t, m, model.Options{Seqs: 2, Positions: 64})
		a, b := r.NewSession(), r.NewSession()
		out, err := r.Play(t.Context(), []model.Input{{Session: a, IDs: ids(9, n), Want: model.All}, {Session: b, IDs: ids(3, n), Want: model.Last}}, true)
		if err != nil {
			t.Fatal(err)
		}
		for o := range out.Outs {
			row := out.Logits[o*n:][:n]
			better := 0
			last := out.Top(o, 7)
			for i, v := range row {
				if v > row[last.ID] || v == row[last.ID] && i < last.ID {
					better++
				}
			}
			sum := 0.0
			for _, v := range row {
				sum += math.Exp(float64(v - row[last.ID]))
			}
			if better != 7 || math.Abs(float64(last.P)*sum-1) > 1e-4 {
				t.Errorf("output %d: token %d at place 7 has %d before it and p %v, want %v", o, last.ID, better, last.P, 1/sum)
			}
		}
	})
}

// A small model's halves are unpacked when it is loaded where a browser's GPU computes on the CPU, and
// stay as they are stored elsewhere and when they are asked for.
func TestUnpacked(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		bytes := func(dtype safetensors.DType, weights string) int {
			t.Helper()
			s, err := model.Look("small", loadFiles(t, dtype))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			m, err := s.Load(context.Background(), d, model.LoadOptions{Weights: weights})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Release()
			return m.Bytes()
		}
		full, halves, asked := bytes(safetensors.F32, ""), bytes(safetensors.F16, ""), bytes(safetensors.F16, "f16")
		want := asked
		if i := d.Info(); i.Kind == "browser" && i.Software {
			want = full
		}
		if asked >= full || halves != want {
			t.Errorf("f32 takes %d bytes, f16 %d, want %d; asked for %d, want less than f32", full, halves, want, asked)
		}
	})
}
