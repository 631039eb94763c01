package model

import (
	"fmt"
	"math"

	"shellgame/model/config"
	"shellgame/shaders"
	"shellgame/webgpu"
)

// recorder writes the forward pass down as dispatches.
type recorder struct {
	r     *Runner
	f     form
	rec   *webgpu.Recording
	cfg   *config.Config
	layer string // prefix of names: "layers.3."
}

// record writes down the forward pass of one form. What the families of published models differ in is
// in the config: where norms stand, what they run over, and which gates there are.
func (r *Runner) record(f form) *program {
	name := r.Model.Name + " prefill"
	if f.step {
		name = r.Model.Name + " step"
	}
	c := &recorder{r: r, f: f, rec: &webgpu.Recording{Name: name}, cfg: r.Model.Config}
	d, eps := uint32(c.cfg.D), c.cfg.RMSEps
	embed := r.Model.w["embed"]
	for _, part := range embed.parts { // each takes over the rows that are its own
		c.op("embed", shaders.Embed, shaders.C{"W_KIND": embed.kind}, shaders.EmbedParams{D: d, Entries: uint32(part.rows), First: uint32(part.from)}, part.buf, c.buf("ids"), c.buf("x"))
	}
	for i, l := range c.cfg.Layers {
		c.layer = fmt.Sprintf("layers.%d.", i)
		c.keep(i)
		c.block(i, l)
	}
	c.layer = ""
	x, out := "x", uint32(1) // a row an output
	if !f.step {             // whose only token is its only output
		x = "out.x"
		c.op("outputs", shaders.Embed, shaders.C{"W_KIND": shaders.F32}, shaders.EmbedParams{D: d, Entries: uint32(r.Opts.Tokens), Rows: out}, c.buf("x"), c.buf("outs"), c.buf(x))
	}
	if f.trace == tracePrompt || !c.together("head", "head", joint{x: x, norm: shaders.NormRMS, scale: "norm", y: "logits", MatVecStepParams: shaders.MatVecStepParams{Rows: out}}) {
		c.op("norm", shaders.RMSNorm, nil, shaders.RMSNormParams{D: d, XStride: d, YStride: d, Rows: out, Eps: eps}, c.buf(x), c.weight("norm"), c.buf("out.h"))
		c.linear("head", "head", "out.h", "logits", shaders.MatMulParams{Rows: out})
	}
	top := shaders.TopKParams{N: uint32(c.cfg.N), K: uint32(r.Opts.TopK)}
	if f.goesOn {
		top.K = 1
	}
	if parts := c.buf("top.parts"); parts != nil {
		c.op("top.parts", shaders.TopKSplit, nil, top, c.buf("logits"), parts)
		c.op("top", shaders.TopKJoin, nil, top, parts, c.buf("top"))
	} else {
		c.op("top", shaders.TopK, nil, top, c.buf("logits"), c.buf("top"))
	}
	if f.goesOn {
		c.op("advance", shaders.Advance, nil, shaders.AdvanceParams{K: top.K, Most: MostContinued}, c.buf("top"), c.buf("ids"), c.buf("seqs"), c.buf("tops"))
	}

	p := &program{rec: c.rec, at: map[string]span{}}
	tokens := r.Opts.Tokens
	if f.step {
		tokens = 1
	}
	read := func(key, name string, words, stride int) {
		p.at[key] = span{c.rec.Read(c.buf(name), 0, 4*words, 4*stride), 4 * words}
	}
	if f.goesOn {
		read("tops", "tops", MostContinued*2, 0)
		return p
	}
	outs := min(tokens, r.Opts.Outs)
	read("top", "top", outs*r.Opts.TopK*2, 0)
	if f.all {
		read("logits", "logits", outs*c.cfg.N, 0)
	}
	if f.trace != traceNone {
		c.readTrace(tokens, read)
	}
	return p
}

