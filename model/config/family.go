package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// family is one kind of published model: what its config.json means where the
// kinds differ, and the names of its weights.
type family struct {
	name string // model_type
	// text is the key of config.json that holds the language model's own object
	// in a checkpoint that can do more; "" where config.json is that object.
	text string
	// base holds what absent keys stand for, and what no key says: HeadNorm,
	// AttnGate, ONormEps and, where negEig is false, NegEig. Zero heads and
	// sizes follow from others, as the class of transformers derives them.
	base     Config
	count    int              // layers, when num_hidden_layers is absent
	layers   map[string]Layer // by layer type: how such a layer computes
	interval string           // the key that says which layers are full attention when layer_types is absent; "" is every fourth
	lastFull bool             // a model of fewer layers than that ends in full attention
	negEig   bool             // linear_allow_neg_eigval is a key of this family
	theta    float64          // of rope, when no key gives it
	partial  float64          // partial_rotary_factor, when no key gives it
	ropes    func(c *Config, o *object) (map[string]*Rope, error)
	experts  int // num_experts, when no key gives it

	// The tables of weights. A layer's names lie below model.layers.NUMBER.
	model, gdn, attention, every []line
	nested                       bool              // names may lie below model.language_model. instead of model.
	skip                         map[string]string // prefixes of tensors that the language model does not need: what they are
}

// line is one tensor of a family's table.
type line struct {
	// file is the name on disk, or the names of tensors whose rows follow each
	// other and which together are one weight.
	file string
	// ours is the role, or the roles whose rows the tensor holds, one after the
	// other. "norm-1" says that the file holds the weight less one. A role in
	// two lines has two spellings, the first preferred.
	ours string
	// each says that the rows come in as many groups as there are heads of that
	// kind, each of which holds those of its head for every role.
	each heads
}

// heads is what the rows of a tensor are grouped by.
type heads int

const (
	whole    heads = iota // one group
	keyHeads              // HK
	qHeads                // Heads
)

func (h heads) of(c *Config) int {
	switch h {
	case keyHeads:
		return c.HK
	case qHeads:
		return c.Heads
	}
	return 1
}

// families are the models that Parse accepts, by model_type.
var families = map[string]*family{}

func register(f *family) string {
	families[f.name] = f
	return f.name
}

func (c *Config) family() *family { return families[c.ModelType] }

// familyNames lists the model types for an error line.
func familyNames() string {
	names := slices.Sorted(maps.Keys(families))
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// swiglu is the MLP's lines, which all families share.
var swiglu = []line{
	{"mlp.gate_proj.weight", "mlp.gate", whole},
	{"mlp.up_proj.weight", "mlp.up", whole},
	{"mlp.down_proj.weight", "mlp.down", whole},
}

// other is the layer type besides full_attention, of several the first by name.
func (f *family) other() string {
	for _, kind := range slices.Sorted(maps.Keys(f.layers)) {
		if kind != fullAttention {
			return kind
		}
	}
	return ""
}

const fullAttention = "full_attention"

// defaultLayers is the pattern that stands for absent layer_types.
func (f *family) defaultLayers(o *object, layers int) []string {
	every := 4
	if f.interval != "" {
		every = o.integer(f.interval, every, 1, maxLayers)
	}
	kinds := make([]string, layers)
	for i := range kinds {
		kinds[i] = f.other()
		if i%every == every-1 {
			kinds[i] = fullAttention
		}
	}
	if f.lastFull && layers < every {
		kinds[layers-1] = fullAttention
	}
	return kinds
}

// dense refuses a model one of whose MLPs is a mixture of experts.
func (f *family) dense(o *object, layers int) error {
	experts := o.integer("num_experts", f.experts, 0, maxVocab)
	step := o.integer("decoder_sparse_step", 1, 1, maxLayers)
	var only []int
	if o.given("mlp_only_layers") {
		only = o.integers("mlp_only_layers", 0, maxLayers)
	}
	if o.err != nil || experts == 0 {
		return o.err
	}
	for i := range layers {
		if (i+1)%step == 0 && !slices.Contains(only, i) {
			got := fmt.Sprint(experts)
			if !o.given("num_experts") {
				got = "nothing, which stands for " + got
			}
			return fmt.Errorf("%s: got %s, want 0, or every layer in mlp_only_layers (layer %d is not): experts are not supported", o.path("num_experts"), got, i)
		}
	}
	return nil
}

// table returns the lines of a layer.
func (f *family) table(k Kind) []line {
	own := f.attention
	if k == GDN {
		own = f.gdn
	}
	return slices.Concat(own, f.every)
}

// skipped says what a tensor that the language model does not need is, or "".
func (f *family) skipped(name string) string {
	for prefix, what := range f.skip {
		if strings.HasPrefix(name, prefix) {
			return what
		}
	}
	return ""
}

// unsupported refuses an option that changes the computation in a way that no
// kernel here does.
func (o *object) unsupported(key string, ok ...string) error {
	raw := o.raw(key)
	if raw == "" || raw == "null" || slices.Contains(ok, raw) {
		return nil
	}
	want := "none"
	if len(ok) > 0 {
		want = ok[0]
	}
	return fmt.Errorf("%s: got %s, want %s: not supported", o.path(key), brief(raw), want)
}
