//go:build !window

package webgpu

import _ "github.com/gogpu/wgpu/hal/metal"

var built = map[string]bool{"metal": true}
