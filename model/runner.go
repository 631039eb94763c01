package model

import (
	"context"
	"fmt"
	"math"
	"slices"

	"shellgame/model/config"
	"shellgame/shaders"
	"shellgame/webgpu"
)

// Options size a [Runner]. Zero values take the defaults.
type Options struct {
	Tokens    int // packed tokens in one play; default 512
	Seqs      int // sequences in one play; default 16
	Positions int // longest session, in tokens; default the smaller of the model's own limit and 1024
	Slots     int // state slots: one a session that has read something; default Seqs + 4
	Rows      int // rows of the KV cache, shared by all sessions; default Positions + Tokens
	TopK      int // most probable tokens found for each output; default 8
	Outs      int // outputs in one play; default Tokens, or as many as have 64 MiB of logits
	Trace     bool
	// ChunkFrom is the length of a sequence from which the chunked delta rule is planned; default
	// what is the faster on the device, which on a CPU it never is.
	ChunkFrom int
	Switches  Switches // what is changed in the forward pass
}

// Runner owns what a model needs to run besides its weights: activations, state slots, the KV
// cache, and the prepared recordings. Its sessions share these.
type Runner struct {
	Model *Model
	Opts  Options

	dev      webgpu.Device
	software bool // a GPU interface that computes on a CPU, where barriers are dear
	wide     bool // large tiles pay
	bufs     map[string]webgpu.Buffer
	names    []layerNames
	progs    map[form]*program
	ropes    map[*config.Rope]string // buffer of each table

	slotRefs []int
	freeRows []uint32
	rowRefs  []int
	freeMaps []int // first words of unused row maps, each Positions long

	seqs     []shaders.Seq
	tokenSeq []uint32
	ids      []uint32
	outs     []uint32
	chunks   []uint32
	mapped   []mapping
	joined   []uint32
	written  bool // token_seq of a single token is on the device
}

// form is which recording a play uses.
type form struct {
	step  bool // one token of one session
	few   bool // so few tokens that the kernels of a step are the faster ones
	near  bool // and they see so few keys that a workgroup takes all of a head's
	far   bool // or so many that attention is split over spans of them
	chunk bool // chunked delta rule rather than the token loop
	trace traceKind
	all   bool // logits are read back, not only the top
	// goesOn: each pass reads what the one before found most probable. Its sequences read one slot and
	// write another if apart.
	goesOn, apart bool

	move  bool // no pass at all: a session's slot is copied to another
	state int  // no pass at all: the state of this layer, counted from 1, is read back
}

// traceKind is how much of a play is read back besides the outputs.
type traceKind uint8

const (
	traceNone   traceKind = iota
	traceStep             // what [Step] holds
	tracePrompt           // what [Prompt] holds
	traceGates            // what [Session.ReadGates] returns
)

// probs reports whether the softmax's rows are formed.
func (k traceKind) probs() bool { return k == traceStep || k == tracePrompt }

type program struct {
	webgpu.Program
	rec *webgpu.Recording
	at  map[string]span
}

// span is where a read-back lies in what a play returns, in bytes.
type span struct{ at, size int }

