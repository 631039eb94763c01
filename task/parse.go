package task

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Error says where and why a program is not one of the game's.
type Error struct {
	Line, Col  int    // from 1; columns count runes
	Start, End int    // byte offsets of the offending text; equal at the source's end
	Msg        string // what was found and what was expected
}

// Error returns one line: position, what was found, what was expected.
func (e *Error) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Col, e.Msg)
}

// position returns the line and column of a byte offset.
func position(src string, offset int) (line, col int) {
	before := src[:offset]
	return 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
}

// Kinds of lexemes beside the punctuation characters , = [ ] ( ) and ;
const (
	lexEnd    = 0
	lexName   = 'n'
	lexNumber = 'd'
	lexEquals = 'E' // ==
	lexOther  = '?'
)

type lexeme struct {
	kind       byte
	newLine    bool // stands on another line than the lexeme before it
	start, end int
}

type parser struct {
	*builder
	src  string
	pos  int
	cur  lexeme
	last int // where the lexeme before cur ends
}

// Parse reads a program. It takes what Python takes, if the words can express
// it, and more: statements may follow each other on a line, spaces and new
// lines are free, swaps and lists of values may name their variables in any
// order, and the last statement may stop after any word ([Program.Open]).
//
// What it refuses is an [*Error] with a position: unknown words, variables used
// before they have a value, indices outside the bits, numbers over 127. An
// assert that states a falsehood is not an error; see [Program.Check].
func Parse(src string) (*Program, error) {
	p := &parser{builder: newBuilder(len(src)/6, len(src)/8), src: src}
	p.Program.source = src
	p.pos = len(src) - len(strings.TrimPrefix(src, "\ufeff"))
	p.next()
	for p.cur.kind != lexEnd {
		if err := p.statement(); err != nil {
			return nil, err
		}
		if p.cur.kind == ';' {
			p.next()
		}
	}
	return &p.Program, nil
}

func isNameRune(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r)
}

// skip passes over blanks and comments, and says whether it passed a new line.
func (p *parser) skip() (newLine bool) {
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case c == '\n':
			newLine = true
			p.pos++
		case c == '#':
			if i := strings.IndexByte(p.src[p.pos:], '\n'); i >= 0 {
				p.pos += i
			} else {
				p.pos = len(p.src)
			}
		case strings.HasPrefix(p.src[p.pos:], "\\\n"):
			p.pos += 2
		case strings.HasPrefix(p.src[p.pos:], "\\\r\n"):
			p.pos += 3
		default:
			r, size := utf8.DecodeRuneInString(p.src[p.pos:])
			if !unicode.IsSpace(r) {
				return newLine
			}
			p.pos += size
		}
	}
	return newLine
}

// run passes over a name, a number, or one rune that is neither.
func (p *parser) run() byte {
	start, digits := p.pos, true
	for p.pos < len(p.src) {
		r, size := utf8.DecodeRuneInString(p.src[p.pos:])
		if !isNameRune(r) {
			if p.pos == start {
				p.pos += size
				return lexOther
			}
			break
		}
		digits = digits && r >= '0' && r <= '9'
		p.pos += size
	}
	switch c := p.src[start]; {
	case digits:
		return lexNumber
	case c >= '0' && c <= '9':
		return lexOther
	}
	return lexName
}

// next moves to the next lexeme.
func (p *parser) next() {
	p.last = p.cur.end
	newLine := p.skip()
	p.cur = lexeme{newLine: newLine, start: p.pos}
	if p.pos < len(p.src) {
		switch c := p.src[p.pos]; c {
		case ',', '[', ']', '(', ')', ';':
			p.cur.kind = c
			p.pos++
		case '=':
			p.cur.kind = c
			p.pos++
			if strings.HasPrefix(p.src[p.pos:], "=") {
				p.cur.kind = lexEquals
				p.pos++
			}
		default:
			p.cur.kind = p.run()
		}
	}
	p.cur.end = p.pos
}

func (p *parser) text() string { return p.src[p.cur.start:p.cur.end] }

func (p *parser) is(name string) bool { return p.cur.kind == lexName && p.text() == name }

// at fails at the current lexeme.
func (p *parser) at(format string, args ...any) error { return p.failAt(p.cur, format, args...) }

