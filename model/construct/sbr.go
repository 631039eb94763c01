package construct

import (
	"math"
	"strconv"
	"strings"
)

// The code of a position has seven parts: parity, and three clock hands that
// turn once in 64, 16 and 4 steps of two bits. Its square norm is 4, and that of
// another position matches it to at most 3.
const (
	parts   = 7
	parity  = 6 // its place; the hands fill 0 to 5
	handsOf = 3
)

var turns = [handsOf]float64{1, 4, 16}

// tilt is how far a bit's key lies from 45 degrees: to one side for even bits,
// to the other for odd ones, so that two reflections turn hand f by 4 tilts.
func tilt(hand int) float64 { return 2 * math.Pi * turns[hand] / 64 / 4 }

// code is what the hands and the parity read at bit number i: a reflected
// identity after an even bit, a rotation after an odd one.
func code(i int) (c [parts]float64) {
	for h := range turns {
		turn := 4 * tilt(h)
		sin, cos := math.Sincos(float64(i/2+1) * turn)
		if i%2 == 0 {
			sin, cos = math.Sincos((float64(i/2)+0.5)*turn - math.Pi/2)
		}
		c[2*h], c[2*h+1] = cos, sin
	}
	c[parity] = 1 - 2*float64(i%2)
	return c
}

// number returns the value of a word like `36` or `36,` and whether it has a comma.
func number(word string) (x int, item, ok bool) {
	digits, item := strings.CutSuffix(word, ",")
	x, err := strconv.Atoi(digits)
	return x, item, err == nil
}