// NewRunner makes the buffers of a runner. It fails when they do not fit the device, or the switches
// not the model.
func (m *Model) NewRunner(o Options) (*Runner, error) {
	if err := o.Switches.Check(m.Config); err != nil {
		return nil, err
	}
	if k := m.Config.K; k > shaders.MaxK {
		return nil, fmt.Errorf("model: running %s: linear_key_head_dim: got %d, want at most %d: a head's keys must fit a workgroup's memory", m.Name, k, shaders.MaxK)
	}
	set := func(v *int, def int) {
		if *v <= 0 {
			*v = def
		}
	}
	limit := m.Config.MaxPos
	if limit <= 0 {
		limit = 1024
	}
	set(&o.Tokens, 512)
	set(&o.Seqs, 16)
	set(&o.Positions, min(limit, 1024))
	set(&o.Slots, o.Seqs+4)
	set(&o.Rows, o.Positions+o.Tokens)
	set(&o.TopK, 8)
	info := m.dev.Info()
	software := info.Software && info.Kind != "cpu"
	if software || info.Kind == "cpu" {
		set(&o.ChunkFrom, math.MaxInt)
	}
	if info.Kind == "browser" {
		set(&o.ChunkFrom, shaders.ChunkFromBrowser)
	}
	set(&o.ChunkFrom, shaders.ChunkFrom)
	o.TopK = min(o.TopK, m.Config.N)
	set(&o.Outs, max(min(o.Tokens, logitBytes/(4*m.Config.N)), min(o.Seqs, o.Tokens)))
	r := &Runner{Model: m, Opts: o, dev: m.dev, software: software, wide: !software || info.Kind != "browser" && o.Tokens > 64, bufs: map[string]webgpu.Buffer{}, progs: map[form]*program{}, ropes: map[*config.Rope]string{}, slotRefs: make([]int, o.Slots), rowRefs: make([]int, o.Rows)}
	if err := r.makeBuffers(); err != nil {
		r.Release()
		return nil, err
	}
	for i := o.Rows - 1; i >= 0; i-- {
		r.freeRows = append(r.freeRows, uint32(i))
	}
	for i := r.maps() - 1; i >= 0; i-- {
		r.freeMaps = append(r.freeMaps, i*o.Positions)
	}
	return r, nil
}

// logitBytes is what the logits of a play may take where nobody says how many outputs there are.
const logitBytes = 64 << 20

// maps is how many row maps there are: one a state slot.
func (r *Runner) maps() int { return r.Opts.Slots }

// need is how many words each buffer of the runner has.
func (r *Runner) need() map[string]int {
	c, o := r.Model.Config, r.Opts
	t, b := o.Tokens, o.Seqs
	need := map[string]int{ // words
		"ids": t, "token_seq": t, "seqs": b * shaders.SeqWords, "outs": t,
		"x": t * c.D, "h": t * c.D, "y": t * c.D,
		"mlp.in": t * 2 * c.FF, "mlp.act": t * c.FF,
		"out.x": o.Outs * c.D, "out.h": o.Outs * c.D, "logits": o.Outs * c.N, "top": o.Outs * o.TopK * 2, "tops": MostContinued * 2,
	}
	if c.N > 2*shaders.TopKPart {
		need["top.parts"] = shaders.TopKParts(o.Outs, c.N, o.TopK)
	}
	hasGDN, hasAttention := false, false
	for i, l := range c.Layers {
		n := r.nameLayer(i)
		r.names = append(r.names, n)
		if l.Kind == config.GDN {
			hasGDN = true
			need[n.state] = o.Slots * c.HV * c.K * c.V
			need[n.tail] = max(o.Slots*(c.W-1)*c.C(), 1)
			need[n.qkv] = t * c.C()
			need[n.gates] = t * 2 * c.HV
			need[n.o] = t * c.HV * c.V
		} else {
			hasAttention = true
			row := c.KVHeads * c.HeadDim
			need[n.kCache] = o.Rows * row
			need[n.vCache] = o.Rows * row
			need[n.qk] = t * (c.Heads + c.KVHeads) * c.HeadDim
			if o.Trace {
				need[n.probs] = t * c.Heads * o.Positions
			}
			if l.Rope != nil && r.ropes[l.Rope] == "" {
				r.ropes[l.Rope] = fmt.Sprintf("rope.%d", len(r.ropes))
				need[r.ropes[l.Rope]] = o.Positions * l.Rope.Dim
			}
		}
		if o.Trace {
			need[n.hidden] = t * c.D
		}
	}
	if hasGDN {
		need["gdn.in"] = t * r.gdnIn()
		need["gdn.y"] = t * c.HV * c.V
		if off(o.Switches.Conv) {
			need["conv.off"] = c.C() * c.W
		}
		need["chunks"] = 4 * shaders.MaxChunks(t, b)
		if r.chunkOK() {
			need["chunk.u"], need["chunk.w"], need["chunk.attn"] = shaders.ChunkScratch(shaders.MaxChunks(t, b), c.HV, c.K, c.V)
		}
	}
	if hasAttention {
		need["attn.in"] = t * r.attnIn()
		need["attn.o"] = t * c.Heads * c.HeadDim
		need["rows"] = r.maps() * o.Positions
		if c.HeadDim%4 == 0 && o.Positions > shaders.AttentionSpan {
			need["attn.parts"] = shaders.AttentionParts(fewTokens, c.Heads, c.HeadDim, o.Positions)
		}
	}
	return need
}