func (p *parser) failAt(l lexeme, format string, args ...any) error {
	line, col := position(p.src, l.start)
	return &Error{line, col, l.start, l.end, fmt.Sprintf(format, args...)}
}

// quoted is the current lexeme for a message: printable, short, in backquotes.
func (p *parser) quoted() string {
	text := strings.ToValidUTF8(p.text(), "\ufffd")
	if r := []rune(text); len(r) > 24 {
		text = string(r[:24]) + "..."
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		text = strings.Trim(strconv.Quote(text), `"`)
	}
	return "`" + text + "`"
}

// found describes the current lexeme.
func (p *parser) found() string {
	if p.cur.kind == lexEnd {
		return "the program ends here"
	}
	return "found " + p.quoted()
}

func (p *parser) expected(format string, args ...any) error {
	return p.at("%s: expected %s", p.found(), fmt.Sprintf(format, args...))
}

const statements = "a swap like `a,c=c,a`, values like `a,b,c,d,e=range(5)` or `a=3`, a list like `bits=[0,1,1]`, or a question like `assert a==2`"

func (p *parser) statement() error {
	switch {
	case p.is("bits"):
		return p.bitList()
	case p.is("assert"):
		return p.assertion()
	case p.cur.kind == '(' || p.cur.kind == '[' || p.isVar():
		return p.assignment()
	case p.cur.kind == lexName && utf8.RuneCountInString(p.text()) == 1:
		return p.at("unknown variable %s: expected one of a, b, c, d, e", p.quoted())
	case p.cur.kind == lexName:
		return p.at("unknown word %s: expected %s", p.quoted(), statements)
	}
	return p.expected("%s", statements)
}

func (p *parser) isVar() bool {
	_, ok := p.asVar()
	return ok
}

func (p *parser) asVar() (Var, bool) {
	if p.cur.kind != lexName || p.cur.end != p.cur.start+1 {
		return 0, false
	}
	c := p.src[p.cur.start]
	return Var(c - 'a'), c >= 'a' && c < 'a'+NumVars
}

// variable reads a variable's name.
func (p *parser) variable() (Var, error) {
	v, ok := p.asVar()
	if !ok {
		if p.cur.kind == lexName {
			return 0, p.at("unknown variable %s: expected one of a, b, c, d, e", p.quoted())
		}
		return 0, p.expected("a variable: a, b, c, d or e")
	}
	p.next()
	return v, nil
}

// defined refuses a variable without a value; l is where it stands.
func (p *parser) defined(v Var, l lexeme) error {
	if p.now.Vars[v] < 0 {
		return p.failAt(l, "`%s` has no value yet: expected something like `%s=3` or `a,b,c,d,e=range(5)` before this", v, v)
	}
	return nil
}

// punct reads one punctuation lexeme; after is the text before it, for the
// message.
func (p *parser) punct(kind byte, after string) error {
	if p.cur.kind == kind {
		p.next()
		return nil
	}
	want := string(rune(kind))
	if kind == lexEquals {
		want = "=="
	}
	return p.expected("`%s` after `%s`", want, after)
}

// number reads a number from 0 to most.
func (p *parser) number(what string, most int) (int, error) {
	if p.cur.kind != lexNumber {
		return 0, p.expected("%s from 0 to %d", what, most)
	}
	text := p.text()
	x, err := strconv.Atoi(text)
	if err != nil || x > most {
		return 0, p.expected("%s from 0 to %d", what, most)
	}
	if text[0] == '0' && x > 0 {
		return 0, p.expected("%s without leading zeros, like `%d`", what, x)
	}
	p.next()
	return x, nil
}

