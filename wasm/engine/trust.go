package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"shellgame/model"
	"shellgame/model/check"
	"shellgame/model/goldentest"
	"shellgame/webgpu"
)

// Refusal is a GPU that is not computed on, and what it failed by.
type Refusal struct {
	Adapter string             `json:"adapter,omitempty"`
	Error   string             `json:"error"`
	Kernel  string             `json:"kernel,omitempty"` // with its constants, where one is to blame
	Shape   string             `json:"shape,omitempty"`  // the dispatch that it was run for
	Worst   *goldentest.Number `json:"worst,omitempty"`  // largest error of an element; null where it is not finite
	Bound   *goldentest.Number `json:"bound,omitempty"`
}

func refusal(o check.Opened) *Refusal {
	if o.Refused == nil {
		return nil
	}
	r := &Refusal{Adapter: o.Adapter, Error: oneLine(o.Refused)}
	var f *check.Failure
	if errors.As(o.Refused, &f) {
		r.Kernel, r.Shape, r.Worst, r.Bound = f.Name, f.Shape, &f.Worst, &f.Bound
	}
	return r
}

// ill says whether an error is the device's and not the request's. Numbers that are none may be
// either's; on the CPU they are the model's.
func (e *Engine) ill(err error) bool {
	if err == nil || e.dev.Device == nil {
		return false
	}
	if errors.Is(err, webgpu.ErrDeviceLost) {
		return true
	}
	return e.onGPU() && slices.ContainsFunc([]error{webgpu.ErrStale, webgpu.ErrNoAnswer, webgpu.ErrGPU, webgpu.ErrOutOfMemory, check.ErrUntrusted, model.ErrNotFinite}, func(s error) bool { return errors.Is(err, s) })
}

// illInJob is the same for a job, which says itself of which model what is no number is.
func (e *Engine) illInJob(err error) bool {
	return !errors.Is(err, model.ErrNotFinite) && e.ill(err)
}

func (e *Engine) onGPU() bool { return e.dev.Device != nil && e.dev.Device.Info().Kind != "cpu" }

// again serves a request that the device failed, on what can be trusted. Where the CPU gives no
// numbers either it is the model, and the GPU is taken back.
func (e *Engine) again(ctx context.Context, q request, r *Reply, ill error) (*job, error) {
	if err := e.recover(ctx, ill); err != nil {
		return nil, err
	}
	*r = Reply{}
	j, err := e.serve(ctx, q, r)
	if errors.Is(err, model.ErrNotFinite) && errors.Is(ill, model.ErrNotFinite) {
		err = fmt.Errorf("%w, on GPU and CPU alike: it is the model", err)
		if back := e.reopen(ctx, "auto", nil); back != nil {
			return nil, back
		}
	}
	return j, err
}

// A GPU that is lost this often in so short a time is not opened again.
const (
	mostLosses = 3
	lossSpan   = 2 * time.Minute
)

// recover opens a device that was lost again, as itself or as the CPU, and in the place of one that
// fails otherwise the CPU. It brings each lane to where it was: nothing that was typed is lost.
func (e *Engine) recover(ctx context.Context, ill error) error {
	if !errors.Is(ill, webgpu.ErrDeviceLost) {
		return e.reopen(ctx, "cpu", ill)
	}
	now := time.Now()
	e.losses = append(slices.DeleteFunc(e.losses, func(t time.Time) bool { return now.Sub(t) > lossSpan }), now)
	if len(e.losses) < mostLosses {
		return e.reopen(ctx, "auto", ill)
	}
	return e.reopen(ctx, "cpu", fmt.Errorf("lost %d times within %v: %w", mostLosses, lossSpan, ill))
}

// reopen goes on with another device. why is what was wrong with the one before, nil where nothing was.
func (e *Engine) reopen(ctx context.Context, kind string, why error) error {
	before := e.dev
	if why != nil {
		what := "refused"
		if errors.Is(why, webgpu.ErrDeviceLost) && kind != "cpu" {
			what = "lost"
		}
		e.event(Event{Event: "device-lost", What: what, Error: oneLine(why)})
	}
	was, q := e.lanes, e.init
	adapter := before.Device.Info().Adapter
	q.Device = kind
	var r Reply
	if err := e.open(ctx, q, &r); err != nil {
		return err
	}
	if kind == "cpu" && why != nil {
		e.dev.Refused, e.dev.Adapter, e.dev.Reason = why, adapter, oneLine(why)
	}
	for _, l := range was {
		if err := e.restore(ctx, l); err != nil {
			return err
		}
	}
	e.show()
	info := e.dev.Device.Info()
	e.event(Event{Event: "device", What: deviceName(info), Text: info.Adapter, Error: e.dev.Reason, Refused: refusal(e.dev), Software: info.Software})
	return nil
}

// check compares kernels with their twins, dispatch by dispatch, and refuses the device where one is
// wrong.
func (e *Engine) check(ctx context.Context, q request) (*job, error) {
	dev := e.dev.Device
	if dev == nil {
		return nil, errNoDevice
	}
	if slices.ContainsFunc(e.jobs, func(j *job) bool { return j.q.Type == "check" }) {
		return nil, errors.New("the device is being checked already: wait for it")
	}
	var j *job
	j = e.begin(ctx, q, func(ctx context.Context, r *Reply, pause func()) error {
		rep, err := check.Run(ctx, dev, q.Full, func(done, total int) {
			e.event(Event{Event: "progress", What: "check", Done: int64(done), Total: int64(total)})
			pause()
		})
		if ctx.Err() != nil {
			return errCancelled
		}
		if err != nil {
			return err
		}
		r.Check = rep
		if e.onGPU() {
			j.ill = rep.Err()
		}
		return nil
	})
	return j, nil
}

// test runs the quick check, for who has slept: a GPU may be gone or wrong without a word.
func (e *Engine) test(ctx context.Context) error {
	if !e.onGPU() {
		return nil
	}
	rep, err := check.Quick(ctx, e.dev.Device)
	if err != nil {
		return err
	}
	return rep.Err()
}

// proofAfter is how long nothing must have been asked before the kernels of a step that the check at
// start leaves out are compared too.
const proofAfter = 2 * time.Second

func (e *Engine) unproven() bool {
	return !e.proven && e.onGPU() && e.lanes[0].play != nil
}

func (e *Engine) dueProof() bool {
	return len(e.jobs) == 0 && e.unproven() && e.believing() == nil && time.Since(e.heard) >= proofAfter
}

// prove begins the comparison of all kernels of a step, on the side.
func (e *Engine) prove(ctx context.Context) {
	dev := e.dev.Device
	e.proven = true
	var j *job
	j = e.begin(ctx, request{Type: "proof"}, func(ctx context.Context, _ *Reply, pause func()) error {
		err := check.TrustSteps(ctx, dev, pause)
		if err != nil && ctx.Err() == nil {
			j.ill = err
		}
		if err == nil {
			e.event(Event{Event: "proven"})
		}
		return nil
	})
	j.own = true
}
