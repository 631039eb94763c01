package engine

import (
	"context"
	"fmt"
	"iter"
	"slices"
)

// job is a request that takes long. It is computed in parts.
type job struct {
	q       request
	reply   Reply
	err     error
	waiting bool // for what comes with a wake: until then a turn is of no use
	cancel  context.CancelFunc
	next    func() (struct{}, bool)
	own     bool  // nobody asked for it: there is no reply
	ill     error // what is wrong with the device, as the job found out
	then    *job  // what does its work again
}

// begin starts a job. body calls pause where other messages may be answered, holds no lane or other
// thing of the engine's over it without looking again, and soon returns once ctx has ended.
func (e *Engine) begin(ctx context.Context, q request, body func(ctx context.Context, r *Reply, pause func()) error) *job {
	j := &job{q: q}
	ctx, j.cancel = context.WithCancel(ctx)
	j.next, _ = iter.Pull(func(yield func(struct{}) bool) {
		j.err = body(ctx, &j.reply, func() { yield(struct{}{}) })
	})
	e.jobs = append(e.jobs, j)
	return j
}

// ready is the next job that can go on, or nil. What nobody asked for waits for what somebody did: a
// part of a check takes seconds on a slow device.
func (e *Engine) ready() *job {
	asked := slices.ContainsFunc(e.jobs, func(j *job) bool { return !j.own })
	for _, j := range e.jobs {
		if !j.waiting && !(j.own && asked) {
			return j
		}
	}
	return nil
}

// awake says that something has arrived. It may be called from any goroutine.
func (e *Engine) awake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// resume gives the jobs that wait another turn.
func (e *Engine) resume() {
	for _, j := range e.jobs {
		j.waiting = false
	}
}

// work computes a part of a job and returns the reply once it is done. Jobs take turns.
func (e *Engine) work(ctx context.Context, j *job) []byte {
	e.jobs = append(slices.DeleteFunc(e.jobs, func(o *job) bool { return o == j }), j)
	j.waiting = false
	if _, more := j.next(); more {
		return nil
	}
	return e.end(ctx, j)
}

// end takes a job that has returned off the list.
func (e *Engine) end(ctx context.Context, j *job) []byte {
	j.cancel()
	e.jobs = slices.DeleteFunc(e.jobs, func(o *job) bool { return o == j })
	if j.ill == nil && e.illInJob(j.err) {
		j.ill, j.err = j.err, fmt.Errorf("the GPU failed on the way, ask again: %w", j.err)
	}
	reply := seal(j.q, j.reply, j.err)
	if j.ill != nil {
		err := e.recover(ctx, j.ill)
		if err == nil && j.q.Type == "load" {
			if j.then, err = e.load(ctx, j.q); err == nil {
				return nil
			}
		}
		if err != nil {
			reply = seal(j.q, Reply{}, err)
		}
	}
	if j.own {
		return nil
	}
	return reply
}

// endJobs ends all jobs, whose models are about to go. Their replies are sent later.
func (e *Engine) endJobs() {
	for _, j := range e.jobs {
		j.cancel()
		for more := true; more; {
			_, more = j.next()
		}
		if !j.own {
			e.late = append(e.late, seal(j.q, j.reply, j.err))
		}
	}
	e.jobs = nil
}
