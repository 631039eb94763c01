package stage

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Sizes are in points: CSS pixels in a page, device-independent pixels in a
// window. The screen has `scale` device pixels to a point.

type rect struct{ x, y, w, h float64 }

func (r rect) has(x, y float64) bool { return x >= r.x && x < r.x+r.w && y >= r.y && y < r.y+r.h }
func (r rect) right() float64        { return r.x + r.w }
func (r rect) bottom() float64       { return r.y + r.h }

// face is a typeface at a size in points.
type face struct {
	mono, bold bool
	size       float64
}

var (
	faceLabel = face{size: 12}
	faceSmall = face{size: 11}
	faceHead  = face{size: 12.5, bold: true}
	faceCode  = face{size: 12.5, mono: true}
	faceCell  = face{size: 11, mono: true}
)

// measurer knows how wide text is, in points.
type measurer interface {
	width(f face, s string) float64
}

const (
	wideFrom   = 720.0 // from this width on the next-word bars stand beside the layers
	sideWidth  = 232.0
	chipHeight = 22.0
	lineHeight = 29.0 // of the strip: a chip and its attention mark
	headLine   = 17.0
	barHeight  = 21.0
	// oneLineFrom is the width of a head from which on its number, alpha and
	// beta fit on a line.
	oneLineFrom = 142.0
	legendWidth = 200.0
	minMap      = 66.0  // least comfortable height of a map
	maxMap      = 420.0 // beyond that a map only looks coarse
)

// wordBox is a word in the strip; rect is where it stands when the strip is not scrolled.
type wordBox struct {
	rect
	line int
}

// mapBox is one head's heat map.
type mapBox struct {
	layer, head int // layer is a position in Scene.Layers
	cell        rect
	box         rect // of the pixels
	rows, cols  int  // of the data
	pool        int  // data cells to a pixel cell, each way
	cw, ch      float64
	numbers     bool // the cells are large enough for their numbers
	words       bool // there is room for the words along the diagonal
	oneLine     bool // the head's labels fit on one line
	chipLine    bool // else they need a third
}

// rowBox is a layer's heading.
type rowBox struct {
	layer  int
	head   rect
	legend rect
}

type layout struct {
	w, h, scale float64
	wide        bool
	content     float64 // height of everything
	least       float64 // height from which on everything is comfortable
	most        float64 // height beyond which nothing grows

	strip     rect // visible part of the words
	caption   rect
	words     []wordBox
	lines     int     // of words
	stripFull float64 // height of all lines
	answer    rect    // in the strip, after the last word

	bars  rect
	nBars int
	vars  rect
	rows  []rowBox
	maps  []mapBox
	back  rect // "all heads", where one head is shown alone
}

// arrange computes where everything goes on a screen of w by h points.
func arrange(s *Scene, v View, w, h, scale float64, m measurer) *layout {
	l := &layout{w: w, h: h, scale: scale, wide: w >= wideFrom}
	pad := 10.0
	if l.wide {
		pad = 16
	}
	inner := w - 2*pad
	y := pad - 4
	l.caption = rect{pad, y, inner, 20}
	y += 22
	y = l.arrangeStrip(s, pad, y, inner, m)

	l.nBars = 8
	if !l.wide {
		l.nBars = 5
	}
	l.nBars = max(min(l.nBars, len(s.Next)), 5)
	barsHeight := 22 + float64(l.nBars)*barHeight
	varsHeight := 0.0
	if len(s.Vars) > 0 {
		varsHeight = 22 + 3*20 + 6
	}
	mainX, mainW, mainY := pad, inner, y+10
	sideBottom := 0.0
	if l.wide {
		x := w - pad - sideWidth
		mainW = inner - sideWidth - 28
		l.bars = rect{x, mainY, sideWidth, barsHeight}
		l.vars = rect{x, l.bars.bottom() + 16, sideWidth, varsHeight}
		sideBottom = l.vars.bottom()
	} else {
		l.bars = rect{pad, mainY, inner, barsHeight}
		l.vars = rect{pad, l.bars.bottom() + 10, inner, varsHeight}
		mainY = l.vars.bottom() + 12
	}

	// The largest maps that fit the height; the least comfortable ones where
	// nothing does.
	best := minMap
	for t := maxMap; t > minMap; t -= 6 {
		if l.arrangeLayers(s, v, mainX, mainY, mainW, t) <= h-pad {
			best = t
			break
		}
	}
	l.least = max(l.arrangeLayers(s, v, mainX, mainY, mainW, l.comfort()), sideBottom) + pad
	l.most = max(l.arrangeLayers(s, v, mainX, mainY, mainW, maxMap), sideBottom, l.least-pad) + pad
	l.content = max(l.arrangeLayers(s, v, mainX, mainY, mainW, max(best, l.comfort())), sideBottom) + pad
	return l
}

