//go:build js || windows || cgo

package stage

import (
	"image"
	"image/color"
	"math"

	"github.com/hajimehoshi/ebiten/v2"
)

// painter collects rectangles and text and draws them in a few calls: what
// lies under the maps, the maps, what lies over them, and text last.
type painter struct {
	scale  float64
	faces  map[face]*inked
	shapes *ebiten.Image // a white pixel at the left, then a disc for round corners
	under  mesh
	over   mesh
	calls  int // of drawing, since the last frame began
}

// inked is a sheet on the GPU with the text to draw from it.
type inked struct {
	*sheet
	image *ebiten.Image
	text  mesh
}

type mesh struct {
	v []ebiten.Vertex
	i []uint16
}

const cornerRadius = 5.0

func newPainter(scale float64) *painter {
	p := &painter{scale: scale, faces: map[face]*inked{}}
	r := p.radius()
	w, h := 4+2*r, max(2*r, 4)
	pix := make([]byte, 4*w*h)
	for y := range h {
		for x := range w {
			a := 0.0
			if x < 3 && y < 3 {
				a = 1
			}
			if x >= 4 && y < 2*r {
				d := math.Hypot(float64(x-4)+0.5-float64(r), float64(y)+0.5-float64(r))
				a = min(max(float64(r)-d+0.5, 0), 1)
			}
			v := uint8(math.Round(255 * a))
			o := 4 * (y*w + x)
			pix[o], pix[o+1], pix[o+2], pix[o+3] = v, v, v, v
		}
	}
	p.shapes = ebiten.NewImage(w, h)
	p.shapes.WritePixels(pix)
	return p
}

func (p *painter) free() {
	p.shapes.Deallocate()
	for _, f := range p.faces {
		f.image.Deallocate()
	}
}

func (p *painter) radius() int { return max(int(math.Round(cornerRadius*p.scale)), 2) }

func (p *painter) face(f face) *inked {
	k, ok := p.faces[f]
	if !ok {
		s := newSheet(f, p.scale)
		pix := make([]byte, 4*len(s.alpha))
		for i, a := range s.alpha {
			pix[4*i], pix[4*i+1], pix[4*i+2], pix[4*i+3] = a, a, a, a
		}
		k = &inked{sheet: s, image: ebiten.NewImage(s.w, s.h)}
		k.image.WritePixels(pix)
		p.faces[f] = k
	}
	return k
}

// width implements measurer.
func (p *painter) width(f face, s string) float64 { return p.face(f).sheet.width(s) / p.scale }

// quad appends a rectangle in device pixels with its source rectangle.
func (m *mesh) quad(x, y, w, h, sx, sy, sw, sh float64, c color.RGBA, alpha float64) {
	if len(m.v)+4 > 1<<16 { // indices are 16 bits
		return
	}
	a := float32(alpha)
	r, g, b := float32(c.R)/255*a, float32(c.G)/255*a, float32(c.B)/255*a
	at := uint16(len(m.v))
	for _, k := range [4][2]float64{{0, 0}, {1, 0}, {0, 1}, {1, 1}} {
		m.v = append(m.v, ebiten.Vertex{
			DstX: float32(x + k[0]*w), DstY: float32(y + k[1]*h),
			SrcX: float32(sx + k[0]*sw), SrcY: float32(sy + k[1]*sh),
			ColorR: r, ColorG: g, ColorB: b, ColorA: a,
		})
	}
	m.i = append(m.i, at, at+1, at+2, at+1, at+2, at+3)
}

func (p *painter) draw(m *mesh, screen, source *ebiten.Image) {
	if len(m.v) > 0 {
		p.calls++
		screen.DrawTriangles(m.v, m.i, source, &ebiten.DrawTrianglesOptions{ColorScaleMode: ebiten.ColorScaleModePremultipliedAlpha})
	}
	m.v, m.i = m.v[:0], m.i[:0]
}

// px rounds points to device pixels.
func (p *painter) px(x float64) float64 { return math.Round(x * p.scale) }

// fill appends a rectangle in points.
func (p *painter) fill(m *mesh, r rect, c color.RGBA) {
	x, y := p.px(r.x), p.px(r.y)
	m.quad(x, y, max(p.px(r.right())-x, 1), max(p.px(r.bottom())-y, 1), 1, 1, 1, 1, c, 1)
}

