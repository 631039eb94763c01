package model

import (
	"context"
	"fmt"
	"slices"

	"shellgame/model/config"
	"shellgame/shaders"
)

// Session is one text that a model is reading: its tokens, its state slot (S of every GDN layer
// and the convolution's tail) and its rows of the KV cache.
type Session struct {
	IDs []int // tokens read

	r      *Runner
	slot   int // -1 before the first token: all zeros
	rows   []uint32
	rowMap int // first word of its row map, -1 before it has one
	mapped int // rows already in that map
}

// NewSession starts a text.
func (r *Runner) NewSession() *Session { return &Session{r: r, slot: -1, rowMap: -1} }

// Fork returns a session that has read the same and goes on by itself. The two share the state
// slot until one of them reads on, and the KV cache's rows for good: a fork is also a snapshot,
// and going back is forking an earlier one.
func (s *Session) Fork() *Session {
	f := &Session{IDs: slices.Clone(s.IDs), r: s.r, slot: s.slot, rows: slices.Clone(s.rows), rowMap: -1}
	if f.slot >= 0 {
		s.r.slotRefs[f.slot]++
	}
	for _, row := range f.rows {
		s.r.rowRefs[row]++
	}
	return f
}

// Release gives back what only this session uses.
func (s *Session) Release() {
	r := s.r
	if s.slot >= 0 {
		r.slotRefs[s.slot]--
	}
	for i := len(s.rows) - 1; i >= 0; i-- {
		row := s.rows[i]
		if r.rowRefs[row]--; r.rowRefs[row] == 0 {
			r.freeRows = append(r.freeRows, row)
		}
	}
	if s.rowMap >= 0 {
		r.freeMaps = append(r.freeMaps, s.rowMap)
	}
	*s = Session{r: r, slot: -1, rowMap: -1}
}

// Prefill reads ids, in as many plays as they need, and returns the output of the last one, which
// holds what was asked of the tokens in it.
func (s *Session) Prefill(ctx context.Context, ids []int, logits bool) (*Output, error) {
	for len(ids) > s.r.Opts.Tokens {
		if _, err := s.r.Play(ctx, []Input{{Session: s, IDs: ids[:s.r.Opts.Tokens]}}, false); err != nil {
			return nil, err
		}
		ids = ids[s.r.Opts.Tokens:]
	}
	return s.r.Play(ctx, []Input{{Session: s, IDs: ids, Want: Last}}, logits)
}

// Step reads one token and returns the candidates for the next.
func (s *Session) Step(ctx context.Context, id int, logits bool) (*Output, error) {
	return s.r.Play(ctx, []Input{{Session: s, IDs: []int{id}, Want: Last}}, logits)
}

// State returns S [HV, K, V] of a GDN layer: zeros before the first token.
func (s *Session) State(ctx context.Context, layer int) ([]float32, error) {
	r := s.r
	if err := r.hasState(layer); err != nil {
		return nil, err
	}
	if s.slot < 0 {
		return make([]float32, r.stateSize()), nil
	}
	prog, err := r.program(ctx, form{state: layer + 1})
	if err != nil {
		return nil, err
	}
	raw, err := prog.Play(ctx, shaders.Step{Slot: uint32(s.slot)})
	if err != nil {
		return nil, err
	}
	return clone(floatView(raw)), nil
}

// SetState replaces S [K, V] of one head of a GDN layer, or with head -1 S [HV, K, V] of all its
// heads; nil data is zeros. The convolution's tail stays, and so does the state of every other
// session, forks and their origin included.
func (s *Session) SetState(layer, head int, data []float32) error {
	r := s.r
	if err := r.hasState(layer); err != nil {
		return err
	}
	size, at := r.stateSize(), 0
	if hv := r.Model.Config.HV; head < -1 || head >= hv {
		return fmt.Errorf("model: state of layer %d: got head %d, want 0 to %d, or -1 for all", layer, head, hv-1)
	} else if head >= 0 {
		size /= hv
		at = head * size
	}
	if data == nil {
		data = make([]float32, size)
	}
	if len(data) != size {
		return fmt.Errorf("model: state of layer %d: got %d numbers, want %d", layer, len(data), size)
	}
	if err := firstNotFinite(nil, layer, "state", data); err != nil {
		return err
	}
	if err := s.ownState(); err != nil {
		return err
	}
	return r.write(r.names[layer].state, s.slot*r.stateSize()+at, wordsOf(data))
}

// ownState gives the session a slot of its own that holds what the one it shares holds, or zeros.
func (s *Session) ownState() error {
	r := s.r
	slot, err := r.ownSlot(s)
	if err != nil || slot == s.slot {
		return err
	}
	seq := shaders.Seq{Past: uint32(len(s.IDs)), SlotIn: shaders.NoSlot, SlotOut: uint32(slot)}
	if s.slot >= 0 {
		seq.SlotIn = uint32(s.slot)
	}
	ctx := context.Background()
	prog, err := r.program(ctx, form{move: true})
	if err == nil {
		err = r.write("seqs", 0, seqWords([]shaders.Seq{seq}))
	}
	if err == nil {
		_, err = prog.Play(ctx, shaders.Step{Seqs: 1})
	}
	if err != nil {
		r.slotRefs[slot]--
		return err
	}
	if s.slot >= 0 {
		r.slotRefs[s.slot]--
	}
	s.slot = slot
	return nil
}

// stateSize is the number of elements of a layer's state in one slot.
func (r *Runner) stateSize() int {
	c := r.Model.Config
	return c.HV * c.K * c.V
}

func (r *Runner) hasState(layer int) error {
	l := r.Model.Config.Layers
	if layer < 0 || layer >= len(l) {
		return fmt.Errorf("model: state of layer %d: want a layer from 0 to %d", layer, len(l)-1)
	}
	if l[layer].Kind != config.GDN {
		return fmt.Errorf("model: state of layer %d: it is an attention layer, want one of the gated delta rule", layer)
	}
	return nil
}
