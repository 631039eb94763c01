package construct

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"shellgame/model/safetensors"
)

// matrix is [out, in], or a vector where in is 1.
type matrix struct {
	out, in int
	x       []float64
}

func newMatrix(out, in int) *matrix { return &matrix{out, in, make([]float64, out*in)} }

func (m *matrix) set(out, in int, x float64) { m.x[out*m.in+in] = x }

func (m *matrix) fill(x float64) *matrix {
	for i := range m.x {
		m.x[i] = x
	}
	return m
}

// net is a model under construction.
type net struct {
	words                 []string
	d, ff, heads, k, v, w int
	attnHeads             int
	embed, head, norm     *matrix // [N,D], [N,D], [D]
	layers                []any   // *gdn or *attention
}

// gdn is a layer of the gated delta rule. It starts as one that does nothing:
// norms 1, alpha 1, beta 1, projections zero, convolutions that pass on what
// they are given.
type gdn struct {
	q, k, v, a, b, g, o *matrix // [H*K,D] twice, [H*V,D], [H,D] twice, [H*V,D], [D,H*V]
	qTap, kTap, vTap    *matrix // [channels,W], the present last
	aLog, dtBias, oNorm *matrix // [H], [H], [V]
}

// attention starts as a layer that does nothing.
type attention struct {
	q, k, v, o         *matrix // [D,D]
	qNorm, kNorm, norm *matrix // [D]
}

func newNet(words []string, d, heads, k, v, attnHeads int) *net {
	return &net{
		words: words, d: d, ff: 8, heads: heads, k: k, v: v, w: 4, attnHeads: attnHeads,
		embed: newMatrix(len(words), d), head: newMatrix(len(words), d), norm: newMatrix(d, 1).fill(1),
	}
}

// keep is a dt_bias that leaves alpha at 1, forget one that makes it 0.
const keep, forget = -40, 40

func (n *net) addGDN() *gdn {
	hk, hv := n.heads*n.k, n.heads*n.v
	l := &gdn{
		q: newMatrix(hk, n.d), k: newMatrix(hk, n.d), v: newMatrix(hv, n.d),
		a: newMatrix(n.heads, n.d), b: newMatrix(n.heads, n.d), g: newMatrix(hv, n.d), o: newMatrix(n.d, hv),
		qTap: newMatrix(hk, n.w), kTap: newMatrix(hk, n.w), vTap: newMatrix(hv, n.w),
		aLog: newMatrix(n.heads, 1), dtBias: newMatrix(n.heads, 1).fill(keep), oNorm: newMatrix(n.v, 1).fill(1),
	}
	for _, tap := range []*matrix{l.qTap, l.kTap, l.vTap} {
		for c := range tap.out {
			tap.set(c, n.w-1, 1)
		}
	}
	n.layers = append(n.layers, l)
	return l
}

// lag makes a channel of a convolution pass on what came that many words ago.
func (n *net) lag(tap *matrix, channel, words int) {
	for i := range n.w {
		tap.set(channel, i, 0)
	}
	tap.set(channel, n.w-1-words, 1)
}

func (n *net) addAttention() *attention {
	l := &attention{
		q: newMatrix(n.d, n.d), k: newMatrix(n.d, n.d), v: newMatrix(n.d, n.d), o: newMatrix(n.d, n.d),
		qNorm: newMatrix(n.d, 1).fill(1), kNorm: newMatrix(n.d, 1).fill(1), norm: newMatrix(n.d, 1).fill(1),
	}
	n.layers = append(n.layers, l)
	return l
}

