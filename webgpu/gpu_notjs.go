//go:build !js && (windows || !window)

package webgpu

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"github.com/gogpu/gputypes"
	"github.com/gogpu/wgpu"
)

// watch is what the native side needs beside gogpu/wgpu, which reports errors as they happen.
type watch struct{ kind string }

func newWatch(kind string) (*watch, wgpu.Backends, error) {
	system := map[string]string{"darwin": "metal", "windows": "dx12"}[runtime.GOOS]
	if system == "" {
		system = "vulkan"
	}
	if kind == "" {
		kind = system
	}
	backends := map[string]wgpu.Backends{"vulkan": wgpu.BackendsVulkan, "metal": wgpu.BackendsMetal, "dx12": wgpu.BackendsDX12}[kind]
	if backends == 0 {
		return nil, 0, fmt.Errorf("webgpu: device %q is not known: want vulkan, metal or dx12", kind)
	}
	if !built[kind] {
		return nil, 0, fmt.Errorf("webgpu: device %s is not available on %s: %w", kind, runtime.GOOS, ErrNoAdapter)
	}
	return &watch{kind}, backends, nil
}

// softwareNamed says whether the environment names the Vulkan drivers to use, which is the only
// way that one computing on the CPU is taken.
func softwareNamed() bool {
	return os.Getenv("VK_ICD_FILENAMES") != "" || os.Getenv("VK_DRIVER_FILES") != ""
}

func (w *watch) adapterInfo(a *wgpu.Adapter) (Info, error) {
	i := a.Info()
	info := Info{Kind: w.kind, Adapter: i.Name, Driver: i.Driver, Software: i.DeviceType == gputypes.DeviceTypeCPU}
	if i.DriverInfo != "" {
		info.Driver += " " + i.DriverInfo
	}
	if info.Software && !softwareNamed() {
		return info, fmt.Errorf("webgpu: adapter %s computes on the CPU: name its driver in VK_DRIVER_FILES to use it: %w", i.Name, ErrNoAdapter)
	}
	return info, nil
}

func (w *watch) deviceDescriptor(a *wgpu.Adapter) *wgpu.DeviceDescriptor {
	return &wgpu.DeviceDescriptor{Label: "shellgame", RequiredLimits: a.Limits()}
}

func (w *watch) scoped(_ string, f func() error) error { return f() }
func (w *watch) err() error                            { return nil }
func (w *watch) lost() string                          { return "" }
func (w *watch) explain()                              {}
func (w *watch) breathe()                              {}
func (w *watch) close()                                {}

func (w *watch) guard(ctx context.Context) (context.Context, func() string) {
	return ctx, func() string { return "" }
}

// wait waits for what was submitted, on this goroutine: mapping a buffer would do so on a new one.
func (w *watch) wait(d *wgpu.Device) { d.Poll(wgpu.PollWait) }

// roomy calls f, which calls the GPU layer, where the stack does not move. That layer passes the
// driver addresses of its locals as plain numbers, and a stack that grows in between moves away from
// them, as does one that the garbage collector finds three quarters empty and halves: "vkMapMemory
// returned null pointer". So the stack is made large first, and a good part of it is in use.
func roomy(f func() error) error {
	grow(0)
	return full(0, f)
}

//go:noinline
func grow(i int) byte {
	var room [96 << 10]byte
	return room[i]
}

//go:noinline
func full(i int, f func() error) error {
	var room [48 << 10]byte
	err := f()
	if room[i] != 0 { // never, and keeps it
		return nil
	}
	return err
}
