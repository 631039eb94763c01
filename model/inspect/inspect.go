// Package inspect looks into a model that is too large to draw: how its recurrent states and gates lie
// over a whole prompt, head by head, and which heads did most at one token of it.
package inspect

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"shellgame/model"
	"shellgame/model/config"
)

// Report is what `shellgame inspect --json` prints and the page's view saves. Who made it fills in
// Prompt and Tokens.
type Report struct {
	Version  int             `json:"version"`
	Model    model.ModelInfo `json:"model"`
	Device   string          `json:"device"`
	Adapter  string          `json:"adapter"`
	Prompt   string          `json:"prompt"`
	Switches *model.Switches `json:"switches,omitempty"`
	Tokens   []Token         `json:"tokens"`
	At       int             `json:"at"` // the chosen token
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
	if err := checkToken(at, len(ids)); err != nil {
		return nil, err
	}
	r, err := New(m, ids, Options{Keep: []int{at}})
	if err != nil {
		return nil, err
	}
	defer r.Release()
	err = r.Read(ctx, func(done, _ int) error {
		if progress != nil {
			progress(done)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r.At(ctx, at, top, nil)
}

// Options say how a text is read.
type Options struct {
	Switches model.Switches
	// Keep is after how many tokens, ascending, the states are kept: to look at a token, the text is
	// read from the last of them before it.
	Keep []int
	// Aim, where it is set, is about how long a play may take: the first reads First tokens, later
	// ones twice as many as long as they take less than half of it.
	Aim   time.Duration
	First int
	// Breathe, which may be nil, is called often where no play runs: a page has one thread.
	Breathe func()
}

const (
	most      = 64       // tokens of a play
	rowsBytes = 16 << 20 // of the attention layers' rows, which have room for a play's tokens
)

// mostTokens is how many of n tokens a play reads.
func mostTokens(c *config.Config, n int) int {
	rows := 0
	for _, l := range c.Layers {
		if l.Kind != config.GDN {
			rows += 4 * c.Heads * n
		}
	}
	return min(n, most, max(rowsBytes/max(rows, 1), 8))
}

// Reading is a text that a model reads to be looked into, token by token as often as one likes.
// Its methods are called by one goroutine at a time.
type Reading struct {
	m      *model.Model
	ids    []int
	o      Options
	r      *model.Runner
	s      *model.Session
	keep   []int            // of o.Keep, those not reached yet
	kept   []*model.Session // after o.Keep
	size   int              // tokens of the next play
	layers []Layer          // what does not depend on a token
	above  [][]int          // [L][HV] tokens with beta above 1
	done   bool
}

// New makes what reading ids takes on the model's device; nothing is read yet.
func New(m *model.Model, ids []int, o Options) (*Reading, error) {
	if len(ids) == 0 {
		return nil, fmt.Errorf("inspect: got no tokens, want at least one")
	}
	c := m.Config
	t := &Reading{m: m, ids: ids, o: o, size: most}
	if o.Aim > 0 {
		t.size = max(o.First, 1)
	}
	if o.Breathe == nil {
		t.o.Breathe = func() {}
	}
	gap, last := 0, 0 // the longest way from a state that is kept
	for _, n := range o.Keep {
		if n > last && n < len(ids) {
			t.keep = append(t.keep, n)
			gap, last = max(gap, n-last), n
		}
	}
	gap = max(gap, len(ids)-last)
	var err error
	if t.r, err = m.NewRunner(model.Options{Tokens: mostTokens(c, len(ids)), Seqs: 1, Slots: len(t.keep) + 2, Positions: len(ids), Rows: len(ids) + gap, Trace: true, Switches: o.Switches}); err != nil {
		return nil, err
	}
	t.s = t.r.NewSession()
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
		t.layers = append(t.layers, layer)
		t.above = append(t.above, make([]int, len(layer.Heads)))
	}
	t.o.Breathe()
	return t, nil
}

// Release frees what the reading takes on the device.
func (t *Reading) Release() { t.r.Release() }

// between is called after each play, with how many tokens were read of how many; its error ends the
// reading, which can go on later.
type between func(done, total int) error

// Read reads what was not read yet.
func (t *Reading) Read(ctx context.Context, after between) error {
	for len(t.s.IDs) < len(t.ids) {
		to := len(t.ids)
		if len(t.keep) > 0 {
			to = t.keep[0]
		}
		gates, err := t.play(ctx, t.s, to)
		if err != nil {
			return err
		}
		for layer, g := range gates {
			t.count(layer, g)
		}
		if len(t.keep) > 0 && len(t.s.IDs) == t.keep[0] {
			t.kept, t.keep = append(t.kept, t.s.Fork()), t.keep[1:]
		}
		if after != nil {
			if err := after(len(t.s.IDs), len(t.ids)); err != nil {
				return err
			}
		}
	}
	if t.done {
		return nil
	}
	c := t.m.Config
	for i, l := range c.Layers {
		if l.Kind != config.GDN {
			continue
		}
		state, err := t.s.State(ctx, i)
		if err != nil {
			return err
		}
		for h := range t.layers[i].Heads {
			s := t.layers[i].Heads[h].State
			s.Norm = float32(norm(state[h*c.K*c.V:][:c.K*c.V]))
			if math.IsNaN(float64(s.Norm)) || math.IsInf(float64(s.Norm), 0) {
				return fmt.Errorf("inspect: layer %d: state: %w", i, model.ErrNotFinite)
			}
			s.Negative = float32(t.above[i][h]) / float32(len(t.ids))
		}
		t.o.Breathe()
	}
	t.done = true
	return nil
}

// play reads the next tokens of a session, up to the first to of the text.
func (t *Reading) play(ctx context.Context, s *model.Session, to int) (map[int]model.Gates, error) {
	t.size = min(t.size, t.r.Opts.Tokens)
	n := min(t.size, to-len(s.IDs))
	from := time.Now()
	gates, err := s.ReadGates(ctx, t.ids[len(s.IDs):][:n])
	t.o.Breathe()
	if time.Since(from) < t.o.Aim/2 {
		t.size *= 2
	}
	return gates, err
}

func (t *Reading) count(layer int, g model.Gates) {
	for i, b := range g.Beta {
		h := i % len(t.layers[layer].Heads)
		s := t.layers[layer].Heads[h].State
		s.Alpha[bin(alphas, g.Alpha[i])]++
		s.Beta[bin(betas, b)]++
		if b > 1 {
			t.above[layer][h]++
		}
	}
}

// At looks at token at, once the text was read: the report names the top heads there.
func (t *Reading) At(ctx context.Context, at, top int, after between) (*Report, error) {
	if err := checkToken(at, len(t.ids)); err != nil {
		return nil, err
	}
	if !t.done {
		return nil, fmt.Errorf("inspect: %d of %d tokens are read, want all before one is looked at", len(t.s.IDs), len(t.ids))
	}
	s := t.r.NewSession()
	for _, k := range t.kept {
		if len(k.IDs) <= at {
			s = k
		}
	}
	s = s.Fork()
	defer s.Release()
	for len(s.IDs) < at {
		if _, err := t.play(ctx, s, at); err != nil {
			return nil, err
		}
		if after != nil {
			if err := after(len(s.IDs), at); err != nil {
				return nil, err
			}
		}
	}
	c, info := t.m.Config, t.m.Device().Info()
	rep := &Report{Version: 1, Model: t.m.Info(), Device: info.Kind, Adapter: info.Adapter, At: at, Alphas: alphas, Betas: betas, Wrote: []Rank{}, Read: []Rank{}, Looked: []Rank{}}
	if !t.o.Switches.Zero() {
		rep.Switches = &t.o.Switches
	}
	before := map[int][]float32{}
	for i, l := range c.Layers {
		if l.Kind == config.GDN {
			var err error
			if before[i], err = s.State(ctx, i); err != nil {
				return nil, err
			}
			t.o.Breathe()
		}
	}
	step, err := s.TraceStep(ctx, t.ids[at])
	if err != nil {
		return nil, err
	}
	for i, l := range t.layers {
		t.o.Breathe()
		mine := Layer{Layer: l.Layer, Kind: l.Kind}
		for _, h := range l.Heads {
			if h.State != nil {
				s := *h.State
				mine.Heads = append(mine.Heads, Head{Head: h.Head, State: &s})
			} else {
				mine.Heads = append(mine.Heads, Head{Head: h.Head, Look: &Look{}})
			}
		}
		if ls := &step.Layers[i]; c.Layers[i].Kind == config.GDN {
			mine.at(c, before[i], ls)
		} else {
			mine.looked(ls.Rows)
		}
		rep.Layers = append(rep.Layers, mine)
	}
	rep.rank(top)
	return rep, nil
}

func checkToken(at, n int) error {
	if at < 0 || at >= n {
		return fmt.Errorf("inspect: got token %d, want 0 to %d: the prompt has %d", at, n-1, n)
	}
	return nil
}

// StateBytes is what the states of a model take after a token, as a reading keeps them.
func StateBytes(c *config.Config) int {
	n := 0
	for _, l := range c.Layers {
		if l.Kind == config.GDN {
			n += 4 * (c.HV*c.K*c.V + (c.W-1)*c.C())
		}
	}
	return n
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
