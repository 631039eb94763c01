package eval_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"
	"time"

	"shellgame/model"
	"shellgame/model/safetensors"
	"shellgame/task"
	"shellgame/task/eval"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

const zoo = "../../web/zoo"

func open(t *testing.T, d webgpu.Device, name string) *model.Model {
	t.Helper()
	m, err := model.Open(context.Background(), d, name, safetensors.Dir(filepath.Join(zoo, name)), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Release)
	return m
}

// published is a checkpoint's eval.json.
type published struct {
	Task     task.Task          `json:"task"`
	Samples  int                `json:"samples"`
	Accuracy map[string]float64 `json:"accuracy"`
}

func readEval(t *testing.T, name string) published {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(zoo, name, "eval.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p published
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// furthest is the largest |z| of a result against published accuracies.
func furthest(t *testing.T, r *eval.Result, p published) float64 {
	t.Helper()
	worst := 0.0
	for _, l := range r.Levels {
		want, ok := p.Accuracy[strconv.Itoa(l.N)]
		if !ok {
			t.Fatalf("no published accuracy at n = %d", l.N)
		}
		z := eval.Z(l.Accuracy, r.Samples, want, p.Samples)
		t.Logf("%s n = %d: %.4f ± %.4f, published %.4f, z = %+.2f", r.Model, l.N, l.Accuracy, l.Stderr, want, z)
		worst = math.Max(worst, math.Abs(z))
	}
	return worst
}

// What the trained models score here is what they scored where they were trained.
func TestPublishedScores(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		for _, name := range []string{"st-hybrid-neg", "recall-transformer", "sbr-hybrid-neg"} {
			o := eval.Options{Levels: levels, Samples: samples, Seed: 1}
			if testing.Short() {
				o.Levels, o.Samples = []int{4}, 8
			}
			p := readEval(t, name)
			o.Task = p.Task
			r, err := eval.Run(context.Background(), open(t, d, name), o)
			if err != nil {
				t.Fatal(err)
			}
			if z := furthest(t, r, p); z > 4 {
				t.Errorf("%s on %s: |z| = %.2f, want at most 4", name, r.Device, z)
			}
		}
	})
}

// Read a few tokens at a time, programs in parts, every program gets the same answer, and what was
// found so far can be told at any time.
func TestPartsScoreTheSame(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		m := open(t, d, "sbr-hybrid-neg")
		o := eval.Options{Task: task.StateBasedRecall, Levels: []int{2, 9}, Samples: 4, Seed: 3}
		want, err := eval.Run(context.Background(), m, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, tokens := range []int{7, 30} {
			r, err := eval.New(m, o)
			if err != nil {
				t.Fatal(err)
			}
			plays, before := 0, 0
			for ; !r.Done(); plays++ {
				read, err := r.Play(context.Background(), tokens)
				if err != nil {
					t.Fatal(err)
				}
				if read < 1 || read > tokens {
					t.Errorf("a play of at most %d tokens read %d", tokens, read)
				}
				done, total := r.Progress()
				if done < before || total != 8 {
					t.Errorf("%d of %d programs after %d", done, total, before)
				}
				before = done
			}
			if read := 4 * (2 + 2 + 11 + 9 + 9 + 11); plays < read/tokens || before != 8 {
				t.Errorf("%d tokens at a time: %d plays of %d tokens, %d programs", tokens, plays, read, before)
			}
			for i, s := range r.Scores() {
				p, stderr := s.Accuracy()
				if got := (eval.Level{N: s.N, Accuracy: p, Stderr: stderr}); got != want.Levels[i] || s.Samples != 4 {
					t.Errorf("%d tokens at a time: got %+v of %d, want %+v", tokens, got, s.Samples, want.Levels[i])
				}
			}
			r.Release()
		}
	})
	if p, e := (eval.Score{N: 4}).Accuracy(); p != 0 || e != 0 {
		t.Errorf("before the first answer: %v ± %v", p, e)
	}
}

