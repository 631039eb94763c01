package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"shellgame/model/safetensors"
)

// Weight is a matrix or a vector that a model needs.
type Weight struct {
	Role  string // such as layers.3.gdn.q
	Shape []int
	Forms []Form // how checkpoints hold it, the preferred form first
	// Conv says that the file's shape is [rows, 1, W] for the Shape [rows, W].
	Conv bool
	// Plus is what is added to the stored numbers of a vector: 1 where files hold
	// the weight less one.
	Plus float32
	// Same is the role whose weight serves when this one is absent, or "".
	Same string

	why string // the keys of config.json that give Shape
}

// Form is one way to hold a weight: as the rows of one tensor, as those of
// several tensors one after the other, or as some rows of a tensor that holds
// other weights too.
type Form struct {
	Names []string
	// Of a shared tensor of Groups groups of Step rows each, the weight has Count
	// rows of every group from its row First on. Groups is 0 of a tensor that is
	// the weight's alone.
	Groups, Step, First, Count int

	why string // as Weight's, of a shared tensor
}

// Found is where a Weight lies in a checkpoint.
type Found struct {
	Role    string
	Shape   []int
	DType   safetensors.DType    // F32, F16 or BF16
	Tensors []safetensors.Tensor // one, or parts whose rows follow each other
	Plus    float32              // what ReadF32 adds
	Same    string               // the role that this one shares its data with, or ""

	form Form
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
		if f.form.Groups == 0 {
			list = append(list, Piece{t, 0, t.Bytes})
			continue
		}
		row := t.Bytes / int64(f.form.Groups*f.form.Step)
		for g := range f.form.Groups {
			list = append(list, Piece{t, int64(g*f.form.Step+f.form.First) * row, int64(f.form.Count) * row})
		}
	}
	return list
}

// Bytes is the size of the weight as stored.
func (f Found) Bytes() int64 {
	n := int64(0)
	for _, p := range f.Pieces() {
		n += p.Bytes
	}
	return n
}

// Weights lists what a model needs, in the order of the forward pass, with the
// names of its family's table. All matrices are [out, in].
//
//	embed [N,D]  norm [D]  head [N,D] (the embedding when tied)
//	layers.i.norm_a, .norm_m [D]: the mixer's and the MLP's norm
//	layers.i.gdn.q, .k [HK*K,D]  .v, .g [HV*V,D]  .a, .b [HV,D]  .o [D,HV*V]
//	layers.i.gdn.conv [C,W]  .A_log, .dt_bias [HV]  .o_norm [V]
//	layers.i.attn.q [Heads*HeadDim,D]  .k, .v [KVHeads*HeadDim,D]  .o [D,Heads*HeadDim]
//	layers.i.attn.gate [Heads*HeadDim,D] with AttnGate
//	layers.i.attn.q_norm [Heads*HeadDim]  .k_norm [KVHeads*HeadDim], both [HeadDim] with HeadNorm
//	layers.i.mlp.gate, .up [FF,D]  .down [D,FF]
func Weights(c *Config) []Weight { return weights(c, c.family().nested && c.family().text != "") }

// weights lists them with names below model. or, nested, model.language_model.
func weights(c *Config, nested bool) []Weight {
	f := c.family()
	base := plainPrefix
	if nested {
		base = nestedPrefix
	}
	embed := vector("embed", "vocab_size", c.N, "hidden_size", c.D)
	list := named(c, base, "", f.model, []Weight{embed})
	for i, l := range c.Layers {
		layer := fmt.Sprintf("layers.%d.", i)
		list = append(list, named(c, base+layer, layer, f.table(l.Kind), roles(c, l))...)
	}
	head := embed
	head.Role = "head"
	if c.Tied {
		head.Same = "embed"
	}
	return append(list, named(c, base, "", f.model, []Weight{vector("norm", "hidden_size", c.D), head})...)
}

const (
	plainPrefix  = "model."
	nestedPrefix = "model.language_model."
)

// vector makes a weight whose dimensions are single keys of config.json.
func vector(role string, keys ...any) Weight {
	w := Weight{Role: role}
	for i := 0; i < len(keys); i += 2 {
		w.Shape = append(w.Shape, keys[i+1].(int))
		w.why = join(w.why, fmt.Sprintf("%s=%d", keys[i], keys[i+1]))
	}
	return w
}

