package verify_test

import (
	"context"
	"path/filepath"
	"testing"

	"shellgame/model"
	"shellgame/model/goldentest"
	"shellgame/model/safetensors"
	"shellgame/model/verify"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

const root = "../.."

func open(t *testing.T, d webgpu.Device, dir, golden string) (*model.Model, *goldentest.File) {
	t.Helper()
	m, err := model.Open(context.Background(), d, filepath.Base(dir), safetensors.Dir(filepath.Join(root, dir)), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Release)
	g, err := goldentest.Open(filepath.Join(root, golden))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	return m, g
}

// cases are the golden files in the tree, with their checkpoints.
var cases = map[string]string{
	"testdata/golden/olmo-hybrid":                 "testdata/golden/olmo-hybrid/golden.safetensors",
	"testdata/golden/olmo-hybrid-nope":            "testdata/golden/olmo-hybrid-nope/golden.safetensors",
	"testdata/golden/olmo-hybrid-rope-gqa-poseig": "testdata/golden/olmo-hybrid-rope-gqa-poseig/golden.safetensors",
	"testdata/golden/olmo-hybrid-vheads-odd":      "testdata/golden/olmo-hybrid-vheads-odd/golden.safetensors",
	"testdata/golden/olmo3-sliding-yarn":          "testdata/golden/olmo3-sliding-yarn/golden.safetensors",
	"web/zoo/st-gdn-neg":                          "testdata/golden/zoo/st-gdn-neg.safetensors",
	"web/zoo/recall-transformer":                  "testdata/golden/zoo/recall-transformer.safetensors",
	"web/zoo/sbr-hybrid-neg":                      "testdata/golden/zoo/sbr-hybrid-neg.safetensors",
}

// What a published implementation computed, on every device.
func TestGolden(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		for dir, golden := range cases {
			m, g := open(t, d, dir, golden)
			c := verify.Model(context.Background(), dir, m, g)
			for _, line := range c.Lines() {
				t.Log(line)
			}
			if !c.Pass {
				t.Errorf("%s failed", dir)
			}
		}
	})
}

// A checkpoint beside another one's golden file must fail.
func TestWrongGoldenFails(t *testing.T) {
	m, g := open(t, webgpu.NewCPU(), "testdata/golden/olmo-hybrid", "testdata/golden/olmo-hybrid-nope/golden.safetensors")
	if c := verify.Model(context.Background(), "x", m, g); c.Pass {
		t.Error("a model with RoPE passed the golden file of one without")
	}
}