func (c *recorder) readTrace(tokens int, read func(key, name string, words, stride int)) {
	r, cfg := c.r, c.cfg
	if c.f.trace == tracePrompt {
		read("out.h", "out.h", min(tokens, r.Opts.Outs)*cfg.D, 0)
	}
	for i, l := range cfg.Layers {
		if c.f.trace == traceGates {
			if l.Kind == config.GDN {
				read(c.r.names[i].gates, c.r.names[i].gates, tokens*2*cfg.HV, 0)
			}
			continue
		}
		if c.f.trace == tracePrompt {
			read(c.r.names[i].hidden, c.r.names[i].hidden, tokens*cfg.D, 0)
		}
		if l.Kind == config.GDN {
			read(c.r.names[i].qkv, c.r.names[i].qkv, tokens*cfg.C(), 0)
			read(c.r.names[i].gates, c.r.names[i].gates, tokens*2*cfg.HV, 0)
			if c.f.trace == traceStep {
				read(c.r.names[i].o, c.r.names[i].o, tokens*cfg.HV*cfg.V, 0)
			}
			state := cfg.HV * cfg.K * cfg.V
			read(c.r.names[i].state, c.r.names[i].state, state, state)
			if tail := (cfg.W - 1) * cfg.C(); tail > 0 && c.f.trace == tracePrompt {
				read(c.r.names[i].tail, c.r.names[i].tail, tail, tail)
			}
			continue
		}
		read(c.r.names[i].qk, c.r.names[i].qk, tokens*(cfg.Heads+cfg.KVHeads)*cfg.HeadDim, 0)
		read(c.r.names[i].probs, c.r.names[i].probs, tokens*cfg.Heads*r.Opts.Positions, 0)
	}
}

func (c *recorder) buf(name string) webgpu.Buffer { return c.r.bufs[name] }

func (c *recorder) weight(role string) webgpu.Buffer { return c.r.Model.w[role].parts[0].buf }

func (c *recorder) op(name string, k *shaders.Kernel, consts shaders.C, params any, bufs ...webgpu.Buffer) {
	c.rec.Dispatch(c.layer+name, k, consts, params, bufs...)
}

// keep copies what enters a layer, for a [Prompt].
func (c *recorder) keep(layer int) {
	if c.f.trace == tracePrompt {
		c.op("hidden", shaders.Copy, nil, shaders.CopyParams{D: uint32(c.cfg.D)}, c.buf("x"), c.buf(c.r.names[layer].hidden))
	}
}

// linear multiplies x by a weight: y = x·wᵀ, or with Add y += that. D, N and absent strides follow
// from the weight.
func (c *recorder) linear(name, role, x, y string, p shaders.MatMulParams) {
	if p.XStride == 0 && c.together(name, role, joint{x: x, y: y, MatVecStepParams: shaders.MatVecStepParams{D: p.D, Rows: p.Rows, Add: p.Add}}) {
		return
	}
	w := c.r.Model.w[role]
	if p.D == 0 {
		p.D = uint32(c.cfg.D)
	}
	if p.XStride == 0 {
		p.XStride = p.D
	}
	if p.YStride == 0 {
		p.YStride = uint32(w.rows)
	}
	for _, part := range w.parts { // each makes some columns
		p.N, p.YCol = uint32(part.rows), uint32(part.from)
		k := shaders.MatMul
		switch {
		case c.f.few && c.r.software:
			k = shaders.MatVecRow
		case c.f.few && p.D >= 512 && p.WideRow():
			k = shaders.MatVecWide
		case c.f.few:
			k = shaders.MatVec
		case c.r.wide && p.Wide():
			k = shaders.MatMulWide
		}
		c.op(name, k, shaders.C{"W_KIND": w.kind}, p, c.buf(x), part.buf, c.buf(y))
	}
}

// joint is a product together with what stands before and behind it: a norm of x with the weight scale,
// with the gates of that buffer, and SwiGLU. Lengths and strides that are left out follow from the weight.
type joint struct {
	x, y        string
	norm        uint32 // a norm of [shaders.MatVecStep]
	scale, gate string // the norm's weight; the buffer of the gates
	glu         uint32
	shaders.MatVecStepParams
}

