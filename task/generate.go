package task

import (
	"math/bits"
	"math/rand/v2"
)

// GenVersion is the version of the generator. It stands in links and JSON: the
// same version, task, sizes, seed and index give the same program everywhere
// and always, so whatever changes a program must raise it.
//
// Version 1. With mix the finaliser of SplitMix64 and the task number 1 for
// state tracking, 2 for recall, 3 for state-based recall, 64-bit arithmetic
// wrapping:
//
//	hi = mix(mix(seed) ^ (number<<48 | m<<24 | n))
//	lo = mix(hi ^ mix(index))
//
// are the two seed words of PCG (128-bit state, DXSM output, as in Go's
// math/rand/v2). Each choice among k takes one 64-bit output u and is
// floor(u*k / 2^64). m is 0 for state tracking, n is 0 for recall. The order:
//
//	state tracking      n swaps of 10; the variable asked, of 5
//	recall              m bits of 2; the variable, of 5; the index, of m
//	state-based recall  m bits of 2; pointers a to e, of m; n swaps of 10; the variable asked, of 5
//
// Swaps are numbered ab ac ad ae bc bd be cd ce de.
const GenVersion = 1

type draws struct{ pcg rand.PCG }

func newDraws(number, m, n int, seed, index uint64) *draws {
	hi := mix(mix(seed) ^ (uint64(number)<<48 | uint64(m)<<24 | uint64(n)))
	lo := mix(hi ^ mix(index))
	var d draws
	d.pcg.Seed(hi, lo)
	return &d
}

func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// below returns a choice among k.
func (d *draws) below(k int) int {
	hi, _ := bits.Mul64(d.pcg.Uint64(), uint64(k))
	return int(hi)
}

// Generate makes program number index of a task at size n, by generator
// version [GenVersion]. It ends with a question and its true answer, so that
// the model's prompt is everything but the last token. It panics if
// [Task.CheckLevel] refuses the size: check user input with that first.
func Generate(t Task, n int, seed, index uint64) *Program {
	if err := t.CheckLevel(n); err != nil {
		panic(err)
	}
	switch t {
	case StateTracking:
		g := newGenerator(newDraws(1, 0, n, seed, index), 1+n+3, 2+n)
		g.words(Stmt{Kind: KindRange, Value: -1}, nil, idRange)
		g.swaps(n)
		return g.ask(KindAssertVar, Var(g.below(NumVars)))
	case Recall:
		g := newGenerator(newDraws(2, n, 0, seed, index), n+7, 3)
		g.bits(n)
		v, i := Var(g.below(NumVars)), g.below(n)
		g.words(Stmt{Kind: KindAssign, X: v, Value: i}, nil, idAssign+int32(v), idNumber+int32(i))
		return g.ask(KindAssertBit, v)
	}
	return GenerateSBR(n, n, seed, index)
}

// GenerateSBR makes program number index of state-based recall with m bits
// (1 to [MaxBits]) and n swaps (0 to [MaxSwaps]); at m = n it is [Generate]'s.
// It panics outside those bounds.
func GenerateSBR(m, n int, seed, index uint64) *Program {
	if m < 1 || m > MaxBits || n < 0 || n > MaxSwaps {
		panic("task: GenerateSBR: want 1 to 128 bits and 0 to 512 swaps")
	}
	g := newGenerator(newDraws(3, m, n, seed, index), m+n+11, 3+n)
	g.bits(m)
	var list [NumVars]uint8
	ids := make([]int32, 1, 1+NumVars)
	ids[0] = idPointers
	for v := range list {
		list[v] = uint8(g.below(m))
		ids = append(ids, idItem+int32(list[v]))
	}
	g.words(Stmt{Kind: KindPointers, Value: -1}, list[:], ids...)
	g.swaps(n)
	return g.ask(KindAssertBit, Var(g.below(NumVars)))
}

type generator struct {
	*builder
	*draws
	text []byte
}

func newGenerator(d *draws, tokens, stmts int) *generator {
	return &generator{builder: newBuilder(tokens, stmts), draws: d, text: make([]byte, 0, 8*tokens)}
}

// words appends one statement as a line of the source.
func (g *generator) words(s Stmt, list []uint8, ids ...int32) {
	first := len(g.tokens)
	s.Start = len(g.text)
	for i, id := range ids {
		if i > 0 {
			g.text = append(g.text, ' ')
		}
		start := len(g.text)
		g.text = append(g.text, words[id]...)
		g.word(id, start, len(g.text))
	}
	s.End = len(g.text)
	g.text = append(g.text, '\n')
	g.end(s, first, list)
}

func (g *generator) bits(m int) {
	list := make([]uint8, m)
	ids := make([]int32, 1, m+2)
	ids[0] = idBits
	for i := range list {
		list[i] = uint8(g.below(2))
		ids = append(ids, idItem+int32(list[i]))
	}
	g.words(Stmt{Kind: KindBits, Value: -1}, list, append(ids, idClose)...)
}

func (g *generator) swaps(n int) {
	for range n {
		i := g.below(len(swapPairs))
		g.words(Stmt{Kind: KindSwap, X: swapPairs[i][0], Y: swapPairs[i][1], Value: -1}, nil, idSwap+int32(i))
	}
}

func (g *generator) ask(k Kind, v Var) *Program {
	word, value := idEquals+int32(v), int(g.now.Vars[v])
	if k == KindAssertBit {
		word = idBitEquals + int32(v)
		value, _ = g.now.Bit(v)
	}
	g.words(Stmt{Kind: k, X: v, Value: value}, nil, idAssert, word, idNumber+int32(value))
	g.source = string(g.text)
	return &g.Program
}
