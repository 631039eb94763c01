package check_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"shellgame/model/check"
	"shellgame/webgpu"
	"shellgame/webgpu/faulty"
	"shellgame/webgpu/gputest"
)

func TestTrust(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		for name, trust := range map[string]func(context.Context, webgpu.Device) error{"Trust": check.Trust, "TrustSteps": steps} {
			if err := trust(context.Background(), d); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func steps(ctx context.Context, d webgpu.Device) error {
	return check.TrustSteps(ctx, d, func() {})
}

func cpuWith(f faulty.Fault) *faulty.Device { return faulty.New(webgpu.NewCPU(), f) }

func TestTrustNamesTheKernelThatIsWrong(t *testing.T) {
	good := cpuWith(faulty.Fault{})
	if err := check.Trust(context.Background(), good); err != nil {
		t.Fatal(err)
	}
	if len(good.Seen) < 17 {
		t.Fatalf("the check runs %d kernels, want every one of the forward pass: %v", len(good.Seen), slices.Sorted(maps.Keys(good.Seen)))
	}
	inSteps := cpuWith(faulty.Fault{})
	if err := check.TrustSteps(context.Background(), inSteps, nil); err != nil {
		t.Fatal(err)
	}
	for _, kernel := range slices.Sorted(maps.Keys(good.Seen)) {
		t.Run(kernel, func(t *testing.T) {
			f := faulty.Fault{Kind: faulty.Numbers, Kernel: kernel}
			err := check.Trust(context.Background(), cpuWith(f))
			if !errors.Is(err, check.ErrUntrusted) || !strings.Contains(err.Error(), "kernel "+kernel) {
				t.Errorf("got %v, want ErrUntrusted that names kernel %s", err, kernel)
			}
			err = steps(context.Background(), cpuWith(f))
			if errors.Is(err, check.ErrUntrusted) != inSteps.Seen[kernel] {
				t.Errorf("TrustSteps: got %v, want an error: %v", err, inSteps.Seen[kernel])
			}
		})
	}
}

// The check at start takes six pipelines and is quick where they exist.
func TestQuick(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		fresh := d
		if d.Info().Kind != "cpu" {
			var err error
			if fresh, err = webgpu.OpenGPU(context.Background(), ""); err != nil {
				t.Fatal(err)
			}
			defer fresh.Close()
		}
		var took []time.Duration
		for range 3 {
			start := time.Now()
			rep, err := check.Quick(context.Background(), fresh)
			if err != nil {
				t.Fatal(err)
			}
			if err := rep.Err(); err != nil || len(rep.Kernels) != 21 {
				t.Fatalf("%d dispatches compared: %v", len(rep.Kernels), err)
			}
			took = append(took, time.Since(start))
		}
		n := fresh.Counts().Pipelines
		t.Logf("%s: %d pipelines, %v", fresh.Info().Adapter, n, took)
		if n > 6 {
			t.Errorf("got %d pipelines, want at most 6", n)
		}
		// 300 ms is for a GPU; a CPU shares its cores with other tests.
		if bound := map[bool]time.Duration{true: 5 * time.Second, false: 300 * time.Millisecond}[d.Info().Software]; slices.Min(took) > bound {
			t.Errorf("with its pipelines the check takes %v, want at most %v", took, bound)
		}
	})
}

func TestQuickNamesTheKernelThatIsWrong(t *testing.T) {
	good := cpuWith(faulty.Fault{})
	if _, err := check.Quick(context.Background(), good); err != nil {
		t.Fatal(err)
	}
	if len(good.Seen) != 5 {
		t.Errorf("got kernels %v, want 5", slices.Sorted(maps.Keys(good.Seen)))
	}
	for kernel := range good.Seen {
		for _, kind := range []faulty.Kind{faulty.Numbers, faulty.NaN} {
			rep, err := check.Quick(context.Background(), cpuWith(faulty.Fault{Kind: kind, Kernel: kernel}))
			if err != nil {
				t.Fatal(err)
			}
			var f *check.Failure
			if !errors.As(rep.Err(), &f) || !errors.Is(rep.Err(), check.ErrUntrusted) || !strings.HasPrefix(f.Name, kernel) || f.Worst <= f.Bound {
				t.Errorf("with a wrong %s: got %v", kernel, rep.Err())
			}
		}
	}
}

// Whatever goes wrong with a device, on every layer of it that can be wrapped.
func TestQuickRefuses(t *testing.T) {
	gputest.Devices(t, func(t *testing.T, d webgpu.Device) {
		for name, c := range map[string]struct {
			fault faulty.Fault
			want  error
		}{
			"numbers":         {faulty.Fault{Kind: faulty.Numbers}, check.ErrUntrusted},
			"numbers, later":  {faulty.Fault{Kind: faulty.Numbers, After: 2}, check.ErrUntrusted},
			"NaN":             {faulty.Fault{Kind: faulty.NaN}, check.ErrUntrusted},
			"stale":           {faulty.Fault{Kind: faulty.Stale, After: 1}, check.ErrUntrusted},
			"stale from zero": {faulty.Fault{Kind: faulty.Stale}, check.ErrUntrusted},
			"memory":          {faulty.Fault{Kind: faulty.Memory, After: 3}, webgpu.ErrOutOfMemory},
			"lost":            {faulty.Fault{Kind: faulty.Error, Err: webgpu.ErrDeviceLost}, webgpu.ErrDeviceLost},
			"silent":          {faulty.Fault{Kind: faulty.Silent, After: 1}, context.DeadlineExceeded},
			"none":            {faulty.Fault{}, nil},
		} {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			if c.want == context.DeadlineExceeded {
				cancel()
				ctx, cancel = context.WithTimeout(context.Background(), time.Second/2)
			}
			rep, err := check.Quick(ctx, faulty.New(d, c.fault))
			cancel()
			if err == nil {
				err = rep.Err()
			}
			if !errors.Is(err, c.want) {
				t.Errorf("%s: got %v, want %v", name, err, c.want)
			}
		}
	})
}

// The full check tells how far it is, and lets itself be ended.
func TestRunTells(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	last, most := -1, 0
	_, err := check.Run(ctx, webgpu.NewCPU(), false, func(done, total int) {
		if done <= last || done >= total {
			t.Fatalf("told %d of %d after %d", done, total, last)
		}
		if last, most = done, total; done == total/2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || last != most/2 {
		t.Errorf("ended at %d of %d with %v, want at half", last, most, err)
	}
}

// Both forms of the delta rule are compared, whatever the device would read prompts with.
func TestRunComparesBothForms(t *testing.T) {
	rep, err := check.Run(context.Background(), webgpu.NewCPU(), false, nil)
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
	rep, err := check.Run(context.Background(), webgpu.NewCPU(), true, nil)
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
