package config

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Rope rotates the first Dim of HeadDim dimensions of q and k. Dimension i is
// paired with i + Dim/2; at position t the pair turns by t*InvFreq[i], and
// cosine and sine are multiplied by Scale.
type Rope struct {
	Type    string // default, linear or yarn
	Theta   float64
	Dim     int
	InvFreq []float32 // [Dim/2]
	Scale   float32   // 1 unless yarn
}

const maxTheta = 1e15

// ropeKeys are the keys of a rope_parameters object that are understood.
var ropeKeys = []string{
	"rope_theta", "rope_type", "type", "partial_rotary_factor", "factor", "original_max_position_embeddings",
	"attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate", "mrope_section", "mrope_interleaved",
}

// oneRope reads the rotation of full attention, in which a theta of null means
// none. The theta is that of rope_parameters, else the top-level rope_theta (an
// explicit null counts), else the default. The legacy rope_scaling replaces
// rope_parameters.
func oneRope(c *Config, o *object) (map[string]*Rope, error) {
	params, err := o.child("rope_parameters")
	if err != nil {
		return nil, err
	}
	scaling, err := o.child("rope_scaling")
	if err != nil {
		return nil, err
	}
	if len(scaling.fields) > 0 {
		params = scaling
	}
	r, err := c.rope(o, params)
	return map[string]*Rope{fullAttention: r}, err
}

// child reads an object inside o; absent and null are empty.
func (o *object) child(key string) (*object, error) {
	name := o.path(key)
	if !o.given(key) {
		return &object{name: name, fields: map[string]json.RawMessage{}}, nil
	}
	return parseObject(name, o.fields[key])
}

// rope computes the frequencies in float32 in the order of transformers'
// modeling_rope_utils, so that they agree to a rounding.
func (c *Config) rope(top, p *object) (*Rope, error) {
	f := c.family()
	for key := range p.fields {
		if !slices.Contains(ropeKeys, key) {
			return nil, fmt.Errorf("%s.%s: not supported, want %s", p.name, key, strings.Join(ropeKeys, ", "))
		}
	}
	from := p
	if p.raw("rope_theta") == "" {
		from = top
	}
	if from.raw("rope_theta") == "null" {
		return nil, nil
	}
	r := &Rope{Scale: 1, Theta: from.number("rope_theta", f.theta, 1, maxTheta)}
	r.Type = p.text("rope_type", p.text("type", "default"))
	part := p.number("partial_rotary_factor", top.number("partial_rotary_factor", f.partial, 0, 1), 0, 1)
	for _, o := range []*object{p, top} {
		if o.err != nil {
			return nil, o.err
		}
	}
	if r.Dim = int(float64(c.HeadDim) * part); r.Dim < 2 || r.Dim%2 != 0 {
		return nil, fmt.Errorf("%s: got %d rotated dimensions (head dimension %d, partial_rotary_factor %v), want an even number", p.name, r.Dim, c.HeadDim, part)
	}
	// Text has one position on all three axes, however they share the pairs out.
	if p.given("mrope_section") {
		if axes := p.integers("mrope_section", 0, maxDim); p.err == nil && (len(axes) != 3 || axes[0]+axes[1]+axes[2] != r.Dim/2) {
			p.fail("mrope_section", "want three numbers whose sum is %d", r.Dim/2)
		}
		if p.err != nil {
			return nil, p.err
		}
	}
	// pow holds theta^(2i/Dim).
	pow := make([]float32, r.Dim/2)
	r.InvFreq = make([]float32, r.Dim/2)
	for i := range pow {
		pow[i] = float32(math.Pow(float64(float32(r.Theta)), float64(float32(2*i)/float32(r.Dim))))
		r.InvFreq[i] = 1 / pow[i]
	}
	switch r.Type {
	case "default":
		return r, nil
	case "linear":
		factor := float32(p.number("factor", 0, 0, 1e9))
		if p.err == nil && factor == 0 {
			p.fail("factor", "want a number")
		}
		for i := range r.InvFreq {
			r.InvFreq[i] /= factor
		}
		return r, p.err
	case "yarn":
		return r, c.yarn(top, p, r, pow)
	}
	return nil, fmt.Errorf("%s.rope_type: got %q, want default, linear or yarn", p.name, r.Type)
}

// yarn blends, by dimension, the frequencies with those divided by the factor:
// dimensions that turn more than beta_fast times over the original length stay,
// those that turn fewer than beta_slow times are divided
// (https://arxiv.org/abs/2309.00071).
func (c *Config) yarn(top, p *object, r *Rope, pow []float32) error {
	orig := p.integer("original_max_position_embeddings", c.MaxPos, 1, maxPos)
	orig = top.integer("original_max_position_embeddings", orig, 1, maxPos)
	factor := p.number("factor", float64(c.MaxPos)/float64(orig), 0, 1e9)
	fast := p.number("beta_fast", 32, 0, 1e9)
	slow := p.number("beta_slow", 1, 0, 1e9)
	truncate := p.boolean("truncate", true)
	mscale := func(m float64) float64 {
		if factor <= 1 {
			return 1
		}
		return 0.1*m*math.Log(factor) + 1
	}
	scale := mscale(1)
	if a, b := p.number("mscale", 0, -1, 1e9), p.number("mscale_all_dim", 0, -1, 1e9); a != 0 && b != 0 {
		scale = mscale(a) / mscale(b)
	}
	r.Scale = float32(p.number("attention_factor", scale, 0, 1e9))
	for _, o := range []*object{p, top} {
		if o.err != nil {
			return o.err
		}
	}
	if !p.given("factor") && !p.given("original_max_position_embeddings") && !top.given("original_max_position_embeddings") {
		return fmt.Errorf("%s.factor: missing, want a number (rope_type yarn)", p.name)
	}
	at := func(turns float64) float64 {
		return float64(r.Dim) * math.Log(float64(orig)/(turns*2*math.Pi)) / (2 * math.Log(r.Theta))
	}
	low, high := at(fast), at(slow)
	if truncate {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(low, 0), min(high, float64(r.Dim-1))
	if low == high {
		high += 0.001
	}
	for i := range r.InvFreq {
		ramp := (float32(i) - float32(low)) / float32(high-low)
		keep := 1 - min(max(ramp, 0), 1)
		// The conversions keep a compiler from fusing the sum.
		r.InvFreq[i] = float32(1/(float32(factor)*pow[i])*(1-keep)) + float32(1/pow[i]*keep)
	}
	return nil
}
