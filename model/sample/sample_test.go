package sample

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func sampler(t testing.TB, o Options) *Sampler {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// logs are the logits of a distribution.
func logs(p ...float64) []float32 {
	l := make([]float32, len(p))
	for i, v := range p {
		l[i] = float32(math.Log(v)) + 3
	}
	return l
}

// chiSquare compares draws with a distribution: the sum of (seen - expected)²/expected, infinite
// where something was drawn that cannot be.
func chiSquare(t testing.TB, o Options, logits []float32, want []float64, draws int) float64 {
	t.Helper()
	s := sampler(t, o)
	seen := make([]float64, len(logits))
	for range draws {
		id, err := s.Next(logits)
		if err != nil {
			t.Fatal(err)
		}
		seen[id]++
	}
	x := 0.0
	for i, p := range want {
		switch expected := p * float64(draws); {
		case expected > 0:
			x += (seen[i] - expected) * (seen[i] - expected) / expected
		case seen[i] > 0:
			return math.Inf(1)
		}
	}
	return x
}

// bound is chi-square's 0.9999 quantile for up to 7 degrees of freedom; the seed is fixed, so a
// test that passes does so always.
const bound = 29.9

func TestDistribution(t *testing.T) {
	p := []float64{0.4, 0.05, 0.2, 0.1, 0.15, 0.02, 0.03, 0.05}
	at := func(temp float64) []float64 {
		q, sum := make([]float64, len(p)), 0.0
		for i := range p {
			q[i] = math.Pow(p[i], 1/temp)
			sum += q[i]
		}
		for i := range q {
			q[i] /= sum
		}
		return q
	}
	for name, c := range map[string]struct {
		o    Options
		want []float64
	}{
		"as it is":       {Options{Temp: 1, TopP: 1}, p},
		"cold":           {Options{Temp: 0.5, TopP: 1}, at(0.5)},
		"hot":            {Options{Temp: 3, TopP: 1}, at(3)},
		"top-k 3":        {Options{Temp: 1, TopK: 3, TopP: 1}, []float64{0.4 / 0.75, 0, 0.2 / 0.75, 0, 0.15 / 0.75, 0, 0, 0}},
		"top-k of all":   {Options{Temp: 1, TopK: 8, TopP: 1}, p},
		"top-k beyond":   {Options{Temp: 1, TopK: 100, TopP: 1}, p},
		"top-p 0.7":      {Options{Temp: 1, TopP: 0.7}, []float64{0.4 / 0.75, 0, 0.2 / 0.75, 0, 0.15 / 0.75, 0, 0, 0}},
		"top-p 0.3":      {Options{Temp: 1, TopP: 0.3}, []float64{1, 0, 0, 0, 0, 0, 0, 0}},
		"top-p nearly 0": {Options{Temp: 1, TopP: 1e-12}, []float64{1, 0, 0, 0, 0, 0, 0, 0}},
		// Of the three that top-k leaves, the first has 0.533: two are needed for 0.6.
		"top-k then top-p": {Options{Temp: 1, TopK: 3, TopP: 0.6}, []float64{0.4 / 0.6, 0, 0.2 / 0.6, 0, 0, 0, 0, 0}},
		// Two tokens have 0.05: the first of equals stays.
		"top-k among equals": {Options{Temp: 1, TopK: 5, TopP: 1}, []float64{0.4 / 0.9, 0.05 / 0.9, 0.2 / 0.9, 0.1 / 0.9, 0.15 / 0.9, 0, 0, 0}},
	} {
		c.o.Seed = 7
		if x := chiSquare(t, c.o, logs(p...), c.want, 20000); !(x <= bound) {
			t.Errorf("%s: chi-square %.1f, want %v at most", name, x, bound)
		}
	}
	// The comparison can fail: one temperature's draws are not another's.
	if x := chiSquare(t, Options{Temp: 1.1, TopP: 1, Seed: 7}, logs(p...), p, 20000); x <= bound {
		t.Errorf("another temperature: chi-square %.1f, want more than %v", x, bound)
	}
}

func TestGreedy(t *testing.T) {
	for _, o := range []Options{{TopP: 1}, {TopP: 0.1, TopK: 3}, {Temp: 5, TopK: 1, TopP: 1}} {
		s := sampler(t, o)
		for range 20 {
			if id, err := s.Next([]float32{-1, 2, 2, 0}); id != 1 || err != nil {
				t.Fatalf("%+v: got %d, %v, want the first of the most probable", o, id, err)
			}
		}
	}
}

// TestTopKOfMany: what top-k leaves of many tokens, in any order, are the first by sorting.
func TestTopKOfMany(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		n := 1 + r.IntN(60)
		k := 1 + r.IntN(n+3)
		logits := make([]float32, n)
		order := make([]int, n)
		for i := range logits {
			logits[i], order[i] = float32(r.IntN(12)), i // many are equal
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
		s := sampler(t, Options{Temp: 100, TopK: k, TopP: 1, Seed: r.Uint64()})
		for range 40 {
			id, err := s.Next(logits)
			if err != nil || !slices.Contains(order[:min(k, n)], id) {
				t.Fatalf("%v, top-k %d: got %d, %v, want one of %v", logits, k, id, err, order[:min(k, n)])
			}
		}
	}
}

func TestSeed(t *testing.T) {
	draw := func(seed uint64) (ids [50]int) {
		s := sampler(t, Options{Temp: 1, TopP: 0.95, Seed: seed})
		for i := range ids {
			ids[i], _ = s.Next(logs(0.1, 0.2, 0.3, 0.4))
		}
		return ids
	}
	if a, b, c := draw(1), draw(1), draw(2); a != b || a == c {
		t.Error("want the same tokens for the same seed and others for another")
	}
}

func TestExtremes(t *testing.T) {
	inf := float32(math.Inf(1))
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		logits []float32
		want   string // in the error, or "" for token 1
	}{
		"NaN":                {[]float32{0, nan}, "the logit of token 1: got NaN, want a finite number"},
		"NaN first":          {[]float32{nan, 0}, "the logit of token 0: got NaN"},
		"infinity":           {[]float32{0, 1, inf}, "the logit of token 2: got +Inf"},
		"nothing is allowed": {[]float32{-inf, -inf}, "got -Inf for every token"},
		"none":               {nil, "got no logits"},
		"one is allowed":     {[]float32{-inf, -1e30, -inf}, ""},
		"far apart":          {[]float32{-math.MaxFloat32, math.MaxFloat32}, ""},
		"at a tiny temp":     {[]float32{1, 1.0001}, ""},
	} {
		for _, o := range []Options{{TopP: 1}, {Temp: 1e-300, TopP: 1}, {Temp: 1e-6, TopK: 2, TopP: 0.9}} {
			id, err := sampler(t, o).Next(c.logits)
			if c.want == "" && (id != 1 || err != nil) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s, %+v: got %d, %v, want %q", name, o, id, err, c.want)
			}
		}
	}
}

