package construct

import (
	"strings"
)

// slot is the number of a variable's letter.
func slot(letter byte) int { return int(letter - 'a') }

// swapped returns the slots of a word like a,c=c,a.
func swapped(word string) (x, y int, ok bool) {
	if len(word) != len("a,c=c,a") || word[1] != ',' || word[3] != '=' {
		return 0, 0, false
	}
	return slot(word[0]), slot(word[2]), true
}

const (
	slots = 5
	// loud is the weight that turns a 1 in the residual stream into a logit.
	loud = 20
	// closed and open move beta's logit: closed alone gives 0, closed + open 1,
	// closed + 2 open 2.
	closed, open = -40, 40
)

// stateTracking builds one layer whose five heads each hold one column of the
// permutation matrix: S of head h, [K=5,V=1], has a 1 in the slot whose
// variable holds the value h.
//
// range(5) clears the states and writes slot h of head h; a swap of x and y
// reflects every head along (e_x - e_y)/sqrt 2; v== reads slot v and opens the
// gates.
func stateTracking(words []string) *net {
	// Dimensions of the residual stream.
	const (
		one   = 0
		write = 1
		swap  = 2
		ask   = 3
		key   = 4  // +slot: the swap's key before SiLU
		query = 9  // +slot: the slot asked
		say   = 14 // +value: the answer
		fill  = 19 // and 20
		dims  = 24
	)
	n := newNet(words, dims, slots, slots, 1, 4)
	plus, weight := product(unsilu(dip))
	const faint = 1.0 / 128
	for w, word := range words {
		e := func(at int, x float64) { n.embed.set(w, at, x) }
		e(one, 1)
		x, y, isSwap := swapped(word)
		switch {
		case word == "a,b,c,d,e=range(5)":
			e(write, 1)
		case isSwap:
			e(swap, 1)
			e(key+x, plus)
			e(key+y, -peak/weight)
		case len(word) == 3 && strings.HasSuffix(word, "=="):
			e(ask, 1)
			e(query+slot(word[0]), faint)
		case len(word) == 1 && word[0] >= '0' && word[0] < '0'+slots:
			n.head.set(w, say+int(word[0]-'0'), loud)
		}
	}
	n.level(fill)

	l := n.addGDN()
	for h := range slots {
		l.b.set(h, one, closed)
		l.b.set(h, write, open)
		l.b.set(h, swap, 2*open)
		l.a.set(h, write, forget-keep)
		l.v.set(h, write, peak)
		l.g.set(h, ask, peak)
		l.k.set(h*slots+h, write, peak)
		for s := range slots {
			l.k.set(h*slots+s, key+s, weight)
			// A faint query, because the norm over V = 1 is close to a sign: it
			// would blow up the rounding errors in the empty slots.
			l.q.set(h*slots+s, query+s, faint)
		}
		l.o.set(say+h, h, 1)
	}
	return n
}
