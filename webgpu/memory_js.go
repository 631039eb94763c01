package webgpu

// cpuMemory is what buffers may take: of the 4 GiB of a page's module some is Go's own, and some is
// garbage.
const cpuMemory = 3 << 30