// together records a product and what belongs to it as one dispatch, and reports whether it did. On a GPU
// a dispatch of a step costs more than its sums. Many tokens, shapes that the kernel does not take, and
// adapters that compute on a CPU, where a norm formed in every workgroup costs more than a dispatch, are
// for the kernels one by one.
func (c *recorder) together(name, role string, j joint) bool {
	w, p := c.r.Model.w[role], j.MatVecStepParams
	p.YStride = uint32(w.rows) / (1 + j.glu)
	if p.D == 0 {
		p.D = uint32(c.cfg.D)
	}
	p.XStride = p.D
	if p.Eps == 0 {
		p.Eps = c.cfg.RMSEps
	}
	if !c.f.few || c.r.software || len(w.parts) > 1 && j.glu == 1 || !p.OK(w.kind, j.norm) {
		return false
	}
	x := c.buf(j.x)
	scale, gate := x, x // what a form does not read
	if j.scale != "" {
		scale = c.weight(j.scale)
	}
	if j.gate != "" {
		gate = c.buf(j.gate)
	}
	for _, part := range w.parts {
		p.N, p.YCol = uint32(part.rows), uint32(part.from)
		c.op(name, shaders.MatVecStep, p.Consts(w.kind, j.norm, j.glu), p, x, scale, gate, part.buf, c.buf(j.y))
	}
	return true
}

// normed records y = norm(x)·wᵀ with the layer's RMS norm of that name, or without one if it is "".
func (c *recorder) normed(norm, name, x, y string) {
	if norm != "" {
		if c.together(name, c.layer+name, joint{x: x, norm: shaders.NormRMS, scale: c.layer + norm, y: y}) {
			return
		}
		c.norm(norm, norm, x, "h", 0)
		x = "h"
	}
	c.linear(name, c.layer+name, x, y, shaders.MatMulParams{})
}

func (c *recorder) norm(name, role, x, y string, add uint32) {
	d := uint32(c.cfg.D)
	c.op(name, shaders.RMSNorm, nil, shaders.RMSNormParams{D: d, XStride: d, YStride: d, Eps: c.cfg.RMSEps, Add: add}, c.buf(x), c.weight(c.layer+role), c.buf(y))
}

// block is one layer: x += mixer(x), x += mlp(x), with norms before or after both.
func (c *recorder) block(i int, l config.Layer) {
	mix := c.attentionLayer
	if l.Kind == config.GDN {
		mix = c.gdnLayer
	}
	if l.PreNorm {
		mix(i, l, "norm_a", "x", 1)
		c.mlp("norm_m", "x", 1)
		return
	}
	mix(i, l, "", "y", 0)
	if !c.r.Opts.Switches.layerOff(i) {
		c.norm("norm_a", "norm_a", "y", "x", 1)
	}
	c.mlp("", "y", 0)
	c.norm("norm_m", "norm_m", "y", "x", 1)
}

// gdnLayer mixes tokens by the gated delta rule: y = gdn(norm(x)), or with add y += that; neither of a
// layer that is off.
func (c *recorder) gdnLayer(i int, _ config.Layer, norm, y string, add uint32) {
	r := c.r
	n := r.names[i]
	c.normed(norm, "gdn.in", "x", "gdn.in")
	if !c.gdnToken(n) {
		c.gdnInputs(n)
		c.deltaRule(n.qkv, n.gates, n.state, n.o)
	}
	if r.Opts.Switches.layerOff(i) {
		return
	}
	cfg := c.cfg
	values := uint32(cfg.HV * cfg.V)
	p := shaders.GatedNormParams{H: uint32(cfg.HV), V: uint32(cfg.V), GateStride: uint32(r.gdnIn()), GateCol: uint32(cfg.C() + 2*cfg.HV), Eps: cfg.ONormEps}
	if off(r.Opts.Switches.Gate) {
		p.NoGate = 1
	}
	if !c.masked(i) && c.together("gdn.out", c.layer+"gdn.out", joint{x: n.o, norm: shaders.NormGated, scale: c.layer + "gdn.o_norm", gate: "gdn.in", y: y, MatVecStepParams: shaders.MatVecStepParams{
		D: values, V: p.V, GateStride: p.GateStride, GateCol: p.GateCol, NoGate: p.NoGate, Eps: p.Eps, Add: add,
	}}) {
		return
	}
	c.op("gdn.o_norm", shaders.GatedNorm, nil, p, c.buf("gdn.in"), c.weight(c.layer+"gdn.o_norm"), c.buf(n.o), c.buf("gdn.y"))
	c.maskHeads("gdn.heads", i, cfg.V, "gdn.y")
	c.linear("gdn.out", c.layer+"gdn.out", "gdn.y", y, shaders.MatMulParams{D: values, Add: add})
}

