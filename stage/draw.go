//go:build js || windows || cgo

package stage

import (
	"fmt"
	"image/color"
	"strings"

	"github.com/hajimehoshi/ebiten/v2"
)

// drawing is one frame in the making.
type drawing struct {
	*Stage
	p      *painter
	l      *layout
	sk     *skin
	screen *ebiten.Image
	up     float64 // how far the content is scrolled
}

func (s *Stage) paint(screen *ebiten.Image) {
	d := &drawing{Stage: s, p: s.painter, l: s.lay, sk: skins[s.theme], screen: screen, up: s.scroll}
	d.p.calls = 1
	screen.Fill(d.sk.back)
	if len(s.scene.Words) == 0 {
		d.p.writeIn(faceLabel, rect{0, 0, d.l.w, d.l.h}, "no program yet", d.sk.dim)
		d.p.flushOver(screen)
		return
	}
	d.strip()
	d.bars()
	d.vars()
	d.layers()
	d.p.flushUnder(screen)
	d.textures()
	d.pointer()
	d.scrollbar()
	d.p.flushOver(screen)
	if d.hoverText != "" {
		d.tooltip()
		d.p.flushOver(screen)
	}
}

// move shifts a content rectangle to the screen.
func (d *drawing) move(r rect) rect { r.y -= d.up; return r }

func (d *drawing) strip() {
	s, l, sk := &d.scene, d.l, d.sk
	c := d.move(l.caption)
	x := d.p.write(faceHead, c.x, c.y, "program", sk.text)
	if s.T >= 0 {
		x = d.p.write(faceLabel, x+10, c.y, fmt.Sprintf("word %d of %d", s.T, len(s.Words)-1), sk.dim)
	} else {
		x = d.p.write(faceLabel, x+10, c.y, "nothing read yet", sk.dim)
	}
	gaze, at := s.gaze(d.view, d.gazeBuf)
	d.gazeBuf = gaze
	if at >= 0 {
		text := fmt.Sprintf("underlined: what layer %d attends to", s.Layers[at].Index)
		if d.p.width(faceLabel, text) < c.right()-x-16 {
			d.p.writeRight(faceLabel, c.right(), c.y, text, sk.dim)
		}
	}
	box := d.move(l.strip)
	scroll := d.stripOffset()
	place := func(r rect) (rect, bool) {
		r.y += box.y - scroll
		return r, r.y >= box.y-1 && r.y+chipHeight <= box.bottom()+1
	}
	for i, w := range l.words {
		r, ok := place(w.rect)
		if !ok {
			continue
		}
		ink := sk.text
		switch {
		case i == s.T:
			d.p.round(&d.p.under, r, sk.accent)
			ink = sk.onAccent
		case i < s.T:
			d.p.round(&d.p.under, r, sk.chip)
		default:
			ink = sk.later
		}
		if d.hover.kind == hitWord && d.hover.i == i && i != s.T {
			d.p.fill(&d.p.under, rect{r.x + 3, r.bottom() - 2, r.w - 6, 1}, sk.accent)
		}
		d.p.writeIn(faceCode, r, s.Words[i].Text, ink)
		if i < len(gaze) && gaze[i] >= 0.005 {
			d.p.fill(&d.p.under, rect{r.x + 1, r.bottom() + 2, r.w - 2, 3}, sk.chance.colour(gaze[i], 1))
		}
	}
	if s.AnswerTruth != "" {
		if r, ok := place(l.answer); ok {
			ink := sk.dim
			switch s.Answer {
			case "":
			case s.AnswerTruth:
				ink = sk.good
			default:
				ink = sk.bad
			}
			d.p.round(&d.p.under, rect{r.x - 1, r.y - 1, r.w + 2, r.h + 2}, ink)
			d.p.round(&d.p.under, r, sk.back)
			d.p.writeIn(faceCode, r, s.verdict(), ink)
		}
	}
	if l.stripFull > l.strip.h+1 {
		track := rect{box.right() + 4, box.y, 3, box.h - 6}
		d.p.fill(&d.p.under, track, sk.chip)
		d.p.fill(&d.p.under, rect{track.x, track.y + track.h*scroll/l.stripFull, 3, track.h * l.strip.h / l.stripFull}, sk.dim)
	}
}