// Another model's scores are told apart, or the test above would show nothing.
func TestOtherScoresDiffer(t *testing.T) {
	own, p := readEval(t, "st-gdn-pos"), readEval(t, "st-hybrid-neg")
	r, err := eval.Run(context.Background(), open(t, webgpu.NewCPU(), "st-gdn-pos"), eval.Options{Task: p.Task, Levels: []int{16}, Samples: 32, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if z := furthest(t, r, own); z > 4 {
		t.Errorf("a model without negative eigenvalues: |z| = %.2f, want at most 4", z)
	}
	if z := furthest(t, r, p); z <= 4 {
		t.Errorf("a model without negative eigenvalues passed for one with: |z| = %.2f", z)
	}
}

// Neither how programs are packed nor what is scored beside them changes a score.
func TestScoresDoNotDependOnPacking(t *testing.T) {
	m := open(t, webgpu.NewCPU(), "sbr-gdn-pos")
	run := func(o eval.Options) []eval.Level {
		o.Task, o.Samples, o.Seed = task.StateBasedRecall, 16, 5
		r, err := eval.Run(context.Background(), m, o)
		if err != nil {
			t.Fatal(err)
		}
		return r.Levels
	}
	// A model that answers some and not all.
	want := run(eval.Options{Levels: []int{2, 5}})
	if a := want[1].Accuracy; a == 0 || a == 1 {
		t.Fatalf("accuracy %v: want one in between for this test", a)
	}
	for _, tokens := range []int{1, 50} {
		if got := run(eval.Options{Levels: []int{2, 5}, Tokens: tokens}); !reflect.DeepEqual(got, want) {
			t.Errorf("%d tokens a play: got %v, want %v", tokens, got, want)
		}
	}
	if got := run(eval.Options{Levels: []int{5}}); !reflect.DeepEqual(got, want[1:]) {
		t.Errorf("one level alone: got %v, want %v", got, want[1:])
	}
	se := math.Sqrt(want[1].Accuracy * (1 - want[1].Accuracy) / 16)
	if want[1].Stderr != se {
		t.Errorf("standard error %v, want %v", want[1].Stderr, se)
	}
}

func TestProgressCountsAll(t *testing.T) {
	m := open(t, webgpu.NewCPU(), "st-constructed")
	last, calls := 0, 0
	_, err := eval.Run(context.Background(), m, eval.Options{Task: task.StateTracking, Levels: []int{2, 3}, Samples: 10, Tokens: 20, Progress: func(done, total int) {
		if done <= last || total != 20 {
			t.Errorf("got %d of %d after %d, want more, of 20", done, total, last)
		}
		last = done
		calls++
	}})
	if err != nil || last != 20 || calls < 4 {
		t.Errorf("got %v, %d done in %d calls, want 20 in several", err, last, calls)
	}
}

// Twice the programs cost twice the time: as many tokens and about as many plays a program, and no
// table that grows.
func TestCostIsLinear(t *testing.T) {
	m := open(t, webgpu.NewCPU(), "st-constructed")
	cost := func(samples int) (tokens, plays int, least time.Duration) {
		least = time.Hour
		for range 3 {
			tokens, plays = 0, 0
			start := time.Now()
			r, err := eval.New(m, eval.Options{Task: task.StateTracking, Levels: []int{8}, Samples: samples, Seed: 1, Tokens: 256})
			if err != nil {
				t.Fatal(err)
			}
			for ; !r.Done(); plays++ {
				n, err := r.Play(context.Background(), 256)
				if err != nil {
					t.Fatal(err)
				}
				tokens += n
			}
			r.Release()
			least = min(least, time.Since(start))
		}
		return tokens, plays, least
	}
	tokens, plays, least := cost(64)
	tokens8, plays8, least8 := cost(8 * 64)
	t.Logf("64 programs: %d tokens, %d plays, %v; 512: %d, %d, %v", tokens, plays, least, tokens8, plays8, least8)
	if tokens8 != 8*tokens || plays8 > 8*plays {
		t.Errorf("8 times the programs: %d tokens in %d plays, want %d in at most %d", tokens8, plays8, 8*tokens, 8*plays)
	}
	if ratio := least8.Seconds() / least.Seconds(); ratio > 16 { // 64 if it grew with the square
		t.Errorf("8 times the programs took %.1f times as long", ratio)
	}
}

func TestRunRefuses(t *testing.T) {
	m := open(t, webgpu.NewCPU(), "st-constructed")
	if _, err := eval.Run(context.Background(), m, eval.Options{Task: task.Recall, Levels: []int{129}}); err == nil {
		t.Error("recall of 129 bits was scored")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := eval.Run(ctx, m, eval.Options{Task: task.StateTracking, Levels: []int{4}, Samples: 2}); err == nil {
		t.Error("a cancelled run ended without an error")
	}
	small, err := model.Open(context.Background(), webgpu.NewCPU(), "olmo-hybrid", safetensors.Dir("../../testdata/golden/olmo-hybrid"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer small.Release()
	if _, err := eval.Run(context.Background(), small, eval.Options{Task: task.StateTracking, Levels: []int{4}, Samples: 2}); err == nil {
		t.Error("a model of other words was scored")
	}
}

func TestZ(t *testing.T) {
	for _, test := range []struct {
		p1   float64
		n1   int
		p2   float64
		n2   int
		want float64
	}{
		{0.5, 256, 0.5, 2048, 0},
		{0.6, 100, 0.5, 100, 1.4213},         // pooled 0.55
		{0.9, 50, 0.5, 200, 5.1257},          // pooled 0.58
		{0.5, 256, 0.6, 2048, -3.0662},       // pooled 0.58889
		{1, 256, 0.9990234375, 2048, 0.2329}, // the variance's floor, 0.004
		{1, 64, 0, 64, 11.3137},
	} {
		if got := eval.Z(test.p1, test.n1, test.p2, test.n2); math.Abs(got-test.want) > 1e-3 {
			t.Errorf("Z(%v, %d, %v, %d) = %.4f, want %.4f", test.p1, test.n1, test.p2, test.n2, got, test.want)
		}
	}
}
