package model_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
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

const loadConfig = `{"model_type": "olmo_hybrid", "vocab_size": 500, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
	"layer_types": ["linear_attention", "full_attention"], "num_attention_heads": 4, "num_key_value_heads": 2,
	"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
	"rope_parameters": {"rope_theta": null}}`

func loadFiles(t testing.TB, dtype safetensors.DType) files {
	t.Helper()
	cfg, err := config.Parse([]byte(loadConfig))
	if err != nil {
		t.Fatal(err)
	}
	ck, err := model.RandomCheckpoint(cfg, dtype, 3)
	if err != nil {
		t.Fatal(err)
	}
	var entries []safetensors.Entry
	for _, name := range ck.Names() {
		x, _ := ck.Tensor(name)
		data := make([]byte, x.Bytes)
		if err := ck.ReadRaw(name, data, 0); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, safetensors.Entry{Name: name, DType: x.DType, Shape: x.Shape, Data: data})
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
