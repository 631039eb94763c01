//go:build !js

package stage

import (
	"fmt"
	"image"
	"image/draw"
	"math"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/gomono"
	"golang.org/x/image/font/gofont/gomonobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
)

var typefaces = sync.OnceValue(func() (parsed [2][2]*opentype.Font) {
	for mono, weights := range [2][2][]byte{{goregular.TTF, gobold.TTF}, {gomono.TTF, gomonobold.TTF}} {
		for bold, ttf := range weights {
			f, err := opentype.Parse(ttf)
			if err != nil {
				panic(fmt.Sprintf("stage: font compiled into the program: %v", err))
			}
			parsed[mono][bold] = f
		}
	}
	return parsed
})

// newSheet draws the alphabet with the Go fonts.
func newSheet(f face, scale float64) *sheet {
	pick := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	size := f.size * scale
	ff, err := opentype.NewFace(typefaces()[pick(f.mono)][pick(f.bold)], &opentype.FaceOptions{Size: size, DPI: 72, Hinting: font.HintingFull})
	if err != nil {
		panic(fmt.Sprintf("stage: font at size %g: %v", size, err))
	}
	defer ff.Close()

	line := int(math.Ceil(size * 1.6))
	base := int(math.Round(size * 1.15))
	s := &sheet{w: max(512, 4*line), glyphs: map[rune]glyph{}, ascent: math.Round(size * 0.93), descent: math.Round(size * 0.25)}
	x, y := 0, 0
	for _, r := range alphabet {
		a, _ := ff.GlyphAdvance(r)
		advance := float64(a) / 64
		w := int(math.Ceil(advance)) + 4
		if x+w > s.w {
			x, y = 0, y+line
		}
		s.glyphs[r] = glyph{x: x, y: y, w: w, h: line, left: -2, top: float64(-base), advance: advance}
		x += w
	}
	s.h = y + line
	img := image.NewAlpha(image.Rect(0, 0, s.w, s.h))
	for r, g := range s.glyphs {
		dot := fixed.P(g.x+2, g.y+base)
		if dr, mask, at, _, ok := ff.Glyph(dot, r); ok {
			draw.DrawMask(img, dr, image.Opaque, image.Point{}, mask, at, draw.Over)
		}
	}
	s.alpha = img.Pix
	s.addMarks(size)
	return s
}