// bitList reads bits=[0,1,1].
func (p *parser) bitList() error {
	s := Stmt{Kind: KindBits, Value: -1, Start: p.cur.start}
	first := len(p.tokens)
	p.next()
	if p.cur.kind == '[' {
		return p.at("found `bits[` without `assert`: expected a list like `bits=[0,1,1]` or a question like `assert bits[a]==1`")
	}
	if err := p.punct('=', "bits"); err != nil {
		return err
	}
	if err := p.punct('[', "bits="); err != nil {
		return err
	}
	p.word(idBits, s.Start, p.last)
	list := []uint8{}
	for p.cur.kind != ']' && p.cur.kind != lexEnd {
		if len(list) == MaxBits {
			return p.at("found bit number %d: expected `]`, the list holds at most %d bits", MaxBits+1, MaxBits)
		}
		start := p.cur.start
		x, err := p.number("a bit", 1)
		if err != nil {
			return err
		}
		list = append(list, uint8(x))
		switch p.cur.kind {
		case ',':
			p.next()
		case ']', lexEnd:
		default:
			return p.expected("`,` or `]` in the list of bits")
		}
		p.word(idItem+int32(x), start, p.last)
	}
	if p.cur.kind == lexEnd {
		s.Open = true
	} else {
		p.word(idClose, p.cur.start, p.cur.end)
		p.next()
	}
	s.End = p.last
	p.end(s, first, list)
	return nil
}

// assertion reads assert a==2 and assert bits[a]==1.
func (p *parser) assertion() error {
	s := Stmt{Kind: KindAssert, Value: -1, Start: p.cur.start}
	first := len(p.tokens)
	p.word(idAssert, p.cur.start, p.cur.end)
	p.next()
	paren := p.cur.kind == '('
	if paren {
		p.next()
	} else if p.cur.kind == lexEnd {
		s.Open, s.End = true, p.last
		p.end(s, first, nil)
		return nil
	}
	start := p.cur.start
	var id int32
	var text string
	if p.is("bits") {
		s.Kind, id = KindAssertBit, idBitEquals
		bits := p.cur
		p.next()
		if err := p.punct('[', "assert bits"); err != nil {
			return err
		}
		if p.cur.kind == lexNumber {
			return p.at("%s: expected a variable that holds the index, like `a=%s` and then `assert bits[a]==1`", p.found(), p.text())
		}
		at := p.cur
		v, err := p.variable()
		if err != nil {
			return err
		}
		text = "assert bits[" + v.String()
		if err := p.punct(']', text); err != nil {
			return err
		}
		text += "]"
		if p.now.Bits == nil {
			return p.failAt(bits, "`bits` has no value yet: expected a list like `bits=[0,1,1]` before this")
		}
		if err := p.defined(v, at); err != nil {
			return err
		}
		if i := p.now.Vars[v]; int(i) >= len(p.now.Bits) {
			return p.failAt(at, "`%s` is %d, outside the list: expected an index below %d, the number of bits", v, i, len(p.now.Bits))
		}
		s.X = v
	} else {
		s.Kind, id = KindAssertVar, idEquals
		at := p.cur
		if p.cur.kind != lexName {
			return p.expected("a variable or `bits[...]` after `assert`, like `assert a==2`")
		}
		v, err := p.variable()
		if err != nil {
			return err
		}
		if err := p.defined(v, at); err != nil {
			return err
		}
		s.X = v
		text = "assert " + v.String()
	}
	if p.cur.kind == '=' {
		return p.at("found `=`, which sets a value: expected `==`, which compares, after `%s`", text)
	}
	if err := p.punct(lexEquals, text); err != nil {
		return err
	}
	p.word(id+int32(s.X), start, p.last)
	if p.cur.kind == lexEnd {
		s.Open = true
	} else {
		start := p.cur.start
		x, err := p.number("a number", MaxBits-1)
		if err != nil {
			return err
		}
		s.Value = x
		p.word(idNumber+int32(x), start, p.last)
		if paren {
			if err := p.punct(')', text+"=="+strconv.Itoa(x)); err != nil {
				return err
			}
		}
	}
	s.End = p.last
	p.end(s, first, nil)
	return nil
}

// bracket reads an opening ( or [ if there is one, and returns what closes it.
func (p *parser) bracket() byte {
	switch p.cur.kind {
	case '(':
		p.next()
		return ')'
	case '[':
		p.next()
		return ']'
	}
	return 0
}