// TestEven: where all are equal, a tiny top-p leaves the first.
func TestEven(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7, 1000, 99991} {
		if id, err := sampler(t, Options{Temp: 1, TopP: 1e-300}).Next(make([]float32, n)); id != 0 || err != nil {
			t.Errorf("%d tokens: got %d, %v, want the first", n, id, err)
		}
	}
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"temp: got -1, want 0 or a positive number":                 {Temp: -1, TopP: 1},
		"temp: got NaN, want 0 or a positive number":                {Temp: math.NaN(), TopP: 1},
		"temp: got +Inf, want 0 or a positive number":               {Temp: math.Inf(1), TopP: 1},
		"top-k: got -2, want 0 for all tokens or a positive number": {TopK: -2, TopP: 1},
		"top-p: got 0, want more than 0 and at most 1":              {},
		"top-p: got 1.5, want more than 0 and at most 1":            {TopP: 1.5},
		"top-p: got NaN, want more than 0 and at most 1":            {TopP: math.NaN()},
		"top-p: got -0.1, want more than 0 and at most 1":           {TopP: -0.1},
	} {
		if _, err := New(o); err == nil || err.Error() != want {
			t.Errorf("%+v: got %v, want %s", o, err, want)
		}
	}
}

func BenchmarkNext(b *testing.B) {
	logits := make([]float32, 248320)
	for i := range logits {
		logits[i] = float32(10 * math.Sin(float64(i)*1.618))
	}
	for name, o := range map[string]Options{"all": {Temp: 0.8, TopP: 1}, "top-k": {Temp: 0.8, TopK: 40, TopP: 1}, "top-p": {Temp: 0.8, TopP: 0.95}} {
		b.Run(name, func(b *testing.B) {
			s := sampler(b, o)
			for b.Loop() {
				if _, err := s.Next(logits); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
