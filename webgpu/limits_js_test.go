//go:build js

package webgpu

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"shellgame/shaders"
)

// A browser is asked for nothing beyond WebGPU's defaults, which it then enforces by itself, so that
// whatever runs in these tests runs everywhere.
func TestDefaultLimits(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	dev, err := OpenGPU(ctx, "")
	if errors.Is(err, ErrNoAdapter) {
		t.Skip(err) // gputest fails where a browser is required
	}
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	d := dev.(*gpuDevice)
	limits := d.watch.device.Get("limits")
	for name, want := range map[string]int{
		"maxStorageBuffersPerShaderStage": 8, "maxComputeWorkgroupStorageSize": 16384, "maxComputeInvocationsPerWorkgroup": 256,
		"maxComputeWorkgroupSizeX": 256, "maxComputeWorkgroupSizeY": 256, "maxComputeWorkgroupSizeZ": 64,
		"maxComputeWorkgroupsPerDimension": shaders.MaxGroups, "maxStorageBufferBindingSize": 128 << 20, "maxBufferSize": 256 << 20,
		"maxUniformBufferBindingSize": 64 << 10, "minUniformBufferOffsetAlignment": uniformStride, "maxBindingsPerBindGroup": 1000,
	} {
		if got := limits.Get(name); got.IsUndefined() || got.Int() != want {
			t.Errorf("%s: got %v, want %d", name, got, want)
		}
	}
	if got, want := dev.Info().Limits, (Limits{MaxBuffer: 256 << 20, MaxBinding: 128 << 20}); got != want {
		t.Errorf("the device reports %+v, want %+v", got, want)
	}
	var bufs []Buffer
	for _, s := range shaders.GDNStep.Slots {
		b, err := dev.NewBuffer(s.Name, 256)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Release()
		bufs = append(bufs, b)
	}
	k := uint32(shaders.MaxK + 80)
	rec := &Recording{Name: "heads"}
	rec.Dispatch("step", shaders.GDNStep, shaders.C{"K": k, "V": 1}, shaders.GDNParams{HK: 1, HV: 1, Stride: 2*k + 1}, bufs...)
	if _, err := dev.Prepare(ctx, rec); !errors.Is(err, ErrGPU) || !strings.Contains(err.Error(), "gdn_step") {
		t.Errorf("a kernel over the workgroup's memory: %v, want an error that names it", err)
	}
}