// gdnToken makes of a GDN layer's projection what its delta rule gives, in one dispatch, and reports
// whether it did: it takes a token that reads one slot and writes another, and leaves nothing for a trace.
func (c *recorder) gdnToken(n layerNames) bool {
	p := c.gdnParams()
	if !c.f.apart || c.r.software || c.r.Opts.Switches.Store != "" || !p.OK() {
		return false
	}
	c.op("gdn.token", shaders.GDNToken, p.TokenConsts(), p, c.buf("gdn.in"), c.taps(), c.weight(c.layer+"gdn.rates"), c.buf("seqs"), c.buf(n.tail), c.buf(n.state), c.buf(n.o))
	return true
}

// gdnInputs makes of a GDN layer's projection what the delta rule reads: q, k and v after the
// convolution, q and k of unit length, and the gates; and it keeps the tail.
func (c *recorder) gdnInputs(n layerNames) {
	p, taps, rates := c.gdnParams(), c.taps(), c.weight(c.layer+"gdn.rates")
	if c.f.few && p.OK() {
		c.op("gdn.inputs", shaders.GDNInputs, p.Consts(c.r.software), p, c.buf("gdn.in"), taps, rates, c.buf("seqs"), c.buf(n.tail), c.buf(n.qkv), c.buf(n.gates))
		return
	}
	gates := shaders.GatesParams{H: p.HV, XStride: p.XStride, ACol: p.ACol, BCol: p.BCol, BetaScale: p.BetaScale, BetaMax: p.BetaMax, NoDecay: p.NoDecay}
	unit := shaders.L2NormParams{Heads: p.HK, K: p.K, Stride: uint32(c.cfg.C()), QScale: p.QScale}
	conv := c.conv()
	c.op("gdn.conv", shaders.Conv, nil, conv, c.buf("gdn.in"), taps, c.buf(n.tail), c.buf("seqs"), c.buf("token_seq"), c.buf(n.qkv))
	c.op("gdn.tail", shaders.ConvTail, nil, conv, c.buf("gdn.in"), c.buf("seqs"), c.buf(n.tail))
	c.op("gdn.gates", shaders.Gates, nil, gates, c.buf("gdn.in"), rates, c.buf(n.gates))
	c.op("gdn.l2norm", shaders.L2Norm, nil, unit, c.buf(n.qkv))
}

func (c *recorder) conv() shaders.ConvParams {
	return shaders.ConvParams{C: uint32(c.cfg.C()), W: uint32(c.cfg.W), XStride: uint32(c.r.gdnIn())}
}

// taps are the convolution's weights.
func (c *recorder) taps() webgpu.Buffer {
	if off(c.r.Opts.Switches.Conv) {
		return c.buf("conv.off")
	}
	return c.weight(c.layer + "gdn.conv")
}

// gdnParams are the sizes of a GDN layer's projection, and how beta and the decay are formed.
func (c *recorder) gdnParams() shaders.GDNInputsParams {
	cfg, s := c.cfg, c.r.Opts.Switches
	p := shaders.GDNInputsParams{
		HK: uint32(cfg.HK), K: uint32(cfg.K), HV: uint32(cfg.HV), V: uint32(cfg.V), W: uint32(cfg.W),
		XStride: uint32(c.r.gdnIn()), ACol: uint32(cfg.C()), BCol: uint32(cfg.C() + cfg.HV),
		QScale: float32(1 / math.Sqrt(float64(cfg.K))), BetaScale: 1,
	}
	if cfg.NegEig && s.Beta != "sigmoid" {
		p.BetaScale = 2
	}
	if s.Beta == "clamp" {
		p.BetaMax = 1
	}
	if off(s.Decay) {
		p.NoDecay = 1
	}
	return p
}

