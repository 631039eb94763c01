package stage

import (
	"math"
	"strings"
	"testing"
)

// even measures every rune alike.
type even struct{}

func (even) width(f face, s string) float64 { return f.size * 0.6 * float64(len([]rune(s))) }

// hybrid is a scene of one GDN layer (2 heads, 3 x 4) and one attention layer
// (2 heads) over n words, all but the last of which are read.
func hybrid(n int) *Scene {
	s := &Scene{Run: 1, T: n - 2, AnswerTruth: "1"}
	for i := range n {
		s.Words = append(s.Words, Word{Text: "a,b=b,a", Stmt: i - 1})
	}
	g := Layer{Index: 0, Kind: GDN, Heads: 2, K: 3, V: 4, Alpha: []float32{1, 0.5}, Beta: []float32{0.25, 2}}
	for i := range 2 * 3 * 4 {
		g.State = append(g.State, float32(i)-12)
	}
	a := Layer{Index: 3, Kind: Attention, Heads: 2, Rows: make([][]float32, n)}
	for i := range n {
		for range 2 * (i + 1) {
			a.Rows[i] = append(a.Rows[i], 1/float32(i+1))
		}
	}
	s.Layers = []Layer{g, a}
	s.Next = []Guess{{"1", 0.75}, {"0", 0.25}}
	s.Vars = []Var{{Name: "a", Truth: "1"}}
	return s
}

func TestHitOnCellsDescribesThatCell(t *testing.T) {
	for _, size := range [][3]float64{{1280, 800, 1}, {390, 844, 3}, {900, 600, 1.5}} {
		s := hybrid(9)
		s.Layers[0].RowNames = []string{"x", "y", "z"}
		s.fix()
		l := arrange(s, AllHeads, size[0], size[1], size[2], even{})
		if len(l.maps) != 4 {
			t.Fatalf("%v: got %d maps, want 4", size, len(l.maps))
		}
		for _, b := range l.maps {
			if b.box.x < 0 || b.box.right() > size[0]+0.01 {
				t.Errorf("%v: map %+v stands outside the width", size, b.box)
			}
			for i := range b.rows {
				for j := range b.cols {
					h := l.at(b.box.x+(float64(j)+0.5)*b.cw, b.box.y+(float64(i)+0.5)*b.ch, 0)
					if want := (hit{hitMap, b.layer, b.head, i, j}); h != want {
						t.Fatalf("%v: hit in cell %d, %d of %+v: got %+v, want %+v", size, i, j, b, h, want)
					}
				}
			}
		}
	}
}

func TestDescribe(t *testing.T) {
	s := hybrid(9)
	s.fix()
	for _, c := range []struct {
		h    hit
		want string
	}{
		{hit{kind: hitMap, layer: 0, head: 1, i: 2, j: 3}, "layer 0 head 1 state[k=2,v=3] = 11"},
		{hit{kind: hitMap, layer: 0, head: 0, i: 0, j: 1}, "layer 0 head 0 state[k=0,v=1] = -11"},
		{hit{kind: hitMap, layer: 1, head: 1, i: 3, j: 2}, `layer 3 head 1: word 3 "a,b=b,a" looks at word 2 "a,b=b,a": 0.25`},
		{hit{kind: hitMap, layer: 1, head: 1, i: 3, j: 4}, `layer 3 head 1: word 3 "a,b=b,a" does not look at word 4 "a,b=b,a" (it comes later)`},
		{hit{kind: hitMap, layer: 1, head: 1, i: 8, j: 4}, `layer 3 head 1: word 8 "a,b=b,a" does not look at word 4 "a,b=b,a" (not read yet)`},
		{hit{kind: hitHead, layer: 0, head: 1}, "layer 0 head 1: alpha = 0.5, beta = 2, eigenvalue along k: alpha (1 - beta) = -0.5"},
		{hit{kind: hitHead, layer: 1, head: 0}, `layer 3 head 0: "a,b=b,a" looks most at word 0 "a,b=b,a": 0.125`},
		{hit{kind: hitWord, i: 7}, `word 7 of 8: "a,b=b,a" (last read)`},
		{hit{kind: hitWord, i: 8}, `word 8 of 8: "a,b=b,a" (to come)`},
		{hit{kind: hitBar, i: 1}, `next word "0": probability 0.25`},
		{hit{kind: hitBar, i: 5}, ""},
		{hit{kind: hitAnswer}, "the model has not been asked yet; the true answer is 1"},
		{hit{}, ""},
	} {
		if got := s.describe(c.h, 1); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.h, got, c.want)
		}
	}
	s.Layers[0].State = nil
	if got := s.describe(hit{kind: hitMap, layer: 0}, 1); got != "layer 0 head 0: state not recorded" {
		t.Errorf("without state: got %q", got)
	}
}

