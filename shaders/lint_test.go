package shaders_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"shellgame/shaders"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

var (
	commentRE  = regexp.MustCompile(`//[^\n]*`)
	bareVarRE  = regexp.MustCompile(`(?m)^[ \t]+var +([A-Za-z_0-9]+)[^=;]*;`)
	forVarRE   = regexp.MustCompile(`for *\( *var +([A-Za-z_0-9]+)[^=;]*;`)
	featureRE  = regexp.MustCompile(`\b(override|enable|requires|diagnostic)\b`)
	storageRE  = regexp.MustCompile(`var<storage`)
	sharedRE   = regexp.MustCompile(`var<workgroup> *(\w+) *: *([^;]+);`)
	arrayRE    = regexp.MustCompile(`^array<(.+), *([^,<>]+)>$`)
	sizeRE     = regexp.MustCompile(`@workgroup_size\(([^)]*)\)`)
	constAnyRE = regexp.MustCompile(`(?m)^const (\w+): *(?:u32|i32) *= *([^;]+);`)
)

// lint lists what the rules of this package forbid in a kernel's WGSL. The rules are there because
// of what breaks without them: naga leaves a var without initialiser undefined and has no
// overrides; and every kernel must live within WebGPU's default limits.
func lint(src string) (faults []string) {
	src = commentRE.ReplaceAllString(src, "")
	for _, re := range []*regexp.Regexp{bareVarRE, forVarRE} {
		for _, m := range re.FindAllStringSubmatch(src, -1) {
			faults = append(faults, "var "+m[1]+" has no initialiser")
		}
	}
	for _, m := range featureRE.FindAllString(src, -1) {
		faults = append(faults, "uses "+m)
	}
	if n := len(storageRE.FindAllString(src, -1)); n > 7 {
		faults = append(faults, fmt.Sprintf("binds %d storage buffers, at most 7", n))
	}
	consts := map[string]int{}
	for _, m := range constAnyRE.FindAllStringSubmatch(src, -1) {
		consts[m[1]] = eval(m[2], consts)
	}
	bytes := 0
	for _, m := range sharedRE.FindAllStringSubmatch(src, -1) {
		n := sizeOf(m[2], consts)
		if n <= 0 {
			faults = append(faults, "cannot tell the size of workgroup array "+m[1])
		}
		bytes += n
		if !strings.HasPrefix(m[1], "sh_") {
			faults = append(faults, "workgroup array "+m[1]+" is not named sh_…")
		}
	}
	if bytes > 16384 {
		faults = append(faults, fmt.Sprintf("uses %d bytes of workgroup memory, at most 16384", bytes))
	}
	sizes := sizeRE.FindAllStringSubmatch(src, -1)
	if len(sizes) != 1 {
		faults = append(faults, fmt.Sprintf("has %d entry points, want one", len(sizes)))
	}
	for _, m := range sizes {
		n := 1
		for _, f := range strings.Split(m[1], ",") {
			n *= eval(f, consts)
		}
		if n < 1 || n > 256 {
			faults = append(faults, fmt.Sprintf("runs %d invocations in a workgroup, at most 256", n))
		}
	}
	return faults
}

// eval computes a constant expression of +, -, *, / and parentheses over unsigned numbers, 0
// where it cannot.
func eval(s string, consts map[string]int) int {
	p := &parser{s: strings.ReplaceAll(s, " ", ""), consts: consts}
	v := p.sum()
	if p.at != len(p.s) {
		return 0
	}
	return v
}

type parser struct {
	s      string
	at     int
	consts map[string]int
}

func (p *parser) next(set string) byte {
	if p.at < len(p.s) && strings.IndexByte(set, p.s[p.at]) >= 0 {
		p.at++
		return p.s[p.at-1]
	}
	return 0
}

func (p *parser) sum() int {
	v := p.product()
	for {
		switch p.next("+-") {
		case '+':
			v += p.product()
		case '-':
			v -= p.product()
		default:
			return v
		}
	}
}

func (p *parser) product() int {
	v := p.atom()
	for {
		switch p.next("*/") {
		case '*':
			v *= p.atom()
		case '/':
			d := p.atom()
			if d == 0 {
				return 0
			}
			v /= d
		default:
			return v
		}
	}
}