func (d *drawing) bars() {
	s, sk := &d.scene, d.sk
	b := d.move(d.l.bars)
	d.p.write(faceHead, b.x, b.y, "next word", sk.text)
	if len(s.Next) == 0 {
		d.p.write(faceLabel, b.x, b.y+24, "step to see what the model expects", sk.dim)
		return
	}
	wordX, barX, barW := b.x+18, b.x+96, b.w-96-54
	found := false
	for i := range min(d.l.nBars, len(s.Next)) {
		g := s.Next[i]
		y := b.y + 22 + float64(i)*barHeight
		ink := sk.text
		switch {
		case s.Truth != "" && g.Text == s.Truth:
			found, ink = true, sk.good
			d.p.write(faceCode, b.x, y+2, string(tick), sk.good)
		case s.Truth != "" && i == 0 && !s.alike():
			ink = sk.bad
			d.p.write(faceCode, b.x, y+2, string(cross), sk.bad)
		}
		d.p.write(faceCode, wordX, y+2, d.p.cut(faceCode, g.Text, barX-wordX-6), ink)
		d.p.fill(&d.p.under, rect{barX, y + 5, barW, barHeight - 10}, sk.chip)
		fill := ink
		if ink == sk.text {
			fill = sk.accent
		}
		if g.P > 0 {
			d.p.fill(&d.p.under, rect{barX, y + 5, max(barW*float64(min(g.P, 1)), 1), barHeight - 10}, fill)
		}
		d.p.writeRight(faceCell, b.right(), y+3, percent(g.P), sk.dim)
	}
	if s.Truth == "" && s.alike() {
		d.p.writeRight(faceLabel, b.right(), b.y, "no preference", sk.dim)
	}
	if s.Truth != "" {
		text := "truth: " + s.Truth
		if !found {
			text += ", not among these"
		}
		d.p.writeRight(faceLabel, b.right(), b.y, text, sk.dim)
	}
}

func (d *drawing) vars() {
	s, sk := &d.scene, d.sk
	if len(s.Vars) == 0 {
		return
	}
	b := d.move(d.l.vars)
	d.p.write(faceHead, b.x, b.y, "variables", sk.text)
	col := min((b.w-56)/float64(len(s.Vars)), 40)
	y := b.y + 20
	name := func(row int, s string) {
		d.p.writeIn(faceLabel, rect{b.x, y + float64(row)*20, d.p.width(faceLabel, s), 20}, s, sk.dim)
	}
	name(1, "truth")
	believes := false
	for _, v := range s.Vars {
		believes = believes || v.Belief != ""
	}
	if believes {
		name(2, "belief")
	}
	for i, v := range s.Vars {
		cell := func(row int) rect { return rect{b.x + 56 + float64(i)*col, y + float64(row)*20, col, 20} }
		d.p.writeIn(faceCode, cell(0), v.Name, sk.dim)
		truth := v.Truth
		if truth == "" {
			truth = "\u00b7"
		}
		d.p.writeIn(faceCode, cell(1), truth, sk.text)
		if v.Belief != "" {
			ink := sk.good
			if v.Belief == NoPreference {
				ink = sk.dim
			} else if v.Belief != v.Truth {
				ink = sk.bad
			}
			d.p.writeIn(faceCode, cell(2), v.Belief, ink)
		}
	}
	d.p.fill(&d.p.under, rect{b.x + 56, y + 19, col * float64(len(s.Vars)), 1}, sk.line)
}

func (d *drawing) layers() {
	s, l, sk := &d.scene, d.l, d.sk
	for _, row := range l.rows {
		layer := &s.Layers[row.layer]
		r := d.move(row.head)
		x := d.p.write(faceHead, r.x, r.y+2, fmt.Sprintf("layer %d", layer.Index), sk.text)
		text := fmt.Sprintf("gated delta rule \u00b7 state K %d \u00d7 V %d", layer.K, layer.V)
		if layer.Kind == Attention {
			text = fmt.Sprintf("attention \u00b7 %d heads", layer.Heads)
			if layer.Heads == 1 {
				text = "attention \u00b7 1 head"
			}
		}
		if layer.Diff {
			text = "difference \u00b7 " + text
		}
		limit := r.right() - x - 12
		if row.legend.y < row.head.y+16 {
			limit -= row.legend.w + 8
		}
		d.p.write(faceLabel, x+10, r.y+2, d.p.cut(faceLabel, text, limit), sk.dim)
		d.legend(d.move(row.legend), layer.Kind == GDN || layer.Diff, d.limits[row.layer], d.beyond[row.layer])
	}
	if l.back.w > 0 {
		r := d.move(l.back)
		d.p.round(&d.p.under, r, sk.chip)
		d.p.writeIn(faceLabel, r, "show all heads", sk.accent)
	}
	for i := range l.maps {
		d.head(&l.maps[i])
	}
}

