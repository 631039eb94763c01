// Package shaders holds the compute kernels of the forward pass.
//
// A kernel NAME is four neighbouring files: NAME.wgsl, NAME.go (slots, constants, grid),
// NAME_cpu.go (its plain-Go twin, which defines what it computes) and NAME_test.go.
//
// Every kernel binds the same way: group 0, binding 0 is the uniform [Step], binding 1 the
// uniform of the kernel's own parameters, and the storage buffers follow from binding 2 in the
// order of [Kernel.Slots]. All buffers are arrays of 32-bit words; halves are packed two to a word.
//
// The alphabet of dimensions: B batch, T time, H heads, K key dim, V value dim, D model dim,
// L layers, W conv kernel, N vocabulary.
package shaders

import (
	"embed"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unsafe"
)

//go:embed *.wgsl shared/*.wgsl
var sources embed.FS

// MaxGroups is the most workgroups WebGPU allows in one dimension of a dispatch.
const MaxGroups = 65535

// NoSlot, as a sequence's input slot, stands for a state of zeros.
const NoSlot = math.MaxUint32

// Step is what changes from one play of a recording to the next. It is bound as a uniform to
// every kernel; keep in step with shared/step.wgsl.
type Step struct {
	Counter uint32 // stamped into every read-back, to tell it from an earlier one
	Tokens  uint32 // T: packed tokens in this play
	Seqs    uint32 // B: sequences in this play
	Chunks  uint32 // chunks of the chunked delta rule, over all sequences
	Outs    uint32 // rows whose logits are computed
	Slot    uint32 // state slot that a read-back with a stride takes
	Keys    uint32 // most keys that a token of this play sees
	Times   uint32 // passes over the recording's operations in this play, 0 and 1 are one; see [Advance]
}

// StepWords is the size of Step in 32-bit words.
const StepWords = 8

// Words returns s as the words of its uniform.
func (s *Step) Words() *[StepWords]uint32 { return (*[StepWords]uint32)(unsafe.Pointer(s)) }

// Seq is one sequence of a packed batch, a row of the seqs buffer; keep in step with
// shared/seq.wgsl.
type Seq struct {
	Start   uint32 // first token of the sequence among the packed tokens
	Count   uint32 // number of its tokens in this play
	Past    uint32 // tokens it has read before: position of its first token
	SlotIn  uint32 // state slot read, or NoSlot for zeros
	SlotOut uint32 // state slot written
	Map     uint32 // where its row map begins in the rows buffer: position j is cache row rows[Map+j]
	Chunk   uint32 // number of its first chunk in the chunk table; see [Chunks]
	Turn    uint32 // state slot that the next pass of the same play writes, which reads SlotOut; see [Advance]
}

// SeqWords is the size of Seq in 32-bit words.
const SeqWords = 8

// Access says how a kernel uses a slot.
type Access uint8

// The ways to use a slot.
const (
	Read Access = iota
	Write
	ReadWrite
)

// Slot is one storage binding of a kernel.
type Slot struct {
	Name   string
	Access Access
}

// C gives values to a kernel's named constants, replacing the defaults in its WGSL.
type C map[string]uint32

// Args is what a kernel's grid may depend on.
type Args struct {
	Step Step
	P    []uint32 // the kernel's parameters, as words
	C    C        // every constant of the kernel, defaults filled in
}

// Call is one dispatch as a twin sees it.
type Call struct {
	Args
	Bufs [][]uint32 // one a slot
	Tick func()     // call it between rows of long work: it may let others run
}

// U32 returns slot i as words.
func (c *Call) U32(i int) []uint32 { return c.Bufs[i] }

// F32 returns slot i as float32.
func (c *Call) F32(i int) []float32 {
	b := c.Bufs[i]
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b))
}

// Seqs returns slot i as the batch's sequences.
func (c *Call) Seqs(i int) []Seq {
	n := int(c.Step.Seqs)
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*Seq)(unsafe.Pointer(&c.Bufs[i][0])), n)
}

// params returns the words of a kernel's parameters as its struct.
func params[T any](a *Args) *T { return (*T)(unsafe.Pointer(&a.P[0])) }

// Kernel is one compute kernel.
type Kernel struct {
	Name     string
	Doc      string                  // what it computes, in a line
	Params   any                     // zero value of the struct that its uniform mirrors: uint32 and float32 fields
	Slots    []Slot                  // storage buffers, in binding order
	Includes []string                // files of shared/ it is compiled with
	Grid     func(a *Args) [3]uint32 // workgroups for one dispatch
	Twin     func(c *Call)           // the same in plain Go
	Variants []C                     // every set of constants in use, for the compile tests

	consts map[string]constant
	text   string
}

type constant struct {
	kind  string
	value uint32
	span  [2]int
}

var kernels = map[string]*Kernel{}

