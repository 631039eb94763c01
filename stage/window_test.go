//go:build !js && cgo

package stage

import (
	"bytes"
	"fmt"
	"image/color"
	"os"
	"testing"
	"time"

	"github.com/hajimehoshi/ebiten/v2"
)

// With cgo, ebiten wants a display before any test runs: on a machine without
// one use `xvfb-run -a go test ./stage/`. CGO_ENABLED=0 runs the tests that do
// not draw.

// The tests that draw need ebiten's loop on the main goroutine: TestMain keeps
// it.
var frames = make(chan func(screen *ebiten.Image))

type loop struct{ done chan int }

func (g *loop) Update() error {
	select {
	case <-g.done:
		return ebiten.Termination
	default:
		return nil
	}
}

func (g *loop) Draw(screen *ebiten.Image) {
	select {
	case f := <-frames:
		f(screen)
	default:
	}
}

func (g *loop) Layout(w, h int) (int, int) { return w, h }

// inLoop holds the loop within a frame while f runs on the test's goroutine.
func inLoop(t *testing.T, f func(screen *ebiten.Image)) {
	t.Helper()
	within, done := make(chan *ebiten.Image), make(chan struct{})
	select {
	case frames <- func(screen *ebiten.Image) { within <- screen; <-done }:
	case <-time.After(20 * time.Second):
		t.Fatal("ebiten's loop does not draw")
	}
	defer close(done)
	f(<-within)
}