func (d *drawing) legend(r rect, signed bool, limit float32, beyond bool) {
	pal := d.sk.chance
	if signed {
		pal = d.sk.signed
	}
	const steps = 50
	for i := range steps {
		c := pal.colours[i*254/(steps-1)]
		d.p.fill(&d.p.under, rect{r.x + r.w*float64(i)/steps, r.y, r.w/steps + 0.5, 9}, c)
	}
	d.p.frame(&d.p.under, rect{r.x, r.y, r.w, 9}, 1/d.p.scale, d.sk.line)
	labels := legendLabels(signed, limit, beyond)
	end := r.x - 4 // of the label before
	for i, t := range labels {
		t = strings.Replace(t, "-", "\u2212", 1)
		w := d.p.width(faceSmall, t)
		x := r.x + min(max(r.w*float64(i)/float64(len(labels)-1)-w/2, 0), r.w-w)
		// Long numbers leave no room for those at the quarters.
		if quarter := len(labels) == 5 && i%2 == 1; quarter && (x < end+4 || d.p.width(faceSmall, labels[0])+w > r.w*0.42) {
			continue
		}
		d.p.write(faceSmall, x, r.y+11, t, d.sk.dim)
		end = x + w
	}
}

func (d *drawing) head(b *mapBox) {
	s, sk := &d.scene, d.sk
	layer := &s.Layers[b.layer]
	r := d.move(b.cell)
	name := sk.dim
	if d.hover.kind == hitHead && d.hover.layer == b.layer && d.hover.head == b.head {
		name = sk.accent
	}
	x := d.p.write(faceLabel, r.x, r.y, fmt.Sprintf("head %d", b.head), name) + 8
	y := r.y + 1
	if !b.oneLine {
		x, y = r.x, r.y+headLine
	}
	box := d.move(b.box)
	if layer.Kind == GDN && layer.Alpha != nil && layer.Beta != nil {
		d.gates(b, r, x, y, layer.Alpha[b.head], layer.Beta[b.head])
	}
	if layer.Kind == Attention && layer.Rows != nil && s.T >= 0 {
		j, p := layer.strongest(b.head, s.T)
		pw := d.p.width(faceCell, short(p))
		d.p.write(faceCell, x, y, short(p), sk.dim)
		d.p.write(faceCell, x+pw+6, y, d.p.cut(faceCell, "on "+s.Words[j].Text, r.right()-x-pw-6), sk.text)
	}
	if !b.words {
		d.p.frame(&d.p.under, box, 1/d.p.scale, sk.line)
	}
	if b.numbers && layer.State != nil {
		d.numbers(b, box, layer)
	}
	if layer.RowNames != nil && b.box.x-d.l.maps[0].box.x < 1 {
		for i, n := range layer.RowNames {
			d.p.writeRight(faceCode, box.x-7, box.y+(float64(i)+0.5)*b.ch-8, n, sk.dim)
		}
	}
	if layer.Kind != Attention || b.pool > 1 || s.T < 0 {
		return
	}
	d.p.frame(&d.p.over, rect{box.x, box.y + float64(s.T)*b.ch, float64(s.T+1) * b.cw, b.ch}, 1, sk.accent)
	if b.words {
		for i, w := range s.Words {
			ink := sk.dim
			switch {
			case i == s.T:
				ink = sk.accent
			case i > s.T:
				ink = sk.line
			}
			k := d.p.face(faceCell)
			h := (k.ascent + k.descent) / d.p.scale
			d.p.write(faceCell, box.x+float64(i+1)*b.cw+5, box.y+float64(i)*b.ch+(b.ch-h)/2, w.Text, ink)
		}
	}
}

// gates writes alpha and beta, and marks a negative eigenvalue: with beta
// above 1 the factor 1 - beta along the key is negative, a reflection.
func (d *drawing) gates(b *mapBox, r rect, x, y float64, alpha, beta float32) {
	sk := d.sk
	negative := 1-beta < 0
	a, be := "\u03b1 "+short(alpha), "\u03b2 "+short(beta)
	if b.oneLine {
		x = d.p.write(faceCell, x, y, a, sk.dim) + 8
		ink := sk.dim
		if negative {
			ink = sk.flag
			d.p.round(&d.p.under, rect{x - 4, r.y - 1, d.p.width(faceCell, be) + 8, 16}, sk.chip)
		}
		d.p.write(faceCell, x, y, be, ink)
		return
	}
	if r.w < 92 {
		d.p.write(faceCell, r.x, r.y+headLine, a, sk.dim)
		ink := sk.dim
		if negative {
			ink = sk.flag
			d.p.round(&d.p.under, rect{r.x - 2, r.y + 2*headLine - 1, d.p.width(faceCell, be) + 4, 16}, sk.chip)
		}
		d.p.write(faceCell, r.x, r.y+2*headLine, be, ink)
		return
	}
	d.p.write(faceCell, x, y, a+" "+be, sk.dim)
	if !negative {
		return
	}
	text := "1\u2212\u03b2 " + short(1-beta)
	w := d.p.width(faceCell, text) + 8
	chip := rect{r.right() - w, r.y, w, 16}
	if b.chipLine {
		chip.x, chip.y = r.x-2, r.y+2*headLine-1
	}
	d.p.round(&d.p.under, chip, sk.chip)
	d.p.writeIn(faceCell, chip, text, sk.flag)
}

