package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"shellgame/model"
	"shellgame/task"
	"shellgame/task/eval"
	"shellgame/task/playback"
	"shellgame/webgpu"
)

// The parts of a step are those of the reply's own formulas, for the right head, and the next step
// starts from what the kernel left.
func TestAnatomy(t *testing.T) {
	p := open(t)
	p.refuse("nothing has been run", `{"type":"anatomy"}`)
	p.ask(`{"type":"load","model":"sbr-hybrid-neg"}`)
	p.ask(`{"type":"run","program":%q,"patches":[{"t":9,"from":"zero","layer":1,"head":2}]}`, pointer)
	p.ask(`{"type":"seek","t":10}`)
	steps := p.e.lanes[0].play.Steps()
	for at := range 11 {
		for _, layer := range []int{0, 1} {
			reply := p.e.Handle(context.Background(), fmt.Appendf(nil, `{"type":"anatomy","t":%d,"layer":%d,"head":2}`, at, layer))
			var keys []string
			d := json.NewDecoder(bytes.NewReader(reply[bytes.Index(reply, []byte(`"anatomy":`))+10:]))
			for depth := 0; ; {
				tok, err := d.Token()
				if err != nil {
					t.Fatal(err)
				}
				if s, ok := tok.(json.Delim); ok {
					if depth += map[json.Delim]int{'{': 1, '[': 1, '}': -1, ']': -1}[s]; depth == 0 {
						break
					}
				} else if name, ok := tok.(string); ok && depth == 1 && name != "gdn" {
					keys = append(keys, name)
				}
			}
			if got := strings.Join(keys, " "); got != "t layer head kind K V alpha beta eigenvalue k q v before decayed read erase erased write written out state worst bound" {
				t.Fatalf("keys: got %s", got)
			}
			var a struct {
				Anatomy struct {
					T, Layer, Head int
					Big            int       `json:"K"`
					Key            []float32 `json:"k"`
					Beta           float32
					Before, State  [][]float32
					Worst, Bound   float64
				}
			}
			if err := json.Unmarshal(reply, &a); err != nil {
				t.Fatal(err)
			}
			x := a.Anatomy
			if x.T != at || x.Layer != layer || x.Head != 2 || x.Big != 32 || len(x.Key) != 32 || x.Beta != steps[at].Layers[layer].Beta[2] || !(x.Worst <= x.Bound) || x.Bound == 0 {
				t.Errorf("t %d layer %d: got %+v", at, layer, x)
			}
			before := make([]float32, 32*64)
			if at > 0 {
				before = steps[at-1].Layers[layer].State.Data[2*32*64:][:32*64]
			}
			if !slices.Equal(slices.Concat(x.Before...), before) {
				t.Errorf("t %d layer %d: it does not start from the step before", at, layer)
			}
			patched := at == 9 && layer == 1
			if same := slices.Equal(slices.Concat(x.State...), steps[at].Layers[layer].State.Data[2*32*64:][:32*64]); same == patched {
				t.Errorf("t %d layer %d: the kernel's state is the step's: %v, want %v", at, layer, same, !patched)
			}
		}
	}
	p.refuse("layer 3 is attention", `{"type":"anatomy","t":1,"layer":3}`)
	p.refuse("layer 4: sbr-hybrid-neg has 0 to 3", `{"type":"anatomy","t":1,"layer":4}`)
	p.refuse("head 4 of layer 0: it has 0 to 3", `{"type":"anatomy","t":1,"head":4}`)
	p.refuse("word 11 has not been read yet", `{"type":"anatomy","t":11}`)
}

