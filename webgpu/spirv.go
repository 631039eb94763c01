//go:build !js && (windows || !window)

package webgpu

import (
	"github.com/gogpu/naga"
	"github.com/gogpu/wgpu"
)

// The few numbers of SPIR-V needed here (SPIR-V specification, section 3).
const (
	spirvHeader    = 5 // words before the first instruction
	opConstantNull = 46
	opVariable     = 59
	opStore        = 62
	classWorkgroup = 4
)

// shaderModule describes a kernel's module to the backend. Vulkan gets SPIR-V without the clearing
// of workgroup memory, the others their WGSL.
func (w *watch) shaderModule(name, src string) (*wgpu.ShaderModuleDescriptor, error) {
	if w.kind != "vulkan" {
		return &wgpu.ShaderModuleDescriptor{Label: name, WGSL: src}, nil
	}
	b, err := naga.Compile(src)
	if err != nil {
		return nil, err
	}
	code := make([]uint32, len(b)/4)
	copy(wordBytes(code), b)
	return &wgpu.ShaderModuleDescriptor{Label: name, SPIRV: withoutWorkgroupInit(code)}, nil
}

// withoutWorkgroupInit drops the stores that clear workgroup memory from a SPIR-V module. naga has
// the first invocation of every workgroup clear all of it, up to 4096 stores one after the other,
// which CPU Vulkan drivers compile for minutes. No kernel reads workgroup memory that it has not
// written. Code that is not SPIR-V comes back as it is.
func withoutWorkgroupInit(code []uint32) []uint32 {
	if len(code) < spirvHeader {
		return code
	}
	shared, null := map[uint32]bool{}, map[uint32]bool{}
	out := append(make([]uint32, 0, len(code)), code[:spirvHeader]...)
	for at := spirvHeader; at < len(code); {
		n := int(code[at] >> 16)
		if n == 0 || at+n > len(code) {
			return code
		}
		op := code[at : at+n]
		at += n
		switch name := op[0] & 0xffff; {
		case name == opVariable && n > 3 && op[3] == classWorkgroup:
			shared[op[2]] = true
		case name == opConstantNull && n > 2:
			null[op[2]] = true
		case name == opStore && n > 2 && shared[op[1]] && null[op[2]]:
			continue
		}
		out = append(out, op...)
	}
	return out
}