// fits says which of the buffers that a runner needs is larger than the device takes.
func fits(need map[string]int, l webgpu.Limits) error {
	for name, words := range need {
		if most := min(l.MaxBuffer, l.MaxBinding); 4*words > most {
			return fmt.Errorf("running it needs %s for %s, the device takes at most %s at a time: read fewer tokens at once, or shorter texts: %w", size(4*words), name, size(most), webgpu.ErrOutOfMemory)
		}
	}
	return nil
}

// runBytes is what a runner needs at least: one that reads a text of 512 tokens, a few at a time.
func runBytes(cfg *config.Config, l webgpu.Limits) (int64, error) {
	o := Options{Tokens: 16, Seqs: 1, Slots: 2, TopK: 8, Outs: 1, Positions: 512}
	if cfg.MaxPos > 0 {
		o.Positions = min(o.Positions, cfg.MaxPos)
	}
	o.Rows = o.Positions + o.Tokens
	r := &Runner{Model: &Model{Config: cfg}, Opts: o, ropes: map[*config.Rope]string{}}
	need := r.need()
	var n int64
	for _, words := range need {
		n += 4 * int64(words)
	}
	return n, fits(need, l)
}

func (r *Runner) makeBuffers() error {
	c := r.Model.Config
	need := r.need()
	if err := fits(need, r.dev.Info().Limits); err != nil {
		return fmt.Errorf("model: running %s: %w", r.Model.Name, err)
	}
	for name, words := range need {
		buf, err := r.dev.NewBuffer(r.Model.Name+" "+name, 4*words)
		if err != nil {
			return fmt.Errorf("model: running %s: %w", r.Model.Name, err)
		}
		r.bufs[name] = buf
	}
	o := r.Opts
	if b := r.bufs["conv.off"]; b != nil {
		taps := make([]float32, c.C()*c.W)
		for i := range c.C() {
			taps[(i+1)*c.W-1] = 1
		}
		if err := r.dev.Write(b, 0, byteView(wordsOf(taps))); err != nil {
			return err
		}
	}
	for rope, name := range r.ropes {
		if err := r.dev.Write(r.bufs[name], 0, byteView(wordsOf(ropeTable(rope, o.Positions)))); err != nil {
			return err
		}
	}
	return nil
}

// gdnIn is the number of columns of a GDN layer's fused input: q, k, v, a, b, g.
func (r *Runner) gdnIn() int {
	c := r.Model.Config
	return c.C() + 2*c.HV + c.HV*c.V
}

// attnIn is the number of columns of an attention layer's fused input: q, k, v and, where there is
// one, the output gate.
func (r *Runner) attnIn() int {
	c := r.Model.Config
	n := c.Heads + 2*c.KVHeads
	if c.AttnGate {
		n += c.Heads
	}
	return n * c.HeadDim
}

// layerNames are a layer's buffers.
type layerNames struct {
	state, tail, kCache, vCache      string
	qkv, gates, o, qk, probs, hidden string
}

// nameLayer names a layer's buffers. Activations that traces read are each layer's own; without
// traces all layers share them.
func (r *Runner) nameLayer(i int) layerNames {
	own := func(name string) string { return fmt.Sprintf("%s.%d", name, i) }
	shared := func(name string) string {
		if r.Opts.Trace {
			return own(name)
		}
		return name
	}
	return layerNames{own("state"), own("tail"), own("k_cache"), own("v_cache"), shared("qkv"), shared("gates"), shared("gdn.o"), shared("qk"), own("probs"), own("hidden")}
}

