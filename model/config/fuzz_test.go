package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzConfig: whatever config.json holds, Parse gives a shape in which every product of sizes fits
// an int and every layer has what it needs, or an error of one line.
func FuzzConfig(f *testing.F) {
	files, err := filepath.Glob("../../testdata/golden/*/config.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("found no config.json to start from: %v", err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, text := range []string{
		"", "{", "[]", "null", `{"model_type":"olmo_hybrid"}`, `{"model_type":"olmo3"}`, `{"model_type":"qwen3_next","num_experts":0}`, `{"model_type":"qwen3_5_text"}`, `{"model_type":"qwen3_5","text_config":{"rope_parameters":{"mrope_section":[11,11,10]}}}`, `{"model_type":"olmo_hybrid","num_hidden_layers":1}`,
		`{"model_type":"olmo3","rope_parameters":{"full_attention":{"rope_type":"yarn","factor":8}}}`,
		`{"model_type":"olmo_hybrid","num_hidden_layers":2,"layer_types":["linear_attention","full_attention"],"hidden_size":1e3}`,
		`{"model_type":"olmo_hybrid","hidden_size":9223372036854775807,"eos_token_id":[1,2]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			if c != nil || !strings.HasPrefix(err.Error(), "config: ") || strings.Contains(err.Error(), "\n") {
				t.Fatalf("got %v and the error %q, want one line that begins with config:", c, err)
			}
			return
		}
		if c.N < 1 || c.D < 1 || c.FF < 1 || len(c.Layers) < 1 || !(c.RMSEps > 0) || len(c.Layers) > maxLayers {
			t.Fatalf("got %+v, want positive sizes", c)
		}
		for i, l := range c.Layers {
			switch l.Kind {
			case GDN:
				if c.HK < 1 || c.HV < 1 || c.HV%c.HK != 0 || c.K < 1 || c.V < 1 || c.W < 1 || c.C() < 1 || l.Window != 0 || l.Rope != nil {
					t.Fatalf("layer %d: got %+v of %+v", i, l, c)
				}
			case Attention:
				if c.Heads < 1 || c.KVHeads < 1 || c.Heads%c.KVHeads != 0 || c.HeadDim < 1 || l.Window < 0 {
					t.Fatalf("layer %d: got %+v of %+v", i, l, c)
				}
				if r := l.Rope; r != nil && (r.Dim < 2 || r.Dim > c.HeadDim || r.Dim%2 != 0 || len(r.InvFreq) != r.Dim/2) {
					t.Fatalf("layer %d: got %+v with heads of %d", i, r, c.HeadDim)
				}
			}
		}
		for _, id := range append([]int{c.BOS, c.EOS, c.Pad}, c.EOSAll...) {
			if id < -1 || id >= c.N {
				t.Fatalf("got token %d of %d", id, c.N)
			}
		}
		for _, w := range Weights(c) {
			for _, n := range w.Shape {
				if n < 1 || len(w.Forms) == 0 {
					t.Fatalf("got weight %+v", w)
				}
			}
		}
	})
}
