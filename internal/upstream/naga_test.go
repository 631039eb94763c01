package upstream

import (
	"encoding/binary"
	"regexp"
	"strings"
	"testing"

	"github.com/gogpu/naga"
	"github.com/gogpu/naga/glsl"
	"github.com/gogpu/naga/hlsl"
	"github.com/gogpu/naga/ir"
	"github.com/gogpu/naga/msl"
)

const output = "@group(0) @binding(0) var<storage, read_write> y: array<f32>;\n"

// text compiles to each of naga's languages of text.
func text(t *testing.T, src string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, compile := range map[string]func() (string, error){
		"MSL": func() (string, error) {
			m, err := lower(src)
			if err != nil {
				return "", err
			}
			s, _, err := msl.Compile(m, msl.DefaultOptions())
			return s, err
		},
		"GLSL": func() (string, error) {
			m, err := lower(src)
			if err != nil {
				return "", err
			}
			s, _, err := glsl.Compile(m, glsl.DefaultOptions())
			return s, err
		},
		"HLSL": func() (string, error) {
			m, err := lower(src)
			if err != nil {
				return "", err
			}
			s, _, err := hlsl.Compile(m, hlsl.DefaultOptions())
			return s, err
		},
	} {
		s, err := compile()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all[name] = s
	}
	return all
}

func lower(src string) (*ir.Module, error) {
	ast, err := naga.Parse(src)
	if err != nil {
		return nil, err
	}
	return naga.Lower(ast)
}

func words(t *testing.T, src string) []uint32 {
	t.Helper()
	b, err := naga.Compile(src)
	if err != nil {
		t.Fatal(err)
	}
	w := make([]uint32, len(b)/4)
	for i := range w {
		w[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return w
}

// The numbers of SPIR-V that are looked for (SPIR-V specification, section 3).
const (
	opVariable, opStore                  = 59, 62
	storageWorkgroup, storageFunction    = 4, 7
	variableWords, variableWithInitWords = 4, 5
)

// each calls f with every instruction of a module.
func each(code []uint32, f func(op uint32, words []uint32)) {
	for at := 5; at < len(code); {
		n := int(code[at] >> 16)
		f(code[at]&0xffff, code[at:at+n])
		at += n
	}
}

// WGSL: a var without initialiser is zero, each time that it is declared. In SPIR-V naga leaves it
// undefined; in the other languages it is zero once, before the loop that declares it.
func TestBareVar(t *testing.T) {
	bare, stores := map[uint32]bool{}, 0
	each(words(t, output+"@compute @workgroup_size(1) fn main() {\n    var x: f32;\n    y[0] = x;\n}\n"), func(op uint32, w []uint32) {
		switch {
		case op == opVariable && w[3] == storageFunction && len(w) < variableWithInitWords:
			bare[w[2]] = true
		case op == opStore && bare[w[1]]:
			stores++
		}
	})
	Still(t, len(bare) == 1 && stores == 0, "naga: SPIR-V of var x: f32; leaves it undefined", "shaders/lint/lint.go", "bareVarRE")

	const loop = "@compute @workgroup_size(1) fn main() {\n    for (var i: u32 = 0u; i < 2u; i = i + 1u) {\n        var x: f32INIT;\n        x = x + 1.0;\n        y[i] = x;\n    }\n}\n"
	assigned := regexp.MustCompile(`\bx(_\d+)? = `)
	for name, s := range text(t, output+strings.ReplaceAll(loop, "INIT", "")) {
		_, body, ok := strings.Cut(s, "while(true)")
		Still(t, ok && len(assigned.FindAllString(body, -1)) == 1, "naga: "+name+" of var x: f32; in a loop is not zero again", "shaders/lint/lint.go", "bareVarRE")
	}
	// With an initialiser it is.
	for name, s := range text(t, output+strings.ReplaceAll(loop, "INIT", " = 0.0")) {
		if _, body, _ := strings.Cut(s, "while(true)"); len(assigned.FindAllString(body, -1)) != 2 {
			t.Errorf("%s: an initialiser in a loop is not run each time:\n%s", name, s)
		}
	}
}

func TestOverride(t *testing.T) {
	_, err := naga.Compile("override N: u32 = 3u;\n" + output + "@compute @workgroup_size(1) fn main() {\n    y[0] = f32(N);\n}\n")
	Still(t, err != nil, "naga: no SPIR-V of an override", "shaders/shaders.go", "constRE")
}

// What WGSL refuses: without this a kernel is only checked where Tint compiles it.
func TestNoTypeCheck(t *testing.T) {
	for what, body := range map[string]string{
		"an array assigned to a number":          "@compute @workgroup_size(1) fn main() {\n    var a: array<f32, 2> = array<f32, 2>(1.0, 2.0);\n    y[0] = a;\n}\n",
		"a product of a float and an integer":    "@compute @workgroup_size(1) fn main() {\n    let i: u32 = 1u;\n    let f: f32 = 2.0;\n    y[0] = f * i;\n}\n",
		"a barrier that not all invocations see": "@compute @workgroup_size(2) fn main(@builtin(local_invocation_index) i: u32) {\n    if (i == 0u) {\n        workgroupBarrier();\n    }\n    y[i] = 1.0;\n}\n",
	} {
		_, err := naga.Compile(output + body)
		Still(t, err == nil, "naga: takes "+what, "CONTRIBUTING.md", "naga does not check types")
	}
}

func TestHalves(t *testing.T) {
	_, err := naga.Compile("enable f16;\n@group(0) @binding(0) var<storage, read_write> y: array<f16>;\n@compute @workgroup_size(1) fn main() {\n    y[0] = 1.0h;\n}\n")
	Still(t, err != nil, "naga: refuses enable f16", "shaders/shared/halves.wgsl", "unpack2x16float")
}

// One invocation clears all workgroup memory, though no invocation reads what it has not written.
func TestWorkgroupClearing(t *testing.T) {
	shared, stores := map[uint32]bool{}, 0
	each(words(t, "var<workgroup> sh_a: array<f32, 64>;\n"+output+"@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {\n    sh_a[i] = 1.0;\n    y[i] = sh_a[i];\n}\n"), func(op uint32, w []uint32) {
		switch {
		case op == opVariable && len(w) >= variableWords && w[3] == storageWorkgroup:
			shared[w[2]] = true
		case op == opStore && shared[w[1]]:
			stores++
		}
	})
	Still(t, stores > 0, "naga: one invocation clears all of a workgroup's memory", "webgpu/spirv.go", "withoutWorkgroupInit")
}
