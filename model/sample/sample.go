// Package sample picks the next token from logits.
package sample

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// Options say how to pick.
type Options struct {
	Temp float64 // 0 takes the most probable token
	TopK int     // only this many of the most probable tokens; 0 is all
	TopP float64 // only the most probable tokens that together reach this share, in (0, 1]; 1 is all
	Seed uint64
}

// Sampler picks tokens one after the other; the same options and logits give the same tokens.
type Sampler struct {
	opts Options
	rng  *rand.Rand
	left []candidate
	cum  []float64
}

// candidate is a token and its weight, relative to the most probable one's.
type candidate struct {
	id     int
	weight float64
}

// New checks options. The error is one line that begins with the option's name in lower case, with
// a dash within: temp, top-k, top-p.
func New(o Options) (*Sampler, error) {
	switch {
	case !(o.Temp >= 0) || math.IsInf(o.Temp, 1):
		return nil, fmt.Errorf("temp: got %v, want 0 or a positive number", o.Temp)
	case o.TopK < 0:
		return nil, fmt.Errorf("top-k: got %d, want 0 for all tokens or a positive number", o.TopK)
	case !(o.TopP > 0 && o.TopP <= 1):
		return nil, fmt.Errorf("top-p: got %v, want more than 0 and at most 1", o.TopP)
	}
	return &Sampler{opts: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}, nil
}

// Greedy reports whether the most probable token is picked, so that a device's own candidates will do.
func (s *Sampler) Greedy() bool { return s.opts.Temp == 0 || s.opts.TopK == 1 }

// Next picks a token from logits [N]: the most probable one, the first of equals, or at a
// temperature one by its softmax probability among those that top-k and then top-p leave. A NaN or
// +Inf is an error; a token at -Inf is never picked.
func (s *Sampler) Next(logits []float32) (int, error) {
	if len(logits) == 0 {
		return 0, errors.New("sample: got no logits, want one for each token")
	}
	best := 0
	for i, v := range logits {
		if v != v || v > math.MaxFloat32 {
			return 0, fmt.Errorf("sample: the logit of token %d: got %v, want a finite number: the checkpoint is damaged or its training diverged", i, v)
		}
		if v > logits[best] {
			best = i
		}
	}
	if logits[best] < -math.MaxFloat32 {
		return 0, errors.New("sample: got -Inf for every token, want a finite number")
	}
	if s.Greedy() {
		return best, nil
	}
	least := float32(math.Inf(-1))
	if k := s.opts.TopK; k > 0 && k < len(logits) {
		least = kth(logits, k)
	}
	s.left = s.left[:0]
	sum := 0.0
	for i, v := range logits {
		if v < least {
			continue
		}
		if w := math.Exp((float64(v) - float64(logits[best])) / s.opts.Temp); w > 0 {
			s.left = append(s.left, candidate{i, w})
			sum += w
		}
	}
	s.filter(sum)
	s.cum = s.cum[:0]
	sum = 0
	for _, c := range s.left {
		sum += c.weight
		s.cum = append(s.cum, sum)
	}
	u := s.rng.Float64() * sum
	// The first whose share ends beyond u; u rounds up to sum at most.
	i := sort.Search(len(s.cum), func(i int) bool { return s.cum[i] > u })
	return s.left[min(i, len(s.left)-1)].id, nil
}

// filter leaves what top-k and then top-p leave, the most probable first; sum is all weights. Of
// those that are as probable as the last of the k it still finds all.
func (s *Sampler) filter(sum float64) {
	k, p := s.opts.TopK, s.opts.TopP
	if k == 0 {
		if p == 1 {
			return
		}
		// Tokens below this weight have less than 1 - p together, so they need no sorting; with room
		// for rounding.
		floor := (1 - 1e-9) * (1 - p) * sum / float64(len(s.left))
		s.left = slices.DeleteFunc(s.left, func(c candidate) bool { return c.weight < floor })
	}
	slices.SortFunc(s.left, func(a, b candidate) int {
		switch {
		case a.weight > b.weight:
			return -1
		case a.weight < b.weight:
			return 1
		}
		return a.id - b.id
	})
	if k > 0 { // top-p is a share of what top-k leaves
		s.left = s.left[:min(k, len(s.left))]
		sum = 0
		for _, c := range s.left {
			sum += c.weight
		}
	}
	if p == 1 {
		return
	}
	reached := 0.0
	for i, c := range s.left {
		if reached += c.weight; reached >= p*sum {
			s.left = s.left[:i+1]
			return
		}
	}
}

// kth is the k-th largest logit.
func kth(logits []float32, k int) float32 {
	h := smallest(slices.Clone(logits[:k]))
	heap.Init(&h)
	for _, v := range logits[k:] {
		if v > h[0] {
			h[0] = v
			heap.Fix(&h, 0)
		}
	}
	return h[0]
}

type smallest []float32

func (h smallest) Len() int           { return len(h) }
func (h smallest) Less(i, j int) bool { return h[i] < h[j] }
func (h smallest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *smallest) Push(any)          {}
func (h *smallest) Pop() any          { return nil }
