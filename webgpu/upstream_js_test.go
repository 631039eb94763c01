//go:build js

package webgpu

import (
	"testing"

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
	_, err = d.CreateBuffer(&wgpu.BufferDescriptor{Label: "huge", Size: 64 << 30, Usage: gputypes.BufferUsageStorage})
	upstream.Still(t, err == nil, hidden+"a buffer of 64 GiB", "webgpu/gpu_js.go", "func (w *watch) scoped")
}
