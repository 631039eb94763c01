// Package inspect looks into a model that is too large to draw: how its recurrent states and gates lie
// over a whole prompt, head by head, and which heads did most at one token of it.
package inspect

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"shellgame/model"
	"shellgame/model/config"
)

// Report is what `shellgame inspect --json` prints.
type Report struct {
	Version int             `json:"version"`
	Model   model.ModelInfo `json:"model"`
	Device  string          `json:"device"`
	Adapter string          `json:"adapter"`
	Prompt  string          `json:"prompt"`
	Tokens  []Token         `json:"tokens"`
	At      int             `json:"at"` // the chosen token
	// Alphas and Betas are the borders of the histograms' bins: bin i counts values from border i up to
	// border i+1, the last one its upper border too.
	Alphas []float32 `json:"alphas"`
	Betas  []float32 `json:"betas"`
	Layers []Layer   `json:"layers"`
	// The heads that did most at the chosen token, those first: GDN heads by Wrote and by Read, attention
	// heads by their largest weight.
	Wrote  []Rank `json:"wrote"`
	Read   []Rank `json:"read"`
	Looked []Rank `json:"looked"`
}

// Token is a token of the prompt.
type Token struct {
	ID   int    `json:"id"`
	Text string `json:"text"`
}

// Layer is one layer's heads: GDN value heads, or attention heads.
type Layer struct {
	Layer int    `json:"layer"`
	Kind  string `json:"kind"`
	Heads []Head `json:"heads"`
}

// Head is what is known of one head: a GDN head's state, or an attention head's weights.
type Head struct {
	Head int `json:"head"`
	*State
	*Look
}

// State is what is known of a GDN head.
type State struct {
	Norm     float32 `json:"norm"`     // Frobenius norm of S after the prompt
	Alpha    []int   `json:"alpha"`    // histogram of the decay over the prompt
	Beta     []int   `json:"beta"`     // of the write strength
	Negative float32 `json:"negative"` // share of tokens with a negative eigenvalue: beta above 1
	// At the chosen token: Wrote is |S − alpha·S before| / |S|, what the token changed beside what is there
	// now; Read is |o| / (|q|·|S|), how much of it the query met, at most 1.
	Wrote float32 `json:"wrote"`
	Read  float32 `json:"read"`
}

// Look is where an attention head looks from the chosen token.
type Look struct {
	Token   int     `json:"token"`   // the one with the largest weight
	Weight  float32 `json:"weight"`  // that weight
	Entropy float32 `json:"entropy"` // of all weights, in nats
}

// Rank is a head and what it is ranked by.
type Rank struct {
	Layer int     `json:"layer"`
	Head  int     `json:"head"`
	By    float32 `json:"by"`
}

// Borders of the histograms. Decays crowd below 1.
var (
	alphas = []float32{0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1}
	betas  = []float32{0, 0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.6, 1.8, 2}
)

