package shaders_test

import (
	"context"
	"testing"

	"shellgame/shaders"
	"shellgame/shaders/lint"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

func TestLint(t *testing.T) {
	for _, k := range shaders.Kernels() {
		for _, c := range k.Variants {
			src, err := k.Source(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range lint.Faults(src) {
				t.Errorf("%s: %s", k.Variant(c), f)
			}
		}
		if _, err := k.Source(shaders.C{"NO_SUCH": 1}); err == nil {
			t.Errorf("%s: an unknown constant was accepted", k.Name)
		}
	}
}

// Head dims are a checkpoint's own, so every kernel whose workgroup memory depends on one stays
// within its limits for all that the model takes.
func TestLimitsOfHeads(t *testing.T) {
	within := func(k *shaders.Kernel, c shaders.C, want bool) {
		t.Helper()
		src, err := k.Source(c)
		if err != nil {
			t.Fatal(err)
		}
		u := lint.Measure(src)
		if over := u.Over(lint.Default); len(over) == 0 != want {
			t.Errorf("%s: %v, want it within the limits: %v", k.Variant(c), over, want)
		}
		if u.Storage != len(k.Slots) {
			t.Errorf("%s: %d storage buffers for %d slots", k.Variant(c), u.Storage, len(k.Slots))
		}
	}
	// Sizes are rounded up to 16 or less, so an edge of 16 and its neighbours stand for all.
	for i := range uint32(3 * shaders.MaxK / 16) {
		k := i/3*16 + []uint32{1, 12, 16}[i%3]
		c := shaders.C{"K": k, "V": 2 * k}
		within(shaders.GDNStep, c, true)
		within(shaders.GDNColumn, c, true)
		within(shaders.GDNToken, c, true)
		if shaders.GDNChunkOK(int(k), int(2*k)) {
			within(shaders.GDNWY, c, true)
			within(shaders.GDNChunk, c, true)
			if k%4 == 0 {
				within(shaders.GDNWYWide, c, true)
				within(shaders.GDNChunkWide, c, true)
			}
		}
	}
	within(shaders.GDNStep, shaders.C{"K": shaders.MaxK + 1, "V": 1}, false)
	for i := range uint32(256) {
		hd := i/2*4 + []uint32{1, 4}[i%2]
		c := shaders.C{"HD": hd}
		for _, k := range []*shaders.Kernel{shaders.Attention, shaders.AttentionDecode, shaders.AttentionProbs, shaders.AttentionJoin} {
			within(k, c, true)
		}
		if hd%4 == 0 {
			within(shaders.AttentionSplit, c, true)
		}
		if hd%4 == 0 && hd <= 256 {
			within(shaders.AttnToken, c, true)
		}
	}
}

// Every variant in use compiles: by naga natively, by the browser's own compiler under js, which takes a
// second for each, so that in the gate it is three of a kernel.
func TestCompile(t *testing.T) {
	d := gputest.GPU(t)
	for _, k := range shaders.Kernels() {
		for i, c := range k.Variants {
			if !long && i >= 3 && d.Info().Kind == "browser" {
				break
			}
			t.Run(k.Variant(c), func(t *testing.T) {
				rec := &webgpu.Recording{Name: k.Variant(c)}
				var bufs []webgpu.Buffer
				for _, s := range k.Slots {
					b, err := d.NewBuffer(s.Name, 256)
					if err != nil {
						t.Fatal(err)
					}
					defer b.Release()
					bufs = append(bufs, b)
				}
				rec.Dispatch(k.Name, k, c, k.Params, bufs...)
				p, err := d.Prepare(context.Background(), rec)
				if err != nil {
					t.Fatal(err)
				}
				p.Release()
			})
		}
	}
}