// Both kinds of map have a row for each word read; the delta rule's gives the kernel's outputs, also
// where the state was patched or is rounded, and grows with the steps.
func TestMaps(t *testing.T) {
	for _, extra := range []string{"", `,"patches":[{"t":9,"from":"zero","layer":1,"head":2}]`, `,"switches":{"store":"bf16"}`} {
		p := open(t)
		p.ask(`{"type":"load","lane":1,"model":"sbr-hybrid-neg"}`)
		p.ask(`{"type":"run","lane":1,"program":%q%s}`, pointer, extra)
		if m := p.ask(`{"type":"maps","lane":1,"layer":1,"head":2}`).Map; m.T != -1 || len(m.Rows) != 0 {
			t.Errorf("before the first word: %+v", m)
		}
		p.ask(`{"type":"seek","lane":1,"t":12}`)
		for layer, kind := range map[int]string{1: "gdn", 3: "attention"} {
			whole := p.ask(`{"type":"maps","lane":1,"layer":%d,"head":2}`, layer).Map
			if whole.Kind != kind || whole.T != 12 || len(whole.Rows) != 13 || (whole.Worst != nil) != (kind == "gdn") {
				t.Fatalf("layer %d: got %s of %d rows at %d", layer, whole.Kind, len(whole.Rows), whole.T)
			}
			for i, row := range whole.Rows {
				sum := 0.0
				for _, x := range row {
					sum += float64(x)
				}
				if len(row) != i+1 || kind == "attention" && math.Abs(sum-1) > 1e-4 {
					t.Errorf("layer %d: row %d has %d weights that sum to %v", layer, i, len(row), sum)
				}
			}
			if kind == "gdn" && !(*whole.Worst <= *whole.Bound) {
				t.Errorf("%s: the map's output is off by %v, want at most %v", extra, *whole.Worst, *whole.Bound)
			}
			p.ask(`{"type":"seek","lane":1,"t":7}`)
			part := p.ask(`{"type":"maps","lane":1,"layer":%d,"head":2,"from":5}`, layer).Map
			if part.T != 7 || len(part.Rows) != 3 || !slices.EqualFunc(part.Rows, whole.Rows[5:8], slices.Equal[[]float32]) {
				t.Errorf("layer %d: rows from 5 to 7: got %d", layer, len(part.Rows))
			}
			if none := p.ask(`{"type":"maps","lane":1,"layer":%d,"head":2,"from":99}`, layer).Map; len(none.Rows) != 0 {
				t.Errorf("layer %d: rows beyond the last: got %d", layer, len(none.Rows))
			}
			p.ask(`{"type":"seek","lane":1,"t":12}`)
		}
		p.refuse("nothing has been run", `{"type":"maps"}`)
	}
}

func TestAnswers(t *testing.T) {
	p := open(t)
	const src = "a,b,c,d,e=range(5) a,c=c,a assert a==2 b,d=d,b assert b=="
	r := p.ask(`{"type":"answers","program":%q,"models":["st-constructed","nowhere","st-hybrid-neg"]}`, src)
	if len(r.Answers) != 3 {
		t.Fatalf("got %d answers, want 3", len(r.Answers))
	}
	for i, a := range r.Answers {
		if i == 1 {
			if a.Error == "" || len(a.Asks) != 0 {
				t.Errorf("a model that is not there: got %+v", a)
			}
			continue
		}
		if a.Error != "" || len(a.Asks) != 2 || a.Asks[0].T != 4 || a.Asks[1].T != 8 {
			t.Fatalf("%s: got %+v", a.Model, a)
		}
		for j, want := range []string{"2", "3"} {
			if ask := a.Asks[j]; ask.Word != want || ask.Truth != want || !(ask.P > 0.5) {
				t.Errorf("%s: got %+v, want %s", a.Model, ask, want)
			}
		}
	}
	if len(p.e.models) != 0 {
		t.Errorf("models stay on the device: %v", p.e.models)
	}
	if n := len(p.events); n < 3 || p.events[n-1].What != "answers" || p.events[n-1].Done != 3 || p.events[n-1].Total != 3 {
		t.Errorf("events: %+v", p.events)
	}
	p.refuse("asks nothing", `{"type":"answers","program":"a=1","models":["st-constructed"]}`)
	p.refuse("the program is empty", `{"type":"answers","program":"","models":["st-constructed"]}`)
	p.refuse("no models", `{"type":"answers","program":%q}`, src)
}

