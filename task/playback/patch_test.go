package playback_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"shellgame/model"
	"shellgame/task"
	"shellgame/task/playback"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

func ids(t *testing.T, src string) []int {
	t.Helper()
	p, err := task.Parse(src)
	if err != nil {
		t.Fatal(err)
	}
	var out []int
	for _, tok := range p.Tokens() {
		out = append(out, int(tok.ID))
	}
	return out
}

// A constructed model whose state is replaced goes on with the other program's truth; with zeros it
// knows nothing. The step shows the state that the next one starts from, and what the model had left
// is still known.
func TestPatches(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		m := open(t, d, "web/zoo/st-constructed")
		const src = "a,b,c,d,e=range(5) a,c=c,a b,d=d,b assert a=="
		plain, r := prepare(t, m, src, playback.Options{})
		readAll(t, plain)
		other, err := playback.StatesAfter(context.Background(), r, ids(t, "a,b,c,d,e=range(5) a,e=e,a"))
		if err != nil {
			t.Fatal(err)
		}
		layer, head := 0, 4
		for _, c := range []struct {
			name   string
			patch  playback.Patch
			want   string
			unlike []int // heads whose state after step 2 is another than without
		}{
			{"program", playback.Patch{Patch: model.Patch{T: 2, From: "program"}, States: other}, "4", []int{0, 2, 4}},
			{"head", playback.Patch{Patch: model.Patch{T: 2, From: "program", Layer: &layer, Head: &head}, States: other}, "", []int{4}},
			{"zero", playback.Patch{Patch: model.Patch{T: 2, From: "zero"}}, "", []int{0, 1, 2, 3, 4}},
		} {
			b := begin(t, m, src, playback.Options{Patches: []playback.Patch{c.patch}})
			readAll(t, b)
			last := len(b.Steps()) - 1
			if got := b.Steps()[last].Top[0].Word; c.want != "" && got != c.want {
				t.Errorf("%s: the model answers %s, want %s", c.name, got, c.want)
			}
			var unlike []int
			was, is := plain.Steps()[2].Layers[0].State, b.Steps()[2].Layers[0].State
			for h := range 5 {
				if !slices.Equal(was.Data[5*h:][:5], is.Data[5*h:][:5]) {
					unlike = append(unlike, h)
				}
			}
			if !slices.Equal(unlike, c.unlike) {
				t.Errorf("%s: the state of heads %v was replaced, want %v", c.name, unlike, c.unlike)
			}
			if !slices.Equal(b.Left(2, 0), was.Data) || !slices.Equal(b.Left(1, 0), plain.Steps()[1].Layers[0].State.Data) {
				t.Errorf("%s: what the model left is not what it left without a patch", c.name)
			}
			now, err := playback.New(r, b.Program, playback.Options{Patches: []playback.Patch{c.patch, c.patch}})
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, now)
			if !slices.Equal(now.Left(2, 0), was.Data) {
				t.Errorf("%s: patched twice, what the model left is lost", c.name)
			}
			now.Release()
			if c.name == "zero" {
				for _, x := range b.Steps()[last].Layers[0].State.Data {
					if x != 0 {
						t.Errorf("zeros went on to hold %v", x)
					}
				}
			}
			var out bytes.Buffer
			if err := b.Trace(nil).Write(&out); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), `"patches":[{"t":2,`) || strings.Contains(out.String(), `"switches"`) {
				t.Errorf("%s: the trace does not tell of the patch alone", c.name)
			}
		}
	})
}

func TestPatchesThatDoNotFit(t *testing.T) {
	m := open(t, webgpu.NewCPU(), "web/zoo/sbr-hybrid-neg")
	b, r := start(t, m, "bits=[0,1] a=1")
	n := func(i int) *int { return &i }
	for want, p := range map[string]model.Patch{
		"after word 7, want one of the program, 0 to 6": {T: 7},
		"after word -1":                      {T: -1},
		"layer 3, want one with a recurrent": {Layer: n(3)},
		"head 4, want 0 to 3":                {Head: n(4)},
	} {
		_, err := playback.New(r, b.Program, playback.Options{Patches: []playback.Patch{{Patch: p}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", p, err, want)
		}
	}
	b, r = start(t, open(t, webgpu.NewCPU(), "web/zoo/st-transformer"), "a,b,c,d,e=range(5)")
	if _, err := playback.New(r, b.Program, playback.Options{Patches: make([]playback.Patch, 1)}); err == nil || !strings.Contains(err.Error(), "attention alone") {
		t.Errorf("a model without a state: got %v", err)
	}
}

// Switches stand in the trace.
func TestTraceTellsOfSwitches(t *testing.T) {
	m := open(t, webgpu.NewCPU(), "web/zoo/st-constructed")
	r, err := playback.Runner(m, 8, false, model.Switches{Beta: "clamp"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	p, err := task.Parse("a,b,c,d,e=range(5) a,c=c,a assert a==")
	if err != nil {
		t.Fatal(err)
	}
	b, err := playback.New(r, p, playback.Options{})
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, b)
	var out bytes.Buffer
	if err := b.Trace(nil).Write(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `,"switches":{"beta":"clamp"},"steps":`) {
		t.Error("the trace does not tell of its switches")
	}
	if b.Steps()[4].Top[0].Word == "2" {
		t.Error("with beta clamped the swap was still read rightly")
	}
}
