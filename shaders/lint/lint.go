// Package lint reads what a kernel's WGSL takes of a device and what of it this project forbids.
package lint

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Limits are bounds on one pipeline.
type Limits struct {
	Storage     int    // storage buffers bound
	Workgroup   int    // bytes of workgroup memory
	Invocations int    // in a workgroup
	Size        [3]int // of a workgroup, in x, y and z
}

// Default are WebGPU's limits for a device that asks for nothing more
// (https://www.w3.org/TR/webgpu/#limits).
var Default = Limits{Storage: 8, Workgroup: 16384, Invocations: 256, Size: [3]int{256, 256, 64}}

// Use is what a pipeline takes, and what of it cannot be told.
type Use struct {
	Storage   int
	Workgroup int
	Size      [3]int
	Unknown   []string
}

// Over lists where u is beyond l.
func (u *Use) Over(l Limits) (faults []string) {
	faults = append(faults, u.Unknown...)
	over := func(what string, n, most int) {
		if n > most {
			faults = append(faults, fmt.Sprintf("%s: %d, at most %d", what, n, most))
		}
	}
	over("storage buffers", u.Storage, l.Storage)
	over("bytes of workgroup memory", u.Workgroup, l.Workgroup)
	over("invocations in a workgroup", u.Size[0]*u.Size[1]*u.Size[2], l.Invocations)
	for i, axis := range []string{"x", "y", "z"} {
		over("invocations in "+axis, u.Size[i], l.Size[i])
	}
	return faults
}

var (
	commentRE = regexp.MustCompile(`//[^\n]*`)
	blockRE   = regexp.MustCompile(`(?s)/\*.*?\*/`)
	bareVarRE = regexp.MustCompile(`(?m)^[ \t]+var +([A-Za-z_0-9]+)[^=;]*;`)
	forVarRE  = regexp.MustCompile(`for *\( *var +([A-Za-z_0-9]+)[^=;]*;`)
	featureRE = regexp.MustCompile(`\b(override|enable|requires|diagnostic)\b`)
	storageRE = regexp.MustCompile(`var *< *storage`)
	sharedRE  = regexp.MustCompile(`var *< *workgroup *> *(\w+)([^;]*);`)
	arrayRE   = regexp.MustCompile(`^array<(.+),([^,<>]+)>$`)
	sizeRE    = regexp.MustCompile(`@workgroup_size *\(([^)]*)\)`)
	constRE   = regexp.MustCompile(`(?m)^const (\w+)(?:: *(?:u32|i32))? *= *([^;]+);`)
)

func bare(src string) string {
	return blockRE.ReplaceAllString(commentRE.ReplaceAllString(src, ""), "")
}

// Measure reads the pipeline that src, a kernel's whole WGSL, is compiled to.
func Measure(src string) Use {
	src = bare(src)
	u := Use{Storage: len(storageRE.FindAllString(src, -1)), Size: [3]int{1, 1, 1}}
	consts := map[string]int{}
	for _, m := range constRE.FindAllStringSubmatch(src, -1) {
		consts[m[1]] = eval(m[2], consts)
	}
	for _, m := range sharedRE.FindAllStringSubmatch(src, -1) {
		size, _ := sizeOf(strings.TrimPrefix(strings.Join(strings.Fields(m[2]), ""), ":"), consts)
		if size <= 0 {
			u.Unknown = append(u.Unknown, "cannot tell the size of workgroup variable "+m[1])
		}
		u.Workgroup += (size + 15) &^ 15 // as the specification counts
	}
	sizes := sizeRE.FindAllStringSubmatch(src, -1)
	if len(sizes) != 1 {
		u.Unknown = append(u.Unknown, fmt.Sprintf("has %d entry points, want one", len(sizes)))
		return u
	}
	for i, f := range strings.Split(strings.TrimSuffix(strings.TrimSpace(sizes[0][1]), ","), ",") {
		if u.Size[i%3] = eval(f, consts); i > 2 || u.Size[i] < 1 {
			u.Unknown = append(u.Unknown, "cannot tell the size of a workgroup from "+sizes[0][0])
			break
		}
	}
	return u
}

// Faults lists what a kernel may not have. The rules are there because of what breaks without them:
// naga leaves a var without initialiser undefined and has no overrides; and every kernel must live
// within WebGPU's default limits.
func Faults(src string) []string {
	u := Measure(src)
	faults := u.Over(Default)
	src = bare(src)
	for _, re := range []*regexp.Regexp{bareVarRE, forVarRE} {
		for _, m := range re.FindAllStringSubmatch(src, -1) {
			faults = append(faults, "var "+m[1]+" has no initialiser")
		}
	}
	for _, m := range featureRE.FindAllString(src, -1) {
		faults = append(faults, "uses "+m)
	}
	for _, m := range sharedRE.FindAllStringSubmatch(src, -1) {
		if !strings.HasPrefix(m[1], "sh_") {
			faults = append(faults, "workgroup array "+m[1]+" is not named sh_…")
		}
	}
	return faults
}

// eval computes a constant expression of +, -, *, / and parentheses over unsigned numbers, 0
// where it cannot.
func eval(s string, consts map[string]int) int {
	p := &parser{s: strings.Join(strings.Fields(s), ""), consts: consts}
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

// sizeOf is the size and the alignment of a type in bytes, 0 of one that is not known
// (https://www.w3.org/TR/WGSL/#alignment-and-size).
func sizeOf(t string, consts map[string]int) (size, align int) {
	if m := arrayRE.FindStringSubmatch(t); m != nil {
		size, align := sizeOf(m[1], consts)
		if size == 0 {
			return 0, 0
		}
		return (size + align - 1) / align * align * eval(m[2], consts), align
	}
	switch strings.NewReplacer("<f32>", "", "<u32>", "", "<i32>", "").Replace(t) {
	case "f32", "u32", "i32", "atomic":
		return 4, 4
	case "vec2", "vec2f", "vec2u", "vec2i":
		return 8, 8
	case "vec3", "vec3f", "vec3u", "vec3i":
		return 12, 16
	case "vec4", "vec4f", "vec4u", "vec4i":
		return 16, 16
	}
	return 0, 0
}
