//go:build js || windows || cgo

package stage

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hajimehoshi/ebiten/v2"
)

// Options are the callbacks of a stage, each of which may be nil. They are
// called from ebiten's loop, without any lock held, and must not block.
type Options struct {
	OnHover  func(text string)     // what is under the pointer changed; empty over nothing
	OnSelect func(layer, head int) // a head was clicked (position in Scene.Layers), or -1, -1 for all heads
	OnSeek   func(t int)           // a word of the program was clicked
	// OnSize says between which heights in points the stage makes sense: below
	// least it scrolls, beyond most it stays empty. least does not depend on the
	// height that it has; most does only where one head is shown alone.
	OnSize func(least, most float64)
	OnKey  func(key ebiten.Key) // a key was pressed (windows only: in a page the keys stay with the page)
	OnDraw func(frames int)     // a frame was really drawn
}

// Stage draws scenes. It implements [ebiten.Game]. Its methods may be called
// from any goroutine.
type Stage struct {
	opt Options

	mu        sync.Mutex
	scene     Scene
	view      View
	theme     Theme
	hidden    bool
	closed    bool      // the window is to close
	limits    []float32 // of the colour scales, [len(scene.Layers)]
	beyond    []bool    // [len(scene.Layers)]: numbers of the scene are outside
	run       int
	dirty     bool // something to draw changed
	drawn     time.Time
	later     bool // a frame is due once the pace allows it
	moved     bool // the layout is stale
	mapsDirty bool // the maps' pixels are stale
	frames    int

	w, h, scale float64 // of the screen, in points
	lay         *layout
	painter     *painter
	maps        []*texture
	gazeBuf     []float32

	mx, my    float64 // pointer, in points
	away      bool    // the pointer left the screen
	pressed   bool
	hover     hit
	hoverText string
	byHand    float64 // strip, scrolled by hand
	scroll    float64 // content
	least     float64
	most      float64
}

var (
	_ ebiten.Game      = (*Stage)(nil)
	_ ebiten.LayoutFer = (*Stage)(nil)
)

// New makes a stage that shows nothing yet.
func New(opt Options) *Stage {
	s := &Stage{opt: opt, view: AllHeads, dirty: true, moved: true, mapsDirty: true}
	s.scene.T = -1
	return s
}

// Run opens the stage, in a page on its document, else in a window with a
// title, and returns when it is closed or fails. It must be called from the
// main goroutine.
func (s *Stage) Run(title string) error {
	//lint:ignore SA1019 nothing else draws no frame at all while nothing changes
	ebiten.SetFPSMode(ebiten.FPSModeVsyncOffMinimum)
	ebiten.SetTPS(ebiten.SyncWithFPS)
	ebiten.SetScreenClearedEveryFrame(false)
	ebiten.SetRunnableOnUnfocused(true)
	ebiten.SetWindowTitle(title)
	ebiten.SetWindowSize(1280, 800)
	ebiten.SetWindowResizingMode(ebiten.WindowResizingModeEnabled)
	s.watchPointer()
	return ebiten.RunGameWithOptions(s, &ebiten.RunGameOptions{InitUnfocused: true})
}

// SetScene shows a scene.
func (s *Stage) SetScene(sc *Scene) {
	s.mu.Lock()
	if sc.T != s.scene.T || sc.Run != s.scene.Run {
		s.byHand = 0
	}
	was := s.scene.shape()
	s.scene = *sc
	s.scene.Layers = slices.Clone(sc.Layers) // fix mends them
	s.scene.fix()
	if s.run != sc.Run || len(s.limits) != len(sc.Layers) {
		s.run = sc.Run
		s.limits, s.beyond = make([]float32, len(sc.Layers)), make([]bool, len(sc.Layers))
	}
	for i := range s.limits {
		l := &s.scene.Layers[i]
		if l.Kind == Attention {
			s.limits[i] = 1
		} else {
			if m := reach(l.State); m > 0 || s.limits[i] == 0 {
				s.limits[i] = max(s.limits[i], niceLimit(m))
			}
			s.beyond[i] = maxAbs(l.State) > 1.001*float64(s.limits[i])
		}
	}
	s.touch(was != s.scene.shape())
	s.mapsDirty = true
	s.mu.Unlock()
	s.schedule()
}

