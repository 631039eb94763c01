package bpe

import (
	"bytes"
	"container/heap"
	"encoding/json"
	"fmt"
	"strings"
)

// twoTokens is a merge as it is written: ["a","b"] or, in older files, "a b".
type twoTokens [2]string

func (p *twoTokens) UnmarshalJSON(data []byte) error {
	// There are 250,000 of them, mostly without escapes.
	if !bytes.ContainsRune(data, '\\') {
		parts := bytes.Split(data, []byte{'"'})
		switch {
		case data[0] == '[' && len(parts) == 5 && len(bytes.TrimSpace(parts[2])) == 1:
			p[0], p[1] = string(parts[1]), string(parts[3])
			return nil
		case data[0] == '"' && bytes.Count(data, []byte{' '}) == 1:
			a, b, _ := bytes.Cut(data[1:len(data)-1], []byte{' '})
			p[0], p[1] = string(a), string(b)
			return nil
		}
	}
	var two []string
	var line string
	if json.Unmarshal(data, &line) == nil {
		two = strings.Split(line, " ")
	} else if err := json.Unmarshal(data, &two); err != nil {
		two = nil
	}
	if len(two) != 2 {
		return fmt.Errorf("merges: got %.60q, want two tokens", data)
	}
	p[0], p[1] = two[0], two[1]
	return nil
}

type pair struct{ a, b int32 }

// merge is what a pair becomes; of several the one of the lowest rank comes first.
type merge struct{ rank, id int32 }

// word is the row of tokens of one word while its pairs merge. Its memory is used again.
type word struct {
	row   []symbol
	queue queue
}

// symbol is a token of the row and its neighbours, -1 at the ends; a token that went into its left
// neighbour has id -1.
type symbol struct{ id, prev, next int32 }

// candidate is a pair that could merge: the symbol at pos and the next one, as they were.
type candidate struct {
	merge
	pos int32
	pair
}

// merge adds the tokens of a word: its bytes, merged pair by pair, the lowest rank first and of
// equals the leftmost, which takes n log n.
func (w *word) merge(ids []int, s string, t *Tokenizer) []int {
	w.row, w.queue = w.row[:0], w.queue[:0]
	for i := range len(s) {
		w.row = append(w.row, symbol{t.bytes[s[i]], int32(i) - 1, int32(i) + 1})
	}
	if len(s) > 0 {
		w.row[len(s)-1].next = -1
	}
	for i := range w.row {
		if c, ok := w.candidate(int32(i), t.merges); ok {
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
		for _, i := range []int32{left.prev, c.pos} {
			if c, ok := w.candidate(i, t.merges); ok {
				heap.Push(&w.queue, c)
			}
		}
	}
	for _, s := range w.row {
		if s.id >= 0 {
			ids = append(ids, int(s.id))
		}
	}
	return ids
}

// candidate is the pair of the symbol at i and its right neighbour, if it merges.
func (w *word) candidate(i int32, merges map[pair]merge) (candidate, bool) {
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