func (p *parser) atom() int {
	if p.next("(") != 0 {
		v := p.sum()
		p.next(")")
		return v
	}
	from := p.at
	for p.at < len(p.s) && (p.s[p.at] == '_' || p.s[p.at] >= '0' && p.s[p.at] <= '9' || p.s[p.at] >= 'A' && p.s[p.at] <= 'Z' || p.s[p.at] >= 'a' && p.s[p.at] <= 'z') {
		p.at++
	}
	word := p.s[from:p.at]
	if v, ok := p.consts[word]; ok {
		return v
	}
	v, err := strconv.Atoi(strings.TrimSuffix(word, "u"))
	if err != nil {
		p.at = len(p.s) + 1
		return 0
	}
	return v
}

func sizeOf(t string, consts map[string]int) int {
	t = strings.TrimSpace(t)
	if m := arrayRE.FindStringSubmatch(t); m != nil {
		return sizeOf(m[1], consts) * eval(m[2], consts)
	}
	return map[string]int{"f32": 4, "u32": 4, "i32": 4, "vec2<f32>": 8, "vec2<u32>": 8, "vec4<f32>": 16, "vec4<u32>": 16, "atomic<u32>": 4}[t]
}

func TestLint(t *testing.T) {
	for _, k := range shaders.Kernels() {
		for _, c := range k.Variants {
			src, err := k.Source(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range lint(src) {
				t.Errorf("%s: %s", k.Variant(c), f)
			}
		}
		if _, err := k.Source(shaders.C{"NO_SUCH": 1}); err == nil {
			t.Errorf("%s: an unknown constant was accepted", k.Name)
		}
		if n := len(k.Slots); n > 7 {
			t.Errorf("%s: %d slots, at most 7", k.Name, n)
		}
	}
}

// The lint must be able to fail, on each of its rules.
func TestLintFinds(t *testing.T) {
	for name, src := range map[string]string{
		"bare var":     "@compute @workgroup_size(1) fn main() {\n    var x: f32;\n}",
		"bare array":   "@compute @workgroup_size(1) fn main() {\n    var acc: array<vec4<f32>, 4>;\n}",
		"bare for var": "@compute @workgroup_size(1) fn main() {\n    for (var i: u32; i < 2u; i = i + 1u) {}\n}",
		"override":     "override N: u32 = 1u;\n@compute @workgroup_size(1) fn main() {}",
		"enable":       "enable f16;\n@compute @workgroup_size(1) fn main() {}",
		"storage":      strings.Repeat("@group(0) @binding(2) var<storage, read> x: array<f32>;\n", 8) + "@compute @workgroup_size(1) fn main() {}",
		"memory":       "const K: u32 = 128u;\nvar<workgroup> sh_s: array<f32, K * 33u>;\n@compute @workgroup_size(1) fn main() {}",
		"two arrays":   "var<workgroup> sh_a: array<vec4<f32>, 1024>;\nvar<workgroup> sh_b: array<f32, 1>;\n@compute @workgroup_size(1) fn main() {}",
		"name":         "var<workgroup> s: array<f32, 4>;\n@compute @workgroup_size(1) fn main() {}",
		"size unknown": "var<workgroup> sh_s: array<f32, M>;\n@compute @workgroup_size(1) fn main() {}",
		"invocations":  "@compute @workgroup_size(16, 17) fn main() {}",
		"no entry":     "fn f() {}",
	} {
		if len(lint(src)) == 0 {
			t.Errorf("%s: nothing was found in\n%s", name, src)
		}
	}
	if f := lint("// var x: f32;\nvar<workgroup> sh_s: array<f32, 4096>;\n@compute @workgroup_size(16, 16) fn main() {\n    var x: f32 = 0.0;\n}"); len(f) != 0 {
		t.Errorf("a good kernel was refused: %v", f)
	}
}

// Every variant in use compiles: by naga natively, by the browser's own compiler under js.
func TestCompile(t *testing.T) {
	d := gputest.GPU(t)
	for _, k := range shaders.Kernels() {
		for _, c := range k.Variants {
			t.Run(k.Variant(c), func(t *testing.T) {
				rec := &webgpu.Recording{Name: k.Variant(c)}
				var bufs []webgpu.Buffer
				for _, s := range k.Slots {
					b, err := d.NewBuffer(s.Name, 256)
					if err != nil {
						t.Fatal(err)
					}
					defer b.Release()
					bufs = append(bufs, b)
				}
				rec.Dispatch(k.Name, k, c, k.Params, bufs...)
				p, err := d.Prepare(context.Background(), rec)
				if err != nil {
					t.Fatal(err)
				}
				p.Release()
			})
		}
	}
}
