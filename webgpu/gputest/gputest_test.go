package gputest_test

import (
	"math"
	"testing"

	"shellgame/shaders"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// A comparison must be able to fail: in value, in NaN, in poison left behind, and in comparing
// nothing.
func TestCompareFails(t *testing.T) {
	tol := gputest.Tolerance{RMS: 1e-5, Max: 1e-5}
	want := []float32{1, 2, 3}
	nan := math.Float32frombits(gputest.Poison)
	for name, got := range map[string][]float32{
		"value":  {1, 2.001, 3},
		"nan":    {1, nan, 3},
		"inf":    {1, 2, float32(math.Inf(1))},
		"length": {1, 2},
	} {
		if d := gputest.Compare(tol, got, want); d.Err == nil {
			t.Errorf("%s: a wrong result passed", name)
		}
	}
	if d := gputest.Compare(tol, []float32{nan}, []float32{nan}); d.Err == nil {
		t.Error("comparing only poison passed")
	}
	if d := gputest.Compare(tol, []float32{1, 2.000001, 3}, want); d.Err != nil {
		t.Errorf("a close result failed: %v", d.Err)
	}
}

// A kernel whose twin is broken must be caught on the GPU.
func TestBrokenTwinIsCaught(t *testing.T) {
	broken := *shaders.RMSNorm
	broken.Twin = func(c *shaders.Call) {
		shaders.RMSNorm.Twin(c)
		c.F32(2)[1] *= 1.01
	}
	x, w := gputest.F32(gputest.Rand(1, 8, 1)), gputest.F32(gputest.Rand(2, 8, 1))
	p := shaders.RMSNormParams{D: 8, XStride: 8, YStride: 8, Eps: 1e-6}
	want := gputest.Run(t, webgpu.NewCPU(), &broken, nil, p, shaders.Step{Tokens: 1}, x, w, gputest.Poisoned(8))
	got := gputest.Run(t, gputest.GPU(t), &broken, nil, p, shaders.Step{Tokens: 1}, x, w, gputest.Poisoned(8))
	if d := gputest.Compare(gputest.Tolerance{RMS: 1e-5, Max: 1e-5}, gputest.Floats(got[2]), gputest.Floats(want[2])); d.Err == nil {
		t.Error("a twin that is wrong by 1 % passed")
	}
}