func TestPooledMapsShowAndNameTheirLargestValue(t *testing.T) {
	s := hybrid(601)
	s.T = 600
	row := s.Layers[1].Rows[500][501:] // of head 1
	row[77], row[78] = 0.9, 0.1
	s.fix()
	l := arrange(s, AllHeads, 900, 700, 1, even{})
	b := l.maps[3]
	if b.pool < 2 {
		t.Fatalf("a map of 601 words on a small screen: got pool %d, want at least 2", b.pool)
	}
	i, j := 500/b.pool, 77/b.pool
	h := l.at(b.box.x+(float64(j)+0.5)*b.cw, b.box.y+(float64(i)+0.5)*b.ch, 0)
	if got := s.describe(h, b.pool); !strings.Contains(got, "word 500 ") || !strings.Contains(got, "word 77 ") || !strings.HasSuffix(got, ": 0.9") {
		t.Errorf("got %q, want word 500 on word 77 with 0.9", got)
	}
	pix := mapPixels(nil, s, &b, 1, skins[Light])
	w := (b.cols + b.pool - 1) / b.pool
	c := skins[Light].chance.colour(0.9, 1)
	if o := 4 * (i*w + j); pix[o] != c.R || pix[o+1] != c.G || pix[o+2] != c.B {
		t.Errorf("pixel of the pool: got %v, want the colour of 0.9, %v", pix[o:o+3], c)
	}
}

func TestBadShapesAreDroppedNotDrawn(t *testing.T) {
	s := hybrid(9)
	s.T = 99
	s.Layers[0].State = s.Layers[0].State[1:]
	s.Layers[0].Alpha = nil
	s.Layers[0].Beta = s.Layers[0].Beta[:1]
	s.Layers[0].RowNames = []string{"a"}
	s.Layers[1].Rows = s.Layers[1].Rows[:5]
	s.fix()
	l := arrange(s, AllHeads, 900, 700, 1, even{})
	for i := range l.maps {
		b := &l.maps[i]
		if got := len(mapPixels(nil, s, b, 1, skins[Dark])); got != 4*b.rows*b.cols {
			t.Errorf("map %d: got %d bytes, want %d", i, got, 4*b.rows*b.cols)
		}
	}
	if s.T != 8 {
		t.Errorf("T beyond the program: got %d, want 8", s.T)
	}
	torn := hybrid(9)
	torn.Layers[1].Rows[3] = torn.Layers[1].Rows[3][1:]
	if torn.fix(); torn.Layers[1].Rows != nil {
		t.Error("attention rows of another shape were kept")
	}
	if _, at := s.gaze(AllHeads, nil); at != -1 {
		t.Errorf("gaze without rows: got layer %d, want none", at)
	}
}

