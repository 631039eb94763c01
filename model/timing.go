package model

import (
	"context"
	"slices"
	"time"

	"shellgame/webgpu"
)

// OpTime is how long one dispatch of a forward pass takes.
type OpTime struct {
	Op, Kernel string
	Time       time.Duration // median of the plays, less that of an empty play
}

// TimeOps reads inputs once as [Runner.Play] does, and then times each dispatch of that play by
// itself: repeats times in one submission, less an empty submission, the median of plays. Only
// dispatches that wants takes, by their names and kernels, are timed, with nil all.
func (r *Runner) TimeOps(ctx context.Context, inputs []Input, repeats, plays int, wants func(op, kernel string) bool) ([]OpTime, error) {
	f := r.form(inputs, false, traceNone)
	p, err := r.plan(inputs)
	if err != nil {
		p.undo(r)
		return nil, err
	}
	defer p.commit(r)
	step, err := r.upload(f, p)
	if err != nil {
		return nil, err
	}
	empty, err := webgpu.Time(ctx, r.dev, &webgpu.Recording{Name: "empty"}, step, plays)
	if err != nil {
		return nil, err
	}
	var times []OpTime
	for _, op := range r.record(f).rec.Ops {
		if wants != nil && !wants(op.Name, op.Kernel.Variant(op.C)) {
			continue
		}
		rec := &webgpu.Recording{Name: op.Name, Ops: slices.Repeat([]webgpu.Op{op}, repeats)}
		t, err := webgpu.Time(ctx, r.dev, rec, step, plays)
		if err != nil {
			return nil, err
		}
		times = append(times, OpTime{op.Name, op.Kernel.Variant(op.C), max(t-empty, 0) / time.Duration(repeats)})
	}
	return times, nil
}
