package model

import (
	"context"
	"fmt"
	"math"
)

// Deviation is how far the logits of one model are from those of another, over some tokens.
type Deviation struct {
	Tokens int     `json:"tokens"`
	RMS    float64 `json:"rms"`  // of the difference, over that of the logits about their mean
	KL     float64 `json:"kl"`   // mean Kullback-Leibler divergence of the next token, in nats
	Same   float64 `json:"same"` // share of tokens after which the likeliest next one is the same
}

func (d Deviation) String() string {
	return fmt.Sprintf("logits off by %.2g (RMS, relative), KL %.2g nats, the same likeliest token in %.0f %% of %d", d.RMS, d.KL, 100*d.Same, d.Tokens)
}

// LogitError compares the logits of got with those of want after each token of a [Probe].
func LogitError(ctx context.Context, want, got *Model) (Deviation, error) {
	a, err := Probe(ctx, want)
	if err != nil {
		return Deviation{}, err
	}
	b, err := Probe(ctx, got)
	if err != nil {
		return Deviation{}, err
	}
	return Deviate(a, b, want.Config.N)
}

// Probe returns the logits [T, N] after each of some tokens drawn from the whole vocabulary, always
// the same: at most 64, and fewer where the vocabulary is large. No text is like them, so they are
// hard on rounded weights.
func Probe(ctx context.Context, m *Model) ([]float32, error) {
	n := m.Config.N
	tokens := min(64, max(4<<20/n, 8))
	if m.Config.MaxPos > 0 {
		tokens = min(tokens, m.Config.MaxPos)
	}
	ids := make([]int, tokens)
	for i := range ids {
		ids[i] = int(uint64(i+1) * 0x9E3779B97F4A7C15 >> 20 % uint64(n))
	}
	return logitsOf(ctx, m, ids)
}

// Deviate compares logits [T, n].
func Deviate(want, got []float32, n int) (Deviation, error) {
	if len(want) != len(got) || n == 0 || len(want) == 0 || len(want)%n != 0 {
		return Deviation{}, fmt.Errorf("model: comparing logits: got %d and %d numbers, want as many rows of %d", len(want), len(got), n)
	}
	d := Deviation{Tokens: len(want) / n}
	var square, off float64
	for t := range d.Tokens {
		a, b := want[t*n:][:n], got[t*n:][:n]
		mean, topA, topB := 0.0, 0, 0
		for i := range a {
			mean += float64(a[i]) / float64(n)
			if a[i] > a[topA] {
				topA = i
			}
			if b[i] > b[topB] {
				topB = i
			}
		}
		var sumA, sumB float64
		for i := range a {
			square += (float64(a[i]) - mean) * (float64(a[i]) - mean)
			off += (float64(a[i]) - float64(b[i])) * (float64(a[i]) - float64(b[i]))
			sumA += math.Exp(float64(a[i] - a[topA]))
			sumB += math.Exp(float64(b[i] - b[topB]))
		}
		logA, logB := float64(a[topA])+math.Log(sumA), float64(b[topB])+math.Log(sumB)
		for i := range a {
			p := float64(a[i]) - logA
			d.KL += math.Exp(p) * (p - (float64(b[i]) - logB)) / float64(d.Tokens)
		}
		if topA == topB {
			d.Same += 1 / float64(d.Tokens)
		}
	}
	d.RMS, d.KL = math.Sqrt(off/math.Max(square, 1e-30)), math.Max(d.KL, 0)
	return d, nil
}

// logitsOf reads ids token by token, in few tokens at a time, and returns the logits after each.
func logitsOf(ctx context.Context, m *Model, ids []int) ([]float32, error) {
	r, err := m.NewRunner(Options{Seqs: 1, Slots: 2, Tokens: min(16, len(ids)), Positions: len(ids), TopK: 1})
	if err != nil {
		return nil, err
	}
	defer r.Release()
	s := r.NewSession()
	var all []float32
	for len(ids) > 0 {
		n := min(len(ids), r.Opts.Tokens, r.Opts.Outs)
		out, err := r.Play(ctx, []Input{{Session: s, IDs: ids[:n], Want: All}}, true)
		if err != nil {
			return nil, err
		}
		all = append(all, out.Logits...)
		ids = ids[n:]
	}
	return all, nil
}
