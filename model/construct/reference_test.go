package construct

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"testing"

	"shellgame/model/config"
	"shellgame/model/safetensors"
)

type float interface{ float32 | float64 }

// reference is the published forward pass, one loop over time and sums in T, for
// models without RoPE whose key and value heads are as many.
type reference[T float] struct {
	*config.Config
	w    map[string][]T
	rows map[string][][]element[T] // the matrices' elements that are not zero
}

type element[T float] struct {
	in int
	x  T
}

func load[T float](t testing.TB, files map[string][]byte) *reference[T] {
	t.Helper()
	c, err := config.Parse(files["config.json"])
	if err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(bytes.NewReader(files["model.safetensors"]), int64(len(files["model.safetensors"])))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Resolve(c, f); err != nil {
		t.Fatal(err)
	}
	if c.HK != c.HV || c.KVHeads != c.Heads {
		t.Fatalf("got %d key heads for %d value heads, %d for %d in attention: the reference wants equal numbers", c.HK, c.HV, c.KVHeads, c.Heads)
	}
	r := &reference[T]{c, map[string][]T{}, map[string][][]element[T]{}}
	for _, name := range f.Names() {
		x, err := f.ReadF32(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range x {
			r.w[name] = append(r.w[name], T(v))
		}
		if tensor, _ := f.Tensor(name); len(tensor.Shape) == 2 {
			rows := make([][]element[T], tensor.Shape[0])
			for i, v := range r.w[name] {
				if o := i / tensor.Shape[1]; v != 0 {
					rows[o] = append(rows[o], element[T]{i % tensor.Shape[1], v})
				}
			}
			r.rows[name] = rows
		}
	}
	return r
}

// linear is W x for W [out,in].
func (r *reference[T]) linear(name string, x []T) []T {
	y := make([]T, len(r.rows[name+".weight"]))
	for o, row := range r.rows[name+".weight"] {
		for _, e := range row {
			y[o] += e.x * x[e.in]
		}
	}
	return y
}

func rmsNorm[T float](x, w []T, eps T) []T {
	var sum T
	for _, v := range x {
		sum += v * v
	}
	scale := 1 / root(sum/T(len(x))+eps)
	y := make([]T, len(x))
	for i, v := range x {
		y[i] = v * scale * w[i]
	}
	return y
}

func addTo[T float](x, y []T) {
	for i := range x {
		x[i] += y[i]
	}
}

// hidden is the residual stream [T,D] before the final norm.
func (r *reference[T]) hidden(ids []int32) [][]T {
	xs := make([][]T, len(ids))
	for t, id := range ids {
		xs[t] = append([]T(nil), r.w["model.embed_tokens.weight"][int(id)*r.D:(int(id)+1)*r.D]...)
	}
	eps := T(r.RMSEps)
	for i, l := range r.Layers {
		p := fmt.Sprintf("model.layers.%d.", i)
		if l.Kind == config.GDN {
			in := make([][]T, len(xs))
			for t, x := range xs {
				in[t] = rmsNorm(x, r.w[p+"attention_layer_norm.weight"], eps)
			}
			for t, y := range r.gdn(p+"linear_attn.", in) {
				addTo(xs[t], y)
				addTo(xs[t], r.mlp(p, rmsNorm(xs[t], r.w[p+"feedforward_layer_norm.weight"], eps)))
			}
			continue
		}
		for t, y := range r.attention(p+"self_attn.", xs) {
			addTo(xs[t], rmsNorm(y, r.w[p+"post_attention_layernorm.weight"], eps))
			addTo(xs[t], rmsNorm(r.mlp(p, xs[t]), r.w[p+"post_feedforward_layernorm.weight"], eps))
		}
	}
	return xs
}

// logits are those after each of ids, [T,N].
func (r *reference[T]) logits(ids []int32) [][]T {
	xs := r.hidden(ids)
	for t, x := range xs {
		xs[t] = r.linear("lm_head", rmsNorm(x, r.w["model.norm.weight"], T(r.RMSEps)))
	}
	return xs
}

func (r *reference[T]) mlp(p string, x []T) []T {
	gate, up := r.linear(p+"mlp.gate_proj", x), r.linear(p+"mlp.up_proj", x)
	for i := range gate {
		gate[i] = T(silu(float64(gate[i]))) * up[i]
	}
	return r.linear(p+"mlp.down_proj", gate)
}

// conv is the causal depthwise convolution of xs [T,C] with w [C,1,W], then SiLU.
func (r *reference[T]) conv(xs [][]T, w []T) [][]T {
	out := make([][]T, len(xs))
	for t := range xs {
		out[t] = make([]T, len(xs[t]))
		for c := range out[t] {
			var sum T
			for i := range r.W {
				if s := t - (r.W - 1) + i; s >= 0 {
					sum += w[c*r.W+i] * xs[s][c]
				}
			}
			out[t][c] = T(silu(float64(sum)))
		}
	}
	return out
}

func l2[T float](x []T) []T {
	var sum T
	for _, v := range x {
		sum += v * v
	}
	y := make([]T, len(x))
	for i, v := range x {
		y[i] = v / root(sum+1e-6)
	}
	return y
}

// gdn is the gated delta rule: S <- exp(g) S; u = beta (v - S^T k);
// S <- S + k u^T; o = S^T q.
func (r *reference[T]) gdn(p string, xs [][]T) [][]T {
	var qkv [3][][]T
	for i, name := range []string{"q", "k", "v"} {
		in := make([][]T, len(xs))
		for t, x := range xs {
			in[t] = r.linear(p+name+"_proj", x)
		}
		qkv[i] = r.conv(in, r.w[p+name+"_conv1d.weight"])
	}
	states := make([][]T, r.HV) // [K,V] each
	for h := range states {
		states[h] = make([]T, r.K*r.V)
	}
	out := make([][]T, len(xs))
	for t, x := range xs {
		a, b, gate := r.linear(p+"a_proj", x), r.linear(p+"b_proj", x), r.linear(p+"g_proj", x)
		y := make([]T, 0, r.HV*r.V)
		for h, s := range states {
			q, k := l2(qkv[0][t][h*r.K:(h+1)*r.K]), l2(qkv[1][t][h*r.K:(h+1)*r.K])
			v := qkv[2][t][h*r.V : (h+1)*r.V]
			beta := T(1 / (1 + math.Exp(-float64(b[h]))))
			if r.NegEig {
				beta *= 2
			}
			z := float64(a[h] + r.w[p+"dt_bias"][h])
			softplus := max(z, 0) + math.Log1p(math.Exp(-math.Abs(z)))
			alpha := T(math.Exp(-math.Exp(float64(r.w[p+"A_log"][h])) * softplus))
			o := make([]T, r.V)
			for j := range r.V {
				u := v[j]
				for i := range r.K {
					s[i*r.V+j] *= alpha
					u -= s[i*r.V+j] * k[i]
				}
				for i := range r.K {
					s[i*r.V+j] += k[i] * beta * u
					o[j] += s[i*r.V+j] * q[i] / root(T(r.K))
				}
			}
			y = append(y, rmsNorm(o, r.w[p+"o_norm.weight"], T(r.ONormEps))...)
		}
		for i := range y {
			y[i] *= T(silu(float64(gate[i])))
		}
		out[t] = r.linear(p+"o_proj", y)
	}
	return out
}

// attention is causal softmax attention, norms over the whole q and k, no RoPE.
func (r *reference[T]) attention(p string, xs [][]T) [][]T {
	eps := T(r.RMSEps)
	ks, vs, out := make([][]T, len(xs)), make([][]T, len(xs)), make([][]T, len(xs))
	for t, x := range xs {
		q := rmsNorm(r.linear(p+"q_proj", x), r.w[p+"q_norm.weight"], eps)
		ks[t] = rmsNorm(r.linear(p+"k_proj", x), r.w[p+"k_norm.weight"], eps)
		vs[t] = r.linear(p+"v_proj", x)
		y := make([]T, len(q))
		for h := range r.Heads {
			from, to := h*r.HeadDim, (h+1)*r.HeadDim
			scores, most := make([]T, t+1), T(math.Inf(-1))
			for s := range scores {
				for i := from; i < to; i++ {
					scores[s] += q[i] * ks[s][i] / root(T(r.HeadDim))
				}
				most = max(most, scores[s])
			}
			var sum T
			for s := range scores {
				scores[s] = T(math.Exp(float64(scores[s] - most)))
				sum += scores[s]
			}
			for s, w := range scores {
				for i := from; i < to; i++ {
					y[i] += w / sum * vs[s][i]
				}
			}
		}
		out[t] = r.linear(p+"o_proj", y)
	}
	return out
}

func root[T float](x T) T { return T(math.Sqrt(float64(x))) }

// The reference itself, on a trained checkpoint with both kinds of layers and a
// golden file that others computed.
func TestReference(t *testing.T) {
	files := map[string][]byte{}
	for _, name := range []string{"config.json", "model.safetensors"} {
		raw, err := os.ReadFile("../../web/zoo/sbr-hybrid-neg/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = raw
	}
	raw, err := os.ReadFile("../../testdata/golden/zoo/sbr-hybrid-neg.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	golden, err := safetensors.Open(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	ids, err := golden.ReadI32("n8.input_ids")
	if err != nil {
		t.Fatal(err)
	}
	want, err := golden.ReadF32("n8.logits")
	if err != nil {
		t.Fatal(err)
	}
	r := load[float64](t, files)
	for _, c := range []struct {
		name  string
		negEi bool
		agree bool
	}{{"as published", true, true}, {"another recurrence", false, false}} {
		r.NegEig = c.negEi
		worst := 0.0
		for p, row := range r.logits(ids) {
			for i, x := range row {
				worst = max(worst, math.Abs(x-float64(want[p*r.N+i])))
			}
		}
		t.Logf("%s: largest difference of a logit %.1e", c.name, worst)
		if (worst < 1e-4) != c.agree {
			t.Errorf("%s: largest difference of a logit %.1e, want agreement within 1e-4: %t", c.name, worst, c.agree)
		}
	}
}