// comfort is the least height of a map before the screen scrolls instead: a
// narrow screen scrolls anyway, so its maps may be as wide as the screen lets
// them.
func (l *layout) comfort() float64 {
	if l.wide {
		return minMap
	}
	return 200
}

func (l *layout) arrangeStrip(s *Scene, x0, y, inner float64, m measurer) float64 {
	x, line := 0.0, 0
	place := func(w float64) rect {
		if x > 0 && x+w > inner {
			x, line = 0, line+1
		}
		r := rect{x0 + x, float64(line) * lineHeight, w, chipHeight}
		x += w + 3
		return r
	}
	for i, t := range s.Words {
		if i > 0 && t.Stmt != s.Words[i-1].Stmt && x > 0 {
			x += 7
		}
		r := place(m.width(faceCode, t.Text) + 10)
		l.words = append(l.words, wordBox{r, line})
	}
	if s.AnswerTruth != "" {
		l.answer = place(m.width(faceCode, s.verdict()) + 16)
	}
	l.lines = line + 1
	l.stripFull = float64(l.lines) * lineHeight
	shown := 4
	if !l.wide {
		shown = 5
	}
	l.strip = rect{x0, y, inner, float64(min(l.lines, shown)) * lineHeight}
	return l.strip.bottom()
}

// stripScroll returns how far the strip is scrolled so that line stands in the
// middle, plus what the user scrolled by hand, within bounds.
func (l *layout) stripScroll(t int, byHand float64) float64 {
	line := 0
	if t >= 0 && t < len(l.words) {
		line = l.words[t].line
	}
	shown := math.Round(l.strip.h / lineHeight)
	to := (float64(line)-math.Floor((shown-1)/2))*lineHeight + byHand
	return min(max(to, 0), max(l.stripFull-l.strip.h, 0))
}

// arrangeLayers places the layers with maps at most tall points high and
// returns the bottom.
func (l *layout) arrangeLayers(s *Scene, v View, x, y, w, tall float64) float64 {
	l.rows, l.maps, l.back = l.rows[:0], l.maps[:0], rect{}
	alone := v.Layer >= 0 && v.Layer < len(s.Layers) && v.Head >= 0 && v.Head < s.Layers[v.Layer].Heads
	if alone {
		tall = max(tall, min(l.h-y-110, 640))
	}
	for i := range s.Layers {
		if alone && i != v.Layer {
			continue
		}
		layer := &s.Layers[i]
		row := rowBox{layer: i, head: rect{x, y, w, 20}}
		row.legend = rect{x + w - legendWidth, y + 2, legendWidth, 26}
		if w < 420 {
			row.legend = rect{x, y + 20, legendWidth, 26}
			row.head.h = 48
		}
		if alone {
			l.back = rect{x, y + row.head.h + 2, 96, 22}
			row.head.h += 28
		}
		l.rows = append(l.rows, row)
		y += row.head.h + 8
		heads := layer.Heads
		if alone {
			heads = 1
		}
		y = l.arrangeHeads(s, i, heads, v, x, y, w, tall, alone) + 14
	}
	return y
}

func (l *layout) arrangeHeads(s *Scene, at, heads int, v View, x, y, w, tall float64, alone bool) float64 {
	layer := &s.Layers[at]
	rows, cols := layer.K, layer.V
	if layer.Kind == Attention {
		rows, cols = len(s.Words), len(s.Words)
	}
	if layer.RowNames != nil {
		x, w = x+18, w-18
	}
	if layer.Kind == Attention && !alone {
		tall *= 1.75 // what a head looks at needs more room than a state
	}
	gap := 14.0
	if w < 420 {
		gap = 8
	}
	least := 118.0
	if layer.Kind == GDN && layer.V <= 4 {
		least = 48 // a narrow state can stand in a narrow column
		gap = 8
	}
	n := max(1, min(heads, int((w+gap)/(least+gap))))
	if n < heads {
		n = (heads + (heads+n-1)/n - 1) / ((heads + n - 1) / n) // as even as the number of lines allows
	}
	col := (w - float64(n-1)*gap) / float64(n)
	if layer.Kind == GDN && layer.V <= 4 && !alone {
		col = min(col, 210)
	}
	bottom := y
	for i := range heads {
		h := i
		if alone {
			h = v.Head
		}
		if i > 0 && i%n == 0 {
			y = bottom + 12
		}
		b := mapBox{layer: at, head: h, rows: rows, cols: cols, pool: 1}
		b.oneLine = col >= oneLineFrom && (layer.Kind == Attention || layer.V > 4)
		b.chipLine = !b.oneLine && col < 136
		labels := headLine
		if !b.oneLine {
			labels += headLine
		}
		if b.chipLine && layer.Kind == GDN {
			labels += headLine
		}
		left := x + float64(i%n)*(col+gap)
		l.sizeMap(s, &b, col, tall, alone)
		b.box.x, b.box.y = l.snap(left), l.snap(y+labels+3)
		b.cell = rect{left, y, min(col, max(b.box.w, 160)), labels + 3 + b.box.h}
		bottom = max(bottom, b.cell.bottom())
		l.maps = append(l.maps, b)
	}
	return bottom
}

