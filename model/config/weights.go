package config

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"shellgame/model/safetensors"
)

// Weight is a tensor that a model needs.
type Weight struct {
	Role  string   // such as layers.3.gdn.q
	Names []string // accepted spellings on disk, the preferred one first
	Shape []int
	// Parts, when set, is the other way to store the weight: as tensors whose
	// rows, one after the other, are those of Shape. transformers stores the
	// rows of a convolution in equal parts, not at the borders of q, k and v.
	Parts []string
	// Conv says that the file's shape is [rows, 1, W] for the Shape [rows, W].
	Conv bool
	// Same is the role whose weight serves when this one is absent, or "".
	Same string

	why string // the keys of config.json that give Shape
}

// Found is where a Weight lies in a checkpoint.
type Found struct {
	Role    string
	Shape   []int
	DType   safetensors.DType    // F32, F16 or BF16
	Tensors []safetensors.Tensor // one, or parts whose rows follow each other
	Same    string               // the role that this one shares its data with, or ""
}

// Bytes is the size of the weight as stored.
func (f Found) Bytes() int64 {
	n := int64(0)
	for _, t := range f.Tensors {
		n += t.Bytes
	}
	return n
}

// Piece is a run of bytes of a tensor.
type Piece struct {
	Tensor     safetensors.Tensor
	Off, Bytes int64
}

// Pieces lists where the rows of a weight lie, in their order.
func (f Found) Pieces() []Piece {
	var list []Piece
	for _, t := range f.Tensors {
		list = append(list, Piece{t, 0, t.Bytes})
	}
	return list
}

