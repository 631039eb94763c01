//go:build !js

// Package software_test is apart from the others because linking the software backend makes it a
// choice for every adapter of a program.
package software_test

import (
	"context"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/gogpu/gputypes"
	"github.com/gogpu/wgpu"
	_ "github.com/gogpu/wgpu/hal/software"

	"shellgame/internal/upstream"
)

// The sum of 64 numbers over workgroup memory, with a barrier a halving.
const sum = "var<workgroup> sh_a: array<f32, 64>;\n" +
	"@group(0) @binding(0) var<storage, read_write> y: array<f32>;\n" + `@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) i: u32) {
    sh_a[i] = f32(i);
    workgroupBarrier();
    for (var w: u32 = 32u; w > 0u; w = w / 2u) {
        if (i < w) {
            sh_a[i] = sh_a[i] + sh_a[i + w];
        }
        workgroupBarrier();
    }
    y[i] = sh_a[0];
}
`

// The software backend runs one invocation after the other, past every barrier.
func TestSoftwareIgnoresBarriers(t *testing.T) {
	// Whatever backends are asked for, it is among them.
	d, _ := device(t, wgpu.BackendsVulkan)
	got := run(t, d, sum)
	right := !slices.ContainsFunc(got, func(x float32) bool { return x != 2016 })
	upstream.Still(t, !right, "gogpu/wgpu: the software backend computes wrong sums", "webgpu/backend_vulkan.go", "the software one computes wrong sums")
}

// device opens what a backend has, with WebGPU's default limits. Without an adapter the test is
// skipped.
func device(t testing.TB, backends wgpu.Backends) (*wgpu.Device, *wgpu.Adapter) {
	t.Helper()
	instance, err := wgpu.CreateInstance(&wgpu.InstanceDescriptor{Backends: backends})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(instance.Release)
	adapter, err := instance.RequestAdapter(nil)
	if err != nil {
		t.Skipf("no adapter here: %v", err)
	}
	t.Cleanup(adapter.Release)
	d, err := adapter.RequestDevice(&wgpu.DeviceDescriptor{RequiredLimits: gputypes.DefaultLimits()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Release)
	return d, adapter
}

// run plays a kernel that writes 64 floats and reads them back.
func run(t testing.TB, d *wgpu.Device, src string) []float32 {
	t.Helper()
	module, err := d.CreateShaderModule(&wgpu.ShaderModuleDescriptor{Label: "kernel", WGSL: src})
	if err != nil {
		t.Fatal(err)
	}
	defer module.Release()
	group, err := d.CreateBindGroupLayout(&wgpu.BindGroupLayoutDescriptor{Entries: []wgpu.BindGroupLayoutEntry{{Visibility: wgpu.ShaderStageCompute, Buffer: &gputypes.BufferBindingLayout{Type: gputypes.BufferBindingTypeStorage}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer group.Release()
	layout, err := d.CreatePipelineLayout(&wgpu.PipelineLayoutDescriptor{BindGroupLayouts: []*wgpu.BindGroupLayout{group}})
	if err != nil {
		t.Fatal(err)
	}
	defer layout.Release()
	pipeline, err := d.CreateComputePipeline(&wgpu.ComputePipelineDescriptor{Layout: layout, Module: module, EntryPoint: "main"})
	if err != nil {
		t.Fatal(err)
	}
	defer pipeline.Release()
	buffer := func(usage wgpu.BufferUsage) *wgpu.Buffer {
		b, err := d.CreateBuffer(&wgpu.BufferDescriptor{Size: 256, Usage: usage})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Release)
		return b
	}
	y, read := buffer(wgpu.BufferUsageStorage|wgpu.BufferUsageCopySrc), buffer(wgpu.BufferUsageMapRead|wgpu.BufferUsageCopyDst)
	bound, err := d.CreateBindGroup(&wgpu.BindGroupDescriptor{Layout: group, Entries: []wgpu.BindGroupEntry{{Buffer: y, Size: 256}}})
	if err != nil {
		t.Fatal(err)
	}
	defer bound.Release()
	enc, err := d.CreateCommandEncoder(nil)
	if err != nil {
		t.Fatal(err)
	}
	pass, err := enc.BeginComputePass(nil)
	if err != nil {
		t.Fatal(err)
	}
	pass.SetPipeline(pipeline)
	pass.SetBindGroup(0, bound, nil)
	pass.Dispatch(1, 1, 1)
	if err := pass.End(); err != nil {
		t.Fatal(err)
	}
	enc.CopyBufferToBuffer(y, 0, read, 0, 256)
	cmd, err := enc.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Queue().Submit(cmd); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := read.Map(ctx, wgpu.MapModeRead, 0, 256); err != nil {
		t.Fatal(err)
	}
	mapped, err := read.MappedRange(0, 256)
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Release()
	return append([]float32(nil), unsafe.Slice((*float32)(unsafe.Pointer(&mapped.Bytes()[0])), 64)...)
}
