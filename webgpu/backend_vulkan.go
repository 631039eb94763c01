//go:build !js && !darwin && !windows

package webgpu

import _ "github.com/gogpu/wgpu/hal/vulkan" // the only backend: the software one computes wrong sums

var built = map[string]bool{"vulkan": true}
