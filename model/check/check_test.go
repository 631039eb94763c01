package check_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"shellgame/model/check"
	"shellgame/shaders"
	"shellgame/webgpu"
	"shellgame/webgpu/gputest"
)

func TestTrust(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		for name, trust := range map[string]func(context.Context, webgpu.Device) error{"Trust": check.Trust, "TrustSteps": check.TrustSteps} {
			if err := trust(context.Background(), d); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// faulty is the CPU with one kernel that is a little wrong. It notes the kernels that it is given.
type faulty struct {
	webgpu.Device
	kernel string
	seen   map[string]bool
}

func (d faulty) Prepare(ctx context.Context, r *webgpu.Recording) (webgpu.Program, error) {
	bad := *r
	bad.Ops = append([]webgpu.Op(nil), r.Ops...)
	for i, op := range bad.Ops {
		d.seen[op.Kernel.Name] = true
		if op.Kernel.Name != d.kernel {
			continue
		}
		k := *op.Kernel
		k.Twin = func(c *shaders.Call) {
			op.Kernel.Twin(c)
			for j, slot := range op.Kernel.Slots {
				if slot.Access != shaders.Read {
					for n, v := range c.Bufs[j] { // all: a first token's decay falls on a state of zeros
						c.Bufs[j][n] = math.Float32bits(math.Float32frombits(v)*1.5 + 0.05)
					}
					return
				}
			}
		}
		bad.Ops[i].Kernel = &k
	}
	return d.Device.Prepare(ctx, &bad)
}

func TestTrustNamesTheKernelThatIsWrong(t *testing.T) {
	seen := map[string]bool{}
	if err := check.Trust(context.Background(), faulty{webgpu.NewCPU(), "", seen}); err != nil {
		t.Fatal(err)
	}
	if len(seen) < 17 {
		t.Fatalf("the check runs %d kernels, want every one of the forward pass: %v", len(seen), slices.Sorted(maps.Keys(seen)))
	}
	steps := map[string]bool{}
	if err := check.TrustSteps(context.Background(), faulty{webgpu.NewCPU(), "", steps}); err != nil {
		t.Fatal(err)
	}
	for _, kernel := range slices.Sorted(maps.Keys(seen)) {
		t.Run(kernel, func(t *testing.T) {
			err := check.Trust(context.Background(), faulty{webgpu.NewCPU(), kernel, seen})
			if !errors.Is(err, check.ErrUntrusted) || !strings.Contains(err.Error(), "kernel "+kernel) {
				t.Errorf("got %v, want ErrUntrusted that names kernel %s", err, kernel)
			}
			err = check.TrustSteps(context.Background(), faulty{webgpu.NewCPU(), kernel, map[string]bool{}})
			if errors.Is(err, check.ErrUntrusted) != steps[kernel] {
				t.Errorf("TrustSteps: got %v, want an error: %v", err, steps[kernel])
			}
		})
	}
}

// Both forms of the delta rule are compared, whatever the device would read prompts with.
func TestRunComparesBothForms(t *testing.T) {
	rep, err := check.Run(context.Background(), webgpu.NewCPU(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gdn_wy", "gdn_chunk", "gdn_step"} {
		if !slices.ContainsFunc(rep.Kernels, func(k check.Kernel) bool { return strings.HasPrefix(k.Name, name) }) {
			t.Errorf("%s is not compared", name)
		}
	}
}

// A device with no more than WebGPU's default limits runs a whole model, and so does one whose
// buffers are half as large. Where they are too small the buffer is named with the numbers.
func TestLimits(t *testing.T) {
	for name, l := range map[string]gputest.Limits{"default": gputest.Defaults, "128 MiB buffers": gputest.SmallBuffers} {
		t.Run(name, func(t *testing.T) {
			if err := check.Trust(context.Background(), gputest.Limited(gputest.Unlimited(t), l)); err != nil {
				t.Error(err)
			}
		})
	}
	l := gputest.Defaults
	l.MaxBuffer, l.MaxBinding = 8<<10, 8<<10
	err := check.Trust(context.Background(), gputest.Limited(webgpu.NewCPU(), l))
	if !errors.Is(err, webgpu.ErrOutOfMemory) || !strings.Contains(err.Error(), "8192") {
		t.Errorf("buffers of 8 KiB: %v, want ErrOutOfMemory with the numbers", err)
	}
	l = gputest.Defaults
	l.Pipeline.Workgroup = 4 << 10
	if err := check.Trust(context.Background(), gputest.Limited(webgpu.NewCPU(), l)); err == nil || !strings.Contains(err.Error(), "at most 4096") {
		t.Errorf("4 KiB of workgroup memory: %v, want an error", err)
	}
}

// The full check covers what only some families compute.
func TestFullRunCoversFamilies(t *testing.T) {
	rep, err := check.Run(context.Background(), webgpu.NewCPU(), true)
	if err != nil || !rep.Pass {
		t.Fatalf("got %+v, %v", rep, err)
	}
	for _, name := range []string{"sigmoid_gate", "rms_norm", "rope"} {
		if !slices.ContainsFunc(rep.Kernels, func(k check.Kernel) bool {
			return strings.HasPrefix(k.Name, name) && strings.HasSuffix(k.Shape, "BF16, 40 tokens")
		}) {
			t.Errorf("%s is not compared", name)
		}
	}
}
