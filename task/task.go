// Package task holds the three games that the models play, as programs in a
// small part of Python: their words, a generator, a parser, and an interpreter
// that knows the truth after every statement.
//
// Dimensions: T positions of the model's input, N words of the vocabulary. In
// the games m is the number of bits and n the number of swaps.
package task

import "fmt"

// Task names one of the three games, as in file names, links and JSON.
type Task string

// The three games.
const (
	StateTracking    Task = "st"     // five values, n swaps, which value does v hold?
	Recall           Task = "recall" // m bits, one index, which bit stands there?
	StateBasedRecall Task = "sbr"    // m bits, five pointers, n swaps, which bit does v point to?
)

// Limits of the generator and the parser.
const (
	MaxSwaps = 512 // swaps of a generated program
	MaxBits  = 128 // bits of a program, also the number of number words
)

// Tasks lists the games in the order in which a page shows them.
func Tasks() []Task { return []Task{StateTracking, Recall, StateBasedRecall} }

// ParseTask reads a task's short name.
func ParseTask(name string) (Task, error) {
	switch t := Task(name); t {
	case StateTracking, Recall, StateBasedRecall:
		return t, nil
	}
	return "", fmt.Errorf("task: got task %q, want st, recall or sbr", name)
}

// Title is the game's name in words.
func (t Task) Title() string {
	switch t {
	case StateTracking:
		return "state tracking"
	case Recall:
		return "recall"
	case StateBasedRecall:
		return "state-based recall"
	}
	return string(t)
}

// Chance is the accuracy of guessing: one of five values, or one of two bits.
func (t Task) Chance() float64 {
	if t == StateTracking {
		return 0.2
	}
	return 0.5
}

// Levels are the sizes at which models are scored: n swaps for state tracking,
// m bits for recall, and n = m of both for state-based recall.
func (t Task) Levels() []int { return []int{4, 8, 16, 32, 64, 128} }

// TrainedLevels are the sizes that the zoo's models saw in training. What lies
// beyond the last one is length extrapolation.
func (t Task) TrainedLevels() []int {
	if t == Recall {
		return []int{8, 16, 32, 64, 128}
	}
	return []int{8, 16, 32, 64}
}

// CheckLevel says whether [Generate] can make programs of size n. Sizes need
// not be one of [Task.Levels].
func (t Task) CheckLevel(n int) error {
	if _, err := ParseTask(string(t)); err != nil {
		return err
	}
	most := MaxBits
	if t == StateTracking {
		most = MaxSwaps
	}
	if n < 1 || n > most {
		return fmt.Errorf("task: %s: got size n = %d, want 1 to %d", t.Title(), n, most)
	}
	return nil
}