// masked reports whether heads of layer i are off.
func (c *recorder) masked(i int) bool { return c.r.Opts.Switches.mask(i) != [4]uint32{} }

// maskHeads sets the heads of layer i that are off to zero in x [T, heads, d].
func (c *recorder) maskHeads(name string, i, d int, x string) {
	if m := c.r.Opts.Switches.mask(i); c.masked(i) {
		c.op(name, shaders.HeadMask, nil, shaders.HeadMaskParams{Off0: m[0], Off1: m[1], Off2: m[2], Off3: m[3], H: uint32(mixed(c.cfg, i)), D: uint32(d)}, c.buf(x))
	}
}

// mlp is the SwiGLU block: y = down(silu(gate(x)) · up(x)) with x normalised unless norm is "", or with
// add y += that.
func (c *recorder) mlp(norm, y string, add uint32) {
	d, f, in, x := uint32(c.cfg.D), uint32(c.cfg.FF), c.layer+"mlp.in", "x"
	whole := joint{x: x, glu: 1, y: "mlp.act"}
	if norm != "" {
		whole.norm, whole.scale = shaders.NormRMS, c.layer+norm
	}
	if !c.together("mlp.in", in, whole) {
		if norm != "" {
			c.norm(norm, norm, x, "h", 0)
			x = "h"
		}
		if w := c.r.Model.w[in]; c.f.few && c.r.software && w.kind <= shaders.BF16 && len(w.parts) == 1 {
			c.op("mlp.in", shaders.MatVecRow, shaders.C{"W_KIND": w.kind, "GLU": 1}, shaders.MatMulParams{D: d, N: f, XStride: d, YStride: f}, c.buf(x), c.weight(in), c.buf("mlp.act"))
		} else {
			c.linear("mlp.in", in, x, "mlp.in", shaders.MatMulParams{})
			c.op("mlp.act", shaders.SwiGLU, nil, shaders.SwiGLUParams{F: f}, c.buf("mlp.in"), c.buf("mlp.act"))
		}
	}
	c.linear("mlp.out", c.layer+"mlp.out", "mlp.act", y, shaders.MatMulParams{D: f, Add: add})
}

// attentionLayer mixes tokens by softmax attention: y = attention(norm(x)), or with add y += that;
// neither of a layer that is off.
func (c *recorder) attentionLayer(i int, l config.Layer, before, y string, add uint32) {
	cfg, r := c.cfg, c.r
	q, kv := uint32(cfg.Heads*cfg.HeadDim), uint32(cfg.KVHeads*cfg.HeadDim)
	in := uint32(r.attnIn())
	c.normed(before, "attn.in", "x", "attn.in")
	if !c.attnToken(l, r.names[i]) {
		c.attentionInputs(l, r.names[i])
		c.attention(i, l, r.names[i].qk)
	}
	if r.Opts.Switches.layerOff(i) {
		return
	}
	c.maskHeads("attn.heads", i, cfg.HeadDim, "attn.o")
	if cfg.AttnGate {
		gate := shaders.SigmoidGateParams{D: q, GateStride: in, GateCol: q + 2*kv}
		if c.together("attn.out", c.layer+"attn.out", joint{x: "attn.o", norm: shaders.NormSigmoid, gate: "attn.in", y: y, MatVecStepParams: shaders.MatVecStepParams{
			D: q, GateStride: gate.GateStride, GateCol: gate.GateCol, Add: add,
		}}) {
			return
		}
		c.op("attn.gate", shaders.SigmoidGate, nil, gate, c.buf("attn.in"), c.buf("attn.o"))
	}
	c.linear("attn.out", c.layer+"attn.out", "attn.o", y, shaders.MatMulParams{D: q, Add: add})
}

