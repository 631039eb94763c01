package lint_test

import (
	"strings"
	"testing"

	"shellgame/shaders/lint"
)

// The lint must be able to fail, on each of its rules.
func TestLintFinds(t *testing.T) {
	for name, src := range map[string]string{
		"bare var":     "@compute @workgroup_size(1) fn main() {\n    var x: f32;\n}",
		"bare array":   "@compute @workgroup_size(1) fn main() {\n    var acc: array<vec4<f32>, 4>;\n}",
		"bare for var": "@compute @workgroup_size(1) fn main() {\n    for (var i: u32; i < 2u; i = i + 1u) {}\n}",
		"override":     "override N: u32 = 1u;\n@compute @workgroup_size(1) fn main() {}",
		"enable":       "enable f16;\n@compute @workgroup_size(1) fn main() {}",
		"storage":      strings.Repeat("@group(0) @binding(2) var<storage, read> x: array<f32>;\n", 9) + "@compute @workgroup_size(1) fn main() {}",
		"memory":       "const K: u32 = 128u;\nvar<workgroup> sh_s: array<f32, K * 33u>;\n@compute @workgroup_size(1) fn main() {}",
		"two arrays":   "var<workgroup> sh_a: array<vec4<f32>, 1024>;\nvar<workgroup> sh_b: array<f32, 1>;\n@compute @workgroup_size(1) fn main() {}",
		"name":         "var<workgroup> s: array<f32, 4>;\n@compute @workgroup_size(1) fn main() {}",
		"size unknown": "var<workgroup> sh_s: array<f32, M>;\n@compute @workgroup_size(1) fn main() {}",
		"invocations":  "@compute @workgroup_size(16, 17) fn main() {}",
		"no entry":     "fn f() {}",
	} {
		if len(lint.Faults(src)) == 0 {
			t.Errorf("%s: nothing was found in\n%s", name, src)
		}
	}
	if f := lint.Faults("// var x: f32;\nvar<workgroup> sh_s: array<f32, 4096>;\n@compute @workgroup_size(16, 16) fn main() {\n    var x: f32 = 0.0;\n}"); len(f) != 0 {
		t.Errorf("a good kernel was refused: %v", f)
	}
}
