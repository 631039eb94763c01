//go:build !js

package webgpu

// cpuMemory is what buffers may take, where that is known.
const cpuMemory = 0