// Every number of a drift is that of two runs that are read apart.
func TestDrift(t *testing.T) {
	p := open(t)
	p.refuse("no checkpoint", `{"type":"drift","store":"bf16","program":%q}`, pointer)
	p.ask(`{"type":"load","model":"sbr-hybrid-neg"}`)
	long := task.Generate(task.StateBasedRecall, 5, 3, 0).Python()
	p.ask(`{"type":"run","program":%q,"switches":{"gate":false}}`, long)
	sizes := map[string]float64{}
	for _, store := range []string{"bf16", "f16"} {
		d := p.ask(`{"type":"drift","store":%q,"program":%q}`, store, long).Drift
		var steps [2][]step
		for i, s := range []string{"", fmt.Sprintf(`,"store":%q`, store)} {
			p.ask(`{"type":"run","lane":0,"program":%q,"switches":{"gate":false%s}}`, long, s)
			p.ask(`{"type":"seek","t":999}`)
			steps[i] = p.ask(`{"type":"trace"}`).Trace.Steps
		}
		p.ask(`{"type":"run","program":%q,"switches":{"gate":false}}`, long)
		if d.Store != store || len(d.Steps) != len(steps[0]) || d.Flips == nil {
			t.Fatalf("%s: got %d steps of %s, flips %v", store, len(d.Steps), d.Store, d.Flips)
		}
		for at, s := range d.Steps {
			if s.T != at || len(s.State) != 3 {
				t.Fatalf("%s: step %d: got %+v", store, at, s)
			}
			for layer, got := range s.State {
				a, b := steps[0][at].Layers[layer].State, steps[1][at].Layers[layer].State
				var diff, size float64
				for h := range a {
					for k := range a[h] {
						for v := range a[h][k] {
							diff += math.Pow(float64(b[h][k][v]-a[h][k][v]), 2)
							size += math.Pow(float64(a[h][k][v]), 2)
						}
					}
				}
				if want := math.Sqrt(diff / size); math.Abs(got-want) > 1e-3*want {
					t.Errorf("%s: step %d layer %d: got %v, want %v", store, at, layer, got, want)
				}
				sizes[store] = max(sizes[store], got)
			}
			for i, c := range steps[0][at].Top {
				for _, o := range steps[1][at].Top {
					if o.Word == c.Word && math.Abs(o.P-c.P) > s.P+1e-5 {
						t.Errorf("%s: step %d: candidate %d moved by %v, more than %v", store, at, i, math.Abs(o.P-c.P), s.P)
					}
				}
			}
		}
	}
	if !(sizes["bf16"] > 2*sizes["f16"]) || sizes["f16"] == 0 {
		t.Errorf("bf16 drifts by %v and f16 by %v, want about eight times less", sizes["bf16"], sizes["f16"])
	}
	p.refuse("want bf16 or f16", `{"type":"drift","program":%q}`, pointer)
	p.ask(`{"type":"load","model":"st-transformer"}`)
	p.refuse("attention alone", `{"type":"drift","store":"f16","program":%q}`, pointer)
}

// A likeliest word that differs after == is a flip.
func TestDriftFlips(t *testing.T) {
	if got := apart([]float32{3, 4}, []float32{3, 4.5}); math.Abs(got-0.1) > 1e-7 {
		t.Errorf("apart: got %v, want 0.1", got)
	}
	if got := apart(make([]float32, 2), make([]float32, 2)); got != 0 {
		t.Errorf("zeros are apart by %v", got)
	}
	var src strings.Builder
	for line := range strings.Lines(task.Generate(task.StateBasedRecall, 8, 2, 0).Python()) {
		if strings.HasPrefix(line, "assert") {
			break
		}
		src.WriteString(line)
		if !strings.HasPrefix(line, "bits") {
			src.WriteString("assert bits[c]== 0\nassert bits[a]== 0\nassert bits[e]== 1\n")
		}
	}
	p := open(t)
	p.ask(`{"type":"load","model":"sbr-gdn-neg"}`) // one that is unsure of some bits
	d := p.ask(`{"type":"drift","store":"bf16","program":%q}`, src.String()).Drift
	var runs [2]*playback.Playback
	for i, store := range []string{"", "bf16"} {
		p.ask(`{"type":"run","lane":0,"program":%q,"switches":{"store":%q}}`, src.String(), store)
		p.ask(`{"type":"seek","t":999}`)
		runs[i] = p.e.lanes[0].play
	}
	var flips []int
	for _, q := range runs[0].Program.Queries() {
		if runs[0].Steps()[q.Pos].Top[0].Word != runs[1].Steps()[q.Pos].Top[0].Word {
			flips = append(flips, q.Pos)
		}
	}
	if len(flips) == 0 || !slices.Equal(d.Flips, flips) {
		t.Errorf("flips: got %v, want %v, and some", d.Flips, flips)
	}
}