// assignment reads every statement that begins with variables.
func (p *parser) assignment() error {
	start, first := p.cur.start, len(p.tokens)
	closing := p.bracket()
	var at []lexeme // where the variables stand
	var vars []Var
	for {
		l := p.cur
		v, err := p.variable()
		if err != nil {
			return err
		}
		for _, w := range vars {
			if v == w {
				return p.failAt(l, "found `%s` twice: expected different variables on the left of `=`", v)
			}
		}
		at, vars = append(at, l), append(vars, v)
		if p.cur.kind != ',' {
			break
		}
		p.next()
		if len(vars) > 1 && (p.cur.kind == '=' || p.cur.kind == closing) {
			break
		}
	}
	if closing == ']' && len(vars) == 1 {
		return p.failAt(lexeme{start: start, end: p.last}, "found a list of one variable: expected `%s=3`", vars[0])
	}
	if closing != 0 {
		if err := p.punct(closing, vars[len(vars)-1].String()); err != nil {
			return err
		}
	}
	if p.cur.kind == lexEquals {
		return p.at("found `==`, which compares: expected `=`, which sets a value, or a question like `assert a==2`")
	}
	if err := p.punct('=', p.src[at[0].start:p.last]); err != nil {
		return err
	}
	head := p.last
	inOrder := len(vars) == NumVars
	for i, v := range vars {
		inOrder = inOrder && int(v) == i
	}
	if p.cur.kind == lexEnd {
		switch {
		case len(vars) == 1:
			p.word(idAssign+int32(vars[0]), start, head)
			p.end(Stmt{Kind: KindAssign, X: vars[0], Value: -1, Open: true, Start: start, End: head}, first, nil)
			return nil
		case inOrder:
			p.word(idPointers, start, head)
			p.end(Stmt{Kind: KindPointers, Value: -1, Open: true, Start: start, End: head}, first, nil)
			return nil
		}
	}
	if p.cur.kind == '[' && len(vars) == 1 {
		return p.expected("a number after `%s=`, only `bits` holds a list", vars[0])
	}
	closing = p.bracket()
	switch {
	case p.isVar():
		return p.swap(vars, at, start, closing)
	case p.is("range"):
		return p.rangeValues(vars, at, start, head, inOrder, closing)
	case p.is("bits"):
		return p.expected("a number: a bit cannot be copied into a variable")
	}
	return p.values(vars, at, start, head, inOrder, closing)
}

// finish reads the bracket that closes the right side.
func (p *parser) finish(closing byte) error {
	if closing == 0 {
		return nil
	}
	return p.punct(closing, strings.TrimSpace(p.src[max(p.last-1, 0):p.last]))
}

// swap reads the right side of a,c=c,a.
func (p *parser) swap(vars []Var, at []lexeme, start int, closing byte) error {
	switch {
	case len(vars) == 1:
		return p.expected("a number: a variable cannot be copied, two can be swapped, like `a,b=b,a`")
	case len(vars) > 2:
		return p.failAt(at[2], "found a third variable: expected a swap of two, like `a,b=b,a`")
	}
	want := [2]Var{vars[1], vars[0]}
	for i, w := range want {
		l := p.cur
		v, err := p.variable()
		if err != nil {
			return err
		}
		if v != w {
			return p.failAt(l, "found `%s`: expected `%s`, a swap exchanges two variables, like `%s,%s=%s,%s`", v, w, vars[0], vars[1], vars[1], vars[0])
		}
		if i == 0 {
			if err := p.punct(',', v.String()); err != nil {
				return err
			}
		}
		if err := p.defined(v, l); err != nil {
			return err
		}
	}
	end := p.last
	if p.cur.kind == ',' {
		comma := p.cur
		p.next()
		if p.cur.kind != lexEnd && p.cur.kind != ';' && p.cur.kind != closing && !p.cur.newLine {
			return p.failAt(comma, "found `,` after a swap: expected a new line or a space")
		}
		end = p.last
	}
	if err := p.finish(closing); err != nil {
		return err
	}
	if closing != 0 {
		end = p.last
	}
	x, y := min(vars[0], vars[1]), max(vars[0], vars[1])
	first := len(p.tokens)
	p.word(idSwap+swapIndex[x][y], start, end)
	p.end(Stmt{Kind: KindSwap, X: x, Y: y, Value: -1, Start: start, End: end}, first, nil)
	return nil
}

