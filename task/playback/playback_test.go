package playback_test

import (
	"bytes"
	"context"
	"path/filepath"
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
	p, err := task.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	r, err := playback.Runner(m, len(p.Tokens()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Release)
	b, err := playback.New(r, p)
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

// A released playback leaves the runner as it was, for as many as come.
func TestRelease(t *testing.T) {
	b, r := start(t, open(t, webgpu.NewCPU(), "web/zoo/sbr-constructed"), "bits=[0,1] a=1 assert bits[a]==")
	for range 50 {
		readAll(t, b)
		b.Release()
		var err error
		if b, err = playback.New(r, b.Program); err != nil {
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
	if _, err := playback.New(r, long); err == nil {
		t.Error("a program longer than the runner's room was taken")
	}
	other, err := playback.Runner(open(t, webgpu.NewCPU(), "testdata/golden/olmo-hybrid"), 64)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release()
	if _, err := playback.New(other, long); err == nil {
		t.Error("a model of fewer words was taken")
	}
}
