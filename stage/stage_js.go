package stage

import (
	"sync"
	"syscall/js"
	"time"

	"github.com/hajimehoshi/ebiten/v2"
)

// wheelPoints is how far one unit of the wheel goes: the browser counts in pixels.
const wheelPoints = 1

// pressedKeys is empty: the frame's script keeps keys for the page.
func pressedKeys() []ebiten.Key { return nil }

// pace is the least time between frames. Where WebGL computes on the CPU a frame takes as long as
// several steps of a model, so a fast playback shows some of its moments only.
var pace = sync.OnceValue(func() time.Duration {
	if js.Global().Get("shellgameSlowWebGL").Truthy() {
		return 120 * time.Millisecond
	}
	return 0
})

// watchPointer notes when the pointer leaves the document, which ebiten does not say.
func (s *Stage) watchPointer() {
	leave := js.FuncOf(func(js.Value, []js.Value) any {
		go func() {
			s.mu.Lock()
			s.away = true
			s.mu.Unlock()
			//lint:ignore SA1019 goes with FPSModeVsyncOffMinimum
			ebiten.ScheduleFrame()
		}()
		return nil
	})
	js.Global().Get("document").Get("documentElement").Call("addEventListener", "mouseleave", leave)
}

// wantWheel tells the frame's script whether the wheel scrolls something here
// or belongs to the page.
func wantWheel(overStrip, stripScrolls, contentScrolls bool) {
	js.Global().Set("shellgameWheel", overStrip && stripScrolls || contentScrolls)
}