// Release frees the runner's buffers and programs. Its sessions are of no use afterwards.
func (r *Runner) Release() {
	for _, p := range r.progs {
		p.Release()
	}
	for _, b := range r.bufs {
		b.Release()
	}
	r.progs, r.bufs = nil, nil
}

// StateBytes is the size of one state slot over all layers: what a snapshot costs.
func (r *Runner) StateBytes() int {
	n := 0
	for name, b := range r.bufs {
		if len(name) > 5 && (name[:6] == "state." || name[:5] == "tail.") {
			n += b.Size() / r.Opts.Slots
		}
	}
	return n
}

// Which asks for outputs of a sequence.
type Which int

// The outputs that an Input can ask for.
const (
	None Which = iota
	Last       // after its last token
	All        // after every token
)

// Input is what one session reads in a play.
type Input struct {
	Session *Session
	IDs     []int
	Want    Which
}

// Token is a candidate for the next token and its probability.
type Token struct {
	ID int
	P  float32
}

// Output is what a play computed. Slices are valid until the runner's next play.
type Output struct {
	Outs   int       // outputs, in the order of the inputs and their tokens
	K      int       // candidates an output
	Logits []float32 // [Outs, N], when asked for
	top    []uint32
	raw    []byte
	prog   *program
	tokens int
}

// finite returns an error where a probability is no number, which one NaN among the logits makes of all.
func (o *Output) finite() error {
	for i := range o.Outs * o.K {
		if !finite(floatsOf(o.top[2*i+1 : 2*i+2])[0]) {
			return fmt.Errorf("model: the next-token probabilities: %w", ErrNotFinite)
		}
	}
	return nil
}

// Top returns candidate k of output o, the most probable first.
func (o *Output) Top(out, k int) Token {
	i := 2 * (out*o.K + k)
	return Token{ID: int(o.top[i]), P: floatsOf(o.top[i+1 : i+2])[0]}
}

// Play feeds the inputs, at most Options.Seqs sessions and Options.Tokens tokens in all, as one
// packed batch, and returns the outputs asked for. The sessions advance; after an error they are
// as before, but for ErrNotFinite, after which they are of no use.
func (r *Runner) Play(ctx context.Context, inputs []Input, logits bool) (*Output, error) {
	return r.play(ctx, inputs, logits, traceNone)
}

func (r *Runner) play(ctx context.Context, inputs []Input, logits bool, trace traceKind) (*Output, error) {
	tokens, outs := 0, 0
	for _, in := range inputs {
		tokens += len(in.IDs)
		switch {
		case in.Want == All:
			outs += len(in.IDs)
		case in.Want == Last && len(in.IDs) > 0:
			outs++
		}
	}
	if outs > r.Opts.Outs {
		return nil, fmt.Errorf("model: a play with %d outputs: want at most %d", outs, r.Opts.Outs)
	}
	if len(inputs) > r.Opts.Seqs || tokens > r.Opts.Tokens || tokens == 0 {
		return nil, fmt.Errorf("model: a play of %d sessions and %d tokens: want at most %d and 1 to %d", len(inputs), tokens, r.Opts.Seqs, r.Opts.Tokens)
	}
	plan, err := r.plan(inputs)
	if err != nil {
		plan.undo(r)
		return nil, err
	}
	out, err := r.run(ctx, r.form(inputs, logits, trace), plan)
	if err != nil {
		plan.undo(r)
		return nil, err
	}
	plan.commit(r)
	out.tokens = tokens
	out.top = wordView(out.bytes("top"))
	if logits {
		out.Logits = floatView(out.bytes("logits"))[:out.Outs*r.Model.Config.N]
	}
	return out, out.finite()
}

