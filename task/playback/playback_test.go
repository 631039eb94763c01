package playback_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"shellgame/model"
	"shellgame/model/safetensors"
	"shellgame/task"
	"shellgame/task/playback"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

func open(t *testing.T, d webgpu.Device, dir string) *model.Model {
	t.Helper()
	m, err := model.Open(context.Background(), d, filepath.Base(dir), safetensors.Dir(filepath.Join("../..", dir)), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Release)
	return m
}

func start(t *testing.T, m *model.Model, src string) (*playback.Playback, *model.Runner) {
	t.Helper()
	return prepare(t, m, src, playback.Options{})
}

func begin(t *testing.T, m *model.Model, src string, o playback.Options) *playback.Playback {
	t.Helper()
	b, _ := prepare(t, m, src, o)
	return b
}

func prepare(t *testing.T, m *model.Model, src string, o playback.Options) (*playback.Playback, *model.Runner) {
	t.Helper()
	p, err := task.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	r, err := playback.Runner(m, len(p.Tokens()), o.Belief, model.Switches{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Release)
	b, err := playback.New(r, p, o)
	if err != nil {
		t.Fatal(err)
	}
	return b, r
}

func readAll(t *testing.T, b *playback.Playback) {
	t.Helper()
	for !b.Done() {
		if _, err := b.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	for b.Pending() > 0 {
		if _, err := b.Ask(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// The constructed models answer every question of a program rightly, on every device, and the
// truth beside their answers is the program's own.
func TestAnswers(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		for dir, src := range map[string]string{
			"web/zoo/st-constructed":  "a,b,c,d,e=range(5) assert b==1 a,c=c,a b,c=c,b assert b==0 d,e=e,d assert c==",
			"web/zoo/sbr-constructed": "bits=[0,1,1,0,1] a,b,c,d,e=4,3,1,0,2 a,b=b,a c,d=d,c assert bits[a]==",
		} {
			b, _ := start(t, open(t, d, dir), src)
			readAll(t, b)
			asked := 0
			for _, q := range b.Program.Queries() {
				s := b.Steps()[q.Pos]
				want := task.Word(q.AnswerID())
				if s.Truth.Answer != want || s.Top[0].Word != want {
					t.Errorf("%s: at token %d the model says %q and the truth %q, want %q", dir, q.Pos, s.Top[0].Word, s.Truth.Answer, want)
				}
				asked++
			}
			for i, s := range b.Steps() {
				tok := b.Program.Tokens()[i]
				if s.T != i || s.Word != tok.Word() || s.Span != [2]int{tok.Start, tok.End} || len(s.Top) != playback.TopK {
					t.Errorf("%s: step %d is %d %q %v with %d candidates", dir, i, s.T, s.Word, s.Span, len(s.Top))
				}
			}
			if asked == 0 {
				t.Errorf("%s: nothing was asked", dir)
			}
		}
	})
}

// Steps come one at a time and end; what was read stays as it was.
func TestSteps(t *testing.T) {
	b, _ := start(t, open(t, webgpu.NewCPU(), "web/zoo/st-constructed"), "a,b,c,d,e=range(5) a,c=c,a assert a==2")
	if b.Done() || len(b.Steps()) != 0 || len(b.Trace(nil).Steps) != 0 {
		t.Error("something was read before the first step")
	}
	first, err := b.Step(context.Background())
	if err != nil || first.T != 0 || first.Word != "<bos>" {
		t.Fatalf("first step: %+v, %v", first, err)
	}
	top := append([]model.Candidate(nil), first.Top...)
	readAll(t, b)
	if s, err := b.Step(context.Background()); s != nil || err != nil {
		t.Errorf("after the end: got %v, %v, want nothing", s, err)
	}
	if b.Steps()[0] != first || len(b.Steps()) != len(b.Program.Tokens()) {
		t.Error("the first step was replaced or steps are missing")
	}
	for i := range top {
		if top[i] != first.Top[i] {
			t.Errorf("candidate %d of the first step changed from %v to %v", i, top[i], first.Top[i])
		}
	}
}

// Leaving the state out of a trace takes nothing from the steps themselves.
func TestTraceKeepsItsSteps(t *testing.T) {
	b, _ := start(t, open(t, webgpu.NewCPU(), "web/zoo/st-constructed"), "a,b,c,d,e=range(5) a,c=c,a")
	readAll(t, b)
	var before, bare, after bytes.Buffer
	for _, w := range []struct {
		out  *bytes.Buffer
		keep func(int) bool
	}{{&before, nil}, {&bare, func(t int) bool { return t == 1 }}, {&after, nil}} {
		if err := b.Trace(w.keep).Write(w.out); err != nil {
			t.Fatal(err)
		}
	}
	if before.String() != after.String() {
		t.Error("a trace without states took them from the steps")
	}
	if n := strings.Count(before.String(), `"state":`); n != 3 {
		t.Errorf("%d states in the whole trace, want 3", n)
	}
	if n := strings.Count(bare.String(), `"state":`); n != 1 {
		t.Errorf("%d states in the bare trace, want 1", n)
	}
}

// More ends of statements than there is room for are asked on the way.
func TestBeliefOfALongProgram(t *testing.T) {
	src := "a,b,c,d,e=range(5)" + strings.Repeat(" a,c=c,a", 200)
	b := begin(t, open(t, webgpu.NewCPU(), "web/zoo/st-constructed"), src, playback.Options{Belief: true})
	for !b.Done() {
		if _, err := b.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if b.Pending() == 0 || b.Pending() >= 200 {
		t.Errorf("%d of 201 ends wait, want some", b.Pending())
	}
	readAll(t, b)
	for i, s := range b.Steps()[1:] {
		if s.Belief == nil {
			t.Fatalf("step %d of %d has no belief", i+1, len(b.Steps()))
		}
		for v, o := range s.Belief.Vars {
			if !o.Right {
				t.Errorf("step %d: %s is believed to be %s", i+1, v, o.Word)
			}
		}
	}
	if s, err := b.Ask(context.Background()); s != nil || err != nil {
		t.Errorf("nothing waits: got %v, %v", s, err)
	}
}

// A released playback leaves the runner as it was, for as many as come.
func TestRelease(t *testing.T) {
	o := playback.Options{Belief: true}
	b, r := prepare(t, open(t, webgpu.NewCPU(), "web/zoo/sbr-constructed"), "bits=[0,1] a=1 b=0 assert a==1 assert bits[a]==", o)
	for i := range 150 {
		if i%2 == 0 {
			readAll(t, b)
		}
		for !b.Done() {
			if _, err := b.Step(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
		b.Release()
		var err error
		if b, err = playback.New(r, b.Program, o); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	b, r := start(t, open(t, webgpu.NewCPU(), "web/zoo/st-constructed"), "a,b,c,d,e=range(5)")
	long, err := task.Parse(b.Program.Source() + " a,c=c,a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := playback.New(r, long, playback.Options{}); err == nil {
		t.Error("a program longer than the runner's room was taken")
	}
	other, err := playback.Runner(open(t, webgpu.NewCPU(), "testdata/golden/olmo-hybrid"), 64, false, model.Switches{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	if _, err := playback.New(other, long, playback.Options{}); err == nil {
		t.Error("a model of fewer words was taken")
	}
	if _, err := playback.New(r, b.Program, playback.Options{Belief: true}); err == nil {
		t.Error("a runner without room for the belief was taken")
	}
	empty, err := task.Parse(" # nothing\n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := playback.New(r, empty, playback.Options{}); err == nil || !strings.Contains(err.Error(), "the program is empty") {
		t.Errorf("an empty program: got %v", err)
	}
}

// What the constructed models answer on the side is the truth at the end of every statement, on
// every device.
func TestBelief(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		for _, c := range [][2]string{
			{"web/zoo/st-constructed", "a,b,c,d,e=range(5) assert b==1 a,c=c,a b,c=c,b assert b==0 d,e=e,d assert c=="},
			{"web/zoo/st-constructed", task.Generate(task.StateTracking, 24, 1, 0).Source()},
			{"web/zoo/sbr-constructed", "bits=[0,1,1,0,1] a,b,c,d,e=4,3,1,0,2 a,b=b,a c,d=d,c assert bits[a]=="},
			{"web/zoo/sbr-constructed", task.Generate(task.StateBasedRecall, 8, 1, 0).Source()},
			{"web/zoo/sbr-constructed", task.Generate(task.Recall, 8, 1, 0).Source()},
		} {
			dir, src := c[0], c[1]
			b := begin(t, open(t, d, dir), src, playback.Options{Belief: true})
			readAll(t, b)
			ends := 0
			for _, s := range b.Program.Stmts() {
				step, truth := b.Steps()[s.Last], b.Program.At(s.Last)
				if s.Open || truth.Vars == [task.NumVars]int16{-1, -1, -1, -1, -1} {
					if step.Belief != nil {
						t.Errorf("%s: a belief at token %d, where nothing is defined or the program breaks off", dir, s.Last)
					}
					continue
				}
				ends++
				for v, x := range truth.Vars {
					name := task.Var(v).String()
					if x < 0 {
						if _, asked := step.Belief.Vars[name]; asked {
							t.Errorf("%s: token %d: a belief about %s, which has no value", dir, s.Last, name)
						}
						continue
					}
					want := model.Opinion{Word: task.Word(task.NumberID(int(x))), Right: true}
					if got := step.Belief.Vars[name]; got.Word != want.Word || !got.Right || !(got.P > 0.9) {
						t.Errorf("%s: token %d: the model believes that %s is %+v, want %s", dir, s.Last, name, got, want.Word)
					}
					bit, ok := truth.Bit(task.Var(v))
					got, asked := step.Belief.Bits[name]
					if ok != asked || ok && (got.Word != task.Word(task.NumberID(bit)) || !got.Right || !(got.P > 0.9)) {
						t.Errorf("%s: token %d: the model believes that bits[%s] is %+v, want %d", dir, s.Last, name, got, bit)
					}
				}
			}
			for i, s := range b.Steps() {
				if s.Belief != nil {
					ends--
				}
				truth := b.Program.At(i)
				for v := range task.Var(task.NumVars) {
					bit, ok := truth.Bit(v)
					if got, has := s.Truth.Bits[v.String()]; has != ok || got != bit {
						t.Errorf("%s: step %d: the truth of bits[%s] is %d, %v, want %d, %v", dir, i, v, got, has, bit, ok)
					}
				}
			}
			if ends != 0 {
				t.Errorf("%s: %d ends of statements without a belief, or beliefs elsewhere", dir, ends)
			}
		}
	})
}

// A wrong answer is not called right: a trained recall model never learnt to swap.
func TestBeliefCanBeWrong(t *testing.T) {
	b := begin(t, open(t, webgpu.NewCPU(), "web/zoo/recall-hybrid-neg"), "a,b,c,d,e=range(5) a,c=c,a b,c=c,b", playback.Options{Belief: true})
	readAll(t, b)
	wrong := 0
	for i, s := range b.Steps() {
		if s.Belief == nil {
			continue
		}
		for v, o := range s.Belief.Vars {
			right := o.Word == strconv.Itoa(s.Truth.Vars[v])
			if o.Right != right {
				t.Errorf("step %d: %s: %q is called %v beside the truth %d", i, v, o.Word, o.Right, s.Truth.Vars[v])
			}
			if !right {
				wrong++
			}
		}
	}
	if wrong == 0 {
		t.Error("no wrong belief, so nothing was tested")
	}
}

// Asking on the side changes nothing of the run.
func TestBeliefLeavesTheRunAlone(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		m := open(t, d, "web/zoo/sbr-hybrid-neg")
		const src = "bits=[0,1,1,0] a,b,c,d,e=3,0,2,1,3 a,c=c,a assert a==2 b,d=d,b assert bits[a]=="
		var traces []string
		for _, belief := range []bool{false, true} {
			b := begin(t, m, src, playback.Options{Belief: belief})
			readAll(t, b)
			asked := 0
			for _, s := range b.Steps() {
				if s.Belief != nil {
					asked++
				}
				s.Belief = nil
			}
			if (asked > 0) != belief {
				t.Fatalf("belief %v: %d steps hold one", belief, asked)
			}
			var out bytes.Buffer
			if err := b.Trace(nil).Write(&out); err != nil {
				t.Fatal(err)
			}
			traces = append(traces, out.String())
		}
		if traces[0] != traces[1] {
			t.Error("the run with questions on the side is another one")
		}
	})
}

func BenchmarkStep(b *testing.B) {
	p := task.Generate(task.StateBasedRecall, 8, 1, 0)
	devices := map[string]func() webgpu.Device{"cpu": func() webgpu.Device { return webgpu.NewCPU() }, "gpu": func() webgpu.Device { return gputest.GPU(b) }}
	for name, dev := range devices {
		for _, belief := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/belief=%v", name, belief), func(b *testing.B) {
				m, err := model.Open(context.Background(), dev(), "sbr-hybrid-neg", safetensors.Dir("../../web/zoo/sbr-hybrid-neg"), nil)
				if err != nil {
					b.Fatal(err)
				}
				defer m.Release()
				r, err := playback.Runner(m, len(p.Tokens()), belief, model.Switches{})
				if err != nil {
					b.Fatal(err)
				}
				defer r.Release()
				steps := 0
				for b.Loop() {
					run, err := playback.New(r, p, playback.Options{Belief: belief})
					if err != nil {
						b.Fatal(err)
					}
					for !run.Done() {
						if _, err := run.Step(context.Background()); err != nil {
							b.Fatal(err)
						}
						steps++
						if _, err := run.Ask(context.Background()); err != nil {
							b.Fatal(err)
						}
					}
					run.Release()
				}
				b.ReportMetric(b.Elapsed().Seconds()*1000/float64(steps), "ms/token")
			})
		}
	}
}