// attnToken makes of an attention layer's projection what its attention gives, in one dispatch, and reports
// whether it did: it takes a token that sees few keys, and leaves nothing for a trace.
func (c *recorder) attnToken(l config.Layer, n layerNames) bool {
	cfg, r := c.cfg, c.r
	if !c.f.goesOn || !c.f.near || cfg.HeadDim > shaders.MostTokenHead {
		return false
	}
	norms := c.weight(c.layer + "attn.norms")
	p := shaders.AttnTokenParams{
		H: uint32(cfg.Heads), KVH: uint32(cfg.KVHeads), XStride: uint32(r.attnIn()), Positions: uint32(r.Opts.Positions),
		Eps: cfg.RMSEps, Each: c.each(), Window: uint32(l.Window), Scale: c.scale(),
	}
	table := norms // not read
	if l.Rope != nil {
		p.Rot, table = uint32(l.Rope.Dim), c.buf(r.ropes[l.Rope])
	}
	c.op("attn.token", shaders.AttnToken, shaders.C{"HD": uint32(cfg.HeadDim)}, p, c.buf("attn.in"), norms, table, c.buf("rows"), c.buf("seqs"), c.buf(n.kCache), c.buf(n.vCache), c.buf("attn.o"))
	return true
}

// each is 1 where q and k are normalised head by head.
func (c *recorder) each() uint32 {
	if c.cfg.HeadNorm {
		return 1
	}
	return 0
}

// scale is the factor on attention's scores.
func (c *recorder) scale() float32 { return float32(1 / math.Sqrt(float64(c.cfg.HeadDim))) }

// attentionInputs makes of an attention layer's projection what the attention reads: q and k, normalised
// and rotated, and the keys and values in the cache.
func (c *recorder) attentionInputs(l config.Layer, n layerNames) {
	cfg, r := c.cfg, c.r
	h, kvh, hd, in := uint32(cfg.Heads), uint32(cfg.KVHeads), uint32(cfg.HeadDim), uint32(r.attnIn())
	norms, rows, seqs := c.weight(c.layer+"attn.norms"), c.buf("rows"), c.buf("seqs")
	qk, k, v := c.buf(n.qk), c.buf(n.kCache), c.buf(n.vCache)
	var rot uint32
	table := norms // not read
	if l.Rope != nil {
		rot, table = uint32(l.Rope.Dim), c.buf(r.ropes[l.Rope])
	}
	if c.f.few {
		p := shaders.AttnInputsParams{H: h, KVH: kvh, HD: hd, Rot: rot, XStride: in, Positions: uint32(r.Opts.Positions), Eps: cfg.RMSEps, Each: c.each()}
		var small shaders.C
		if r.software {
			small = shaders.C{"RED_WG": 16}
		}
		c.op("attn.inputs", shaders.AttnInputs, small, p, c.buf("attn.in"), norms, table, rows, seqs, qk, k, v)
		return
	}
	weights := uint32(0) // of k's norm, behind q's
	norm := func(name string, heads, at uint32) {
		p := shaders.RMSNormParams{D: heads * hd, XStride: in, XCol: at, YStride: (h + kvh) * hd, YCol: at, WCol: weights, Eps: cfg.RMSEps}
		if cfg.HeadNorm {
			p.D, p.Heads = hd, heads
		}
		weights += p.D
		c.op(name, shaders.RMSNorm, nil, p, c.buf("attn.in"), norms, qk)
	}
	norm("attn.q_norm", h, 0)
	norm("attn.k_norm", kvh, h*hd)
	of := c.buf("token_seq")
	if rot > 0 {
		c.op("attn.rope", shaders.RoPE, nil, shaders.RoPEParams{Heads: h + kvh, HD: hd, Rot: rot, Stride: (h + kvh) * hd, Positions: uint32(r.Opts.Positions)}, table, seqs, of, qk)
	}
	c.op("attn.kv", shaders.KVWrite, nil, shaders.KVWriteParams{D: kvh * hd, KStride: (h + kvh) * hd, KCol: h * hd, VStride: in, VCol: (h + kvh) * hd},
		qk, c.buf("attn.in"), rows, seqs, of, k, v)
}