// config is the model's config.json.
func (n *net) config() ([]byte, error) {
	types := make([]string, len(n.layers))
	for i, l := range n.layers {
		types[i] = "full_attention"
		if _, ok := l.(*gdn); ok {
			types[i] = "linear_attention"
		}
	}
	type rope struct {
		Theta *float64 `json:"rope_theta"`
		Type  string   `json:"rope_type"`
	}
	raw, err := json.MarshalIndent(struct {
		Architectures []string `json:"architectures"`
		ModelType     string   `json:"model_type"`
		KeyHeads      int      `json:"linear_num_key_heads"`
		ValueHeads    int      `json:"linear_num_value_heads"`
		KeyDim        int      `json:"linear_key_head_dim"`
		ValueDim      int      `json:"linear_value_head_dim"`
		Kernel        int      `json:"linear_conv_kernel_dim"`
		NegEigval     bool     `json:"linear_allow_neg_eigval"`
		Rope          rope     `json:"rope_parameters"`
		Vocab         int      `json:"vocab_size"`
		Hidden        int      `json:"hidden_size"`
		Intermediate  int      `json:"intermediate_size"`
		Layers        int      `json:"num_hidden_layers"`
		Heads         int      `json:"num_attention_heads"`
		KVHeads       int      `json:"num_key_value_heads"`
		Types         []string `json:"layer_types"`
		Act           string   `json:"hidden_act"`
		Eps           float64  `json:"rms_norm_eps"`
		Bias          bool     `json:"attention_bias"`
		Tied          bool     `json:"tie_word_embeddings"`
		Positions     int      `json:"max_position_embeddings"`
		Pad           int      `json:"pad_token_id"`
		BOS           int      `json:"bos_token_id"`
		EOS           *int     `json:"eos_token_id"`
		DType         string   `json:"dtype"`
	}{
		[]string{"OlmoHybridForCausalLM"},
		"olmo_hybrid", n.heads, n.heads, n.k, n.v, n.w, true,
		rope{nil, "default"},
		len(n.words), n.d, n.ff, len(n.layers), n.attnHeads, n.attnHeads, types, "silu", normEps, false, false,
		maxPositions, 0, 1, nil, "float16",
	}, "", " ")
	return append(raw, '\n'), err
}

const maxPositions = 1024

// entries are the tensors of model.safetensors, with the published names.
func (n *net) entries() ([]safetensors.Entry, error) {
	var out []safetensors.Entry
	var first error
	add := func(name string, m *matrix, shape ...int) {
		x := make([]float32, len(m.x))
		for i, v := range m.x {
			x[i] = float32(v)
		}
		if !strings.HasSuffix(name, "A_log") && !strings.HasSuffix(name, "dt_bias") {
			name += ".weight"
		}
		e, err := safetensors.EntryF32("model."+name, safetensors.F16, shape, x)
		if err != nil && first == nil {
			first = err
		}
		out = append(out, e)
	}
	matrixOf := func(name string, m *matrix) { add(name, m, m.out, m.in) }
	vector := func(name string, m *matrix) { add(name, m, m.out) }
	matrixOf("embed_tokens", n.embed)
	vector("norm", n.norm)
	for i, layer := range n.layers {
		prefix := fmt.Sprintf("layers.%d.", i)
		ones := newMatrix(n.d, 1).fill(1)
		switch l := layer.(type) {
		case *gdn:
			for _, m := range []struct {
				name string
				m    *matrix
			}{{"q", l.q}, {"k", l.k}, {"v", l.v}, {"a", l.a}, {"b", l.b}, {"g", l.g}, {"o", l.o}} {
				matrixOf(prefix+"linear_attn."+m.name+"_proj", m.m)
			}
			add(prefix+"linear_attn.q_conv1d", l.qTap, l.qTap.out, 1, n.w)
			add(prefix+"linear_attn.k_conv1d", l.kTap, l.kTap.out, 1, n.w)
			add(prefix+"linear_attn.v_conv1d", l.vTap, l.vTap.out, 1, n.w)
			vector(prefix+"linear_attn.A_log", l.aLog)
			vector(prefix+"linear_attn.dt_bias", l.dtBias)
			vector(prefix+"linear_attn.o_norm", l.oNorm)
			vector(prefix+"attention_layer_norm", ones)
			vector(prefix+"feedforward_layer_norm", ones)
		case *attention:
			matrixOf(prefix+"self_attn.q_proj", l.q)
			matrixOf(prefix+"self_attn.k_proj", l.k)
			matrixOf(prefix+"self_attn.v_proj", l.v)
			matrixOf(prefix+"self_attn.o_proj", l.o)
			vector(prefix+"self_attn.q_norm", l.qNorm)
			vector(prefix+"self_attn.k_norm", l.kNorm)
			vector(prefix+"post_attention_layernorm", l.norm)
			vector(prefix+"post_feedforward_layernorm", ones)
		}
		matrixOf(prefix+"mlp.gate_proj", newMatrix(n.ff, n.d))
		matrixOf(prefix+"mlp.up_proj", newMatrix(n.ff, n.d))
		matrixOf(prefix+"mlp.down_proj", newMatrix(n.d, n.ff))
	}
	matrixOf("lm_head", n.head)
	for i := range out {
		if out[i].Name == "model.lm_head.weight" {
			out[i].Name = "lm_head.weight"
		}
	}
	return out, first
}