// SetView chooses what of the scene to show.
func (s *Stage) SetView(v View) {
	s.mu.Lock()
	same := s.view == v
	if !same {
		s.view = v
		s.scroll = 0
		s.touch(true)
	}
	s.mu.Unlock()
	if !same {
		s.schedule()
	}
}

// SetTheme chooses the colours.
func (s *Stage) SetTheme(t Theme) {
	s.mu.Lock()
	same := s.theme == t
	if !same {
		s.theme = t
		s.touch(false)
		s.mapsDirty = true
	}
	s.mu.Unlock()
	if !same {
		s.schedule()
	}
}

// Close makes Run return.
func (s *Stage) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	//lint:ignore SA1019 goes with FPSModeVsyncOffMinimum
	ebiten.ScheduleFrame()
}

// SetVisible stops drawing while the stage cannot be seen.
func (s *Stage) SetVisible(visible bool) {
	s.mu.Lock()
	changed := s.hidden == visible
	s.hidden = !visible
	s.mu.Unlock()
	if changed && visible {
		s.schedule()
	}
}

// Frames returns how many frames were drawn.
func (s *Stage) Frames() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frames
}

// touch marks the picture as stale, and the layout and maps where they are.
func (s *Stage) touch(layout bool) {
	s.dirty = true
	if layout {
		s.moved, s.mapsDirty = true, true
	}
}

// schedule asks for a frame, at once or, where a frame costs much, once [pace] has passed since the
// last: what computes a step shares the machine with what draws it.
func (s *Stage) schedule() {
	s.mu.Lock()
	wait := pace() - time.Since(s.drawn)
	now := !s.hidden && wait <= 0
	if !s.hidden && wait > 0 && !s.later {
		s.later = true
		time.AfterFunc(wait, func() {
			s.mu.Lock()
			s.later = false
			s.mu.Unlock()
			//lint:ignore SA1019 goes with FPSModeVsyncOffMinimum
			ebiten.ScheduleFrame()
		})
	}
	s.mu.Unlock()
	if now {
		//lint:ignore SA1019 goes with FPSModeVsyncOffMinimum
		ebiten.ScheduleFrame()
	}
}

// Layout implements [ebiten.Game]; LayoutF is used instead.
func (s *Stage) Layout(w, h int) (int, int) { return w, h }

// LayoutF implements [ebiten.LayoutFer]: the screen has a pixel for each pixel
// of the device.
func (s *Stage) LayoutF(w, h float64) (float64, float64) {
	scale := 1.0
	if m := ebiten.Monitor(); m != nil {
		scale = m.DeviceScaleFactor()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if w != s.w || h != s.h || scale != s.scale {
		s.w, s.h = w, h
		if scale != s.scale {
			s.scale = scale
			if s.painter != nil {
				s.painter.free()
				s.painter = nil
			}
		}
		s.touch(true)
	}
	return math.Ceil(w * scale), math.Ceil(h * scale)
}

// place brings the layout up to date.
func (s *Stage) place() {
	if s.painter == nil {
		s.painter = newPainter(s.scale)
	}
	if s.moved || s.lay == nil {
		s.lay = arrange(&s.scene, s.view, s.w, s.h, s.scale, s.painter)
		s.moved = false
		s.hover, s.hoverText = hit{}, ""
	}
	s.scroll = min(max(s.scroll, 0), max(s.lay.content-s.h, 0))
}

func (s *Stage) stripOffset() float64 {
	return math.Round(s.lay.stripScroll(s.scene.T, s.byHand)/lineHeight) * lineHeight
}

// Update implements [ebiten.Game]: it follows the pointer.
func (s *Stage) Update() error {
	x, y := ebiten.CursorPosition()
	down := ebiten.IsMouseButtonPressed(ebiten.MouseButtonLeft)
	_, wheel := ebiten.Wheel()
	keys := pressedKeys()

	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ebiten.Termination
	}
	if s.w <= 0 || s.h <= 0 {
		s.mu.Unlock()
		return nil
	}
	s.place()
	calls := s.input(float64(x)/s.scale, float64(y)/s.scale, down, wheel*wheelPoints)
	if s.lay.least != s.least || s.lay.most != s.most {
		s.least, s.most = s.lay.least, s.lay.most
		if f := s.opt.OnSize; f != nil {
			least, most := s.least, s.most
			calls = append(calls, func() { f(least, most) })
		}
	}
	s.mu.Unlock()
	for _, f := range calls {
		f()
	}
	if s.opt.OnKey != nil {
		for _, k := range keys {
			s.opt.OnKey(k)
		}
	}
	return nil
}