// run plays what was planned.
func (r *Runner) run(ctx context.Context, f form, p *plan) (*Output, error) {
	prog, err := r.program(ctx, f)
	if err != nil {
		return nil, err
	}
	step, err := r.upload(f, p)
	if err != nil {
		return nil, err
	}
	raw, err := prog.Play(ctx, step)
	if err != nil {
		return nil, err
	}
	return &Output{Outs: int(step.Outs), K: r.Opts.TopK, raw: raw, prog: prog}, nil
}

// fewTokens is up to how many tokens a play takes the kernels of a step: a word each to ask for
// five values and five bits. Most of a tile of [shaders.MatMul] would be idle. Where a CPU computes,
// that costs more than reading the weights again: on SwiftShader a tile takes as long as 28 rows.
const (
	fewTokens         = 10
	fewSoftwareTokens = 28
)

// farKeys is beyond how many keys a few tokens' attention is split where a CPU computes; a GPU splits what
// is more than a span.
const farKeys = 2 * shaders.AttentionSpan

// form chooses the recording for a play.
func (r *Runner) form(inputs []Input, logits bool, trace traceKind) form {
	tokens, longest, keys := 0, 0, 0
	for _, in := range inputs {
		tokens += len(in.IDs)
		longest = max(longest, len(in.IDs))
		keys = max(keys, len(in.Session.IDs)+len(in.IDs))
	}
	return r.formFor(tokens, longest, keys, logits, trace)
}

// formFor chooses for so many tokens, at most longest of one session, that see at most so many keys.
func (r *Runner) formFor(tokens, longest, keys int, logits bool, trace traceKind) form {
	few := tokens <= fewTokens || r.software && tokens <= fewSoftwareTokens
	split := tokens <= fewTokens && r.Model.Config.HeadDim%4 == 0
	near := split && !r.software && keys <= shaders.AttentionSpan
	far := split && !near && (!r.software || keys > farKeys) && r.bufs["attn.parts"] != nil
	return form{step: tokens == 1, few: few, near: near, far: far, chunk: !few && longest >= r.Opts.ChunkFrom && r.chunkOK(), trace: trace, all: logits}
}

// chunkOK reports whether prompts may take the chunked delta rule, which has no state after each of
// its tokens to round.
func (r *Runner) chunkOK() bool {
	c := r.Model.Config
	return shaders.GDNChunkOK(c.K, c.V) && r.Opts.Switches.Store == ""
}

func (o *Output) bytes(name string) []byte {
	s := o.prog.at[name]
	return o.raw[s.at:][:s.size]
}

func (r *Runner) program(ctx context.Context, f form) (*program, error) {
	if p := r.progs[f]; p != nil {
		return p, nil
	}
	p := r.recording(f)
	prog, err := r.dev.Prepare(ctx, p.rec)
	if err != nil {
		return nil, fmt.Errorf("model: running %s: %w", r.Model.Name, err)
	}
	p.Program = prog
	r.progs[f] = p
	return p, nil
}

func (r *Runner) recording(f form) *program {
	switch {
	case f.move:
		return r.recordMove()
	case f.state > 0:
		return r.recordState(f.state - 1)
	}
	return r.record(f)
}

// Dispatches lists the operations of a recording by name, for tests and the inspector.
func (r *Runner) Dispatches(step bool) []string {
	var names []string
	for _, op := range r.record(form{step: step, few: step, chunk: !step && r.chunkOK()}).rec.Ops {
		names = append(names, op.Name+" "+op.Kernel.Name)
	}
	return names
}

// plan is what a play changes in the runner's books. Until it is committed it can be undone.
type plan struct {
	inputs []Input
	slots  []int      // output slot of each input
	rows   [][]uint32 // new cache rows of each input
	maps   []int      // row map of each input
	seqs   []shaders.Seq
	spare  int // the slot that passes write in turn with the first, or -1
}