func TestMain(m *testing.M) {
	code := 1
	g := &loop{done: make(chan int)}
	go func() {
		code = m.Run()
		close(g.done)
	}()
	ebiten.SetWindowSize(320, 200)
	if err := ebiten.RunGame(g); err != nil {
		fmt.Fprintf(os.Stderr, "stage: running ebiten: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

// drawn draws a stage on a fresh image and returns a function that reads a
// pixel at a point.
func drawn(s *Stage, w, h int) func(x, y float64) color.RGBA {
	s.LayoutF(float64(w), float64(h))
	k := s.scale
	img := ebiten.NewImage(int(float64(w)*k), int(float64(h)*k))
	s.Draw(img)
	pix := make([]byte, 4*img.Bounds().Dx()*img.Bounds().Dy())
	img.ReadPixels(pix)
	return func(x, y float64) color.RGBA {
		o := 4 * (int(y*k)*img.Bounds().Dx() + int(x*k))
		return color.RGBA{pix[o], pix[o+1], pix[o+2], pix[o+3]}
	}
}

func TestDrawsEveryCellInItsColour(t *testing.T) {
	inLoop(t, func(*ebiten.Image) {
		for _, theme := range []Theme{Light, Dark} {
			s := New(Options{})
			sc := hybrid(9)
			s.SetScene(sc)
			s.SetTheme(theme)
			at := drawn(s, 1000, 700)
			sk := skins[theme]
			for _, b := range s.lay.maps {
				for i := range b.rows {
					for j := range b.cols {
						l := &sc.Layers[b.layer]
						want := sk.back
						if l.Kind == GDN {
							want = sk.signed.colour(l.State[(b.head*l.K+i)*l.V+j], s.limits[b.layer])
						} else if j <= i && i <= sc.T {
							want = sk.chance.colour(l.prob(b.head, i, j), 1)
						} else if b.words {
							continue // the words stand there
						}
						// Near the lower left corner, clear of numbers, seams and the current row's frame.
						got := at(b.box.x+(float64(j)+0.25)*b.cw, b.box.y+(float64(i)+0.78)*b.ch)
						if got != want {
							t.Fatalf("theme %d layer %d head %d cell %d, %d: got %v, want %v", theme, b.layer, b.head, i, j, got, want)
						}
					}
				}
			}
		}
	})
}

func TestNothingChangedNothingDrawn(t *testing.T) {
	inLoop(t, func(screen *ebiten.Image) {
		s := New(Options{})
		step := func(what string, want int, f func()) {
			t.Helper()
			f()
			before := s.Frames()
			s.Draw(screen)
			s.Draw(screen)
			if got := s.Frames() - before; got != want {
				t.Errorf("%s: drew %d frames, want %d", what, got, want)
			}
		}
		s.LayoutF(1000, 700)
		sc := hybrid(9)
		step("first scene", 1, func() { s.SetScene(sc) })
		step("nothing", 0, func() {})
		step("same size", 0, func() { s.LayoutF(1000, 700) })
		step("same theme and view", 0, func() { s.SetTheme(Light); s.SetView(AllHeads) })
		step("theme", 1, func() { s.SetTheme(Dark) })
		step("view", 1, func() { s.SetView(View{Layer: 1}) })
		step("all heads", 1, func() { s.SetView(AllHeads) })
		step("pointer over nothing", 0, func() { s.input(1, 1, false, 0) })
		m := s.lay.maps[0]
		step("pointer on a cell", 1, func() { s.input(m.box.x+1, m.box.y+1, false, 0) })
		step("pointer in the same cell", 0, func() { s.input(m.box.x+2, m.box.y+2, false, 0) })
		step("hidden", 0, func() { s.SetVisible(false); s.SetScene(sc) })
		step("visible again", 1, func() { s.SetVisible(true) })
		step("size", 1, func() { s.LayoutF(500, 400) })
	})
}

// long is a scene of 4 attention layers of 4 heads, as the transformer has, over n words.
func long(n int) *Scene {
	s := hybrid(n)
	a := s.Layers[1]
	a.Heads, a.Rows = 4, make([][]float32, n)
	for i := range n {
		for h := range 4 {
			for j := 0; j <= i; j++ {
				a.Rows[i] = append(a.Rows[i], float32((h+1)*(j%7))/float32(7*(i+1)))
			}
		}
	}
	s.Layers = []Layer{a, a, a, a}
	return s
}

// Stepping on and back redraws only the rows that changed, and shows the same as drawing all.
func TestRowsAreRepainted(t *testing.T) {
	inLoop(t, func(*ebiten.Image) {
		for _, n := range []int{9, 516} {
			s, sc := New(Options{}), long(n)
			img := ebiten.NewImage(1000, 700)
			s.LayoutF(1000, 700)
			for _, at := range []int{-1, 0, 1, 4, n - 1, 5, n - 3} {
				sc.T = at
				s.SetScene(sc)
				s.Draw(img)
				for i := range s.lay.maps {
					b := &s.lay.maps[i]
					if want := mapPixels(nil, &s.scene, b, 1, skins[Light]); !bytes.Equal(s.maps[i].pix, want) {
						t.Fatalf("%d words, at %d: map %d is not what drawing it all gives", n, at, i)
					}
					w, h := b.pixels()
					got := make([]byte, 4*w*h)
					if s.maps[i].image.ReadPixels(got); !bytes.Equal(got, s.maps[i].pix) {
						t.Fatalf("%d words, at %d: map %d on the GPU is another", n, at, i)
					}
				}
			}
		}
	})
}

// A frame of a long program takes few calls of the GPU.
func TestDrawCalls(t *testing.T) {
	inLoop(t, func(screen *ebiten.Image) {
		s, sc := New(Options{}), long(516)
		s.SetScene(sc)
		s.LayoutF(1400, 1200)
		s.Draw(screen)
		s.input(s.lay.maps[0].box.x+1, s.lay.maps[0].box.y+1, false, 0)
		s.Draw(screen)
		if n := s.painter.calls; n < 16 || n > 200 {
			t.Errorf("%d draw calls in a frame, want 16 to 200", n)
		}
	})
}

// BenchmarkLongProgram is a step at the end of 512 swaps: the new scene taken over and drawn.
func BenchmarkLongProgram(b *testing.B) {
	within, done := make(chan *ebiten.Image), make(chan struct{})
	frames <- func(screen *ebiten.Image) { within <- screen; <-done }
	defer close(done)
	<-within
	s, sc := New(Options{}), long(516)
	img := ebiten.NewImage(1400, 1200)
	s.LayoutF(1400, 1200)
	sc.T = 400
	s.SetScene(sc)
	s.Draw(img)
	for b.Loop() {
		sc.T = 400 + (sc.T-399)%100
		s.SetScene(sc)
		s.Draw(img)
	}
}

func TestPointerCallsBack(t *testing.T) {
	inLoop(t, func(screen *ebiten.Image) {
		var hover []string
		var selected [][2]int
		var sought []int
		s := New(Options{
			OnHover:  func(x string) { hover = append(hover, x) },
			OnSelect: func(l, h int) { selected = append(selected, [2]int{l, h}) },
			OnSeek:   func(t int) { sought = append(sought, t) },
		})
		do := func(x, y float64, down bool) {
			for _, f := range s.input(x, y, down, 0) {
				f()
			}
			s.place()
		}
		s.SetScene(hybrid(9))
		s.LayoutF(1000, 700)
		s.Draw(screen)
		m := s.lay.maps[1].box
		do(m.x+2, m.y+2, false)
		do(m.x+2, m.y+2, true)
		do(m.x+2, m.y+2, true) // held
		do(m.x+2, m.y+2, false)
		if len(s.lay.maps) != 1 {
			t.Errorf("after a click on a head: got %d maps, want it alone", len(s.lay.maps))
		}
		do(s.lay.back.x+2, s.lay.back.y+2, true)
		do(0, 0, false)
		w := s.lay.words[4]
		do(w.x+2, s.lay.strip.y+w.y+2, true)
		if want := [][2]int{{0, 1}, {-1, 0}}; fmt.Sprint(selected) != fmt.Sprint(want) {
			t.Errorf("selected: got %v, want %v", selected, want)
		}
		if fmt.Sprint(sought) != "[4]" {
			t.Errorf("sought: got %v, want [4]", sought)
		}
		if len(hover) == 0 || hover[0] != "layer 0 head 1 state[k=0,v=0] = 0" {
			t.Errorf("hover: got %q", hover)
		}
	})
}

// The stage keeps the numbers of a scene, however many, and mends what does not fit in its own copy
// of the rest.
func TestSetSceneKeepsNumbers(t *testing.T) {
	s := New(Options{})
	sc := long(516)
	if n := testing.AllocsPerRun(10, func() { s.SetScene(sc) }); n > 8 {
		t.Errorf("a scene of 516 words takes %v allocations, want at most 8", n)
	}
	sc = hybrid(9)
	sc.T, sc.Layers[0].Alpha = 3, sc.Layers[0].Alpha[:1]
	s.SetScene(sc)
	if s.scene.Layers[0].Alpha != nil || len(s.scene.Layers[1].Rows) != 4 {
		t.Error("what does not fit was kept")
	}
	if sc.Layers[0].Alpha == nil || len(sc.Layers[1].Rows) != 9 {
		t.Error("the caller's scene was changed")
	}
}

func TestColourScaleOnlyGrowsWithinARun(t *testing.T) {
	s := New(Options{})
	sc := hybrid(9)
	s.SetScene(sc)
	if s.limits[0] != 20 || s.beyond[0] {
		t.Fatalf("limit for 12: got %g, beyond it %v, want 20, false", s.limits[0], s.beyond[0])
	}
	clear(sc.Layers[0].State)
	s.SetScene(sc)
	if s.limits[0] != 20 {
		t.Errorf("a smaller state in the same run: got limit %g, want 20", s.limits[0])
	}
	sc.Run++
	s.SetScene(sc)
	if s.limits[0] != 1 {
		t.Errorf("a new run: got limit %g, want 1", s.limits[0])
	}
}

func TestTextIsDrawn(t *testing.T) {
	for _, scale := range []float64{1, 1.5, 3} {
		for _, f := range []face{faceLabel, faceHead, faceCode} {
			s := newSheet(f, scale)
			for _, r := range alphabet + string([]rune{tick, cross, arrow}) {
				g, ok := s.glyphs[r]
				ink := 0
				for y := range g.h {
					for x := range g.w {
						ink += int(s.alpha[(g.y+y)*s.w+g.x+x])
					}
				}
				if !ok || g.advance <= 0 || (ink == 0) != (r == ' ') {
					t.Errorf("%+v at %g: %q: known %v, advance %g, ink %d", f, scale, r, ok, g.advance, ink)
				}
			}
			if s.glyph('\u4e16') != s.glyphs['?'] {
				t.Errorf("%+v: an unknown rune does not show as ?", f)
			}
		}
	}
}
