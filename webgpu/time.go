package webgpu

import (
	"context"
	"slices"
	"time"

	"shellgame/shaders"
)

// Time returns the median wall time of so many plays of rec, after one to warm up.
func Time(ctx context.Context, d Device, rec *Recording, step shaders.Step, plays int) (time.Duration, error) {
	prog, err := d.Prepare(ctx, rec)
	if err != nil {
		return 0, err
	}
	defer prog.Release()
	if _, err := prog.Play(ctx, step); err != nil {
		return 0, err
	}
	times := make([]time.Duration, plays)
	for i := range times {
		start := time.Now()
		if _, err := prog.Play(ctx, step); err != nil {
			return 0, err
		}
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	return times[plays/2], nil
}
