package gputest_test

import (
	"context"
	"testing"

	"shellgame/shaders"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// Programs and buffers may be released before they were ever played, with writes still under way,
// and what plays afterwards is right.
func TestReleaseUnplayed(t *testing.T) {
	d := gputest.GPU(t)
	const n = 1 << 16
	for range 20 {
		rec := &webgpu.Recording{Name: "unplayed"}
		var bufs []webgpu.Buffer
		for _, s := range shaders.Copy.Slots {
			b, err := d.NewBuffer(s.Name, 4*n)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Write(b, 0, make([]byte, 4*n)); err != nil {
				t.Fatal(err)
			}
			bufs = append(bufs, b)
		}
		rec.Dispatch("copy", shaders.Copy, nil, shaders.CopyParams{D: n}, bufs...)
		p, err := d.Prepare(context.Background(), rec)
		if err != nil {
			t.Fatal(err)
		}
		p.Release()
		for _, b := range bufs {
			b.Release()
		}
		x := gputest.Rand(1, 100, 1)
		out := gputest.Run(t, d, shaders.Copy, nil, shaders.CopyParams{D: 100}, shaders.Step{Tokens: 1}, gputest.F32(x), gputest.Poisoned(100))
		gputest.Close(t, "y", gputest.Tolerance{}, gputest.Floats(out[1]), x)
	}
}