// rangeValues reads range(5) as the right side.
func (p *parser) rangeValues(vars []Var, at []lexeme, start, head int, inOrder bool, closing byte) error {
	l := p.cur
	if len(vars) == 1 {
		return p.expected("a number after `%s=`, `range` gives several", vars[0])
	}
	p.next()
	if err := p.punct('(', "range"); err != nil {
		return err
	}
	var args []int
	for {
		if len(args) == 3 {
			return p.expected("`range(%d)`", len(vars))
		}
		x, err := p.number("a number", MaxBits-1)
		if err != nil {
			return err
		}
		args = append(args, x)
		if p.cur.kind != ',' {
			break
		}
		p.next()
		if p.cur.kind == ')' {
			break
		}
	}
	if err := p.punct(')', p.src[l.start:p.last]); err != nil {
		return err
	}
	l.end = p.last
	stop := args[0]
	plain := len(args) < 2 || args[0] == 0
	if len(args) > 1 {
		stop = args[1]
	}
	if stop != len(vars) || !plain || len(args) == 3 && args[2] != 1 {
		return p.failAt(l, "found `%s`: expected `range(%d)`, one value for each variable", p.src[l.start:l.end], len(vars))
	}
	if err := p.finish(closing); err != nil {
		return err
	}
	if inOrder {
		first := len(p.tokens)
		p.word(idRange, start, p.last)
		p.end(Stmt{Kind: KindRange, Value: -1, Start: start, End: p.last}, first, nil)
		return nil
	}
	nums := make([]lexeme, len(vars))
	xs := make([]int, len(vars))
	for i := range nums {
		nums[i], xs[i] = l, i
	}
	p.set(vars, at, xs, nums, start, head)
	return nil
}

// values reads numbers as the right side.
func (p *parser) values(vars []Var, at []lexeme, start, head int, inOrder bool, closing byte) error {
	xs := make([]int, 0, NumVars)
	nums := make([]lexeme, 0, NumVars)
	open := false
	for i := range vars {
		if inOrder && closing == 0 && i > 0 && p.cur.kind == lexEnd {
			open = true
			break
		}
		what := "a number"
		if len(vars) > 1 {
			what = fmt.Sprintf("%d numbers, one for each variable", len(vars))
		}
		l := p.cur
		x, err := p.number(what, MaxBits-1)
		if err != nil {
			return err
		}
		if len(vars) > 1 {
			if p.cur.kind == ',' {
				p.next()
			} else if i < len(vars)-1 && p.cur.kind != lexEnd {
				return p.expected("`,` and %d numbers, one for each variable", len(vars))
			}
		}
		l.end = p.last
		xs, nums = append(xs, x), append(nums, l)
	}
	if p.cur.kind == lexNumber {
		return p.expected("no more numbers, one for each variable")
	}
	if open {
		first := len(p.tokens)
		p.word(idPointers, start, head)
		for i, x := range xs {
			p.word(idItem+int32(x), nums[i].start, nums[i].end)
		}
		p.end(Stmt{Kind: KindPointers, Value: -1, Open: true, Start: start, End: p.last}, first, nil)
		return nil
	}
	if err := p.finish(closing); err != nil {
		return err
	}
	p.set(vars, at, xs, nums, start, head)
	return nil
}

// set appends the statement that gives all five variables values, or one
// assignment for each variable.
func (p *parser) set(vars []Var, at []lexeme, xs []int, nums []lexeme, start, head int) {
	if len(vars) == NumVars {
		first := len(p.tokens)
		p.word(idPointers, start, head)
		list := make([]uint8, NumVars)
		var num [NumVars]lexeme
		for i, v := range vars {
			list[v], num[v] = uint8(xs[i]), nums[i]
		}
		for v, x := range list {
			p.word(idItem+int32(x), num[v].start, num[v].end)
		}
		p.end(Stmt{Kind: KindPointers, Value: -1, Start: start, End: p.last}, first, list)
		return
	}
	for i, v := range vars {
		first := len(p.tokens)
		from, to := at[i].start, at[i].end
		if len(vars) == 1 {
			from, to = start, head
		}
		p.word(idAssign+int32(v), from, to)
		p.word(idNumber+int32(xs[i]), nums[i].start, nums[i].end)
		p.end(Stmt{Kind: KindAssign, X: v, Value: xs[i], Start: start, End: p.last}, first, nil)
	}
}