const (
	normEps = 1e-6 // of the norms over D
	outEps  = 1e-5 // of the norm after the delta rule
)

// peak is where SiLU has its minimum, at -peak, and the value 1, at peak: the
// one number serves for 1 and, with a slope of zero, for the least value.
const (
	peak = 1.2784645427610738
	dip  = peak - 1 // SiLU(-peak) = -dip
)

func silu(x float64) float64 { return x / (1 + math.Exp(-x)) }

// unsilu is the x above -peak with SiLU(x) = y, for y above -dip.
func unsilu(y float64) float64 {
	lo, hi := -peak, max(1, 2*y)+1
	for range 100 {
		if mid := (lo + hi) / 2; silu(mid) < y {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// half rounds to float16.
func half(x float64) float64 { return roundTo(x, 10) }

// roundTo keeps bits of the fraction, for x in float16's normal range.
func roundTo(x float64, bits int) float64 {
	if x == 0 {
		return 0
	}
	frac, exp := math.Frexp(x)
	return math.Ldexp(math.RoundToEven(math.Ldexp(frac, bits+1)), exp-bits-1)
}

// product finds two numbers of float16, the first in [1/2, 1), whose product is
// nearer to x than float16 could say it. The conversion keeps processors from
// fusing the multiplication, so that all find the same two.
func product(x float64) (a, b float64) {
	best := math.Inf(1)
	for i := range 1024 {
		c := 0.5 + float64(i)/2048
		if err := math.Abs(float64(c*half(x/c)) - x); err < best {
			best, a, b = err, c, half(x/c)
		}
	}
	return a, b
}

// level gives every word's embedding the square norm D by two numbers in the
// dimensions at and at+1, the second of which corrects the first's rounding. The
// first norm then divides by 1.
func (n *net) level(at int) {
	for w := range n.words {
		row := n.embed.x[w*n.d : (w+1)*n.d]
		left := float64(n.d)
		for _, x := range row {
			left -= half(x) * half(x)
		}
		coarse := half(math.Sqrt(left)) * (1 - 1.0/1024)
		row[at] = half(coarse)
		row[at+1] = math.Sqrt(left - row[at]*row[at])
	}
}

// shrink is what the norm over D does to an embedding after layers have added
// the square norm extra to it.
func (n *net) shrink(extra float64) float64 {
	return math.Sqrt(float64(n.d) / (float64(n.d) + extra))
}

// spoken is what the norm after the delta rule makes of one component 1 of a
// value whose square norm is sum, read with the query q from a state that holds
// it: the number that o_proj must divide by.
func (n *net) spoken(q, sum float64) float64 {
	s := q / math.Sqrt(float64(n.k))
	return s / math.Sqrt(s*s*sum/float64(n.v)+outEps)
}