func TestOneHeadAloneAndBack(t *testing.T) {
	s := hybrid(9)
	s.fix()
	l := arrange(s, View{Layer: 1, Head: 1}, 900, 700, 1, even{})
	if len(l.maps) != 1 || l.maps[0].head != 1 || l.maps[0].layer != 1 {
		t.Fatalf("got %+v, want layer 1 head 1 alone", l.maps)
	}
	all := arrange(s, AllHeads, 900, 700, 1, even{})
	if l.maps[0].cw <= all.maps[3].cw {
		t.Errorf("alone a cell is %g wide, among all %g: want it larger", l.maps[0].cw, all.maps[3].cw)
	}
	if h := l.at(l.back.x+1, l.back.y+1, 0); h.kind != hitBack {
		t.Errorf("got %+v, want the way back", h)
	}
	if l := arrange(s, View{Layer: 7, Head: 0}, 900, 700, 1, even{}); len(l.maps) != 4 {
		t.Errorf("a view of no layer: got %d maps, want all 4", len(l.maps))
	}
}

func TestLongProgramKeepsItsLineInView(t *testing.T) {
	s := hybrid(520)
	s.fix()
	for _, w := range []float64{390, 1280} {
		l := arrange(s, AllHeads, w, 800, 2, even{})
		if l.strip.h >= l.stripFull {
			t.Fatalf("width %g: 520 words: the strip is %g high, all of it", w, l.stripFull)
		}
		for t2 := range s.Words {
			y := l.words[t2].y - l.stripScroll(t2, 0)
			if y < -0.5 || y+chipHeight > l.strip.h+0.5 {
				t.Fatalf("width %g: word %d stands at %g of a strip of %g", w, t2, y, l.strip.h)
			}
		}
		for i, b := range l.words {
			if b.x < 0 || b.right() > w {
				t.Fatalf("width %g: word %d spans %g to %g", w, i, b.x, b.right())
			}
			if h := l.at(b.x+1, l.strip.y+b.y-l.stripScroll(i, 0)+1, l.stripScroll(i, 0)); h.kind != hitWord || h.i != i {
				t.Fatalf("width %g: on word %d: got %+v", w, i, h)
			}
		}
	}
}

func TestLeastHeightDoesNotDependOnTheHeight(t *testing.T) {
	s := hybrid(30)
	s.fix()
	for _, w := range []float64{390, 1000, 1900} {
		a, b := arrange(s, AllHeads, w, 300, 1, even{}), arrange(s, AllHeads, w, 3000, 1, even{})
		if a.least != b.least {
			t.Errorf("width %g: least height %g at 300 and %g at 3000", w, a.least, b.least)
		}
		if c := arrange(s, AllHeads, w, a.least, 1, even{}); c.content > a.least+0.01 {
			t.Errorf("width %g: at its least height %g the content is %g", w, a.least, c.content)
		}
	}
}

func TestScaleEndsAndMiddle(t *testing.T) {
	for name, sk := range map[string]*skin{"light": skins[Light], "dark": skins[Dark]} {
		p := sk.signed
		if p.colour(2, 2) != p.colours[254] || p.colour(9, 2) != p.colours[254] {
			t.Errorf("%s: the upper end is not the last colour", name)
		}
		if p.colour(-2, 2) != p.colours[0] || p.colour(-9, 2) != p.colours[0] {
			t.Errorf("%s: the lower end is not the first colour", name)
		}
		if p.colour(0, 2) != p.colours[127] {
			t.Errorf("%s: zero is not the middle", name)
		}
		if sk.chance.colour(0, 1) != sk.chance.colours[0] || sk.chance.colour(1, 1) != sk.chance.colours[254] {
			t.Errorf("%s: probabilities do not span the scale", name)
		}
		if sk.chance.colour(0.25, 1) != sk.chance.colours[127] || p.colour(0.5, 2) != p.colours[191] {
			t.Errorf("%s: a quarter of the limit is not half way", name)
		}
	}
}

