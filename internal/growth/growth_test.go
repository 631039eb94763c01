package growth

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"shellgame/shaders"
	"shellgame/webgpu"
)

func TestFit(t *testing.T) {
	var points []Point
	for n := 512; n <= 32768; n *= 2 {
		points = append(points, Point{N: n, Time: 300 + 1e-4*float64(n)*float64(n), Bytes: 48 * n})
	}
	f := fit(points, func(p Point) float64 { return p.Time })
	if f.Exponent < 1.9 || f.Exponent > 2.01 || f.From != 4096 {
		t.Errorf("a square over a constant: got %+v, want an exponent of about 2 from 4096 on", f)
	}
	if f := fit(points, func(p Point) float64 { return float64(p.Bytes) }); math.Abs(f.Exponent-1) > 1e-9 {
		t.Errorf("what is linear: got %+v, want an exponent of 1", f)
	}
	for _, few := range [][]Point{nil, points[:1]} {
		b, err := json.Marshal(fit(few, func(p Point) float64 { return p.Time }))
		if err != nil || !strings.HasPrefix(string(b), `{"exponent":null,`) {
			t.Errorf("%d points: got %s, %v, want an exponent of null", len(few), b, err)
		}
	}
}

// A point whose logits are wrong is refused.
func TestCompare(t *testing.T) {
	want := []float32{1, -2, 3}
	nan := float32(math.NaN())
	for name, got := range map[string][]float32{"value": {1, -2, 3.01}, "nan": {nan, -2, 3}, "nan after": {1, -2, nan}, "fewer": {1, -2}, "none": {}} {
		if compare(got, want, &Point{}) == nil {
			t.Errorf("%s: wrong logits passed", name)
		}
	}
	var p Point
	if err := compare([]float32{1, -2, 3.0001}, want, &p); err != nil || p.Worst <= 0 || p.Worst > 1 {
		t.Errorf("logits within the bound: %v, worst %v", err, p.Worst)
	}
}

// What running takes is counted, so its growth is exact: no more than in proportion to the tokens of
// a play and to the texts.
func TestRun(t *testing.T) {
	series, err := Run(context.Background(), webgpu.NewCPU(), Options{From: 32, Most: 128, Sequences: 8, Widest: 64, Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	most := map[string]float64{
		"delta rule: prompt": 1.02, "attention: prompt": 1.02, "delta rule: step after T": 1.02, "attention: step after T": 1.02,
		"batch: prompts of 32": 1.02,
	}
	for _, s := range series {
		if len(s.Points) == 0 {
			t.Errorf("%s: no points", s.Name)
		}
		for _, p := range s.Points {
			if p.Time <= 0 || p.Bytes <= 0 || p.Worst > 1 {
				t.Errorf("%s at %d: %.1f µs, %d bytes, worst %v", s.Name, p.N, p.Time, p.Bytes, p.Worst)
			}
		}
		if limit, ok := most[s.Name]; ok {
			if !(s.Memory.Exponent <= limit) {
				t.Errorf("%s: memory grows with the power %.3f, want at most %v", s.Name, s.Memory.Exponent, limit)
			}
			delete(most, s.Name)
		}
	}
	if len(most) > 0 {
		t.Errorf("not measured: %v", most)
	}
}

// wrong is the CPU with one kernel's first output off.
type wrong struct {
	webgpu.Device
	kernel *shaders.Kernel
}

func (d wrong) Prepare(ctx context.Context, r *webgpu.Recording) (webgpu.Program, error) {
	bad := *r
	bad.Ops = slices.Clone(r.Ops)
	for i, op := range bad.Ops {
		if op.Kernel != d.kernel {
			continue
		}
		k := *op.Kernel
		k.Twin = func(c *shaders.Call) {
			op.Kernel.Twin(c)
			c.F32(len(c.Bufs) - 1)[0] += 0.5
		}
		bad.Ops[i].Kernel = &k
	}
	return d.Device.Prepare(ctx, &bad)
}

// A device that computes wrongly is not timed.
func TestRunRefuses(t *testing.T) {
	for _, k := range []*shaders.Kernel{shaders.GDNStep, shaders.Attention, shaders.SwiGLU} {
		_, err := Run(context.Background(), wrong{webgpu.NewCPU(), k}, Options{From: 16, Most: 16, Sequences: 1, Widest: 64, Limit: time.Minute})
		if !errors.Is(err, errApart) {
			t.Errorf("%s wrong: %v, want it refused", k.Name, err)
		}
	}
}
