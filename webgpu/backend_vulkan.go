//go:build !js && !darwin && !windows && !window

package webgpu

import _ "github.com/gogpu/wgpu/hal/vulkan" // the only backend: the software one computes wrong sums

var built = map[string]bool{"vulkan": true}
