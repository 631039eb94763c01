//go:build !js && (windows || !window)

package webgpu

import (
	"slices"
	"testing"

	"github.com/gogpu/naga"

	"shellgame/shaders"
)

func spirv(t *testing.T, src string) []uint32 {
	t.Helper()
	b, err := naga.Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	code := make([]uint32, len(b)/4)
	copy(wordBytes(code), b)
	return code
}

// count is how many instructions of a name a module has.
func count(code []uint32, name uint32) (n int) {
	for at := spirvHeader; at < len(code); at += int(code[at] >> 16) {
		if code[at]&0xffff == name {
			n++
		}
	}
	return n
}

// Exactly the clearing goes: one store a workgroup array.
func TestWithoutWorkgroupInit(t *testing.T) {
	src, err := shaders.RMSNorm.Source(nil)
	if err != nil {
		t.Fatal(err)
	}
	code := spirv(t, src)
	got := withoutWorkgroupInit(code)
	if len(got) != len(code)-3 || count(got, opStore) != count(code, opStore)-1 {
		t.Errorf("rms_norm has one workgroup array: %d words with %d stores became %d with %d, want one store of 3 words less", len(code), count(code, opStore), len(got), count(got, opStore))
	}
	if again := withoutWorkgroupInit(got); !slices.Equal(again, got) {
		t.Error("a second pass changed the module")
	}
	for name, code := range map[string][]uint32{
		"no workgroup memory": spirv(t, "@group(0) @binding(0) var<storage, read_write> x: array<f32>;\n@compute @workgroup_size(1) fn main() {\n    var y: f32 = 0.0;\n    x[0] = y;\n}\n"),
		"not SPIR-V":          {1, 2, 3, 4, 5, 0, 7},
		"cut short":           append(slices.Clone(code[:spirvHeader]), 9<<16|opStore, 1),
		"empty":               {},
	} {
		if got := withoutWorkgroupInit(code); !slices.Equal(got, code) {
			t.Errorf("%s: %d words became %d, want no change", name, len(code), len(got))
		}
	}
}