// frame appends a rectangle's outline of t points, just outside it.
func (p *painter) frame(m *mesh, r rect, t float64, c color.RGBA) {
	p.fill(m, rect{r.x - t, r.y - t, r.w + 2*t, t}, c)
	p.fill(m, rect{r.x - t, r.bottom(), r.w + 2*t, t}, c)
	p.fill(m, rect{r.x - t, r.y, t, r.h}, c)
	p.fill(m, rect{r.right(), r.y, t, r.h}, c)
}

// round appends a rectangle with round corners.
func (p *painter) round(m *mesh, r rect, c color.RGBA) {
	x, y := p.px(r.x), p.px(r.y)
	w, h := p.px(r.right())-x, p.px(r.bottom())-y
	k := float64(p.radius())
	d := min(k, math.Floor(min(w, h)/2))
	xs := [4]float64{x, x + d, x + w - d, x + w}
	ys := [4]float64{y, y + d, y + h - d, y + h}
	sx := [4]float64{4, 4 + k, 4 + k, 4 + 2*k}
	sy := [4]float64{0, k, k, 2 * k}
	for i := range 3 {
		for j := range 3 {
			if i == 1 && j == 1 || i != 1 && j != 1 {
				continue
			}
			m.quad(xs[j], ys[i], xs[j+1]-xs[j], ys[i+1]-ys[i], 1, 1, 1, 1, c, 1)
		}
	}
	m.quad(xs[1], ys[1], xs[2]-xs[1], ys[2]-ys[1], 1, 1, 1, 1, c, 1)
	for _, i := range []int{0, 2} {
		for _, j := range []int{0, 2} {
			m.quad(xs[j], ys[i], d, d, sx[j], sy[i], k, k, c, 1)
		}
	}
}

// write appends text with its top left corner at x, y and returns its right end.
func (p *painter) write(f face, x, y float64, s string, c color.RGBA) float64 {
	k := p.face(f)
	return p.writeInto(&k.text, k, x, y, s, c)
}

func (p *painter) writeInto(m *mesh, k *inked, x, y float64, s string, c color.RGBA) float64 {
	px, base := p.px(x), p.px(y)+k.ascent
	for _, r := range s {
		g := k.glyph(r)
		if r != ' ' {
			m.quad(math.Round(px)+g.left, base+g.top, float64(g.w), float64(g.h), float64(g.x), float64(g.y), float64(g.w), float64(g.h), c, 1)
		}
		px += g.advance
	}
	return px / p.scale
}

// writeRight writes text that ends at x.
func (p *painter) writeRight(f face, x, y float64, s string, c color.RGBA) {
	p.write(f, x-p.width(f, s), y, s, c)
}

// writeIn writes text in the middle of a rectangle.
func (p *painter) writeIn(f face, r rect, s string, c color.RGBA) {
	k := p.face(f)
	h := (k.ascent + k.descent) / p.scale
	p.write(f, r.x+(r.w-p.width(f, s))/2, r.y+(r.h-h)/2, s, c)
}

// cut shortens text to a width.
func (p *painter) cut(f face, s string, w float64) string {
	if p.width(f, s) <= w {
		return s
	}
	runes := []rune(s)
	for len(runes) > 0 && p.width(f, string(runes)+"\u2026") > w {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "\u2026"
}

func (p *painter) flushUnder(screen *ebiten.Image) { p.draw(&p.under, screen, p.shapes) }

func (p *painter) flushOver(screen *ebiten.Image) {
	p.draw(&p.over, screen, p.shapes)
	for _, k := range p.faces {
		p.draw(&k.text, screen, k.image)
	}
}

// texture is a map's pixels on the GPU.
type texture struct {
	image *ebiten.Image
	pix   []byte
	shows painted
}

// setRows uploads the rows from..to of w pixels.
func (t *texture) setRows(w, from, to int) {
	if from < to {
		t.image.SubImage(image.Rect(0, from, w, to)).(*ebiten.Image).WritePixels(t.pix[4*w*from : 4*w*to])
	}
}

func (t *texture) set(w, h int) {
	if t.image != nil && t.image.Bounds() != image.Rect(0, 0, w, h) {
		t.image.Deallocate()
		t.image = nil
	}
	if t.image == nil {
		t.image = ebiten.NewImage(w, h)
	}
	t.image.WritePixels(t.pix)
}