// deltaRule runs the gated delta rule over normalised q, k, v and the gates, from each session's
// state to its next, and into o.
func (c *recorder) deltaRule(qkv, gates, state, o string) {
	cfg := c.cfg
	consts := shaders.C{"K": uint32(cfg.K), "V": uint32(cfg.V)}
	p := shaders.GDNParams{HK: uint32(cfg.HK), HV: uint32(cfg.HV), Stride: uint32(cfg.C())}
	if c.f.chunk {
		u, w, attn := c.buf("chunk.u"), c.buf("chunk.w"), c.buf("chunk.attn")
		wy, chunk := shaders.GDNWY, shaders.GDNChunk
		if shaders.GDNWide(p, cfg.K, cfg.V) {
			wy, chunk = shaders.GDNWYWide, shaders.GDNChunkWide
		}
		c.op("gdn.wy", wy, consts, p, c.buf(qkv), c.buf(gates), c.buf("chunks"), u, w, attn)
		c.op("gdn.chunk", chunk, consts, p, c.buf(qkv), u, w, attn, c.buf("seqs"), c.buf(state), c.buf(o))
		return
	}
	if kind := stores[c.r.Opts.Switches.Store]; kind != shaders.F32 {
		consts["STORE"] = kind
	}
	kernel := shaders.GDNStep
	if c.r.software && (c.f.few || c.r.dev.Info().Kind == "browser") {
		kernel = shaders.GDNColumn
	}
	c.op("gdn.step", kernel, consts, p, c.buf(qkv), c.buf(gates), c.buf("seqs"), c.buf(state), c.buf(o))
}

// recordMove writes down a play of one sequence without tokens, which leaves its states and tails as
// they are in its output slot.
func (r *Runner) recordMove() *program {
	c := &recorder{r: r, f: form{few: true, move: true}, rec: &webgpu.Recording{Name: r.Model.Name + " move"}, cfg: r.Model.Config}
	for i, l := range c.cfg.Layers {
		if n := r.names[i]; l.Kind == config.GDN {
			c.layer = fmt.Sprintf("layers.%d.", i)
			c.op("gdn.tail", shaders.ConvTail, nil, c.conv(), c.buf("gdn.in"), c.buf("seqs"), c.buf(n.tail))
			c.deltaRule(n.qkv, n.gates, n.state, n.o)
		}
	}
	return &program{rec: c.rec}
}

// recordState reads back a layer's state in the slot of the step.
func (r *Runner) recordState(layer int) *program {
	p := &program{rec: &webgpu.Recording{Name: r.Model.Name + " state"}, at: map[string]span{}}
	size := 4 * r.stateSize()
	p.rec.Read(r.bufs[r.names[layer].state], 0, size, size)
	return p
}

// attention attends over the cache.
func (c *recorder) attention(i int, l config.Layer, qk string) {
	cfg, n := c.cfg, c.r.names[i]
	q, kv := uint32(cfg.Heads*cfg.HeadDim), uint32(cfg.KVHeads*cfg.HeadDim)
	rows, seqs, of := c.buf("rows"), c.buf("seqs"), c.buf("token_seq")
	k, v := c.buf(n.kCache), c.buf(n.vCache)
	consts := shaders.C{"HD": uint32(cfg.HeadDim)}
	p := shaders.AttentionParams{H: uint32(cfg.Heads), KVH: uint32(cfg.KVHeads), QStride: q + kv, Window: uint32(l.Window), ProbsStride: uint32(c.r.Opts.Positions), Scale: c.scale()}
	switch {
	case c.f.far:
		c.op("attn.spans", shaders.AttentionSplit, consts, p, c.buf(qk), k, v, rows, seqs, of, c.buf("attn.parts"))
		c.op("attn.softmax", shaders.AttentionJoin, consts, p, c.buf("attn.parts"), c.buf("attn.o"))
	case c.f.near:
		c.op("attn.softmax", shaders.AttentionSplit, shaders.C{"HD": uint32(cfg.HeadDim), "ONE": 1}, p, c.buf(qk), k, v, rows, seqs, of, c.buf("attn.o"))
	case c.f.few:
		c.op("attn.softmax", shaders.AttentionDecode, consts, p, c.buf(qk), k, v, rows, seqs, of, c.buf("attn.o"))
	default:
		c.op("attn.softmax", shaders.Attention, consts, p, c.buf(qk), k, v, rows, seqs, of, c.buf("attn.o"))
	}
	if c.f.trace.probs() {
		c.op("attn.probs", shaders.AttentionProbs, consts, p, c.buf(qk), k, rows, seqs, of, c.buf(n.probs))
	}
}