func (r *Runner) plan(inputs []Input) (*plan, error) {
	p := &plan{inputs: inputs, spare: -1}
	cached := r.bufs["rows"] != nil
	start := 0
	for _, in := range inputs {
		s := in.Session
		if s == nil || s.r != r || slices.ContainsFunc(p.inputs[:len(p.slots)], func(o Input) bool { return o.Session == s }) {
			return p, fmt.Errorf("model: a play takes each session of its runner once")
		}
		if len(s.IDs)+len(in.IDs) > r.Opts.Positions {
			return p, fmt.Errorf("model: the session would read %d tokens, it has room for %d", len(s.IDs)+len(in.IDs), r.Opts.Positions)
		}
		for _, id := range in.IDs {
			if id < 0 || id >= r.Model.Config.N {
				return p, fmt.Errorf("model: token %d: the vocabulary has %d", id, r.Model.Config.N)
			}
		}
		slot, err := r.ownSlot(s)
		if err != nil {
			return p, err
		}
		p.slots = append(p.slots, slot)
		m := s.rowMap
		if cached && m < 0 {
			if len(r.freeMaps) == 0 {
				return p, fmt.Errorf("model: all %d row maps are in use: release a session", r.maps())
			}
			m = r.freeMaps[len(r.freeMaps)-1]
			r.freeMaps = r.freeMaps[:len(r.freeMaps)-1]
		}
		p.maps = append(p.maps, m)
		var rows []uint32
		if cached {
			n := len(in.IDs)
			if n > len(r.freeRows) {
				return p, fmt.Errorf("model: %d tokens need as many rows of the KV cache, %d of %d are free", n, len(r.freeRows), r.Opts.Rows)
			}
			rows = slices.Clone(r.freeRows[len(r.freeRows)-n:])
			slices.Reverse(rows)
			r.freeRows = r.freeRows[:len(r.freeRows)-n]
		}
		p.rows = append(p.rows, rows)
		seq := shaders.Seq{Start: uint32(start), Count: uint32(len(in.IDs)), Past: uint32(len(s.IDs)), SlotIn: shaders.NoSlot, SlotOut: uint32(slot), Map: uint32(max(m, 0))}
		if s.slot >= 0 {
			seq.SlotIn = uint32(s.slot)
		}
		p.seqs = append(p.seqs, seq)
		start += len(in.IDs)
	}
	return p, nil
}

// ownSlot returns the slot that s may write: its own if it shares it with no other session, else a
// free one, which is taken.
func (r *Runner) ownSlot(s *Session) (int, error) {
	if s.slot >= 0 && r.slotRefs[s.slot] == 1 {
		return s.slot, nil
	}
	slot := slices.Index(r.slotRefs, 0)
	if slot < 0 {
		return -1, fmt.Errorf("model: all %d state slots are in use: release a session", r.Opts.Slots)
	}
	r.slotRefs[slot]++
	return slot, nil
}

// undo gives back what a failed play took.
func (p *plan) undo(r *Runner) {
	if p.spare >= 0 {
		r.slotRefs[p.spare]--
	}
	for i, in := range p.inputs {
		if i < len(p.slots) && p.slots[i] != in.Session.slot {
			r.slotRefs[p.slots[i]]--
		}
		if i < len(p.maps) && p.maps[i] >= 0 && in.Session.rowMap < 0 {
			r.freeMaps = append(r.freeMaps, p.maps[i])
		}
		if i < len(p.rows) {
			for j := len(p.rows[i]) - 1; j >= 0; j-- {
				r.freeRows = append(r.freeRows, p.rows[i][j])
			}
		}
	}
}

// commit moves the sessions on.
func (p *plan) commit(r *Runner) {
	for i, in := range p.inputs {
		s := in.Session
		if s.slot != p.slots[i] {
			if s.slot >= 0 {
				r.slotRefs[s.slot]--
			}
			s.slot = p.slots[i]
		}
		s.rowMap, s.mapped = p.maps[i], len(s.IDs)+len(in.IDs)
		for _, row := range p.rows[i] {
			r.rowRefs[row]++
		}
		s.rows = append(s.rows, p.rows[i]...)
		s.IDs = append(s.IDs, in.IDs...)
	}
}