// sizeMap chooses the cell size: whole device pixels, so that all cells look
// alike; large maps pool several values into one pixel.
func (l *layout) sizeMap(s *Scene, b *mapBox, w, tall float64, alone bool) {
	rows, cols := float64(max(b.rows, 1)), float64(max(b.cols, 1))
	floor := func(x float64) float64 { return math.Floor(x*l.scale+1e-6) / l.scale }
	layer := &s.Layers[b.layer]
	most := 26.0 // a cell's size
	if layer.Kind == GDN {
		most = 12
	}
	if alone {
		most *= 2
	}
	if layer.Kind == Attention && rows > 2*tall*l.scale {
		tall = min(w, max(tall, 150)) // a long program's map is of no use when tiny
	}
	if layer.Kind == GDN && b.rows <= 8 && b.cols <= 8 {
		// Few values: large tiles, each with its number; the tiles need not be square.
		b.ch = floor(min(tall/rows, 72))
		b.cw = floor(min(w/cols, max(b.ch*2.2, 56)))
		b.numbers = b.cw >= 40 && b.ch >= 15
	} else if layer.Kind == Attention {
		c := floor(min(w/cols, tall/rows, most))
		if c*l.scale < 1 {
			b.pool = int(math.Ceil(cols / (min(w, tall) * l.scale)))
			c = 1 / l.scale
		}
		// Words stand right of the diagonal, the last one beyond the map.
		longest := 0
		for _, t := range s.Words {
			longest = max(longest, utf8.RuneCountInString(t.Text))
		}
		room := float64(longest)*faceCell.size*0.62 + 6
		if d := floor(min((w-room)/cols, tall/rows, most)); d >= 11 {
			c, b.words = d, true
		}
		b.cw, b.ch = c, c
	} else {
		c := floor(min(w/cols, tall/rows, most))
		if c*l.scale < 1 {
			b.pool = int(math.Ceil(max(cols/(w*l.scale), rows/(tall*l.scale))))
			c = 1 / l.scale
		}
		b.cw, b.ch = c, c
	}
	b.box.w = math.Ceil(cols/float64(b.pool)) * b.cw
	b.box.h = math.Ceil(rows/float64(b.pool)) * b.ch
}

func (l *layout) snap(x float64) float64 { return math.Round(x*l.scale) / l.scale }

// hitKind says what lies under the pointer.
type hitKind uint8

const (
	hitNothing hitKind = iota
	hitWord            // i: the word
	hitMap             // layer, head, and the cell i, j
	hitHead            // a head's labels
	hitStrip           // the strip beside its words
	hitAnswer
	hitBar // i: the guess
	hitBack
)

type hit struct {
	kind        hitKind
	layer, head int // position in Scene.Layers
	i, j        int
}

// at says what lies at x, y of the content; strip is how far the strip is scrolled.
func (l *layout) at(x, y, strip float64) hit {
	if l.strip.has(x, y) {
		yy := y - l.strip.y + strip
		for i, w := range l.words {
			if w.has(x, yy) {
				return hit{kind: hitWord, i: i}
			}
		}
		if l.answer.has(x, yy) {
			return hit{kind: hitAnswer}
		}
		return hit{kind: hitStrip}
	}
	if l.back.has(x, y) {
		return hit{kind: hitBack}
	}
	for _, b := range l.maps {
		if b.box.has(x, y) {
			i := min(int((y-b.box.y)/b.ch)*b.pool, b.rows-1)
			j := min(int((x-b.box.x)/b.cw)*b.pool, b.cols-1)
			return hit{kind: hitMap, layer: b.layer, head: b.head, i: i, j: j}
		}
		if b.cell.has(x, y) {
			return hit{kind: hitHead, layer: b.layer, head: b.head}
		}
	}
	if l.bars.has(x, y) && y >= l.bars.y+22 {
		return hit{kind: hitBar, i: int((y - l.bars.y - 22) / barHeight)}
	}
	return hit{}
}

