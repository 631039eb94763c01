package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"shellgame/model"
	"shellgame/model/inspect"
	"shellgame/model/safetensors"
	"shellgame/task"
	"shellgame/webgpu"
)

// The engine's figures of a program are those of the package behind the command, token by token
// without reading it again, with the switches of the lane's run.
func TestInspect(t *testing.T) {
	p := open(t)
	p.refuse("no checkpoint is loaded", `{"type":"inspect","ids":[1]}`)
	p.ask(`{"type":"load","model":"sbr-hybrid-neg"}`)
	prog, err := task.Parse(task.Generate(task.StateBasedRecall, 8, 3, 0).Python())
	if err != nil {
		t.Fatal(err)
	}
	ids := intsOf(prog)
	if len(ids) <= keptEach+2 {
		t.Fatalf("a program of %d tokens, want one with a state kept on the way", len(ids))
	}
	list, _ := json.Marshal(ids)
	m, err := model.Open(t.Context(), webgpu.NewCPU(), "sbr-hybrid-neg", safetensors.Dir("../../web/zoo/sbr-hybrid-neg"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	read := func(s model.Switches, at int) *inspect.Report {
		t.Helper()
		r, err := inspect.New(m, ids, inspect.Options{Switches: s})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		if err := r.Read(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		want, err := r.At(t.Context(), at, 4, nil)
		if err != nil {
			t.Fatal(err)
		}
		return want
	}
	same := func(at int, s model.Switches) {
		t.Helper()
		p.events = nil
		a := p.ask(`{"type":"inspect","ids":%s,"at":%d,"top":4}`, list, at)
		want, _ := json.Marshal(read(s, at))
		if got, _ := json.Marshal(a.Inspect); string(got) != string(want) {
			t.Errorf("at %d:\ngot  %s\nwant %s", at, got, want)
		}
	}
	progress := func() (done []int64) {
		for _, ev := range p.events {
			if ev.Event == "progress" && ev.What == "inspect" {
				done = append(done, ev.Done)
			}
		}
		return done
	}
	same(len(ids)-1, model.Switches{})
	if d := progress(); len(d) < 2 || d[0] != leastRun || !slices.Contains(d, int64(len(ids))) {
		t.Errorf("told of %v, want plays from %d tokens on to all %d", d, leastRun, len(ids))
	}
	same(0, model.Switches{})
	if d := progress(); len(d) != 0 {
		t.Errorf("another token of the same text had %v read again", d)
	}
	same(keptEach+2, model.Switches{})
	if d := progress(); len(d) != 1 || d[0] != keptEach+2 {
		t.Errorf("read %v on from the state that is kept, want to %d", d, keptEach+2)
	}
	p.ask(`{"type":"run","program":%q,"switches":{"beta":"clamp"}}`, prog.Python())
	same(5, model.Switches{Beta: "clamp"})
	for fields, want := range map[string]string{
		`"ids":[]`:                "inspect: got 0 tokens, want 1 to 1024",
		`"ids":[1],"at":1`:        "inspect: got token 1, want 0 to 0",
		`"ids":[1],"at":-1`:       "inspect: got token -1, want 0 to 0",
		`"ids":[1],"top":-1`:      "inspect: got -1 heads to be named, want 0 or more",
		`"ids":[288]`:             "model: token 288: the vocabulary has 288",
		`"ids":[1],"lane":1`:      "no checkpoint is loaded yet: choose one first",
		`"ids":[1],"lane":"diff"`: "engine: inspect of a difference: want lane 0 or 1",
		`"ids":[` + strings.Repeat("1,", 1024) + `1]`: "inspect: got 1025 tokens, want 1 to 1024",
	} {
		p.refuse(want, `{"type":"inspect",%s}`, fields)
	}
	same(2, model.Switches{Beta: "clamp"}) // after an error
}

// A cancel ends the reading between two plays; asked again it goes on from there. Another text while
// one is read is refused.
func TestInspectCancel(t *testing.T) {
	p := open(t)
	p.ask(`{"type":"load","model":"sbr-hybrid-neg"}`)
	told := make(chan int64, 10000)
	p.e.hooks.Event = func(ev Event) { told <- ev.Done }
	send, replies, stop := p.live()
	defer stop()
	ids := make([]int, 300)
	for i := range ids {
		ids[i] = 1 + i%200
	}
	list, _ := json.Marshal(ids)
	send(fmt.Sprintf(`{"id":1,"type":"inspect","ids":%s,"top":3}`, list))
	var last int64
	select {
	case last = <-told:
	case <-time.After(time.Minute):
		t.Fatal("no event")
	}
	send(`{"id":2,"type":"inspect","ids":[1]}`)
	send(`{"id":3,"type":"cancel","what":"inspect"}`)
	for _, want := range []string{"inspect: a text is being read already: cancel that first, or wait for it", "", "cancelled"} {
		if a := p.read(wait(t, replies)); a.Error != want {
			t.Errorf("got %q, want %q", a.Error, want)
		}
	}
	for len(told) > 0 {
		last = <-told
	}
	send(fmt.Sprintf(`{"id":4,"type":"inspect","ids":%s,"top":3}`, list))
	if a := p.read(wait(t, replies)); !a.OK || len(a.Inspect.Wrote) != 3 {
		t.Errorf("asked again: %+v", a.Reply)
	}
	if next := <-told; next <= last || last == 0 {
		t.Errorf("asked again it reads to %d after %d", next, last)
	}
}

// A device that is lost ends the reading with a line; another model ends it too. Asked again it is read
// whole.
func TestInspectLoss(t *testing.T) {
	p := open(t)
	p.ask(`{"type":"load","model":"sbr-hybrid-neg"}`)
	ids := make([]int, 60)
	for i := range ids {
		ids[i] = 1 + i
	}
	list, _ := json.Marshal(ids)
	want := p.ask(`{"type":"inspect","ids":%s,"at":50,"top":3}`, list).Inspect
	for _, left := range []int{1, 6} { // before the first play, and on the way
		p.ask(`{"type":"inspect","ids":[1]}`) // forgets the text
		p.device.left = left
		p.refuse("the GPU failed on the way, ask again", `{"type":"inspect","ids":%s,"at":50,"top":3}`, list)
		got := p.ask(`{"type":"inspect","ids":%s,"at":50,"top":3}`, list).Inspect
		if a, b := fmt.Sprintf("%+v", got.Wrote), fmt.Sprintf("%+v", want.Wrote); a != b {
			t.Errorf("after a loss: %s, want %s", a, b)
		}
		p.e.losses = nil
	}
	p.e.hooks.Event = func(ev Event) {
		if ev.What == "inspect" && ev.Done == keptEach {
			p.e.hooks.Event = nil
			p.ask(`{"type":"load","model":"st-constructed"}`)
		}
	}
	list, _ = json.Marshal(ids[:40])
	p.refuse("cancelled", `{"type":"inspect","ids":%s,"at":39}`, list)
	if a := p.ask(`{"type":"inspect","ids":[1,2],"at":1,"top":2}`); len(a.Inspect.Layers) != 1 {
		t.Errorf("of another model: %d layers", len(a.Inspect.Layers))
	}
}

// What a text keeps fits, and a state is never far.
func TestKeep(t *testing.T) {
	m, err := model.Open(t.Context(), webgpu.NewCPU(), "sbr-hybrid-neg", safetensors.Dir("../../web/zoo/sbr-hybrid-neg"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	if at := keep(m.Config, 40); !slices.Equal(at, []int{16, 32}) {
		t.Errorf("of 40 tokens states are kept after %v", at)
	}
	c := *m.Config
	c.HV, c.K, c.V = 64, 128, 256
	for _, n := range []int{1, 100, 4096} {
		if at := keep(&c, n); len(at)*inspect.StateBytes(&c) > keptBytes || n > 4 && len(at) == 0 {
			t.Errorf("of %d tokens %d states of %d bytes are kept", n, len(at), inspect.StateBytes(&c))
		}
	}
	c.V = 8192
	if at := keep(&c, 4096); len(at) != 0 {
		t.Errorf("%d states of %d bytes are kept", len(at), inspect.StateBytes(&c))
	}
}
