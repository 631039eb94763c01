//go:build js

package webgpu

import (
	"context"
	"errors"
	"syscall/js"
	"testing"
	"time"

	"github.com/gogpu/gputypes"
	"github.com/gogpu/wgpu"

	"shellgame/internal/upstream"
)

// What gogpu/wgpu's browser side hides, and why watch wraps requestAdapter and requestDevice.
func TestUpstreamHidesErrors(t *testing.T) {
	instance, err := wgpu.CreateInstance(nil)
	if err != nil {
		t.Skip(err)
	}
	defer instance.Release()
	adapter, err := instance.RequestAdapter(nil)
	if err != nil {
		t.Skip(err)
	}
	defer adapter.Release()
	upstream.Still(t, adapter.Info().Name == "WebGPU Adapter", "gogpu/wgpu: the browser's adapter has no name", "webgpu/gpu_js.go", "adapterInfo")
	// The device itself, to lose it.
	var raw js.Value
	proto := js.Global().Get("GPUAdapter").Get("prototype")
	request := proto.Get("requestDevice")
	keep := js.FuncOf(func(_ js.Value, args []js.Value) any { raw = args[0]; return raw })
	defer keep.Release()
	wrapped := js.FuncOf(func(this js.Value, args []js.Value) any { return request.Call("call", this).Call("then", keep) })
	defer wrapped.Release()
	proto.Set("requestDevice", wrapped)
	defer proto.Set("requestDevice", request)
	d, err := adapter.RequestDevice(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Release()
	func() {
		defer func() {
			upstream.Still(t, recover() != nil, "gogpu/wgpu: PushErrorScope panics in a browser", "webgpu/gpu_js.go", "pushErrorScope")
		}()
		d.PushErrorScope(wgpu.ErrorFilterValidation)
	}()
	const hidden = "gogpu/wgpu: a browser's errors are not passed on: "
	module, err := d.CreateShaderModule(&wgpu.ShaderModuleDescriptor{Label: "bad", WGSL: "@compute @workgroup_size(1) fn main() { nothing(); }"})
	upstream.Still(t, err == nil, hidden+"a shader that does not compile", "webgpu/gpu_js.go", "func (w *watch) scoped")
	if err != nil {
		return
	}
	defer module.Release()
	layout, err := d.CreatePipelineLayout(&wgpu.PipelineLayoutDescriptor{})
	if err != nil {
		t.Fatal(err)
	}
	defer layout.Release()
	_, err = d.CreateComputePipeline(&wgpu.ComputePipelineDescriptor{Layout: layout, Module: module, EntryPoint: "main"})
	upstream.Still(t, err == nil, hidden+"a pipeline of it", "webgpu/gpu_js.go", "func (w *watch) scoped")
	huge, err := d.CreateBuffer(&wgpu.BufferDescriptor{Label: "huge", Size: 64 << 30, Usage: gputypes.BufferUsageCopySrc})
	upstream.Still(t, err == nil, hidden+"a buffer of 64 GiB", "webgpu/gpu_js.go", "func (w *watch) scoped")
	if err != nil {
		return
	}
	read, err := d.CreateBuffer(&wgpu.BufferDescriptor{Label: "read", Size: 16, Usage: gputypes.BufferUsageMapRead | gputypes.BufferUsageCopyDst})
	if err != nil {
		t.Fatal(err)
	}
	enc, err := d.CreateCommandEncoder(nil)
	if err != nil {
		t.Fatal(err)
	}
	enc.CopyBufferToBuffer(huge, 0, read, 0, 16)
	cmd, err := enc.Finish()
	if err == nil {
		_, err = d.Queue().Submit(cmd)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err == nil {
		err = read.Map(ctx, wgpu.MapModeRead, 0, 16)
	}
	upstream.Still(t, err == nil, "gogpu/wgpu: what a failed copy was to bring is read without an error", "webgpu/gpu.go", "ErrStale")
	if err == nil {
		if err := read.Unmap(); err != nil {
			t.Fatal(err)
		}
	}
	raw.Call("destroy")
	err = read.Map(ctx, wgpu.MapModeRead, 0, 16)
	upstream.Still(t, err != nil && !errors.Is(err, wgpu.ErrDeviceLost), "gogpu/wgpu: a lost device is text in a browser", "webgpu/gpu.go", `"device is lost"`)
}
