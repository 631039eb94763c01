package shaders

// The kinds of stored weight, values of a kernel's W_KIND. F16 and BF16 are packed two to a word,
// low half first. I8 and I4 are whole numbers, four and eight to a word, from the low bits on, I4
// plus 8; behind all rows follow their scales, of I8 an f32 a row, of I4 an f16 for each [Group]
// elements of a row, two to a word. A buffer of these is whole vectors of 16 bytes long.
const (
	F32 uint32 = iota
	F16
	BF16
	I8
	I4
)

var weightKinds = []C{{"W_KIND": F32}, {"W_KIND": F16}, {"W_KIND": BF16}, {"W_KIND": I8}, {"W_KIND": I4}}

// EmbedParams are the parameters of [Embed].
type EmbedParams struct {
	D       uint32 // length of a row
	Entries uint32 // rows in the table; an id beyond them reads the last
	Rows    uint32 // 0: an id a token; 1: an id an output (Step.Outs)
	First   uint32 // id of the table's first row; what has a lower id is left as it is
}

// Embed copies rows of a table by id: token embeddings, and the rows whose logits are asked for.
var Embed = register(&Kernel{
	Name:     "embed",
	Doc:      "y[r] = table[ids[r]]",
	Params:   EmbedParams{},
	Slots:    []Slot{{"table", Read}, {"ids", Read}, {"y", Write}},
	Includes: []string{"halves", "scales"},
	Variants: weightKinds,
	Grid: func(a *Args) [3]uint32 {
		p := params[EmbedParams](a)
		return fold(ceilDiv(rowCount(&a.Step, p.Rows)*p.D, 64))
	},
	Twin: func(c *Call) {
		p := params[EmbedParams](&c.Args)
		embedRows(*p, int(rowCount(&c.Step, p.Rows)), weights{c.U32(0), c.C["W_KIND"], int(p.Entries), int(p.D)}, c.U32(1), c.F32(2))
	},
})