func (d *drawing) numbers(b *mapBox, box rect, layer *Layer) {
	for i := range b.rows {
		for j := range b.cols {
			x := layer.State[(b.head*layer.K+i)*layer.V+j]
			c := d.sk.signed.colour(x, d.limits[b.layer])
			d.p.writeIn(faceCell, rect{box.x + float64(j)*b.cw, box.y + float64(i)*b.ch, b.cw, b.ch}, short(x), inkOn(c))
		}
	}
}

// inkOn returns black or white, whichever reads better on c.
func inkOn(c color.RGBA) color.RGBA {
	if 299*int(c.R)+587*int(c.G)+114*int(c.B) > 128000 {
		return rgb(0x10151b)
	}
	return rgb(0xffffff)
}

func (d *drawing) textures() {
	for len(d.maps) < len(d.l.maps) {
		d.maps = append(d.maps, &texture{})
	}
	for i := range d.l.maps {
		b, t := &d.l.maps[i], d.maps[i]
		if w, h := b.pixels(); w == 0 || h == 0 {
			continue
		}
		if d.mapsDirty {
			d.repaint(t, b)
		}
		box := d.move(b.box)
		var op ebiten.DrawImageOptions
		op.GeoM.Scale(b.cw*d.p.scale, b.ch*d.p.scale)
		op.GeoM.Translate(d.p.px(box.x), d.p.px(box.y))
		d.screen.DrawImage(t.image, &op)
		d.p.calls++
		// Large tiles get a seam, so that equal neighbours stay apart.
		if b.cw >= 14 && b.ch >= 14 && d.scene.Layers[b.layer].Kind == GDN {
			for k := 1; k < b.rows; k++ {
				d.p.fill(&d.p.over, rect{box.x, box.y + float64(k)*b.ch - 0.5, box.w, 1}, d.sk.back)
			}
			for k := 1; k < b.cols; k++ {
				d.p.fill(&d.p.over, rect{box.x + float64(k)*b.cw - 0.5, box.y, 1, box.h}, d.sk.back)
			}
		}
	}
	d.mapsDirty = false
}

// repaint brings a map's pixels up to date.
func (d *drawing) repaint(t *texture, b *mapBox) {
	layer := &d.scene.Layers[b.layer]
	now := painted{d.scene.Run, b.layer, b.head, b.rows, b.cols, b.pool, d.scene.T, d.theme, layer.recorded()}
	w, h := b.pixels()
	from, to := t.shows.stale(now, layer.Kind)
	t.shows = now
	if to-from == h || t.image == nil || len(t.pix) != 4*w*h {
		t.pix = mapPixels(t.pix, &d.scene, b, d.limits[b.layer], d.sk)
		t.set(w, h)
		return
	}
	mapRows(t.pix, &d.scene, b, d.limits[b.layer], d.sk, from, to)
	t.setRows(w, from, to)
}

func (d *drawing) pointer() {
	if d.hover.kind != hitMap {
		return
	}
	for _, b := range d.l.maps {
		if b.layer == d.hover.layer && b.head == d.hover.head {
			box := d.move(b.box)
			i, j := float64(d.hover.i/b.pool), float64(d.hover.j/b.pool)
			d.p.frame(&d.p.over, rect{box.x + j*b.cw, box.y + i*b.ch, b.cw, b.ch}, 1.5, d.sk.text)
		}
	}
}

func (d *drawing) scrollbar() {
	if d.l.content <= d.l.h+1 {
		return
	}
	d.p.fill(&d.p.over, rect{d.l.w - 5, d.l.h * d.up / d.l.content, 4, d.l.h * d.l.h / d.l.content}, d.sk.dim)
}

func (d *drawing) tooltip() {
	const pad = 7
	lines := wrap(d.hoverText, func(s string) bool { return d.p.width(faceLabel, s) <= min(d.l.w-40, 420) })
	w := 0.0
	for _, t := range lines {
		w = max(w, d.p.width(faceLabel, t))
	}
	h := float64(len(lines)) * 16
	r := rect{d.mx + 14, d.my + 18, w + 2*pad, h + 2*pad - 2}
	r.x = max(min(r.x, d.l.w-r.w-6), 4)
	if r.bottom() > d.l.h-4 {
		r.y = d.my - r.h - 10
	}
	d.p.round(&d.p.over, r, d.sk.tip)
	for i, t := range lines {
		d.p.write(faceLabel, r.x+pad, r.y+pad-1+float64(i)*16, t, d.sk.onTip)
	}
}
