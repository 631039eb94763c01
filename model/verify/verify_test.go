package verify_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"path/filepath"
	"strings"
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
	"testdata/golden/qwen3-next-dense":            "testdata/golden/qwen3-next-dense/golden.safetensors",
	"testdata/golden/qwen3.5-text":                "testdata/golden/qwen3.5-text/golden.safetensors",
	"web/zoo/st-gdn-neg":                          "testdata/golden/zoo/st-gdn-neg.safetensors",
	"web/zoo/recall-transformer":                  "testdata/golden/zoo/recall-transformer.safetensors",
	"web/zoo/sbr-hybrid-neg":                      "testdata/golden/zoo/sbr-hybrid-neg.safetensors",
}

// What a published implementation computed, on every device.
func TestGolden(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		for dir, golden := range cases {
			pass(t, d, dir, golden)
		}
		if gputest.Lavapipe(d) {
			for _, dir := range []string{"testdata/golden/olmo-hybrid", "testdata/golden/olmo-hybrid-vheads-odd", "web/zoo/sbr-hybrid-neg"} {
				pass(t, gputest.Hardware(d), dir, cases[dir])
			}
		}
	})
}

func pass(t *testing.T, d webgpu.Device, dir, golden string) {
	m, g := open(t, d, dir, golden)
	c := verify.Model(context.Background(), dir, m, g)
	for _, line := range c.Lines() {
		t.Log(line)
	}
	if !c.Pass {
		t.Errorf("%s failed", dir)
	}
}

// A checkpoint beside another one's golden file must fail.
func TestWrongGoldenFails(t *testing.T) {
	m, g := open(t, webgpu.NewCPU(), "testdata/golden/olmo-hybrid", "testdata/golden/olmo-hybrid-nope/golden.safetensors")
	if c := verify.Model(context.Background(), "x", m, g); c.Pass {
		t.Error("a model with RoPE passed the golden file of one without")
	}
}

// A golden file of a deeper model fails even where all that both have agrees: what the model has
// nothing for is not passed over.
func TestTensorsOfADeeperModelFail(t *testing.T) {
	m, g := open(t, webgpu.NewCPU(), "testdata/golden/olmo-hybrid", "testdata/golden/olmo-hybrid/golden.safetensors")
	ids, err := g.Cases()[0].IDs(goldentest.InputIDs)
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, 0, 4*len(ids))
	for _, id := range ids {
		raw = binary.LittleEndian.AppendUint32(raw, uint32(id))
	}
	logits, _ := g.Cases()[0].Find(goldentest.Logits, -1)
	want, err := g.Cases()[0].F32(logits)
	if err != nil {
		t.Fatal(err)
	}
	same, err := safetensors.EntryF32("len1.logits", safetensors.F32, logits.Shape, want)
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := safetensors.EntryF32("len1.hidden.9", safetensors.F32, []int{1, 2}, []float32{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	entry := safetensors.Entry{Name: "len1.input_ids", DType: safetensors.I32, Shape: []int{len(ids)}, Data: raw}
	for _, test := range []struct {
		entries []safetensors.Entry
		pass    bool
		line    string
	}{
		{[]safetensors.Entry{entry, same}, true, "pass x: 1 tensors, worst len1.logits at "},
		{[]safetensors.Entry{entry, same, deeper}, false, "x: len1.hidden.9: the model has no such tensor, want the golden file of this model"},
		{[]safetensors.Entry{entry}, false, "FAIL x: nothing was compared, want a golden file with a tensor"},
	} {
		var b bytes.Buffer
		if err := safetensors.Write(&b, test.entries, nil); err != nil {
			t.Fatal(err)
		}
		f, err := goldentest.Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		c := verify.Model(context.Background(), "x", m, f)
		if lines := c.Lines(); c.Pass != test.pass || !strings.HasPrefix(lines[0], test.line) {
			t.Errorf("pass %v, want %v, %q, want %q", c.Pass, test.pass, lines, test.line)
		}
	}
}

// A checkpoint that did not load is one line, and fails the report.
func TestErrorIsOneLine(t *testing.T) {
	r := verify.New(webgpu.NewCPU())
	c := verify.Case{Dir: "x", Error: "no such thing"}
	r.Add(verify.Case{Dir: "y", Pass: true})
	r.Add(c)
	if lines := c.Lines(); len(lines) != 1 || lines[0] != "FAIL x: no such thing" || r.Pass {
		t.Errorf("got %q, report passed: %v", lines, r.Pass)
	}
}
