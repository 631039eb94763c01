package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"shellgame/model/config"
)

// TraceVersion is the version of the trace's form, which docs/trace.md describes.
const TraceVersion = 1

// Trace is what a model did with a program, token by token: what `shellgame trace` prints and the
// page exports. Fields are written in this order, numbers as the shortest decimal that gives the
// same float32.
type Trace struct {
	Version   int       `json:"version"`
	Generator string    `json:"generator"` // program and version that wrote it
	Model     ModelInfo `json:"model"`
	Device    string    `json:"device"`
	Adapter   string    `json:"adapter"`
	Program   string    `json:"program"` // canonical words
	Source    string    `json:"source"`  // the program as typed, into which spans point
	Switches  *Switches `json:"switches,omitempty"`
	Patches   []Patch   `json:"patches,omitempty"`
	Steps     []*Step   `json:"steps"`
}

// Patch says what was written into the state of GDN layers after a step.
type Patch struct {
	T       int    `json:"t"`
	Layer   *int   `json:"layer,omitempty"` // nil: all
	Head    *int   `json:"head,omitempty"`  // nil: all
	From    string `json:"from"`            // zero, model or program
	Model   string `json:"model,omitempty"` // the model of the same shape whose state after T it is
	Program string `json:"program,omitempty"`
	At      int    `json:"at,omitempty"` // the state is this model's after step At of Program
}

// ModelInfo describes a model's shape.
type ModelInfo struct {
	Name   string      `json:"name"`
	Type   string      `json:"type"` // model_type of config.json
	Params int         `json:"params"`
	Layers []LayerInfo `json:"layers"`
	// Skipped is what the checkpoint holds besides the language model.
	Skipped []config.Skipped `json:"skipped,omitempty"`
}

// LayerInfo describes a layer's mixer.
type LayerInfo struct {
	Kind    string `json:"kind"`  // gdn or attention
	Heads   int    `json:"heads"` // value heads, or heads of q
	KVHeads int    `json:"kv_heads"`
	K       int    `json:"k"` // key dim
	V       int    `json:"v"` // value dim
	Window  int    `json:"window,omitempty"`
}

// Step is what reading one token did.
type Step struct {
	T      int         `json:"t"`
	ID     int         `json:"id"`
	Word   string      `json:"word"`
	Span   [2]int      `json:"span"` // byte offsets of the word in the program as typed
	Top    []Candidate `json:"top"`
	Layers []LayerStep `json:"layers"`
	Truth  *Truth      `json:"truth,omitempty"`
	Belief *Belief     `json:"belief,omitempty"` // where it was asked for, at the end of a statement
}

// Candidate is a possible next token.
type Candidate struct {
	ID   int     `json:"id"`
	Word string  `json:"word"`
	P    float32 `json:"p"`
}

// Truth is what holds once a token was read.
type Truth struct {
	Vars   map[string]int `json:"vars"`
	Bits   map[string]int `json:"bits,omitempty"`   // the bit that each variable points to
	Answer string         `json:"answer,omitempty"` // the word that truly comes next, after ==
}

// Belief is what the model answers when it is asked on the side, by variable.
type Belief struct {
	Vars map[string]Opinion `json:"vars"`           // after assert v==
	Bits map[string]Opinion `json:"bits,omitempty"` // after assert bits[v]==
}

// Opinion is the likeliest next word, its probability, and whether it is the truth.
type Opinion struct {
	Word  string  `json:"word"`
	P     float32 `json:"p"`
	Right bool    `json:"right"`
}

// LayerStep is one layer's part in a step. For a GDN layer q and k are as the delta rule takes
// them, after convolution, SiLU and norm, q with its scale; alpha and beta its gates; state S after
// the token. For an attention layer rows are the softmax over the tokens read so far.
type LayerStep struct {
	Layer int       `json:"layer"`
	Kind  string    `json:"kind"`
	Q     *Array    `json:"q,omitempty"`     // [HK][K]
	K     *Array    `json:"k,omitempty"`     // [HK][K]
	V     *Array    `json:"v,omitempty"`     // [HV][V]
	Alpha []float32 `json:"alpha,omitempty"` // [HV]
	Beta  []float32 `json:"beta,omitempty"`  // [HV]
	State *Array    `json:"state,omitempty"` // [HV][K][V]
	Out   *Array    `json:"-"`               // [HV][V]: what the delta rule gave, before the gated norm
	Rows  *Array    `json:"rows,omitempty"`  // [Heads][T+1]
}

// Info describes the model for a trace.
func (m *Model) Info() ModelInfo {
	c := m.Config
	info := ModelInfo{Name: m.Name, Type: c.ModelType, Params: m.Params, Skipped: m.Skipped}
	for _, l := range c.Layers {
		if l.Kind == config.GDN {
			info.Layers = append(info.Layers, LayerInfo{Kind: l.Kind.String(), Heads: c.HV, KVHeads: c.HK, K: c.K, V: c.V})
		} else {
			info.Layers = append(info.Layers, LayerInfo{Kind: l.Kind.String(), Heads: c.Heads, KVHeads: c.KVHeads, K: c.HeadDim, V: c.HeadDim, Window: l.Window})
		}
	}
	return info
}