// describe says in words what a hit shows, or nothing.
func (s *Scene) describe(h hit, pool int) string {
	switch h.kind {
	case hitWord:
		t := s.Words[h.i]
		when := "read"
		switch {
		case h.i == s.T:
			when = "last read"
		case h.i > s.T:
			when = "to come"
		}
		return fmt.Sprintf("word %d of %d: %q (%s)", h.i, len(s.Words)-1, t.Text, when)
	case hitAnswer:
		if s.Answer == "" {
			return "the model has not been asked yet; the true answer is " + s.AnswerTruth
		}
		return fmt.Sprintf("the model says %s, the truth is %s", s.Answer, s.AnswerTruth)
	case hitBar:
		if h.i < len(s.Next) {
			return fmt.Sprintf("next word %q: probability %s", s.Next[h.i].Text, number(s.Next[h.i].P))
		}
	case hitHead:
		l := &s.Layers[h.layer]
		if l.Kind == GDN && l.Alpha != nil && l.Beta != nil {
			a, b := l.Alpha[h.head], l.Beta[h.head]
			return fmt.Sprintf("layer %d head %d: alpha = %s, beta = %s, eigenvalue along k: alpha (1 - beta) = %s",
				l.Index, h.head, number(a), number(b), number(a*(1-b)))
		}
		if l.Kind == Attention && l.Rows != nil && s.T >= 0 {
			j, p := l.strongest(h.head, s.T)
			if l.Diff {
				return fmt.Sprintf("layer %d head %d: at %q they differ most about word %d %q: by %s",
					l.Index, h.head, s.Words[s.T].Text, j, s.Words[j].Text, number(p))
			}
			return fmt.Sprintf("layer %d head %d: %q looks most at word %d %q: %s",
				l.Index, h.head, s.Words[s.T].Text, j, s.Words[j].Text, number(p))
		}
	case hitMap:
		l := &s.Layers[h.layer]
		if l.Kind == GDN {
			if l.State == nil {
				return fmt.Sprintf("layer %d head %d: state not recorded", l.Index, h.head)
			}
			name := ""
			if l.RowNames != nil {
				name = " " + l.RowNames[h.i]
			}
			i, j := s.pooled(l, h, pool)
			what := "state"
			if l.Diff {
				what = "difference of state"
			}
			return fmt.Sprintf("layer %d head %d %s[k=%d%s,v=%d] = %s",
				l.Index, h.head, what, i, name, j, number(l.State[(h.head*l.K+i)*l.V+j]))
		}
		i, j := s.pooled(l, h, pool)
		if l.Rows == nil || i > s.T || j > i {
			return fmt.Sprintf("layer %d head %d: word %d %q does not look at word %d %q", l.Index, h.head, i, s.Words[i].Text, j, s.Words[j].Text) + later(i > s.T)
		}
		verb := "looks at"
		if l.Diff {
			verb = "differs about"
		}
		return fmt.Sprintf("layer %d head %d: word %d %q %s word %d %q: %s",
			l.Index, h.head, i, s.Words[i].Text, verb, j, s.Words[j].Text, number(l.prob(h.head, i, j)))
	}
	return ""
}

func later(yes bool) string {
	if yes {
		return " (not read yet)"
	}
	return " (it comes later)"
}

// pooled returns the cell that a pooled pixel shows: the largest of the pool.
func (s *Scene) pooled(l *Layer, h hit, pool int) (i, j int) {
	if pool <= 1 {
		return h.i, h.j
	}
	i, j = h.i, h.j
	best := float32(-1)
	rows, cols := l.K, l.V
	if l.Kind == Attention {
		rows, cols = s.T+1, len(s.Words)
		if l.Rows == nil {
			return i, j
		}
	}
	for a := h.i; a < min(h.i+pool, rows); a++ {
		for b := h.j; b < min(h.j+pool, cols); b++ {
			var x float32
			if l.Kind == Attention {
				if b > a {
					continue
				}
				x = l.prob(h.head, a, b)
			} else {
				x = l.State[(h.head*l.K+a)*l.V+b]
			}
			if x < 0 {
				x = -x
			}
			if x != x {
				return a, b
			}
			if x > best {
				best, i, j = x, a, b
			}
		}
	}
	return i, j
}

// wrap breaks text at spaces into lines that fit.
func wrap(text string, fits func(string) bool) []string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(text) {
		switch {
		case line == "":
			line = w
		case fits(line + " " + w):
			line += " " + w
		default:
			lines = append(lines, line)
			line = w
		}
	}
	return append(lines, line)
}