// Run reads ids as one text and looks at token at, counted from 0, and at the states after the last.
// Ranks holds the top heads at most. Progress, which may be nil, is told the tokens read so far.
func Run(ctx context.Context, m *model.Model, ids []int, at, top int, progress func(done int)) (*Report, error) {
	if at < 0 || at >= len(ids) {
		return nil, fmt.Errorf("inspect: got token %d, want 0 to %d: the prompt has %d", at, len(ids)-1, len(ids))
	}
	r, err := m.NewRunner(model.Options{Tokens: min(len(ids), 64), Seqs: 1, Slots: 2, Positions: len(ids), Rows: len(ids), Trace: true})
	if err != nil {
		return nil, err
	}
	defer r.Release()
	c, s := m.Config, r.NewSession()
	info := m.Device().Info()
	rep := &Report{Version: 1, Model: m.Info(), Device: info.Kind, Adapter: info.Adapter, At: at, Alphas: alphas, Betas: betas, Wrote: []Rank{}, Read: []Rank{}, Looked: []Rank{}}
	for i, l := range c.Layers {
		layer := Layer{Layer: i, Kind: l.Kind.String()}
		for h := range heads(c, l) {
			head := Head{Head: h}
			if l.Kind == config.GDN {
				head.State = &State{Alpha: make([]int, len(alphas)-1), Beta: make([]int, len(betas)-1)}
			} else {
				head.Look = &Look{}
			}
			layer.Heads = append(layer.Heads, head)
		}
		rep.Layers = append(rep.Layers, layer)
	}
	count := func(layer int, alpha, beta []float32) {
		hv := c.HV
		for i := range beta {
			h := &rep.Layers[layer].Heads[i%hv]
			h.Alpha[bin(alphas, alpha[i])]++
			h.Beta[bin(betas, beta[i])]++
			if beta[i] > 1 {
				h.Negative += 1 / float32(len(ids))
			}
		}
	}
	through := func(ids []int) error {
		for len(ids) > 0 {
			n := min(len(ids), r.Opts.Tokens)
			gates, err := s.ReadGates(ctx, ids[:n])
			if err != nil {
				return err
			}
			for layer, g := range gates {
				count(layer, g.Alpha, g.Beta)
			}
			ids = ids[n:]
			if progress != nil {
				progress(len(s.IDs))
			}
		}
		return nil
	}
	if err := through(ids[:at]); err != nil {
		return nil, err
	}
	before := map[int][]float32{}
	for i, l := range c.Layers {
		if l.Kind == config.GDN {
			if before[i], err = s.State(ctx, i); err != nil {
				return nil, err
			}
		}
	}
	step, err := s.TraceStep(ctx, ids[at])
	if err != nil {
		return nil, err
	}
	for i := range step.Layers {
		ls := &step.Layers[i]
		if c.Layers[i].Kind == config.GDN {
			count(i, ls.Alpha, ls.Beta)
			rep.Layers[i].at(c, before[i], ls)
		} else {
			rep.Layers[i].looked(ls.Rows)
		}
	}
	if err := through(ids[at+1:]); err != nil {
		return nil, err
	}
	for i, l := range c.Layers {
		if l.Kind != config.GDN {
			continue
		}
		state, err := s.State(ctx, i)
		if err != nil {
			return nil, err
		}
		for h := range rep.Layers[i].Heads {
			rep.Layers[i].Heads[h].Norm = float32(norm(state[h*c.K*c.V:][:c.K*c.V]))
		}
	}
	rep.rank(top)
	return rep, nil
}

// heads is how many heads of a layer are looked at.
func heads(c *config.Config, l config.Layer) int {
	if l.Kind == config.GDN {
		return c.HV
	}
	return c.Heads
}

// bin is the bin of x, the nearest for what lies outside.
func bin(borders []float32, x float32) int {
	i, _ := slices.BinarySearchFunc(borders, x, func(b, x float32) int {
		if b <= x {
			return -1
		}
		return 1
	})
	return min(max(i-1, 0), len(borders)-2)
}

// at looks at what a GDN layer did at one token.
func (l *Layer) at(c *config.Config, before []float32, step *model.LayerStep) {
	size := c.K * c.V
	for h := range l.Heads {
		state, was := step.State.Data[h*size:][:size], before[h*size:][:size]
		wrote := 0.0
		for i, x := range state {
			d := float64(x) - float64(step.Alpha[h])*float64(was[i])
			wrote += d * d
		}
		whole := norm(state)
		if whole == 0 {
			continue
		}
		l.Heads[h].Wrote = float32(math.Sqrt(wrote) / whole)
		if q := norm(step.Q.Data[h/(c.HV/c.HK)*c.K:][:c.K]); q > 0 {
			l.Heads[h].Read = float32(norm(step.Out.Data[h*c.V:][:c.V]) / (q * whole))
		}
	}
}

// looked looks at an attention layer's rows [heads, t+1].
func (l *Layer) looked(rows *model.Array) {
	n := rows.Shape[1]
	for h := range l.Heads {
		head := &l.Heads[h]
		entropy := 0.0
		for t, p := range rows.Data[h*n:][:n] {
			if p > head.Weight {
				head.Token, head.Weight = t, p
			}
			if p > 0 {
				entropy -= float64(p) * math.Log(float64(p))
			}
		}
		head.Entropy = float32(entropy)
	}
}

func (r *Report) rank(top int) {
	for _, l := range r.Layers {
		for _, h := range l.Heads {
			if l.Kind == config.GDN.String() {
				r.Wrote = append(r.Wrote, Rank{l.Layer, h.Head, h.Wrote})
				r.Read = append(r.Read, Rank{l.Layer, h.Head, h.Read})
			} else {
				r.Looked = append(r.Looked, Rank{l.Layer, h.Head, h.Weight})
			}
		}
	}
	for _, list := range []*[]Rank{&r.Wrote, &r.Read, &r.Looked} {
		slices.SortStableFunc(*list, func(a, b Rank) int { return cmp.Compare(b.By, a.By) })
		*list = (*list)[:min(len(*list), top)]
	}
}

// norm is the Euclidean norm.
func norm(x []float32) float64 {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}