// join appends the words of b that a lacks.
func join(a, b string) string {
	words := strings.Fields(a)
	for _, w := range strings.Fields(b) {
		if !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	return strings.Join(words, " ")
}

// need is a matrix [rows, cols], or a vector where cols is 0.
type need struct {
	role, why  string
	rows, cols int
}

// roles lists the weights of a layer, without names.
func roles(c *Config, l Layer) []Weight {
	d := fmt.Sprintf(" hidden_size=%d", c.D)
	norm := []need{{"norm_a", d[1:], c.D, 0}}
	var list []need
	if l.PreNorm {
		list = norm
	}
	if l.Kind == GDN {
		k, v := c.HK*c.K, c.HV*c.V
		perHead := fmt.Sprintf("linear_num_value_heads=%d", c.HV)
		dim := fmt.Sprintf("linear_value_head_dim=%d", c.V)
		keys, values := fmt.Sprintf("linear_num_key_heads=%d linear_key_head_dim=%d", c.HK, c.K), perHead+" "+dim
		list = append(list,
			need{"gdn.q", keys + d, k, c.D}, need{"gdn.k", keys + d, k, c.D}, need{"gdn.v", values + d, v, c.D},
			need{"gdn.a", perHead + d, c.HV, c.D}, need{"gdn.b", perHead + d, c.HV, c.D}, need{"gdn.g", values + d, v, c.D},
			need{"gdn.conv", fmt.Sprintf("%s %s linear_conv_kernel_dim=%d", keys, values, c.W), c.C(), c.W},
			need{"gdn.A_log", perHead, c.HV, 0}, need{"gdn.dt_bias", perHead, c.HV, 0},
			need{"gdn.o_norm", dim, c.V, 0}, need{"gdn.o", values + d, c.D, v})
	} else {
		q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
		dim := fmt.Sprintf("head_dim=%d", c.HeadDim)
		qWhy, kvWhy := fmt.Sprintf("num_attention_heads=%d", c.Heads), fmt.Sprintf("num_key_value_heads=%d", c.KVHeads)
		if q != c.D {
			qWhy, kvWhy = qWhy+" "+dim, kvWhy+" "+dim
		}
		list = append(list, need{"attn.q", qWhy + d, q, c.D}, need{"attn.k", kvWhy + d, kv, c.D}, need{"attn.v", kvWhy + d, kv, c.D})
		if c.AttnGate {
			list = append(list, need{"attn.gate", qWhy + d, q, c.D})
		}
		norms := []need{{"attn.q_norm", qWhy, q, 0}, {"attn.k_norm", kvWhy, kv, 0}}
		if c.HeadNorm {
			norms = []need{{"attn.q_norm", dim, c.HeadDim, 0}, {"attn.k_norm", dim, c.HeadDim, 0}}
		}
		list = append(append(list, norms...), need{"attn.o", qWhy + d, c.D, q})
	}
	if !l.PreNorm {
		list = append(list, norm...)
	}
	ff := fmt.Sprintf("intermediate_size=%d", c.FF) + d
	list = append(list, need{"norm_m", d[1:], c.D, 0}, need{"mlp.gate", ff, c.FF, c.D}, need{"mlp.up", ff, c.FF, c.D}, need{"mlp.down", ff, c.D, c.FF})
	weights := make([]Weight, len(list))
	for i, n := range list {
		weights[i] = Weight{Role: n.role, why: n.why, Shape: []int{n.rows}, Conv: n.role == "gdn.conv"}
		if n.cols > 0 {
			weights[i].Shape = []int{n.rows, n.cols}
		}
	}
	return weights
}

// named gives weights the forms of a table's lines, whose files lie below file,
// and puts role before their roles.
func named(c *Config, file, role string, table []line, list []Weight) []Weight {
	at := map[string]int{}
	for i, w := range list {
		at[w.Role] = i
	}
	for _, l := range table {
		form := Form{}
		for _, name := range strings.Fields(l.file) {
			if role != "" {
				name = file + name
			} else if rest, ok := strings.CutPrefix(name, plainPrefix); ok {
				name = file + rest
			}
			form.Names = append(form.Names, name)
		}
		ours := strings.Fields(l.ours)
		if len(ours) > 1 {
			form.Groups = l.each.of(c)
		}
		for _, o := range ours {
			if i, ok := at[o]; ok && form.Groups > 0 {
				form.Step += list[i].Shape[0] / form.Groups
				form.why = join(form.why, list[i].why)
			}
		}
		for _, o := range ours {
			o, less := strings.CutSuffix(o, "-1")
			i, ok := at[o]
			if !ok {
				continue
			}
			if less {
				list[i].Plus = 1
			}
			if form.Groups > 0 {
				form.Count = list[i].Shape[0] / form.Groups
			}
			list[i].Forms = append(list[i].Forms, form)
			form.First += form.Count
		}
	}
	for i := range list {
		if len(list[i].Forms) == 0 {
			panic("config: no name for " + list[i].Role + " in the table of " + c.ModelType)
		}
		list[i].Role = role + list[i].Role
	}
	return list
}

// Source is a checkpoint's list of tensors.
type Source interface {
	Names() []string
	Tensor(name string) (safetensors.Tensor, bool)
}

// Tensor is a tensor as files of a model hold it.
type Tensor struct {
	Name  string
	Shape []int
	Role  string // of the first weight in it
	Plus  float32
}

// Tensors lists the tensors of a checkpoint of c in the preferred spellings. A
// tied head is not among them.
func Tensors(c *Config) []Tensor {
	var list []Tensor
	seen := map[string]bool{}
	for _, w := range Weights(c) {
		f := w.Forms[0]
		if w.Same != "" || seen[f.Names[0]] {
			continue
		}
		seen[f.Names[0]] = true
		list = append(list, Tensor{f.Names[0], w.stored(f), w.Role, w.Plus})
	}
	return list
}

// stored is the shape of the file's tensor, whole if its rows are in parts.
func (w Weight) stored(f Form) []int {
	shape := slices.Clone(w.Shape)
	if f.Groups > 0 {
		shape[0] = f.Groups * f.Step
	}
	if w.Conv {
		shape = slices.Insert(shape, 1, 1)
	}
	return shape
}

// layerOf cuts the number, as text, out of BASElayers.NUMBER.rest.
func layerOf(base, name string) (number string, ok bool) {
	rest, ok := strings.CutPrefix(name, base+"layers.")
	number, _, dot := strings.Cut(rest, ".")
	return number, ok && dot
}

// Skipped counts tensors that a checkpoint holds and the language model has no
// use for.
type Skipped struct {
	What    string `json:"what"` // such as vision
	Tensors int    `json:"tensors"`
	Bytes   int64  `json:"bytes"`
}

func (s Skipped) String() string {
	return fmt.Sprintf("%s: %d tensors, %.1f MB", s.What, s.Tensors, float64(s.Bytes)/1e6)
}

// Skips lists what of a checkpoint Resolve leaves aside, such as its vision part.
func Skips(c *Config, src Source) []Skipped {
	by := map[string]Skipped{}
	for _, name := range src.Names() {
		if what := c.family().skipped(name); what != "" {
			t, _ := src.Tensor(name)
			by[what] = Skipped{what, by[what].Tensors + 1, by[what].Bytes + t.Bytes}
		}
	}
	var list []Skipped
	for _, what := range slices.Sorted(maps.Keys(by)) {
		list = append(list, by[what])
	}
	return list
}

// Resolve finds the tensor of every role that c needs. A layer that config.json
// does not have, a missing weight, another shape or element type, a weight in
// two spellings and a tensor of no use are errors of one line that begins with
// "weights: ". A tied model may still carry a head, which then is used. What
// [Skips] lists is left aside.
func Resolve(c *Config, src Source) (map[string]Found, error) {
	family := c.family()
	r := &resolver{c: c, base: plainPrefix, have: map[string]safetensors.Tensor{}, used: map[string]bool{}}
	for _, name := range src.Names() {
		// Old checkpoints carry the frequencies, which config.json gives.
		if strings.HasSuffix(name, "rotary_emb.inv_freq") || family.skipped(name) != "" {
			continue
		}
		if family.nested && strings.HasPrefix(name, nestedPrefix) {
			r.base = nestedPrefix
		}
		r.have[name], _ = src.Tensor(name)
	}
	for _, name := range slices.Sorted(maps.Keys(r.have)) {
		if number, ok := layerOf(r.base, name); ok {
			if i, err := strconv.Atoi(number); err != nil || i < 0 || i >= len(c.Layers) {
				return nil, fmt.Errorf("weights: %s: got layer %s, want layers 0 to %d (config.json num_hidden_layers=%d)", name, number, len(c.Layers)-1, len(c.Layers))
			}
		}
	}
	found := map[string]Found{}
	for _, w := range weights(c, r.base == nestedPrefix) {
		f, err := r.find(w)
		if err != nil {
			return nil, fmt.Errorf("weights: %s: %w", w.Role, err)
		}
		if f.Same != "" {
			same := found[f.Same]
			f.DType, f.Tensors, f.form = same.DType, same.Tensors, same.form
		}
		found[w.Role] = f
	}
	var extra []string
	for _, name := range slices.Sorted(maps.Keys(r.have)) {
		if !r.used[name] {
			extra = append(extra, name)
		}
	}
	if len(extra) > 0 {
		more := ""
		if n := len(extra) - 1; n > 0 {
			more = fmt.Sprintf(" (and %d more)", n)
		}
		return nil, fmt.Errorf("weights: %s%s: got a tensor that the %s of config.json has no use for, want none", extra[0], more, c.ModelType)
	}
	return found, nil
}

// resolver marks the tensors that it hands out.
type resolver struct {
	c    *Config
	base string // what the names of layers begin with
	have map[string]safetensors.Tensor
	used map[string]bool
}

func (r *resolver) find(w Weight) (Found, error) {
	f := Found{Role: w.Role, Shape: w.Shape, Plus: w.Plus}
	var in []Form // forms of which there is something
	var first []string
	for _, form := range w.Forms {
		for _, name := range form.Names {
			if _, ok := r.have[name]; ok {
				in, first = append(in, form), append(first, name)
				break
			}
		}
	}
	switch {
	case len(in) == 0 && w.Same != "":
		f.Same = w.Same
		return f, nil
	case len(in) == 0:
		return f, r.missing(w)
	case len(in) > 1 && len(in[0].Names) == len(in[1].Names):
		return f, fmt.Errorf("got both %s and %s, want one spelling", first[0], first[1])
	case len(in) > 1:
		return f, fmt.Errorf("got both %s and %s, want one form", first[0], first[1])
	}
	var parts []string
	for _, name := range in[0].Names {
		if _, ok := r.have[name]; ok {
			parts = append(parts, name)
		}
	}
	if len(parts) < len(in[0].Names) {
		return f, fmt.Errorf("got %s alone, want %s", strings.Join(parts, " and "), strings.Join(in[0].Names, ", "))
	}
	return r.take(f, w, in[0])
}

func (r *resolver) missing(w Weight) error {
	var forms []string
	for _, f := range w.Forms {
		forms = append(forms, strings.Join(f.Names, ", "))
	}
	why := ""
	if number, ok := layerOf(r.base, w.Forms[0].Names[0]); ok {
		i, _ := strconv.Atoi(number)
		has := func(part string) bool {
			for name := range r.have {
				if strings.HasPrefix(name, r.base+"layers."+number+"."+part) {
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
	} else if names := slices.Sorted(maps.Keys(r.have)); w.Role == "embed" && len(names) > 0 {
		why = fmt.Sprintf(": the checkpoint has %d tensors of other names, such as %s", len(names), names[0])
	}
	return fmt.Errorf("missing, want %s%s", strings.Join(forms, " or "), why)
}

// take checks the tensors of a form against w.
func (r *resolver) take(f Found, w Weight, form Form) (Found, error) {
	f.form = form
	want := w.stored(form)
	rows, tail := 0, want[1:]
	var shapes []string
	fits := true
	for _, name := range form.Names {
		t := r.have[name]
		r.used[name] = true
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
	if !fits || rows != want[0] {
		return f, fmt.Errorf("shape %s, want %v (config.json %s)", strings.Join(shapes, " + "), want, cmp.Or(form.why, w.why))
	}
	return f, nil
}

// Reader reads tensors; File and Checkpoint of package safetensors are readers.
type Reader interface {
	ReadF32(name string) ([]float32, error)
	ReadRaw(name string, p []byte, off int64) error
}

// ReadF32 reads a weight as float32 in the order of Shape, with Plus added. A NaN
// or an infinity in it is an error.
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
		if len(f.Tensors) == 1 && f.form.Groups == 0 {
			all = x
			break
		}
		for _, p := range f.Pieces() {
			if p.Tensor.Name == t.Name {
				size := int64(f.DType.Size())
				all = append(all, x[p.Off/size:][:p.Bytes/size]...)
			}
		}
	}
	for i, v := range all {
		if d := v - v; d != 0 {
			return nil, f.notFinite(i)
		}
		if f.Plus != 0 {
			all[i] = v + f.Plus
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
	for _, p := range f.Pieces() {
		if err := r.ReadRaw(p.Tensor.Name, all[pos:pos+p.Bytes], p.Off); err != nil {
			return nil, fmt.Errorf("weights: %s: %w", f.Role, err)
		}
		pos += p.Bytes
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
