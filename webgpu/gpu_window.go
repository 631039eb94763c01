//go:build window && !js && !windows

package webgpu

import (
	"context"
	"fmt"
)

// OpenGPU finds none: ebiten's library loader and that of gogpu/wgpu cannot be linked into one
// binary here, so a build with a window computes on the CPU.
func OpenGPU(context.Context, string) (Device, error) {
	return nil, fmt.Errorf("webgpu: a build with a window has no GPU here: %w", ErrNoAdapter)
}