// upload writes the tables of a play: of its first pass, where there are several.
func (r *Runner) upload(f form, p *plan) (shaders.Step, error) {
	r.ids, r.tokenSeq, r.outs = r.ids[:0], r.tokenSeq[:0], r.outs[:0]
	step := shaders.Step{Seqs: uint32(len(p.seqs)), Slot: p.seqs[0].SlotOut}
	for i, in := range p.inputs {
		first := len(r.ids)
		step.Keys = max(step.Keys, p.seqs[i].Past+uint32(len(in.IDs)))
		if f.goesOn {
			step.Times = uint32(len(in.IDs))
		}
		now := in.IDs[:p.seqs[i].Count]
		for j, id := range now {
			r.ids = append(r.ids, uint32(id))
			r.tokenSeq = append(r.tokenSeq, uint32(i))
			if in.Want == All || in.Want == Last && j == len(now)-1 {
				r.outs = append(r.outs, uint32(first+j))
			}
		}
	}
	step.Tokens, step.Outs = uint32(len(r.ids)), uint32(len(r.outs))
	if f.chunk {
		r.chunks = shaders.Chunks(p.seqs)
		step.Chunks = uint32(len(r.chunks) / 4)
		if err := r.write("chunks", 0, r.chunks); err != nil {
			return step, err
		}
	}
	r.seqs = append(r.seqs[:0], p.seqs...)
	if err := r.write("seqs", 0, seqWords(r.seqs)); err != nil {
		return step, err
	}
	if err := r.write("ids", 0, r.ids); err != nil {
		return step, err
	}
	if !f.step || !r.written {
		if err := r.write("token_seq", 0, r.tokenSeq); err != nil {
			return step, err
		}
		if err := r.write("outs", 0, r.outs); err != nil {
			return step, err
		}
		// A step's own tables never change: token 0 of sequence 0.
		r.written = f.step && len(r.outs) == 1
	}
	r.mapped = r.mapped[:0]
	for i, in := range p.inputs {
		s := in.Session
		if len(p.rows[i]) == 0 {
			continue
		}
		if s.mapped < len(s.rows) { // a fork's prefix is not in its own map yet
			r.mapped = append(r.mapped, mapping{p.maps[i] + s.mapped, s.rows[s.mapped:]})
		}
		r.mapped = append(r.mapped, mapping{p.maps[i] + len(s.rows), p.rows[i]})
	}
	if err := r.writeMaps(); err != nil {
		return step, err
	}
	return step, nil
}

// mapping is a part of a row map that a play sets.
type mapping struct {
	at   int // word
	rows []uint32
}

// mapGap is how many words of a row map, which nobody has read so far, are written along to make
// two writes one: a write costs as much in a browser as some thousand words.
const mapGap = 1024

// writeMaps writes what a play sets in row maps. Neighbours go in one write where only the unused
// end of a map lies between them.
func (r *Runner) writeMaps() error {
	slices.SortFunc(r.mapped, func(a, b mapping) int { return a.at - b.at })
	r.joined = r.joined[:0]
	at := 0
	for i, m := range r.mapped {
		if i == 0 {
			at = m.at
		}
		r.joined = append(r.joined, m.rows...)
		end := m.at + len(m.rows)
		if i+1 < len(r.mapped) {
			next := r.mapped[i+1].at
			if gap := next - end; gap == 0 || gap <= mapGap && next%r.Opts.Positions == 0 && next-end < r.Opts.Positions {
				r.joined = append(r.joined, make([]uint32, gap)...)
				continue
			}
		}
		if err := r.write("rows", at, r.joined); err != nil {
			return err
		}
		r.joined = r.joined[:0]
		if i+1 < len(r.mapped) {
			at = r.mapped[i+1].at
		}
	}
	return nil
}

func (r *Runner) write(name string, at int, words []uint32) error {
	if len(words) == 0 {
		return nil
	}
	return r.dev.Write(r.bufs[name], 4*at, byteView(words))
}