func TestNotANumberIsNoColourOfAScale(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for i, sk := range skins {
		for _, p := range []*palette{sk.signed, sk.chance} {
			for _, x := range []float32{nan, inf, -inf} {
				if c := p.colour(x, 1); c != notANumber {
					t.Errorf("theme %d: %v: got %v, want %v", i, x, c, notANumber)
				}
			}
			for _, c := range p.colours {
				far := math.Hypot(math.Hypot(float64(c.R)-0xff, float64(c.G)), float64(c.B)-0xd4)
				if far < 120 {
					t.Errorf("theme %d: scale colour %v is close to the mark of NaN", i, c)
				}
			}
		}
	}
	s := hybrid(9)
	s.Layers[0].State[5] = nan
	s.fix()
	l := arrange(s, AllHeads, 900, 700, 1, even{})
	pix := mapPixels(nil, s, &l.maps[0], 12, skins[Light])
	if pix[4*5] != notANumber.R || pix[4*5+1] != notANumber.G || pix[4*5+2] != notANumber.B {
		t.Errorf("NaN in the state: got pixel %v", pix[4*5:4*5+3])
	}
	if got := s.describe(hit{kind: hitMap, i: 1, j: 1}, 1); got != "layer 0 head 0 state[k=1,v=1] = NaN" {
		t.Errorf("got %q", got)
	}
	if m := maxAbs(s.Layers[0].State); m != 12 {
		t.Errorf("largest magnitude beside NaN: got %g, want 12", m)
	}
}

func TestColourScaleReach(t *testing.T) {
	few := make([]float32, 25)
	few[7] = -9
	if got := reach(few); got != 9 {
		t.Errorf("few numbers: got %g, want the largest, 9", got)
	}
	many := make([]float32, 1000)
	for i := range many {
		many[i] = 0.5 * float32(1-2*(i%2))
	}
	many[0], many[1], many[2] = 2, float32(math.NaN()), float32(math.Inf(-1))
	if got := reach(many); got < 0.5 || got > 0.57 {
		t.Errorf("one larger number among many of 0.5: got %g, want 0.5 to 0.57", got)
	}
	many[0] = -80
	if got := reach(many); got != 10 {
		t.Errorf("one huge number: got %g, want an eighth of it, 10", got)
	}
	if got := reach(make([]float32, 1000)); got != 0 {
		t.Errorf("zeros: got %g", got)
	}
	if got := strings.Join(legendLabels(true, 5, true), " "); got != "\u2264-5 -1.25 0 1.25 \u22655" {
		t.Errorf("legend of a scale that some numbers are beyond: got %q", got)
	}
}

func TestLegendNumbers(t *testing.T) {
	for _, c := range []struct {
		x    float64
		want float32
	}{{0.87, 1}, {1, 1}, {1.0000001, 1}, {1.2, 2}, {3, 5}, {7, 10}, {0.013, 0.02}, {0, 1}, {math.NaN(), 1}, {math.Inf(1), 1}} {
		if got := niceLimit(c.x); math.Abs(float64(got-c.want)) > 1e-6 {
			t.Errorf("limit for %g: got %g, want %g", c.x, got, c.want)
		}
	}
	if got := strings.Join(legendLabels(true, 5, false), " "); got != "-5 -1.25 0 1.25 5" {
		t.Errorf("signed legend: got %q", got)
	}
	if got := strings.Join(legendLabels(false, 1, false), " "); got != "0 0.25 1" {
		t.Errorf("probability legend: got %q", got)
	}
	for x, want := range map[float32]string{0: "0", -0.131: "-0.131", 1e-5: "1.0e-05", 123.456: "123.5", 1: "1", 100: "100", 20000: "2.0e+04"} {
		if got := number(x); got != want {
			t.Errorf("number(%g): got %q, want %q", x, got, want)
		}
	}
	for p, want := range map[float32]string{0: "0.0%", 1: "100.0%", 0.9996: ">99.9%", 0.0002: "<0.1%", 0.5: "50.0%"} {
		if got := percent(p); got != want {
			t.Errorf("percent(%g): got %q, want %q", p, got, want)
		}
	}
}

