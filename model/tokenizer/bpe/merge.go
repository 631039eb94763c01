package bpe

import "container/heap"

type pair struct{ a, b int }

// merge is what a pair becomes; of several the one of the lowest rank comes first.
type merge struct{ rank, id int }

// word is the row of tokens of one word while its pairs merge. Its memory is used again.
type word struct {
	row   []symbol
	queue queue
}

// symbol is a token of the row and its neighbours, -1 at the ends; a token that went into its left
// neighbour has id -1.
type symbol struct{ id, prev, next int }

// candidate is a pair that could merge: the symbol at pos and the next one, as they were.
type candidate struct {
	merge
	pos int
	pair
}

// merge adds the tokens of a word: its bytes, merged pair by pair, the lowest rank first and of
// equals the leftmost, which takes n log n.
func (w *word) merge(ids []int, s string, t *Tokenizer) []int {
	w.row, w.queue = w.row[:0], w.queue[:0]
	for i := range len(s) {
		w.row = append(w.row, symbol{t.bytes[s[i]], i - 1, i + 1})
	}
	if len(s) > 0 {
		w.row[len(s)-1].next = -1
	}
	for i := range w.row {
		if c, ok := w.candidate(i, t.merges); ok {
			w.queue = append(w.queue, c)
		}
	}
	heap.Init(&w.queue)
	for len(w.queue) > 0 {
		c := heap.Pop(&w.queue).(candidate)
		left := &w.row[c.pos]
		if left.id != c.a || left.next < 0 || w.row[left.next].id != c.b {
			continue // one of the two has merged since
		}
		right := &w.row[left.next]
		left.id, left.next, right.id = c.id, right.next, -1
		if left.next >= 0 {
			w.row[left.next].prev = c.pos
		}
		for _, i := range []int{left.prev, c.pos} {
			if c, ok := w.candidate(i, t.merges); ok {
				heap.Push(&w.queue, c)
			}
		}
	}
	for _, s := range w.row {
		if s.id >= 0 {
			ids = append(ids, s.id)
		}
	}
	return ids
}

// candidate is the pair of the symbol at i and its right neighbour, if it merges.
func (w *word) candidate(i int, merges map[pair]merge) (candidate, bool) {
	if i < 0 || w.row[i].next < 0 {
		return candidate{}, false
	}
	p := pair{w.row[i].id, w.row[w.row[i].next].id}
	m, ok := merges[p]
	return candidate{m, i, p}, ok
}

type queue []candidate

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].rank < q[j].rank || q[i].rank == q[j].rank && q[i].pos < q[j].pos
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	*q = (*q)[:last]
	return c
}
