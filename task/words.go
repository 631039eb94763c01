package task

import (
	"fmt"
	"strconv"
)

// NumWords is N, the size of the vocabulary.
const NumWords = 288

// The ids of the two special words. Pad never occurs in a program.
const (
	Pad int32 = 0
	BOS int32 = 1
)

// Ids of the words, or of the first of a family: + variable for Assign, Equals
// and BitEquals, + pair for swaps, + value for numbers.
const (
	idAssert    int32 = 2
	idBits      int32 = 3
	idClose     int32 = 4
	idPointers  int32 = 5
	idRange     int32 = 6
	idAssign    int32 = 7
	idEquals    int32 = 12
	idBitEquals int32 = 17
	idSwap      int32 = 22
	idItem      int32 = 32  // a number in a list, with its comma
	idNumber    int32 = 160 // a number alone
)

// Var is one of the five variables, 0 to 4 for a to e.
type Var uint8

// NumVars is the number of variables.
const NumVars = 5

// String returns the variable's letter.
func (v Var) String() string { return "abcde"[v : v+1] }

// swapPairs lists the ten unordered swaps in the order of their ids.
var swapPairs = [10][2]Var{{0, 1}, {0, 2}, {0, 3}, {0, 4}, {1, 2}, {1, 3}, {1, 4}, {2, 3}, {2, 4}, {3, 4}}

// swapIndex holds the place of a pair in swapPairs, whichever comes first.
var swapIndex = func() (at [NumVars][NumVars]int32) {
	for i, p := range swapPairs {
		at[p[0]][p[1]], at[p[1]][p[0]] = int32(i), int32(i)
	}
	return at
}()

var words = func() []string {
	w := []string{"<pad>", "<bos>", "assert", "bits=[", "]", "a,b,c,d,e=", "a,b,c,d,e=range(5)"}
	for _, form := range []string{"%s=", "%s==", "bits[%s]=="} {
		for v := range Var(NumVars) {
			w = append(w, fmt.Sprintf(form, v))
		}
	}
	for _, p := range swapPairs {
		w = append(w, fmt.Sprintf("%[1]s,%[2]s=%[2]s,%[1]s", p[0], p[1]))
	}
	for _, after := range []string{",", ""} {
		for i := range MaxBits {
			w = append(w, strconv.Itoa(i)+after)
		}
	}
	return w
}()

var ids = func() map[string]int32 {
	m := make(map[string]int32, len(words))
	for i, w := range words {
		m[w] = int32(i)
	}
	return m
}()

// Word returns the word with an id, or "" when there is none.
func Word(id int32) string {
	if id < 0 || int(id) >= len(words) {
		return ""
	}
	return words[id]
}

// ID returns a word's id.
func ID(word string) (id int32, ok bool) {
	id, ok = ids[word]
	return id, ok
}

// NumberID returns the id of a number that stands alone, such as an answer;
// value is 0 to 127.
func NumberID(value int) int32 { return idNumber + int32(value) }

// Number returns the value of a number that stands alone.
func Number(id int32) (value int, ok bool) {
	if id < idNumber || id >= NumWords {
		return 0, false
	}
	return int(id - idNumber), true
}

// Encode maps words to ids [T], with <bos> first. A word that is not in the
// table is an error.
func Encode(words []string) ([]int32, error) {
	out := make([]int32, 1, len(words)+1)
	out[0] = BOS
	for i, w := range words {
		id, ok := ids[w]
		if !ok {
			return nil, fmt.Errorf("task: word %d: got %q, want one of the vocabulary's %d words", i, w, NumWords)
		}
		out = append(out, id)
	}
	return out, nil
}

// Decode maps ids [T] to words and leaves out <bos> and <pad>. An id outside the
// table is an error.
func Decode(ids []int32) ([]string, error) {
	out := make([]string, 0, len(ids))
	for i, id := range ids {
		if id < 0 || id >= NumWords {
			return nil, fmt.Errorf("task: id %d: got %d, want 0 to %d", i, id, NumWords-1)
		}
		if id != BOS && id != Pad {
			out = append(out, words[id])
		}
	}
	return out, nil
}

// AskVar returns the ids of `assert v==`, whose next word is v's value.
func AskVar(v Var) []int32 { return []int32{idAssert, idEquals + int32(v)} }

// AskBit returns the ids of `assert bits[v]==`, whose next word is v's bit.
func AskBit(v Var) []int32 { return []int32{idAssert, idBitEquals + int32(v)} }