// stateBasedRecall builds three layers of the delta rule, H = 4, K = 5, V = 4,
// and one of attention, D = 64.
//
// Layer 0 counts the parity of the bits, and marks each number that an earlier
// word makes the value of a variable. Layer 1 turns the hands, and passes the
// mark of c on to d and e. Layer 2 keeps the five pointers, as codes, in the
// rows of its states; swaps reflect them. Layer 3 looks for the bit whose hands
// agree with the pointer. Both questions read layer 2: bits[v]== goes on to
// layer 3, v== straight to the head.
func stateBasedRecall(words []string) *net {
	// Dimensions of the residual stream.
	const (
		one    = 0
		num    = 1  // any number
		open0  = 2  // bits=[
		close0 = 3  // ]
		bos    = 4  //
		assign = 5  // +slot: v=
		all    = 10 // a,b,c,d,e=
		swap   = 11
		key    = 12 // +slot: the swap's key before SiLU
		askVar = 17 // v==
		askBit = 18 // bits[v]==
		query  = 19 // +slot: the slot asked
		value  = 24 // +part: a number's code before SiLU
		bit    = 31 // +0, +1: the words 0, and 1,
		clock  = 33 // +part: written by layers 0 and 1
		mark   = 40 // +slot: the number is that slot's value; by layers 0 and 1
		markC  = 45 // as mark of c, where c stands in the list of five; by layer 0
		find   = 46 // +part: the pointer to look up; by layer 2
		say    = 53 // +part: the pointer asked; by layer 2
		found  = 60 // +0, +1: the bit found; by layer 3
		fill   = 62 // and 63
		dims   = 64
	)
	n := newNet(words, dims, 4, slots, 4, 1)
	plus, weight := product(unsilu(dip))
	for w, word := range words {
		e := func(at int, x float64) { n.embed.set(w, at, x) }
		e(one, 1)
		x, y, isSwap := swapped(word)
		v, item, isNum := number(word)
		switch {
		case word == "<bos>":
			e(bos, 1)
		case word == "bits=[":
			e(open0, 1)
		case word == "]":
			e(close0, 1)
		case word == "a,b,c,d,e=":
			e(all, 1)
		case isSwap:
			e(swap, 1)
			e(key+x, plus)
			e(key+y, -peak/weight)
		case isNum:
			e(num, 1)
			for i, c := range code(v) {
				// A quarter, because SiLU does not go below -0.278.
				e(value+i, unsilu(c/4))
				if !item {
					n.head.set(w, say+i, loud*c)
				}
			}
			if v < 2 && item {
				e(bit+v, 1)
			} else if v < 2 {
				n.head.set(w, found+v, loud)
			}
		case strings.HasPrefix(word, "bits["):
			e(askBit, 1)
			e(query+slot(word[5]), 1)
		case strings.HasSuffix(word, "==") && len(word) == 3:
			e(askVar, 1)
			e(query+slot(word[0]), 1)
		case strings.HasSuffix(word, "=") && len(word) == 2:
			e(assign+slot(word[0]), 1)
		}
	}
	n.level(fill)

	// Layer 0. Head 0: a cell that changes its sign with every bit.
	l := n.addGDN()
	l.b.set(0, one, closed)
	l.b.set(0, open0, open)
	l.a.set(0, close0, forget-keep)
	l.q.set(0, one, peak)
	l.k.set(0, one, peak)
	l.v.set(0, open0, peak)
	for v := range 2 {
		l.b.set(0, bit+v, 2*open)
		l.g.set(0, bit+v, peak)
	}
	n.speak(l, 0, 0, clock+parity, -n.spoken(1, 1))
	// Heads 1 and 2: which variable's value a number is. The convolution sees
	// three words back, so d and e of a list of five wait for layer 1.
	n.feature(l, 1, one)
	n.feature(l, 2, one)
	for i, f := range []struct {
		from []int
		back int
		to   int
	}{
		{[]int{assign, all}, 1, mark},
		{[]int{assign + 1}, 1, mark + 1},
		{[]int{all}, 2, mark + 1},
		{[]int{assign + 2}, 1, mark + 2},
		{[]int{all}, 3, markC},
		{[]int{assign + 3}, 1, mark + 3},
		{[]int{assign + 4}, 1, mark + 4},
	} {
		h, v := 1+i/n.v, i%n.v
		for _, from := range f.from {
			l.v.set(h*n.v+v, from, peak)
		}
		n.lag(l.vTap, h*n.v+v, f.back)
		l.g.set(h*n.v+v, num, peak)
		n.speak(l, h, v, f.to, n.spoken(1, 1))
	}

	// Layer 1. Head 0: d and e stand one and two words after c in the list.
	l = n.addGDN()
	marked := n.shrink(1)
	n.feature(l, 0, one)
	for i, s := range []int{3, 4} {
		l.v.set(i, markC, peak/marked)
		n.lag(l.vTap, i, i+1)
		n.speak(l, 0, i, mark+s, n.spoken(1, 1))
		l.g.set(i, num, peak)
	}
	// Heads 1 to 3: the hands.
	counted := n.shrink(1)
	for f := range turns {
		h := 1 + f
		l.b.set(h, one, closed)
		l.b.set(h, bos, open)
		l.b.set(h, open0, open)
		l.a.set(h, close0, forget-keep)
		l.q.set(h*n.k, one, peak/counted)
		// The state starts as the identity, row by row.
		l.k.set(h*n.k, bos, peak)
		l.v.set(h*n.v, bos, peak)
		l.k.set(h*n.k+1, open0, peak)
		l.v.set(h*n.v+1, open0, peak)
		sin, cos := math.Sincos(math.Pi/4 + tilt(f))
		mid, side := (unsilu(cos)+unsilu(sin))/2, (unsilu(cos)-unsilu(sin))/2
		for v := range 2 {
			l.b.set(h, bit+v, 2*open)
			l.k.set(h*n.k, bit+v, mid/counted)
			l.k.set(h*n.k+1, bit+v, mid/counted)
			for c := range 2 {
				l.g.set(h*n.v+c, bit+v, peak/counted)
			}
		}
		l.k.set(h*n.k, clock+parity, side/counted)
		l.k.set(h*n.k+1, clock+parity, -side/counted)
		for c := range 2 {
			n.speak(l, h, c, clock+2*f+c, n.spoken(1, 1))
		}
	}

	// Layer 2: the slots. Heads 0 and 1 hold the two halves of the codes and
	// answer bits[v]==, heads 2 and 3 hold the same and answer v==.
	l = n.addGDN()
	halves := [2][]int{{0, 1, 2, 3}, {4, 5, parity}}
	for h := range n.heads {
		gate, out := askBit, find
		if h >= 2 {
			gate, out = askVar, say
		}
		l.b.set(h, one, closed)
		l.b.set(h, num, open) // without a mark the key is zero, and nothing is written
		l.b.set(h, swap, 2*open)
		for s := range slots {
			l.q.set(h*n.k+s, query+s, peak)
			l.k.set(h*n.k+s, key+s, weight)
			l.k.set(h*n.k+s, mark+s, peak/marked)
		}
		l.k.set(h*n.k+2, markC, peak/marked)
		for i, part := range halves[h%2] {
			l.v.set(h*n.v+i, value+part, 1/marked)
			l.g.set(h*n.v+i, gate, peak)
			// Half a code has the square norm 2.
			n.speak(l, h, i, out+part, n.spoken(1.0/4, 2))
		}
	}

	// Layer 3: a bit's key is its code, the question's query the pointer's. All
	// else rests on <bos>, whose value is zero: the layer has no gate, and its
	// norm would blow up an average.
	look := n.addAttention()
	const rest = parts // the place of <bos> in queries and keys
	for i := range parts {
		look.q.set(i, find+i, 1)
		look.k.set(i, clock+i, 1)
	}
	look.q.set(rest, one, 1)
	look.k.set(rest, bos, 1)
	look.qNorm.fill(4)
	look.kNorm.fill(4)
	look.norm.fill(1 / math.Sqrt(dims))
	for v := range 2 {
		look.v.set(v, bit+v, 1)
		look.o.set(found+v, v, 1)
	}
	return n
}

// feature makes a head forget at once, so that what it says depends on the last
// W words alone: its value.
func (n *net) feature(l *gdn, head, one int) {
	l.dtBias.set(head, 0, forget)
	l.q.set(head*n.k, one, peak)
	l.k.set(head*n.k, one, peak)
}

// speak lets a head's value write to the residual stream, divided by what the
// norm makes of it.
func (n *net) speak(l *gdn, head, value, to int, spoken float64) {
	l.o.set(to, head*n.v+value, 1/spoken)
}
