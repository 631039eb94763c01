package webgpu

import (
	_ "github.com/gogpu/wgpu/hal/dx12"
	_ "github.com/gogpu/wgpu/hal/vulkan"
)

var built = map[string]bool{"dx12": true, "vulkan": true}
