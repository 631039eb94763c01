package stage

import "math"

// alphabet is what the stage can write. Other runes show as '?'. The tick, the
// cross and the arrow are drawn here, so that they look the same everywhere.
const alphabet = " !\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstuvwxyz{|}~\u00b7\u00d7\u2212\u2026\u2264\u2265\u03b1\u03b2"

const (
	tick  = '\u2713'
	cross = '\u2717'
	arrow = '\u2192'
)

// glyph is a rune's coverage in a sheet, in device pixels.
type glyph struct {
	x, y, w, h int     // in the sheet
	left, top  float64 // from the pen on the baseline to the upper left corner
	advance    float64
}

// sheet holds every glyph of a face at one scale.
type sheet struct {
	w, h            int
	alpha           []byte // [h, w] coverage
	glyphs          map[rune]glyph
	ascent, descent float64 // device pixels
}

func (s *sheet) glyph(r rune) glyph {
	if g, ok := s.glyphs[r]; ok {
		return g
	}
	return s.glyphs['?']
}

func (s *sheet) width(text string) (w float64) {
	for _, r := range text {
		w += s.glyph(r).advance
	}
	return w
}

// strokes are the marks' lines in units of the font size, y down from the baseline.
var strokes = map[rune][]struct{ x0, y0, x1, y1 float64 }{
	tick:  {{0.10, -0.32, 0.30, -0.08}, {0.30, -0.08, 0.68, -0.62}},
	cross: {{0.14, -0.58, 0.62, -0.08}, {0.62, -0.58, 0.14, -0.08}},
	arrow: {{0.08, -0.33, 0.80, -0.33}, {0.56, -0.56, 0.80, -0.33}, {0.56, -0.10, 0.80, -0.33}},
}

// markAdvance is the marks' width in units of the font size.
const markAdvance = 0.86

// addMarks appends the strokes to a sheet, size device pixels to an em.
func (s *sheet) addMarks(size float64) {
	w, h := int(math.Ceil(size)), int(math.Ceil(size))
	y0 := s.h
	s.h += h + 1
	s.w = max(s.w, 3*(w+1))
	grown := make([]byte, s.w*s.h)
	if y0 > 0 {
		was := len(s.alpha) / y0
		for y := range y0 {
			copy(grown[y*s.w:], s.alpha[y*was:(y+1)*was])
		}
	}
	s.alpha = grown
	for i, r := range []rune{tick, cross, arrow} {
		g := glyph{x: i * (w + 1), y: y0, w: w, h: h, top: -math.Round(0.85 * size), advance: markAdvance * size}
		half := max(0.075*size, 0.75)
		for y := range h {
			for x := range w {
				px, py := float64(x)+0.5, float64(y)+0.5+g.top
				d := math.Inf(1)
				for _, l := range strokes[r] {
					d = min(d, toSegment(px, py, l.x0*size, l.y0*size, l.x1*size, l.y1*size))
				}
				s.alpha[(g.y+y)*s.w+g.x+x] = uint8(255 * min(max(half-d+0.5, 0), 1))
			}
		}
		s.glyphs[r] = g
	}
}

// toSegment is the distance of a point to a line segment.
func toSegment(px, py, x0, y0, x1, y1 float64) float64 {
	dx, dy := x1-x0, y1-y0
	t := ((px-x0)*dx + (py-y0)*dy) / (dx*dx + dy*dy)
	t = min(max(t, 0), 1)
	return math.Hypot(px-x0-t*dx, py-y0-t*dy)
}