func TestCheck(t *testing.T) {
	p := open(t)
	c := p.ask(`{"type":"check"}`).Check
	if c.Device != "cpu" || !c.Pass || len(c.Kernels) == 0 {
		t.Errorf("got %+v", c)
	}
	if full := p.ask(`{"type":"check","full":true}`).Check; len(full.Kernels) <= len(c.Kernels) {
		t.Errorf("the full check has %d parts, the quick one %d", len(full.Kernels), len(c.Kernels))
	}
}

// A curve is what eval says, with an event for each part, and the page is answered in between; plays
// stay short.
func TestCurve(t *testing.T) {
	p := open(t)
	p.e.hooks.Scene = nil
	send, replies, stop := p.live()
	defer stop()
	// The page asks for something at each of the first parts.
	asks := []string{`{"id":10,"type":"step"}`, `{"id":11,"type":"step"}`, `{"id":12,"type":"step"}`, `{"id":4,"type":"curve","task":"st","models":["st-constructed"]}`}
	p.e.hooks.Event = func(ev Event) {
		if p.events = append(p.events, ev); ev.Event == "curve" && len(asks) > 0 {
			send(asks[0])
			asks = asks[1:]
		}
	}
	send(`{"id":1,"type":"load","model":"st-constructed"}`)
	wait(t, replies)
	send(fmt.Sprintf(`{"id":2,"type":"run","belief":true,"program":%q}`, swaps))
	wait(t, replies)
	send(`{"id":3,"type":"curve","task":"st","models":["st-constructed","nowhere","st-gdn-pos"],"levels":[4,9],"samples":12,"seed":5}`)
	for next := range 3 {
		if a := p.read(wait(t, replies)); a.Re != 10+next || !a.OK || *a.T != next {
			t.Fatalf("in the middle of a curve: got %+v, want the answer to step %d", a, next)
		}
	}
	if a := p.read(wait(t, replies)); a.Re != 4 || !strings.Contains(a.Error, "being computed already") {
		t.Errorf("a second curve: got %+v", a)
	}
	r := p.read(wait(t, replies))
	if r.Re != 3 || !r.OK || *r.Cancelled || *r.Seconds <= 0 || len(r.Curve) != 3 {
		t.Fatalf("the curve: got %+v", r)
	}
	for i, m := range r.Curve {
		if i == 1 {
			if m.Error == "" || len(m.Levels) != 0 {
				t.Errorf("a model that is not there: got %+v", m)
			}
			continue
		}
		h, err := model.Open(context.Background(), webgpu.NewCPU(), m.Model, files(context.Background(), "web/zoo", m.Model), nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := eval.Run(context.Background(), h, eval.Options{Task: task.StateTracking, Levels: []int{4, 9}, Samples: 12, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		for j, l := range want.Levels {
			got := m.Levels[j]
			if got.N != l.N || got.Samples != 12 || got.Accuracy != l.Accuracy || got.Stderr != l.Stderr || float64(got.Right) != l.Accuracy*12 {
				t.Errorf("%s: got %+v, want %+v", m.Model, got, l)
			}
		}
	}
	stop()
	last, beliefs := Event{}, 0
	for _, ev := range p.events {
		if ev.Event == "belief" && last.Done < 72 {
			beliefs++
		}
		if ev.Event != "curve" {
			continue
		}
		if ev.Done < last.Done || ev.Total != 72 || ev.Right == nil || *ev.Right > ev.Samples || ev.N != 4 && ev.N != 9 {
			t.Errorf("event: %+v after %+v", ev, last)
		}
		last = ev
	}
	if last.Done != 72 || last.Samples != 12 || last.N != 9 || last.Model != "st-gdn-pos" {
		t.Errorf("the last event: %+v", last)
	}
	if beliefs != 2 {
		t.Errorf("%d beliefs were asked beside the curve, want 2", beliefs)
	}
	if len(p.e.models) != 1 {
		t.Errorf("models stay on the device: %v", p.e.models)
	}
}

// A curve that is cancelled answers with what it has; another can follow.
func TestCancel(t *testing.T) {
	p := open(t)
	begun := make(chan bool, 10000)
	p.e.hooks.Event = func(ev Event) { begun <- ev.Event == "curve" }
	send, replies, stop := p.live()
	defer stop()
	send(`{"id":1,"type":"curve","task":"sbr","models":["sbr-gdn-pos","sbr-hybrid-neg"],"levels":[4,128],"samples":4096}`)
	select {
	case <-begun:
	case <-time.After(time.Minute):
		t.Fatal("no event")
	}
	send(`{"id":2,"type":"cancel"}`)
	if a := p.read(wait(t, replies)); a.Re != 2 || !a.OK {
		t.Errorf("cancel: got %+v", a)
	}
	r := p.read(wait(t, replies))
	if r.Re != 1 || !r.OK || !*r.Cancelled || len(r.Curve) != 1 || len(r.Curve[0].Levels) != 1 {
		t.Fatalf("the curve: got %+v", r)
	}
	if l := r.Curve[0].Levels[0]; l.N != 4 || l.Samples == 0 || l.Samples >= 4096 || math.Abs(l.Accuracy-float64(l.Right)/float64(l.Samples)) > 1e-12 {
		t.Errorf("its only level: got %+v", l)
	}
	send(`{"id":3,"type":"curve","task":"st","models":["st-constructed"],"levels":[4],"samples":2}`)
	if a := p.read(wait(t, replies)); a.Re != 3 || !a.OK || a.Curve[0].Levels[0].Accuracy != 1 {
		t.Errorf("the next curve: got %+v", a)
	}
	stop()
	for want, fields := range map[string]string{
		"want st, recall or sbr": `"task":"x","models":["a"]`,
		"want 1 to 512":          `"task":"st","models":["a"],"levels":[513]`,
		"no models are named":    `"task":"st"`,
		"want 1 to 4096":         `"task":"st","models":["a"],"samples":5000`,
	} {
		p.refuse(want, `{"type":"curve",%s}`, fields)
	}
	if a := p.ask(`{"type":"cancel"}`); !a.OK {
		t.Error("nothing to cancel is no error")
	}
}

// A device that is lost ends what takes long with a line, and the lanes come back.
func TestDeviceLossInACurve(t *testing.T) {
	p := open(t)
	p.ask(`{"type":"load","model":"st-constructed"}`)
	p.ask(`{"type":"run","program":%q}`, swaps)
	p.ask(`{"type":"seek","t":3}`)
	p.device.left = 5
	p.refuse("the GPU failed on the way, ask again", `{"type":"curve","task":"st","models":["st-constructed"],"levels":[4],"samples":64}`)
	if a := p.ask(`{"type":"step"}`); *a.T != 4 {
		t.Errorf("the lane went on at %d, want 4", *a.T)
	}
	if fmt.Sprint(p.opened) != "[cpu auto]" {
		t.Errorf("devices opened: %v", p.opened)
	}

	// The others end as well, and are answered.
	p = open(t)
	send, replies, stop := p.live()
	defer stop()
	send(`{"id":1,"type":"curve","task":"st","models":["st-constructed"],"levels":[4],"samples":4000}`)
	send(`{"id":2,"type":"init","device":"cpu","base":"web/zoo"}`)
	got := map[int]answer{}
	for range 2 {
		a := p.read(wait(t, replies))
		got[a.Re] = a
	}
	if !got[2].OK || !got[1].OK || !*got[1].Cancelled {
		t.Errorf("a device opened in the middle of a curve: got %+v", got)
	}
}

// Plays grow until they take as long as they may, and shrink when they take longer.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		perToken time.Duration
		want     int
	}{{10 * time.Microsecond, mostRun}, {time.Millisecond, 80}, {7 * time.Millisecond, 11}, {time.Second, leastRun}} {
		p := newPace()
		longest := time.Duration(0)
		for i := range 30 {
			d := time.Duration(p.tokens) * c.perToken
			if i == 3 {
				d += 2 * time.Second // a kernel is compiled
			}
			longest = max(longest, time.Duration(p.tokens)*c.perToken)
			p.took(p.tokens, d)
		}
		if p.tokens != c.want || longest > 100*time.Millisecond && c.want > leastRun {
			t.Errorf("at %v a token: %d tokens, plays of up to %v, want %d tokens", c.perToken, p.tokens, longest, c.want)
		}
	}
}