// TraceStep reads one token as [Session.Step] does and returns all that the model did with it. The
// runner must have been made with Options.Trace. A NaN or an infinity anywhere is an error that
// names the layer.
func (s *Session) TraceStep(ctx context.Context, id int) (*Step, error) {
	r := s.r
	if !r.Opts.Trace {
		return nil, fmt.Errorf("model: tracing needs a runner made with Options.Trace")
	}
	t := len(s.IDs)
	out, last := r.play(ctx, []Input{{Session: s, IDs: []int{id}, Want: Last}}, false, traceStep)
	if out == nil {
		return nil, last
	}
	var err error // the first layer's, since all that follow have it from there
	step := &Step{T: t, ID: id}
	step.Top = make([]Candidate, r.Opts.TopK)
	for k := range step.Top {
		c := out.Top(0, k)
		step.Top[k] = Candidate{ID: c.ID, P: c.P}
	}
	c := r.Model.Config
	step.Layers = make([]LayerStep, len(c.Layers))
	for i, l := range c.Layers {
		ls, names := &step.Layers[i], &r.names[i]
		ls.Layer, ls.Kind = i, l.Kind.String()
		if l.Kind == config.GDN {
			qkv := out.floats(names.qkv)
			hk := c.HK * c.K
			ls.Q, ls.K, ls.V = array(qkv[:hk], c.HK, c.K), array(qkv[hk:2*hk], c.HK, c.K), array(qkv[2*hk:], c.HV, c.V)
			gates := out.floats(names.gates)
			ls.Beta = clone(gates[c.HV:])
			ls.Alpha = clone(gates[:c.HV])
			for h, g := range ls.Alpha {
				ls.Alpha[h] = float32(math.Exp(float64(g)))
			}
			ls.State = array(out.floats(names.state), c.HV, c.K, c.V)
			ls.Out = array(out.floats(names.o), c.HV, c.V)
			err = firstNotFinite(err, i, "q, k or v", qkv)
			err = firstNotFinite(err, i, "gates", gates)
			err = firstNotFinite(err, i, "state", ls.State.Data)
			err = firstNotFinite(err, i, "output", ls.Out.Data)
			continue
		}
		probs := out.floats(names.probs)
		rows := make([]float32, 0, c.Heads*(t+1))
		for h := range c.Heads {
			rows = append(rows, probs[h*r.Opts.Positions:][:t+1]...)
		}
		ls.Rows = &Array{[]int{c.Heads, t + 1}, rows}
		err = firstNotFinite(err, i, "attention", rows)
	}
	if err == nil {
		err = last
	}
	if err != nil {
		return nil, err
	}
	return step, nil
}

// ErrNotFinite says that a model has computed what is no number.
var ErrNotFinite = errors.New("NaN or infinity, want finite numbers")

func firstNotFinite(err error, layer int, name string, v []float32) error {
	if err != nil {
		return err
	}
	for _, x := range v {
		if !finite(x) {
			return fmt.Errorf("model: layer %d: %s: %w", layer, name, ErrNotFinite)
		}
	}
	return nil
}

func finite(x float32) bool { return math.Float32bits(x)&0x7f800000 != 0x7f800000 }

// Array is a tensor, row-major, that is written to JSON as nested lists.
type Array struct {
	Shape []int
	Data  []float32
}

func array(v []float32, shape ...int) *Array { return &Array{shape, clone(v)} }

// MarshalJSON writes nested lists of shortest float32 decimals.
func (a *Array) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 12*len(a.Data))
	var walk func(shape []int, data []float32) error
	walk = func(shape []int, data []float32) error {
		b = append(b, '[')
		for i := range shape[0] {
			if i > 0 {
				b = append(b, ',')
			}
			if len(shape) > 1 {
				n := len(data) / shape[0]
				if err := walk(shape[1:], data[i*n:][:n]); err != nil {
					return err
				}
				continue
			}
			if !finite(data[i]) {
				return fmt.Errorf("model: a trace holds %v, want finite numbers", data[i])
			}
			b = appendFloat(b, data[i])
		}
		b = append(b, ']')
		return nil
	}
	if err := walk(a.Shape, a.Data); err != nil {
		return nil, err
	}
	return b, nil
}

// appendFloat writes f as encoding/json does.
func appendFloat(b []byte, f float32) []byte {
	abs := math.Abs(float64(f))
	if abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		b = strconv.AppendFloat(b, float64(f), 'e', -1, 32)
		if n := len(b); n >= 4 && b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' {
			b[n-2] = b[n-1]
			b = b[:n-1]
		}
		return b
	}
	return strconv.AppendFloat(b, float64(f), 'f', -1, 32)
}

func (o *Output) floats(name string) []float32 { return floatView(o.bytes(name)) }

// Write writes the trace as one JSON object and a newline.
func (t *Trace) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(t); err != nil {
		return fmt.Errorf("model: writing a trace: %w", err)
	}
	return nil
}