// input takes the pointer's place in points, whether its button is down and
// how far the wheel turned, and returns the callbacks to call.
func (s *Stage) input(x, y float64, down bool, wheel float64) (calls []func()) {
	if x != s.mx || y != s.my {
		s.away = false
	}
	s.mx, s.my = x, y
	overStrip := s.lay.strip.has(x, y+s.scroll)
	if wheel != 0 {
		if overStrip && s.lay.stripFull > s.lay.strip.h+1 {
			was := s.stripOffset()
			s.byHand += was - s.lay.stripScroll(s.scene.T, s.byHand)
			s.byHand -= wheel
			if s.stripOffset() != was {
				s.dirty = true
			}
			s.byHand = s.clampByHand()
		} else if to := min(max(s.scroll-wheel, 0), max(s.lay.content-s.h, 0)); to != s.scroll {
			s.scroll = to
			s.dirty = true
		}
	}
	var now hit
	if !s.away && x >= 0 && y >= 0 && x < s.w && y < s.h {
		now = s.lay.at(x, y+s.scroll, s.stripOffset())
	}
	text := s.scene.describe(now, s.pool(now))
	if now != s.hover || text != s.hoverText {
		s.hover, s.dirty = now, true
		if text != s.hoverText {
			s.hoverText = text
			if f := s.opt.OnHover; f != nil {
				calls = append(calls, func() { f(text) })
			}
		}
		wantWheel(now.kind == hitWord || now.kind == hitStrip || now.kind == hitAnswer, s.lay.stripFull > s.lay.strip.h+1, s.lay.content > s.h+1)
	}
	if down && !s.pressed {
		calls = append(calls, s.click(now)...)
	}
	s.pressed = down
	return calls
}

// clampByHand keeps what was scrolled by hand within what has an effect.
func (s *Stage) clampByHand() float64 {
	base := s.lay.stripScroll(s.scene.T, 0)
	return min(max(s.byHand, -base), s.lay.stripFull-s.lay.strip.h-base)
}

func (s *Stage) click(h hit) (calls []func()) {
	choose := func(layer, head int) {
		s.view = View{Layer: layer, Head: head}
		s.scroll = 0
		s.touch(true)
		if f := s.opt.OnSelect; f != nil {
			calls = append(calls, func() { f(layer, head) })
		}
	}
	switch h.kind {
	case hitWord:
		if f := s.opt.OnSeek; f != nil {
			calls = append(calls, func() { f(h.i) })
		}
	case hitBack:
		choose(-1, 0)
	case hitMap, hitHead:
		if s.view.Layer >= 0 {
			choose(-1, 0)
		} else {
			choose(h.layer, h.head)
		}
	}
	return calls
}

// pool returns the pooling of the map that a hit is in.
func (s *Stage) pool(h hit) int {
	if h.kind == hitMap {
		for _, b := range s.lay.maps {
			if b.layer == h.layer && b.head == h.head {
				return b.pool
			}
		}
	}
	return 1
}

// Draw implements [ebiten.Game]: it draws if something changed.
func (s *Stage) Draw(screen *ebiten.Image) {
	s.mu.Lock()
	if !s.dirty || s.hidden || s.w <= 0 {
		s.mu.Unlock()
		return
	}
	s.place()
	s.dirty = false
	s.drawn = time.Now()
	s.paint(screen)
	s.frames++
	n := s.frames
	s.mu.Unlock()
	if s.opt.OnDraw != nil {
		s.opt.OnDraw(n)
	}
}
