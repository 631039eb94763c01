package stage

import "image/color"

// mapPixels draws one head's map into dst, 4 bytes (RGBA, opaque) to a pixel,
// a pixel to a pooled cell, [ceil(rows/pool), ceil(cols/pool)], and returns it.
// A pool shows its largest magnitude, and any NaN in it.
func mapPixels(dst []byte, s *Scene, b *mapBox, limit float32, sk *skin) []byte {
	l := &s.Layers[b.layer]
	w, h := (b.cols+b.pool-1)/b.pool, (b.rows+b.pool-1)/b.pool
	dst = dst[:0]
	if l.Kind == GDN && l.State == nil || l.Kind == Attention && l.Rows == nil {
		return append(dst, unrecorded(w, h, sk)...)
	}
	for i := range h {
		for j := range w {
			var c color.RGBA
			ii, jj := s.pooled(l, hit{head: b.head, i: i * b.pool, j: j * b.pool}, b.pool)
			switch {
			case l.Kind == GDN:
				c = sk.signed.colour(l.State[(b.head*l.K+ii)*l.V+jj], limit)
			case ii > s.T || jj > ii:
				c = sk.back
			default:
				c = sk.chance.colour(s.prob(l, b.head, ii, jj), limit)
			}
			dst = append(dst, c.R, c.G, c.B, 0xff)
		}
	}
	return dst
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