// Weights lists what a model needs, in the order of the forward pass. All
// matrices are [out, in].
//
//	embed [N,D]  norm [D]  head [N,D] (the embedding when tied)
//	layers.i.norm_a, .norm_m [D]: the mixer's and the MLP's norm
//	layers.i.gdn.q, .k [HK*K,D]  .v, .g [HV*V,D]  .a, .b [HV,D]  .o [D,HV*V]
//	layers.i.gdn.conv [C,W]  .A_log, .dt_bias [HV]  .o_norm [V]
//	layers.i.attn.q [Heads*HeadDim,D]  .k, .v [KVHeads*HeadDim,D]  .o [D,Heads*HeadDim]
//	layers.i.attn.q_norm [Heads*HeadDim]  .k_norm [KVHeads*HeadDim]
//	layers.i.mlp.gate, .up [FF,D]  .down [D,FF]
//
// The names are those of the published checkpoints, of which two spellings of
// the norms are in use (transformers' conversion_mapping for olmo_hybrid).
func Weights(c *Config) []Weight {
	var list []Weight
	d := fmt.Sprintf("hidden_size=%d", c.D)
	list = append(list, Weight{
		Role: "embed", Names: []string{"model.embed_tokens.weight"}, Shape: []int{c.N, c.D},
		why: fmt.Sprintf("vocab_size=%d %s", c.N, d),
	})
	for i, l := range c.Layers {
		add := func(role, why string, shape []int, names ...string) *Weight {
			for j, name := range names {
				names[j] = fmt.Sprintf("model.layers.%d.%s", i, name)
				if !strings.HasSuffix(name, "A_log") && !strings.HasSuffix(name, "dt_bias") {
					names[j] += ".weight"
				}
			}
			list = append(list, Weight{Role: fmt.Sprintf("layers.%d.%s", i, role), Names: names, Shape: shape, why: why})
			return &list[len(list)-1]
		}
		if l.Kind == GDN {
			keys := fmt.Sprintf("linear_num_key_heads=%d linear_key_head_dim=%d", c.HK, c.K)
			values := fmt.Sprintf("linear_num_value_heads=%d linear_value_head_dim=%d", c.HV, c.V)
			perHead := fmt.Sprintf("linear_num_value_heads=%d", c.HV)
			add("norm_a", d, []int{c.D}, "attention_layer_norm", "input_layernorm")
			add("gdn.q", keys+" "+d, []int{c.HK * c.K, c.D}, "linear_attn.q_proj")
			add("gdn.k", keys+" "+d, []int{c.HK * c.K, c.D}, "linear_attn.k_proj")
			add("gdn.v", values+" "+d, []int{c.HV * c.V, c.D}, "linear_attn.v_proj")
			add("gdn.a", perHead+" "+d, []int{c.HV, c.D}, "linear_attn.a_proj")
			add("gdn.b", perHead+" "+d, []int{c.HV, c.D}, "linear_attn.b_proj")
			add("gdn.g", values+" "+d, []int{c.HV * c.V, c.D}, "linear_attn.g_proj")
			conv := add("gdn.conv", fmt.Sprintf("%s %s linear_conv_kernel_dim=%d", keys, values, c.W), []int{c.C(), c.W}, "linear_attn.conv1d")
			conv.Conv = true
			for _, p := range []string{"q", "k", "v"} {
				conv.Parts = append(conv.Parts, fmt.Sprintf("model.layers.%d.linear_attn.%s_conv1d.weight", i, p))
			}
			add("gdn.A_log", perHead, []int{c.HV}, "linear_attn.A_log")
			add("gdn.dt_bias", perHead, []int{c.HV}, "linear_attn.dt_bias")
			add("gdn.o_norm", fmt.Sprintf("linear_value_head_dim=%d", c.V), []int{c.V}, "linear_attn.o_norm")
			add("gdn.o", values+" "+d, []int{c.D, c.HV * c.V}, "linear_attn.o_proj")
			add("norm_m", d, []int{c.D}, "feedforward_layer_norm", "post_attention_layernorm")
		} else {
			q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
			qWhy := fmt.Sprintf("num_attention_heads=%d", c.Heads)
			kvWhy := fmt.Sprintf("num_key_value_heads=%d", c.KVHeads)
			add("attn.q", qWhy+" "+d, []int{q, c.D}, "self_attn.q_proj")
			add("attn.k", kvWhy+" "+d, []int{kv, c.D}, "self_attn.k_proj")
			add("attn.v", kvWhy+" "+d, []int{kv, c.D}, "self_attn.v_proj")
			add("attn.q_norm", qWhy, []int{q}, "self_attn.q_norm")
			add("attn.k_norm", kvWhy, []int{kv}, "self_attn.k_norm")
			add("attn.o", qWhy+" "+d, []int{c.D, q}, "self_attn.o_proj")
			add("norm_a", d, []int{c.D}, "post_attention_layernorm", "feedforward_layer_norm")
			add("norm_m", d, []int{c.D}, "post_feedforward_layernorm")
		}
		ff := fmt.Sprintf("intermediate_size=%d %s", c.FF, d)
		add("mlp.gate", ff, []int{c.FF, c.D}, "mlp.gate_proj")
		add("mlp.up", ff, []int{c.FF, c.D}, "mlp.up_proj")
		add("mlp.down", ff, []int{c.D, c.FF}, "mlp.down_proj")
	}
	list = append(list, Weight{Role: "norm", Names: []string{"model.norm.weight"}, Shape: []int{c.D}, why: d})
	head := Weight{
		Role: "head", Names: []string{"lm_head.weight"}, Shape: []int{c.N, c.D},
		why: fmt.Sprintf("vocab_size=%d %s", c.N, d),
	}
	if c.Tied {
		head.Same = "embed"
	}
	return append(list, head)
}

// Source is a checkpoint's list of tensors.
type Source interface {
	Names() []string
	Tensor(name string) (safetensors.Tensor, bool)
}

const layerPrefix = "model.layers."

// layerOf cuts the number, as text, out of model.layers.NUMBER.rest.
func layerOf(name string) (number string, ok bool) {
	rest, ok := strings.CutPrefix(name, layerPrefix)
	number, _, dot := strings.Cut(rest, ".")
	return number, ok && dot
}

