package stage

import (
	"fmt"
	"math"
	"syscall/js"
)

const (
	sansFamily = `system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif`
	monoFamily = `ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace`
)

// newSheet draws the alphabet with the browser's own fonts on a 2D canvas.
func newSheet(f face, scale float64) *sheet {
	size := f.size * scale
	family, weight := sansFamily, "400"
	if f.mono {
		family = monoFamily
	}
	if f.bold {
		weight = "600"
	}
	font := fmt.Sprintf("%s %gpx %s", weight, size, family)
	canvas := js.Global().Get("document").Call("createElement", "canvas")
	options := map[string]any{"willReadFrequently": true}
	ctx := canvas.Call("getContext", "2d", options)
	ctx.Set("font", font)

	line := int(math.Ceil(size * 1.6))
	base := math.Round(size * 1.15)
	s := &sheet{w: 512, glyphs: map[rune]glyph{}, ascent: math.Round(size * 0.93), descent: math.Round(size * 0.25)}
	s.w = max(s.w, 4*line)
	x, y := 0, 0
	for _, r := range alphabet {
		advance := ctx.Call("measureText", string(r)).Get("width").Float()
		w := int(math.Ceil(advance)) + 4 // two pixels each side for what overhangs
		if x+w > s.w {
			x, y = 0, y+line
		}
		s.glyphs[r] = glyph{x: x, y: y, w: w, h: line, left: -2, top: -base, advance: advance}
		x += w
	}
	s.h = y + line
	canvas.Set("width", s.w)
	canvas.Set("height", s.h)
	ctx.Set("font", font) // a resized canvas forgets it
	ctx.Set("fillStyle", "#fff")
	ctx.Set("textBaseline", "alphabetic")
	for r, g := range s.glyphs {
		ctx.Call("fillText", string(r), g.x+2, float64(g.y)+base)
	}
	data := ctx.Call("getImageData", 0, 0, s.w, s.h).Get("data")
	rgba := make([]byte, 4*s.w*s.h)
	js.CopyBytesToGo(rgba, data)
	s.alpha = make([]byte, s.w*s.h)
	for i := range s.alpha {
		s.alpha[i] = rgba[4*i+3]
	}
	s.addMarks(size)
	return s
}
