package task

import (
	"fmt"
	"strings"
)

// Kind says what a statement does.
type Kind uint8

// The kinds of statements, with their words.
const (
	KindBits      Kind = iota // bits=[ 0, 1, ]
	KindRange                 // a,b,c,d,e=range(5)
	KindPointers              // a,b,c,d,e= 3, 0, 2, 1, 3,
	KindAssign                // a= 36
	KindSwap                  // a,c=c,a
	KindAssertVar             // assert a== 2
	KindAssertBit             // assert bits[a]== 1
	KindAssert                // assert, where the program ends before it says of what
)

// Stmt is one statement.
type Stmt struct {
	Kind Kind
	// X is the variable assigned or asked, or the first of a swap; Y is the
	// second of a swap. X < Y.
	X, Y Var
	// Value is the number assigned, or stated after ==. It is -1 for other kinds
	// and where the program ends before it.
	Value int
	// Open says that the program ends before the statement does, so that a model
	// is to complete it. Only the last statement can be open; an open statement
	// has no effect.
	Open bool
	// First and Last are the token indices of its first and last word.
	First, Last int
	// Start and End are its byte offsets in the source. The assignments that
	// a line like `a,b=1,2` stands for share theirs.
	Start, End int
}

// Token is one word at its place in the model's input.
type Token struct {
	ID int32
	// Stmt is the index of its statement, or -1 for <bos>.
	Stmt int
	// Start and End are its byte offsets in the source; both 0 for <bos>.
	Start, End int
}

// Word is the token's word.
func (t Token) Word() string { return Word(t.ID) }

// State is the truth at some point of a program.
type State struct {
	// Vars holds the values of a to e, or -1 where a variable is undefined.
	Vars [NumVars]int16
	// Bits holds 0 or 1 each, [m], or is nil before the list. It is shared: do
	// not change it.
	Bits []uint8
}

// Bit returns the bit that v points to; ok is false where v or the list is
// undefined, or v points outside it.
func (s State) Bit(v Var) (bit int, ok bool) {
	i := int(s.Vars[v])
	if i < 0 || i >= len(s.Bits) {
		return 0, false
	}
	return int(s.Bits[i]), true
}

// Query is an assert with the truth beside it.
type Query struct {
	Stmt   int  // index of the statement
	Pos    int  // token index of the word ending in ==, which predicts the answer
	Var    Var  // the variable asked
	Bit    bool // whether its bit is asked, not its value
	Answer int  // the true value
	Stated int  // the value that the program states, or -1
}

// AnswerID is the id of the true answer's word.
func (q Query) AnswerID() int32 { return NumberID(q.Answer) }

// Program is a program that parsed or was generated. It does not change.
type Program struct {
	source string
	tokens []Token
	stmts  []Stmt
	after  []State // [len(stmts)]
}

var undefined = State{Vars: [NumVars]int16{-1, -1, -1, -1, -1}}

// Source is the text that the offsets of tokens and statements refer to.
func (p *Program) Source() string { return p.source }

// Tokens returns the T tokens of the model's input, <bos> first. Do not change
// them.
func (p *Program) Tokens() []Token { return p.tokens }

// Stmts returns the statements in order. Do not change them.
func (p *Program) Stmts() []Stmt { return p.stmts }

// IDs returns the model's input [T], <bos> first, in a slice of the caller's.
func (p *Program) IDs() []int32 { return p.AppendIDs(make([]int32, 0, len(p.tokens))) }

// AppendIDs appends the model's input [T] to dst.
func (p *Program) AppendIDs(dst []int32) []int32 {
	for _, t := range p.tokens {
		dst = append(dst, t.ID)
	}
	return dst
}

// Words returns the canonical words, without <bos>.
func (p *Program) Words() []string {
	out := make([]string, len(p.tokens)-1)
	for i, t := range p.tokens[1:] {
		out[i] = words[t.ID]
	}
	return out
}

// Canonical returns the words with single spaces between them.
func (p *Program) Canonical() string { return strings.Join(p.Words(), " ") }