// Resolve finds the tensor of every role that c needs. A layer that config.json
// does not have, a missing weight, another shape or element type, a weight in
// both spellings and a tensor of no use are errors of one line that begins with
// "weights: ". A tied model may still carry a head, which then is used.
func Resolve(c *Config, src Source) (map[string]Found, error) {
	r := &resolver{c: c, left: map[string]safetensors.Tensor{}}
	for _, name := range src.Names() {
		if number, ok := layerOf(name); ok {
			if i, err := strconv.Atoi(number); err != nil || i < 0 || i >= len(c.Layers) {
				return nil, fmt.Errorf("weights: %s: got layer %s, want layers 0 to %d (config.json num_hidden_layers=%d)", name, number, len(c.Layers)-1, len(c.Layers))
			}
		}
		// Old checkpoints carry the frequencies, which config.json gives.
		if strings.HasSuffix(name, "rotary_emb.inv_freq") {
			continue
		}
		r.left[name], _ = src.Tensor(name)
	}
	found := map[string]Found{}
	for _, w := range Weights(c) {
		f, err := r.find(w)
		if err != nil {
			return nil, fmt.Errorf("weights: %s: %w", w.Role, err)
		}
		if f.Same != "" {
			same := found[f.Same]
			f.DType, f.Tensors = same.DType, same.Tensors
		}
		found[w.Role] = f
	}
	if len(r.left) > 0 {
		extra := make([]string, 0, len(r.left))
		for name := range r.left {
			extra = append(extra, name)
		}
		slices.Sort(extra)
		more := ""
		if n := len(extra) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		return nil, fmt.Errorf("weights: %s%s: got a tensor that the %s of config.json has no use for, want none", extra[0], more, c.ModelType)
	}
	return found, nil
}

// resolver takes the tensors that it hands out off left.
type resolver struct {
	c    *Config
	left map[string]safetensors.Tensor
}

func (r *resolver) find(w Weight) (Found, error) {
	f := Found{Role: w.Role, Shape: w.Shape}
	var names []string
	for _, name := range w.Names {
		if _, ok := r.left[name]; ok {
			names = append(names, name)
		}
	}
	if w.Parts != nil {
		var parts []string
		for _, name := range w.Parts {
			if _, ok := r.left[name]; ok {
				parts = append(parts, name)
			}
		}
		switch {
		case len(names) > 0 && len(parts) > 0:
			return f, fmt.Errorf("got both %s and %s, want one form", names[0], parts[0])
		case len(parts) > 0 && len(parts) < len(w.Parts):
			return f, fmt.Errorf("got %s alone, want %s", strings.Join(parts, " and "), strings.Join(w.Parts, ", "))
		case len(parts) > 0:
			return r.take(f, w, parts)
		}
	}
	switch len(names) {
	case 1:
		return r.take(f, w, names)
	case 0:
		if w.Same != "" {
			f.Same = w.Same
			return f, nil
		}
		return f, r.missing(w)
	}
	return f, fmt.Errorf("got both %s and %s, want one spelling", names[0], names[1])
}

func (r *resolver) missing(w Weight) error {
	want := strings.Join(w.Names, " or ")
	if w.Parts != nil {
		want += " or " + strings.Join(w.Parts, ", ")
	}
	why := ""
	if number, ok := layerOf(w.Names[0]); ok {
		i, _ := strconv.Atoi(number)
		has := func(part string) bool {
			for name := range r.left {
				if strings.HasPrefix(name, layerPrefix+number+"."+part) {
					return true
				}
			}
			return false
		}
		switch kind := r.c.Layers[i].Kind; {
		case !has(""):
			why = fmt.Sprintf(": the checkpoint has no layer %d (config.json num_hidden_layers=%d)", i, len(r.c.Layers))
		case kind == GDN && has("self_attn."):
			why = fmt.Sprintf(": layer %d has self_attn weights (config.json layer_types: linear_attention)", i)
		case kind == Attention && has("linear_attn."):
			why = fmt.Sprintf(": layer %d has linear_attn weights (config.json layer_types: full_attention)", i)
		}
	} else if w.Role == "head" {
		why = " (config.json tie_word_embeddings=false)"
	} else if names := slices.Sorted(maps.Keys(r.left)); w.Role == "embed" && len(names) > 0 {
		why = fmt.Sprintf(": the checkpoint has %d tensors of other names, such as %s", len(names), names[0])
	}
	return fmt.Errorf("missing, want %s%s", want, why)
}

