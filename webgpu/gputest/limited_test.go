package gputest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"shellgame/shaders"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

// A limited device takes what is at its limits and refuses what is one beyond them.
func TestLimited(t *testing.T) {
	l := gputest.Defaults
	l.MaxBuffer, l.MaxBinding, l.Groups = 4096, 2048, 3
	d := gputest.Limited(gputest.GPU(t), l)
	if got := d.Info().Limits; got != l.Limits {
		t.Errorf("it reports %+v, want %+v", got, l.Limits)
	}
	if _, err := d.NewBuffer("large", 4100); !errors.Is(err, webgpu.ErrOutOfMemory) || !strings.Contains(err.Error(), "4096") {
		t.Errorf("a buffer over the limit: %v", err)
	}
	buffer := func(size int) webgpu.Buffer {
		b, err := d.NewBuffer("buffer", size)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Release)
		return b
	}
	play := func(k *shaders.Kernel, c shaders.C, params any, step shaders.Step, bufs ...webgpu.Buffer) error {
		rec := &webgpu.Recording{Name: k.Name}
		rec.Dispatch(k.Name, k, c, params, bufs...)
		p, err := d.Prepare(context.Background(), rec)
		if err != nil {
			return err
		}
		defer p.Release()
		_, err = p.Play(context.Background(), step)
		return err
	}
	a, b, large := buffer(2048), buffer(2048), buffer(4096)
	one := shaders.CopyParams{D: 64}
	if err := play(shaders.Copy, nil, one, shaders.Step{Tokens: 3}, a, b); err != nil {
		t.Errorf("bindings and a grid at the limits: %v", err)
	}
	if err := play(shaders.Copy, nil, one, shaders.Step{Tokens: 1}, a, large); !errors.Is(err, webgpu.ErrOutOfMemory) || !strings.Contains(err.Error(), "2048") {
		t.Errorf("a binding over the limit: %v", err)
	}
	if err := play(shaders.Copy, nil, one, shaders.Step{Tokens: 4}, a, b); err == nil || !strings.Contains(err.Error(), "workgroups") {
		t.Errorf("a grid over the limit: %v", err)
	}
	// A key of MaxK elements fills a workgroup's memory, one more overflows it.
	state := buffer(2048)
	gdn := func(k uint32) error {
		return play(shaders.GDNStep, shaders.C{"K": k, "V": 1}, shaders.GDNParams{HK: 1, HV: 1, Stride: 2*k + 1}, shaders.Step{}, a, a, a, state, b)
	}
	if err := gdn(shaders.MaxK + 1); err == nil || !strings.Contains(err.Error(), "bytes of workgroup memory") {
		t.Errorf("workgroup memory over the limit: %v", err)
	}
	fewer := *shaders.SwiGLU
	fewer.Slots = fewer.Slots[:1]
	if err := play(&fewer, nil, shaders.SwiGLUParams{F: 1}, shaders.Step{Tokens: 1}, a); err == nil || !strings.Contains(err.Error(), "storage buffers") {
		t.Errorf("a kernel that declares more buffers than it binds: %v", err)
	}
}
