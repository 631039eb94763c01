package engine

import (
	"testing"
	"time"

	"shellgame/stage"
	"shellgame/task"
)

// atTheEnd is an engine that has read 512 swaps, or in short tests 64, with a model of four attention
// layers of four heads.
func atTheEnd(t testing.TB) (e *Engine, shown *int) {
	t.Helper()
	n := 512
	if testing.Short() {
		n = 64
	}
	p := open(t)
	p.ask(`{"type":"load","model":"st-transformer"}`)
	p.ask(`{"type":"load","lane":1,"model":"st-hybrid-neg"}`)
	for lane := range 2 {
		p.ask(`{"type":"run","lane":%d,"program":%q}`, lane, task.Generate(task.StateTracking, n, 1, 0).Python())
		p.ask(`{"type":"seek","lane":%d,"t":%d}`, lane, n+3)
	}
	shown = new(int)
	p.e.hooks.Scene = func(s *stage.Scene) { *shown += len(s.Layers) }
	return p.e, shown
}

// Handing over a moment costs no copies of what was read before.
func TestSceneAllocations(t *testing.T) {
	e, shown := atTheEnd(t)
	for _, w := range []which{0, 1, diff} {
		e.shown = w
		e.show()
		if n := testing.AllocsPerRun(10, e.show); n > 12 {
			t.Errorf("showing %d allocates %v times, want at most 12", w, n)
		}
	}
	e.shown = 0
	start := time.Now()
	for range 100 {
		e.show()
	}
	if d := time.Since(start) / 100; d > time.Millisecond {
		t.Errorf("a scene of 516 words takes %v, want at most 1 ms", d)
	}
	if *shown == 0 {
		t.Error("nothing was shown")
	}
}

func BenchmarkScene(b *testing.B) {
	e, _ := atTheEnd(b)
	b.ReportAllocs()
	for b.Loop() {
		e.show()
	}
}