// take checks the tensors of those names against w.
func (r *resolver) take(f Found, w Weight, names []string) (Found, error) {
	rows, tail := 0, w.Shape[1:]
	if w.Conv {
		tail = append([]int{1}, tail...)
	}
	var shapes []string
	fits := true
	for _, name := range names {
		t := r.left[name]
		delete(r.left, name)
		if !slices.Contains([]safetensors.DType{safetensors.F32, safetensors.F16, safetensors.BF16}, t.DType) {
			return f, fmt.Errorf("dtype %s, want F32, F16 or BF16", t.DType)
		}
		if f.DType != "" && f.DType != t.DType {
			return f, fmt.Errorf("dtypes %s and %s, want one type for all parts", f.DType, t.DType)
		}
		f.DType = t.DType
		f.Tensors = append(f.Tensors, t)
		shapes = append(shapes, fmt.Sprint(t.Shape))
		if len(t.Shape) != 1+len(tail) || !slices.Equal(t.Shape[1:], tail) {
			fits = false
			continue
		}
		rows += min(t.Shape[0], math.MaxInt32) // no overflow
	}
	if !fits || rows != w.Shape[0] {
		return f, fmt.Errorf("shape %s, want %v (config.json %s)", strings.Join(shapes, " + "), append([]int{w.Shape[0]}, tail...), w.why)
	}
	return f, nil
}

// Reader reads tensors; File and Checkpoint of package safetensors are readers.
type Reader interface {
	ReadF32(name string) ([]float32, error)
	ReadRaw(name string, p []byte, off int64) error
}

// ReadF32 reads a weight as float32 in the order of Shape. A NaN or an infinity
// in it is an error.
func (f Found) ReadF32(r Reader) ([]float32, error) {
	if len(f.Tensors) == 0 {
		return nil, fmt.Errorf("weights: %s: nothing to read: not resolved", f.Role)
	}
	var all []float32
	for _, t := range f.Tensors {
		x, err := r.ReadF32(t.Name)
		if err != nil {
			return nil, fmt.Errorf("weights: %s: %w", f.Role, err)
		}
		if len(f.Tensors) == 1 {
			all = x
			break
		}
		all = append(all, x...)
	}
	for i, v := range all {
		if d := v - v; d != 0 {
			return nil, f.notFinite(i)
		}
	}
	return all, nil
}

// ReadRaw reads a weight as it is stored, in DType, in the order of Shape. A NaN
// or an infinity in it is an error.
func (f Found) ReadRaw(r Reader) ([]byte, error) {
	if len(f.Tensors) == 0 {
		return nil, fmt.Errorf("weights: %s: nothing to read: not resolved", f.Role)
	}
	all := make([]byte, f.Bytes())
	pos := int64(0)
	for _, t := range f.Tensors {
		if err := r.ReadRaw(t.Name, all[pos:pos+t.Bytes], 0); err != nil {
			return nil, fmt.Errorf("weights: %s: %w", f.Role, err)
		}
		pos += t.Bytes
	}
	return all, f.CheckFinite(all)
}

// CheckFinite returns an error that names the first NaN or infinity in raw,
// which holds the weight as ReadRaw gives it.
func (f Found) CheckFinite(raw []byte) error {
	if i := safetensors.NonFinite(f.DType, raw); i >= 0 {
		return f.notFinite(i)
	}
	return nil
}

var errNotFinite = errors.New("got NaN or infinity, want finite numbers: the checkpoint is damaged or its training diverged")

func (f Found) notFinite(i int) error {
	at := make([]int, len(f.Shape))
	for k := len(at) - 1; k >= 0; k-- {
		at[k], i = i%f.Shape[k], i/f.Shape[k]
	}
	return fmt.Errorf("weights: %s: value at %v: %w", f.Role, at, errNotFinite)
}