// Text must read on its background: WCAG's 4.5:1.
func TestContrast(t *testing.T) {
	lum := func(c [3]uint8) float64 {
		var l [3]float64
		for i, v := range c {
			x := float64(v) / 255
			if x <= 0.03928 {
				l[i] = x / 12.92
			} else {
				l[i] = math.Pow((x+0.055)/1.055, 2.4)
			}
		}
		return 0.2126*l[0] + 0.7152*l[1] + 0.0722*l[2]
	}
	for i, sk := range skins {
		for name, pair := range map[string][2][3]uint8{
			"text":   {{sk.text.R, sk.text.G, sk.text.B}, {sk.chip.R, sk.chip.G, sk.chip.B}},
			"dim":    {{sk.dim.R, sk.dim.G, sk.dim.B}, {sk.back.R, sk.back.G, sk.back.B}},
			"later":  {{sk.later.R, sk.later.G, sk.later.B}, {sk.back.R, sk.back.G, sk.back.B}},
			"accent": {{sk.onAccent.R, sk.onAccent.G, sk.onAccent.B}, {sk.accent.R, sk.accent.G, sk.accent.B}},
			"flag":   {{sk.flag.R, sk.flag.G, sk.flag.B}, {sk.chip.R, sk.chip.G, sk.chip.B}},
			"good":   {{sk.good.R, sk.good.G, sk.good.B}, {sk.back.R, sk.back.G, sk.back.B}},
			"bad":    {{sk.bad.R, sk.bad.G, sk.bad.B}, {sk.back.R, sk.back.G, sk.back.B}},
			"tip":    {{sk.onTip.R, sk.onTip.G, sk.onTip.B}, {sk.tip.R, sk.tip.G, sk.tip.B}},
		} {
			a, b := lum(pair[0]), lum(pair[1])
			if r := (max(a, b) + 0.05) / (min(a, b) + 0.05); r < 4.5 {
				t.Errorf("theme %d, %s: contrast %.2f, want at least 4.5", i, name, r)
			}
		}
	}
}

func TestWrap(t *testing.T) {
	got := wrap("one two three four", func(s string) bool { return len(s) <= 9 })
	if strings.Join(got, "|") != "one two|three|four" {
		t.Errorf("got %q", got)
	}
}

// A difference of two models takes the signed scale and words of its own, also in attention.
func TestDifferences(t *testing.T) {
	s := hybrid(9)
	for i := range s.Layers {
		s.Layers[i].Diff = true
		s.Layers[i].Alpha, s.Layers[i].Beta = nil, nil
	}
	s.Layers[1].Rows[7][8+2] = -0.75
	s.fix()
	for _, c := range []struct {
		h    hit
		want string
	}{
		{hit{kind: hitMap, layer: 0, head: 1, i: 2, j: 3}, "layer 0 head 1 difference of state[k=2,v=3] = 11"},
		{hit{kind: hitMap, layer: 1, head: 1, i: 7, j: 2}, `layer 3 head 1: word 7 "a,b=b,a" differs about word 2 "a,b=b,a": -0.75`},
		{hit{kind: hitHead, layer: 1, head: 1}, `layer 3 head 1: at "a,b=b,a" they differ most about word 2 "a,b=b,a": by -0.75`},
		{hit{kind: hitHead, layer: 0, head: 1}, ""},
	} {
		if got := s.describe(c.h, 1); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.h, got, c.want)
		}
	}
	if _, at := s.gaze(AllHeads, nil); at != -1 {
		t.Error("a difference is taken for a look at words")
	}
	l := arrange(s, AllHeads, 900, 700, 1, even{})
	b := &l.maps[3]
	pix := mapPixels(nil, s, b, 1, skins[Light])
	c := skins[Light].signed.colour(-0.75, 1)
	if o := 4 * (7*b.cols + 2); b.pool != 1 || pix[o] != c.R || pix[o+1] != c.G || pix[o+2] != c.B {
		t.Errorf("pool %d: the cell of -0.75 has the colour %v, want %v", b.pool, pix[o:o+3], c)
	}
}