var constRE = regexp.MustCompile(`(?m)^const ([A-Z][A-Z0-9_]*): (u32|i32) = ([0-9]+)u?;`)

func register(k *Kernel) *Kernel {
	if kernels[k.Name] != nil {
		panic("shaders: kernel " + k.Name + " registered twice")
	}
	var b strings.Builder
	main, err := sources.ReadFile(k.Name + ".wgsl")
	if err != nil {
		panic(fmt.Sprintf("shaders: kernel %s: %v", k.Name, err))
	}
	b.Write(main)
	for _, inc := range append([]string{"step"}, k.Includes...) {
		s, err := sources.ReadFile("shared/" + inc + ".wgsl")
		if err != nil {
			panic(fmt.Sprintf("shaders: kernel %s: %v", k.Name, err))
		}
		b.WriteString("\n// shared/" + inc + ".wgsl\n")
		b.Write(s)
	}
	k.text = b.String()
	k.consts = map[string]constant{}
	for _, m := range constRE.FindAllStringSubmatchIndex(k.text, -1) {
		var v uint32
		fmt.Sscan(k.text[m[6]:m[7]], &v)
		k.consts[k.text[m[2]:m[3]]] = constant{k.text[m[4]:m[5]], v, [2]int{m[0], m[1]}}
	}
	if len(k.Variants) == 0 {
		k.Variants = []C{nil}
	}
	kernels[k.Name] = k
	return k
}

// Kernels returns every kernel, by name.
func Kernels() []*Kernel {
	var all []*Kernel
	for _, k := range kernels {
		all = append(all, k)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// Source returns the kernel's WGSL with the named constants replaced, ready to compile. A name
// that the WGSL does not declare as `const NAME: u32 = …;` is an error.
func (k *Kernel) Source(c C) (string, error) {
	type edit struct {
		span [2]int
		text string
	}
	var edits []edit
	for name, v := range c {
		d, ok := k.consts[name]
		if !ok {
			return "", fmt.Errorf("shaders: %s has no constant %s to set", k.Name, name)
		}
		suffix := ""
		if d.kind == "u32" {
			suffix = "u"
		}
		edits = append(edits, edit{d.span, fmt.Sprintf("const %s: %s = %d%s;", name, d.kind, v, suffix)})
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.span[0] - b.span[0] })
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(k.text[at:e.span[0]])
		b.WriteString(e.text)
		at = e.span[1]
	}
	b.WriteString(k.text[at:])
	return b.String(), nil
}

// Fill returns c with the defaults of every constant it leaves out.
func (k *Kernel) Fill(c C) C {
	all := C{}
	for name, d := range k.consts {
		all[name] = d.value
	}
	for name, v := range c {
		all[name] = v
	}
	return all
}

// Variant names the kernel with its constants: the label of its pipeline and the key of its cache.
func (k *Kernel) Variant(c C) string {
	if len(c) == 0 {
		return k.Name
	}
	var parts []string
	for name, v := range c {
		parts = append(parts, fmt.Sprintf("%s=%d", name, v))
	}
	sort.Strings(parts)
	return k.Name + "[" + strings.Join(parts, " ") + "]"
}

// Words returns params, a value of k.Params's type, as the words of the kernel's uniform.
func (k *Kernel) Words(params any) ([]uint32, error) {
	v := reflect.ValueOf(params)
	if params == nil || v.Type() != reflect.TypeOf(k.Params) {
		return nil, fmt.Errorf("shaders: %s takes %T, got %T", k.Name, k.Params, params)
	}
	w, ok := words(nil, v)
	if !ok {
		return nil, fmt.Errorf("shaders: %s: %T holds more than uint32 and float32", k.Name, k.Params)
	}
	return w, nil
}

// words appends what v holds, field by field.
func words(w []uint32, v reflect.Value) ([]uint32, bool) {
	ok := true
	switch v.Kind() {
	case reflect.Uint32:
		return append(w, uint32(v.Uint())), true
	case reflect.Float32:
		return append(w, math.Float32bits(float32(v.Float()))), true
	case reflect.Struct:
		for i := 0; i < v.NumField() && ok; i++ {
			w, ok = words(w, v.Field(i))
		}
	case reflect.Array:
		for i := 0; i < v.Len() && ok; i++ {
			w, ok = words(w, v.Index(i))
		}
	default:
		ok = false
	}
	return w, ok
}

// fold spreads n workgroups over x and y, since one dimension holds at most MaxGroups. A kernel
// finds its number as group.y * groups.x + group.x and guards against the few beyond n.
func fold(n uint32) [3]uint32 {
	if n <= MaxGroups {
		return [3]uint32{max(n, 1), 1, 1}
	}
	y := (n + MaxGroups - 1) / MaxGroups
	return [3]uint32{(n + y - 1) / y, y, 1}
}

func ceilDiv(a, b uint32) uint32 { return (a + b - 1) / b }
