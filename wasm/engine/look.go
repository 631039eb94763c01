package engine

import (
	"fmt"
	"slices"

	"shellgame/model"
	"shellgame/model/config"
	"shellgame/model/delta"
)

// Anatomy is one step of the delta rule in one head, taken apart.
type Anatomy struct {
	T     int `json:"t"`
	Layer int `json:"layer"`
	Head  int `json:"head"`
	*delta.Step
}

// Map is who looked at whom in one head, up to the word shown.
type Map struct {
	Layer int         `json:"layer"`
	Head  int         `json:"head"`
	Kind  string      `json:"kind"`
	T     int         `json:"t"`
	Rows  [][]float32 `json:"rows"`            // [from..t][i+1]
	Worst *float64    `json:"worst,omitempty"` // of the delta rule's map; see [delta.Map]
	Bound *float64    `json:"bound,omitempty"`
}

// headOf checks which head of which layer a request names.
func (l *lane) headOf(q request) (layer, head int, err error) {
	if l.play == nil {
		return 0, 0, errNoRun
	}
	if q.Layer != nil {
		layer = *q.Layer
	}
	if q.Head != nil {
		head = *q.Head
	}
	c := l.held.Config
	if layer < 0 || layer >= len(c.Layers) {
		return 0, 0, fmt.Errorf("layer %d: %s has 0 to %d", layer, l.held.Name, len(c.Layers)-1)
	}
	if n := shapeOf(c, layer).Heads; head < 0 || head >= n {
		return 0, 0, fmt.Errorf("head %d of layer %d: it has 0 to %d", head, layer, n-1)
	}
	return layer, head, nil
}

func (e *Engine) anatomy(q request) (*Anatomy, error) {
	l := e.lanes[q.Lane]
	layer, head, err := l.headOf(q)
	if err != nil {
		return nil, err
	}
	if l.held.Config.Layers[layer].Kind != config.GDN {
		return nil, fmt.Errorf("layer %d is attention: only a delta-rule layer has a state to take apart", layer)
	}
	steps := l.play.Steps()
	if q.T < 0 || q.T >= len(steps) {
		return nil, fmt.Errorf("word %d has not been read yet: step to it first", q.T)
	}
	h := l.head(steps[q.T], layer, head)
	var before []float32
	if q.T > 0 {
		before = l.part(steps[q.T-1].Layers[layer].State.Data, head)
	}
	s := delta.Anatomy(before, h.k, h.q, h.v, h.alpha, h.beta, l.part(l.play.Left(q.T, layer), head))
	if store := l.made.switches.Store; store != "" {
		s.Stored(store)
	}
	return &Anatomy{q.T, layer, head, s}, nil
}

// headStep is what the delta rule took in one head at a step, and its output [V].
type headStep struct {
	k, q, v, out []float32
	alpha, beta  float32
}

func (l *lane) head(s *model.Step, layer, head int) headStep {
	c, x := l.held.Config, &s.Layers[layer]
	hk := head / (c.HV / c.HK)
	return headStep{
		k: x.K.Data[hk*c.K:][:c.K], q: x.Q.Data[hk*c.K:][:c.K], v: x.V.Data[head*c.V:][:c.V], out: x.Out.Data[head*c.V:][:c.V],
		alpha: x.Alpha[head], beta: x.Beta[head],
	}
}

// part is one head's [K, V] of a state [HV, K, V].
func (l *lane) part(state []float32, head int) []float32 {
	size := l.held.Config.K * l.held.Config.V
	return state[head*size:][:size]
}

// lookedAt returns the rows from q.From on of a head's map.
func (e *Engine) lookedAt(q request) (*Map, error) {
	l := e.lanes[q.Lane]
	layer, head, err := l.headOf(q)
	if err != nil {
		return nil, err
	}
	m := &Map{Layer: layer, Head: head, Kind: l.held.Config.Layers[layer].Kind.String(), T: l.at, Rows: [][]float32{}}
	from := min(max(q.From, 0), l.at+1)
	if l.held.Config.Layers[layer].Kind != config.GDN {
		for t := from; t <= l.at; t++ {
			m.Rows = append(m.Rows, l.rows[layer][t][head*(t+1):][:t+1])
		}
		return m, nil
	}
	d := l.maps[[2]int{layer, head}]
	if d == nil {
		d = &delta.Map{Store: l.made.switches.Store}
		l.maps[[2]int{layer, head}] = d
	}
	for t := len(d.Rows); t <= l.at; t++ {
		step := l.play.Steps()[t]
		h := l.head(step, layer, head)
		d.Append(h.k, h.q, h.v, h.alpha, h.beta, h.out)
		if now := l.part(step.Layers[layer].State.Data, head); !slices.Equal(now, l.part(l.play.Left(t, layer), head)) {
			d.Restart(now)
		}
	}
	m.Rows = d.Rows[from : l.at+1]
	m.Worst, m.Bound = &d.Worst, &d.Bound
	return m, nil
}
