package stage

import (
	"image/color"
	"math"
	"strconv"
	"strings"
)

// ramp holds equidistant stops of a colour scale.
type ramp []color.RGBA

// The scales are safe for the common kinds of colour blindness: blue against
// orange around a neutral middle for signed numbers, one hue of falling or
// rising lightness for probabilities. web/js/colors.js holds the same stops.
var (
	divergingLight  = ramp{rgb(0x08408a), rgb(0x2f7fc8), rgb(0x9cc7ea), rgb(0xf5f5f2), rgb(0xf7c08a), rgb(0xde7a1f), rgb(0x963c00)}
	divergingDark   = ramp{rgb(0x9bd3ff), rgb(0x3f94e0), rgb(0x1f4d7c), rgb(0x20262e), rgb(0x7d4312), rgb(0xdd7d26), rgb(0xffc98f)}
	sequentialLight = ramp{rgb(0xf3f5f2), rgb(0xbfe0d2), rgb(0x67b79c), rgb(0x1b7f66), rgb(0x05392e)}
	sequentialDark  = ramp{rgb(0x20262e), rgb(0x1d4f48), rgb(0x22856f), rgb(0x5bc4a3), rgb(0xd2fbe8)}
)

// notANumber marks NaN and infinities. No scale comes near it.
var notANumber = rgb(0xff00d4)

func rgb(x uint32) color.RGBA {
	return color.RGBA{uint8(x >> 16), uint8(x >> 8), uint8(x), 0xff}
}

// at returns the colour at u in 0..1.
func (r ramp) at(u float64) color.RGBA {
	u = min(max(u, 0), 1) * float64(len(r)-1)
	i := min(int(u), len(r)-2)
	f := u - float64(i)
	mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a) + (float64(b)-float64(a))*f)) }
	a, b := r[i], r[i+1]
	return color.RGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 0xff}
}

// palette is a scale ready for use: 255 colours from low to high.
type palette struct {
	colours [255]color.RGBA
	signed  bool
}

func newPalette(r ramp, signed bool) *palette {
	p := &palette{signed: signed}
	for i := range p.colours {
		p.colours[i] = r.at(float64(i) / 254)
	}
	return p
}

// colour maps x to its colour: -limit..limit for a signed scale, else 0..limit.
// Both go by the square root of the magnitude, so that small numbers stay
// visible beside a few large ones; the legend says what the shades mean. What
// is beyond the limit takes the colour of the end; NaN and infinities are
// marked.
func (p *palette) colour(x, limit float32) color.RGBA {
	if x != x || math.IsInf(float64(x), 0) {
		return notANumber
	}
	u := math.Copysign(math.Sqrt(math.Abs(float64(x))/float64(limit)), float64(x))
	if p.signed {
		u = (u + 1) / 2
	}
	return p.colours[int(math.Round(min(max(u, 0), 1)*254))]
}

// niceLimit returns the smallest of 1, 2, 5 times a power of ten that is at
// least x, and 1 for what is not a positive number.
func niceLimit(x float64) float32 {
	if !(x > 0) || math.IsInf(x, 0) {
		return 1
	}
	e := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5, 10} {
		// A value a hair above the step, such as 1 + 1e-6, does not double the scale.
		if x <= m*e*1.001 {
			return float32(m * e)
		}
	}
	return float32(10 * e)
}

// maxAbs returns the largest finite magnitude.
func maxAbs(x []float32) float64 {
	var m float64
	for _, v := range x {
		if a := math.Abs(float64(v)); a > m && !math.IsInf(a, 0) {
			m = a
		}
	}
	return m
}

// reach returns how far a colour scale for x must go: to the largest magnitude
// where there are few numbers; among many to what 98 of 100 stay below, to an
// eighth, or they would all be pale beside a few large ones.
// web/js/colors.js does the same.
func reach(x []float32) float64 {
	most := maxAbs(x)
	if len(x) <= 128 {
		return most
	}
	var bins [2048]int // eight to an octave
	n := 0
	for _, v := range x {
		if b := math.Float32bits(v) &^ (1 << 31); b < 0x7f800000 {
			bins[b>>20]++
			n++
		}
	}
	left := n - n/50
	for b, k := range bins {
		if left -= k; left <= 0 {
			return min(max(float64(math.Float32frombits(uint32(b+1)<<20)), most/8), most)
		}
	}
	return most
}

// legendLabels returns the numbers at equal distances under a scale, from end
// to end. beyond says that there are numbers outside it.
func legendLabels(signed bool, limit float32, beyond bool) []string {
	low, high := number(-limit), number(limit)
	if beyond {
		low, high = "\u2264"+low, "\u2265"+high
	}
	if signed {
		return []string{low, number(-limit / 4), "0", number(limit / 4), high}
	}
	return []string{"0", number(limit / 4), high}
}

// number prints x for reading: three decimals, or three digits where that says
// nothing.
func number(x float32) string {
	f := float64(x)
	a := math.Abs(f)
	switch {
	case x != x:
		return "NaN"
	case math.IsInf(f, 1):
		return "+Inf"
	case math.IsInf(f, -1):
		return "-Inf"
	case a == 0:
		return "0"
	case a < 0.0005 || a >= 10000:
		return strconv.FormatFloat(f, 'e', 1, 64)
	case a >= 100:
		return trimZeros(strconv.FormatFloat(f, 'f', 1, 64))
	}
	return trimZeros(strconv.FormatFloat(f, 'f', 3, 64))
}

func trimZeros(s string) string { return strings.TrimRight(strings.TrimRight(s, "0"), ".") }

// short prints x with two decimals and a true minus sign, for labels.
func short(x float32) string {
	f := float64(x)
	if x != x || math.IsInf(f, 0) {
		return number(x)
	}
	s := strconv.FormatFloat(f, 'f', 2, 64)
	if s == "-0.00" {
		s = "0.00"
	}
	return strings.Replace(s, "-", "\u2212", 1)
}

// percent prints a probability.
func percent(p float32) string {
	f := float64(p) * 100
	switch {
	case f != f:
		return "NaN"
	case f > 0 && f < 0.1:
		return "<0.1%"
	case f > 99.9 && f < 100:
		return ">99.9%"
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + "%"
}

// skin is the colours of one theme.
type skin struct {
	back, text, dim, line, chip, later color.RGBA
	accent, onAccent, good, bad, flag  color.RGBA
	tip, onTip                         color.RGBA
	signed, chance                     *palette
}

var skins = [...]*skin{
	Light: {
		back: rgb(0xffffff), text: rgb(0x1b2027), dim: rgb(0x57616c), line: rgb(0xd9dee4),
		chip: rgb(0xe9edf2), later: rgb(0x6a7480),
		accent: rgb(0x0b5cad), onAccent: rgb(0xffffff), good: rgb(0x17713a), bad: rgb(0xb3261e), flag: rgb(0xa84300),
		tip: rgb(0x1b2027), onTip: rgb(0xffffff),
		signed: newPalette(divergingLight, true), chance: newPalette(sequentialLight, false),
	},
	Dark: {
		back: rgb(0x161b21), text: rgb(0xe7eaee), dim: rgb(0x9ea9b5), line: rgb(0x333b45),
		chip: rgb(0x262d36), later: rgb(0x8a95a1),
		accent: rgb(0x7cc4ff), onAccent: rgb(0x0c1116), good: rgb(0x63d08a), bad: rgb(0xff8f85), flag: rgb(0xffb25e),
		tip: rgb(0xe7eaee), onTip: rgb(0x11151a),
		signed: newPalette(divergingDark, true), chance: newPalette(sequentialDark, false),
	},
}
