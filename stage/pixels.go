package stage

import (
	"image/color"
	"slices"
)

// mapPixels draws one head's map into dst, 4 bytes (RGBA, opaque) to a pixel,
// a pixel to a pooled cell, [ceil(rows/pool), ceil(cols/pool)], and returns it.
// A pool shows its largest magnitude, and any NaN in it.
func mapPixels(dst []byte, s *Scene, b *mapBox, limit float32, sk *skin) []byte {
	w, h := b.pixels()
	if !s.Layers[b.layer].recorded() {
		return append(dst[:0], unrecorded(w, h, sk)...)
	}
	dst = slices.Grow(dst[:0], 4*w*h)[:4*w*h]
	mapRows(dst, s, b, limit, sk, 0, h)
	return dst
}

// mapRows draws the rows from..to of a map that is recorded.
func mapRows(dst []byte, s *Scene, b *mapBox, limit float32, sk *skin, from, to int) {
	l := &s.Layers[b.layer]
	w, _ := b.pixels()
	for i := from; i < to; i++ {
		for j := range w {
			var c color.RGBA
			ii, jj := s.pooled(l, hit{head: b.head, i: i * b.pool, j: j * b.pool}, b.pool)
			switch {
			case l.Kind == GDN:
				c = sk.signed.colour(l.State[(b.head*l.K+ii)*l.V+jj], limit)
			case ii > s.T || jj > ii:
				c = sk.back
			case l.Diff:
				c = sk.signed.colour(l.prob(b.head, ii, jj), limit)
			default:
				c = sk.chance.colour(l.prob(b.head, ii, jj), limit)
			}
			o := 4 * (i*w + j)
			dst[o], dst[o+1], dst[o+2], dst[o+3] = c.R, c.G, c.B, 0xff
		}
	}
}

// pixels is the size of a map in pooled cells.
func (b *mapBox) pixels() (w, h int) {
	return (b.cols + b.pool - 1) / b.pool, (b.rows + b.pool - 1) / b.pool
}

// painted says what a map's pixels show. Within a run what was read does not
// change, so of an attention map only the rows that were read or taken back
// since need drawing.
type painted struct {
	run, layer, head, rows, cols, pool, t int
	theme                                 Theme
	recorded                              bool
}

// stale returns the rows of pooled cells that differ between two moments.
func (p painted) stale(now painted, kind Kind) (from, to int) {
	_, h := (&mapBox{rows: now.rows, cols: now.cols, pool: now.pool}).pixels()
	was := p
	was.t = now.t
	if kind != Attention || was != now || !now.recorded || p.t == now.t {
		return 0, h
	}
	low, high := min(p.t, now.t), max(p.t, now.t)
	return max(low+1, 0) / now.pool, min(high/now.pool+1, h)
}

// unrecorded is a hatch that says that there is nothing to show.
func unrecorded(w, h int, sk *skin) []byte {
	dst := make([]byte, 0, 4*w*h)
	for i := range h {
		for j := range w {
			c := sk.back
			if (i+j)%4 == 0 {
				c = sk.line
			}
			dst = append(dst, c.R, c.G, c.B, 0xff)
		}
	}
	return dst
}