// Python returns text that Python runs: the canonical words, one statement to
// a line. An open last statement becomes a comment.
func (p *Program) Python() string {
	var b strings.Builder
	for _, s := range p.stmts {
		if s.Open {
			b.WriteString("# ")
		}
		for i := s.First; i <= s.Last; i++ {
			if i > s.First {
				b.WriteByte(' ')
			}
			b.WriteString(words[p.tokens[i].ID])
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Open reports whether the last statement awaits completion.
func (p *Program) Open() bool { return len(p.stmts) > 0 && p.stmts[len(p.stmts)-1].Open }

// After returns the truth after statement i.
func (p *Program) After(i int) State { return p.after[i] }

// At returns the truth in force once token t has been read: a statement takes
// effect with its last word.
func (p *Program) At(t int) State {
	i := p.tokens[t].Stmt
	if i >= 0 && t < p.stmts[i].Last {
		i--
	}
	if i < 0 {
		return undefined
	}
	return p.after[i]
}

// Final returns the truth after the last statement.
func (p *Program) Final() State { return p.At(len(p.tokens) - 1) }

// Queries returns every assert that asks something, in order, open or not.
func (p *Program) Queries() []Query {
	var out []Query
	for i := range p.stmts {
		if q, ok := p.query(i); ok {
			out = append(out, q)
		}
	}
	return out
}

// Query returns the question that the program ends with; ok is false where its
// last statement is no assert of something.
func (p *Program) Query() (q Query, ok bool) { return p.query(len(p.stmts) - 1) }

func (p *Program) query(i int) (Query, bool) {
	if i < 0 {
		return Query{}, false
	}
	s := p.stmts[i]
	q := Query{Stmt: i, Pos: s.First + 1, Var: s.X, Stated: s.Value}
	switch s.Kind {
	case KindAssertVar:
		q.Answer = int(p.after[i].Vars[s.X])
	case KindAssertBit:
		q.Answer, _ = p.after[i].Bit(s.X)
		q.Bit = true
	default:
		return Query{}, false
	}
	return q, true
}

// Answer returns the word that truly follows the program's last ==; ok is false
// where the program does not end with a question.
func (p *Program) Answer() (word string, ok bool) {
	q, ok := p.Query()
	if !ok {
		return "", false
	}
	return words[q.AnswerID()], true
}

// Finding is an assert that states what is not so. The program still runs in a
// model, which does not mind, but not in Python.
type Finding struct {
	Query
	Line, Col int // of the statement, from 1, columns in runes
}

// Message says what is stated and what holds.
func (f Finding) Message() string {
	what := f.Var.String()
	if f.Bit {
		what = "bits[" + what + "]"
	}
	return fmt.Sprintf("the program states that %s is %d, but it is %d", what, f.Stated, f.Answer)
}

// String is the message with its place.
func (f Finding) String() string {
	return fmt.Sprintf("line %d, column %d: %s", f.Line, f.Col, f.Message())
}

// Check returns the asserts that do not hold.
func (p *Program) Check() []Finding {
	var out []Finding
	for _, q := range p.Queries() {
		if q.Stated >= 0 && q.Stated != q.Answer {
			line, col := position(p.source, p.stmts[q.Stmt].Start)
			out = append(out, Finding{q, line, col})
		}
	}
	return out
}

// builder appends statements and keeps the truth. Generator and parser fill it.
type builder struct {
	Program
	now State
}

func newBuilder(tokens, stmts int) *builder {
	b := &builder{now: undefined}
	b.tokens = append(make([]Token, 0, tokens+1), Token{ID: BOS, Stmt: -1})
	b.stmts = make([]Stmt, 0, stmts)
	b.after = make([]State, 0, stmts)
	return b
}

// word appends a word of the statement that end will close.
func (b *builder) word(id int32, start, end int) {
	b.tokens = append(b.tokens, Token{id, len(b.stmts), start, end})
}

// end closes a statement whose words are at first and after, and runs it. list
// holds the bits or the five pointers.
func (b *builder) end(s Stmt, first int, list []uint8) {
	s.First, s.Last = first, len(b.tokens)-1
	if !s.Open {
		switch s.Kind {
		case KindBits:
			b.now.Bits = list
		case KindRange:
			b.now.Vars = [NumVars]int16{0, 1, 2, 3, 4}
		case KindPointers:
			for v, x := range list {
				b.now.Vars[v] = int16(x)
			}
		case KindAssign:
			b.now.Vars[s.X] = int16(s.Value)
		case KindSwap:
			b.now.Vars[s.X], b.now.Vars[s.Y] = b.now.Vars[s.Y], b.now.Vars[s.X]
		}
	}
	b.stmts = append(b.stmts, s)
	b.after = append(b.after, b.now)
}
