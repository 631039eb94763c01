// Package gputest runs kernels on every device that is here and compares what they write with
// their plain-Go twins.
package gputest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"shellgame/internal/leak"
	"shellgame/shaders"
	"shellgame/webgpu"
)

// Poison is what outputs hold before a kernel runs: a NaN that no kernel makes.
const Poison = 0x7fc0dead

var opened struct {
	sync.Once
	gpu, limited webgpu.Device
	err          error
}

// GPU returns the GPU of this process: Vulkan's (Metal's, DX12's) natively, the browser's under
// js. Whatever it could do, it is held to WebGPU's default limits. Without one the test is skipped with the reason, or fails where REQUIRE_DEVICES names it.
func GPU(t testing.TB) webgpu.Device {
	t.Helper()
	Unlimited(t)
	return opened.limited
}

// Unlimited is [GPU] with all that the driver gives.
func Unlimited(t testing.TB) webgpu.Device {
	t.Helper()
	opened.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		opened.gpu, opened.err = webgpu.OpenGPU(ctx, "")
		if opened.err == nil {
			opened.limited = Limited(opened.gpu, Defaults)
			i := opened.gpu.Info()
			fmt.Fprintf(os.Stderr, "gputest: %s: %s %s\n", i.Kind, i.Adapter, i.Driver)
		}
	})
	if opened.err != nil {
		want := "vulkan"
		if runtime.GOOS == "js" {
			want = "browser"
		}
		for _, name := range strings.Split(os.Getenv("REQUIRE_DEVICES"), ",") {
			if name == want {
				t.Fatalf("REQUIRE_DEVICES wants %s: %v", want, opened.err)
			}
		}
		t.Skipf("no GPU here: %v", opened.err)
	}
	return opened.gpu
}

// Main runs the tests of a package and closes the GPU. It fails where a buffer on it was not
// released, or a goroutine or an open file is left.
//
//	func TestMain(m *testing.M) { gputest.Main(m) }
func Main(m *testing.M) { os.Exit(leak.M{M: m, Checks: []func() error{closeGPU}}.Run()) }

func closeGPU() error {
	d := opened.gpu
	if d == nil {
		return nil
	}
	d.Close()
	if c := d.Counts(); c.Live != 0 || c.Bytes != 0 {
		return fmt.Errorf("%d buffers of %d bytes on the GPU were not released", c.Live, c.Bytes)
	}
	return nil
}

// Devices runs f as a subtest on the CPU device and on the GPU.
func Devices(t *testing.T, f func(t *testing.T, d webgpu.Device)) {
	t.Helper()
	t.Run("cpu", func(t *testing.T) { f(t, webgpu.NewCPU()) })
	t.Run("gpu", func(t *testing.T) { f(t, GPU(t)) })
}

// Run plays one dispatch of k on d over buffers that start as bufs, and returns what they hold
// afterwards.
func Run(t testing.TB, d webgpu.Device, k *shaders.Kernel, c shaders.C, params any, step shaders.Step, bufs ...[]uint32) [][]uint32 {
	t.Helper()
	rec := &webgpu.Recording{Name: k.Name}
	var made []webgpu.Buffer
	for i, data := range bufs {
		b, err := d.NewBuffer(k.Slots[i].Name, 4*len(data))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Release()
		if err := d.Write(b, 0, Bytes(data)); err != nil {
			t.Fatal(err)
		}
		made = append(made, b)
	}
	rec.Dispatch(k.Name, k, c, params, made...)
	at := make([]int, len(bufs))
	for i, data := range bufs {
		at[i] = rec.Read(made[i], 0, 4*len(data), 0)
	}
	p, err := d.Prepare(context.Background(), rec)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	out, err := p.Play(context.Background(), step)
	if err != nil {
		t.Fatal(err)
	}
	got := make([][]uint32, len(bufs))
	for i, data := range bufs {
		got[i] = append([]uint32(nil), Words(out[at[i]:][:4*len(data)])...)
	}
	return got
}

// Check plays k on the GPU and on its twin over the same buffers, and compares the slots listed
// in outs word by word: floats within tol, and where the twin left the poison the kernel must
// have left it too. Read-only slots must be unchanged.
func Check(t *testing.T, what string, tol Tolerance, k *shaders.Kernel, c shaders.C, params any, step shaders.Step, outs []int, bufs ...[]uint32) {
	t.Helper()
	want := Run(t, webgpu.NewCPU(), k, c, params, step, bufs...)
	got := Run(t, GPU(t), k, c, params, step, bufs...)
	for _, i := range outs {
		Close(t, what+" "+k.Slots[i].Name, tol, Floats(got[i]), Floats(want[i]))
	}
	for i, s := range k.Slots {
		if s.Access == shaders.Read {
			for j := range bufs[i] {
				if got[i][j] != bufs[i][j] {
					t.Fatalf("%s: slot %s is read-only and changed at %d", what, s.Name, j)
				}
			}
		}
	}
}

// Tolerance bounds a difference from the reference. RMS bounds the root mean square of the error
// relative to that of the reference; Max bounds every element's error, in units of
// max(1, RMS of the reference).
type Tolerance struct{ RMS, Max float64 }

// Diff is the outcome of a comparison.
type Diff struct {
	Index     int
	Got, Want float32
	Worst     float64 // largest error of an element, relative to max(1, RMS of want)
	RMS       float64 // of the error, relative to that of want
	Err       error
}

// Compare measures got against want. An element that is NaN or infinite on one side only, or a
// poison on one side only, is an error whatever the tolerance.
func Compare(tol Tolerance, got, want []float32) Diff {
	if len(got) != len(want) || len(want) == 0 {
		return Diff{Err: fmt.Errorf("got %d elements, want %d", len(got), len(want))}
	}
	var sum, sumErr float64
	n := 0
	d := Diff{}
	for i := range want {
		g, w := math.Float32bits(got[i]), math.Float32bits(want[i])
		if g == w {
			if f := float64(want[i]); !math.IsNaN(f) && !math.IsInf(f, 0) {
				sum += f * f
				n++
			}
			continue
		}
		gf, wf := float64(got[i]), float64(want[i])
		if math.IsNaN(gf) || math.IsNaN(wf) || math.IsInf(gf, 0) || math.IsInf(wf, 0) {
			return Diff{Index: i, Got: got[i], Want: want[i], Worst: math.Inf(1), RMS: math.Inf(1), Err: fmt.Errorf("worst [%d] want %v (%#08x) got %v (%#08x)", i, want[i], w, got[i], g)}
		}
		sum += wf * wf
		n++
		e := math.Abs(gf - wf)
		sumErr += e * e
		if e > d.Worst {
			d.Worst, d.Index, d.Got, d.Want = e, i, got[i], want[i]
		}
	}
	if n == 0 {
		return Diff{Err: fmt.Errorf("nothing was compared: all %d elements are NaN on both sides", len(want))}
	}
	rms := math.Sqrt(sum / float64(n))
	d.Worst /= math.Max(1, rms)
	if sumErr > 0 {
		d.RMS = math.Sqrt(sumErr/float64(n)) / math.Max(rms, 1e-30)
	}
	if d.Worst > tol.Max || (d.RMS > tol.RMS && d.Worst > 1e-7) {
		d.Err = fmt.Errorf("worst [%d] want %v got %v, err %.3g > %.3g (or RMS %.3g > %.3g)", d.Index, d.Want, d.Got, d.Worst, tol.Max, d.RMS, tol.RMS)
	}
	return d
}

// Close fails the test where got is not within tol of want, and returns the difference.
func Close(t testing.TB, what string, tol Tolerance, got, want []float32) Diff {
	t.Helper()
	d := Compare(tol, got, want)
	if d.Err != nil {
		t.Errorf("%s: %v", what, d.Err)
	}
	return d
}

// Words views bytes as words.
func Words(b []byte) []uint32 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*uint32)(unsafe.Pointer(&b[0])), len(b)/4)
}

// Bytes views words as bytes.
func Bytes(w []uint32) []byte {
	if len(w) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), 4*len(w))
}

// Floats views words as float32.
func Floats(w []uint32) []float32 {
	if len(w) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&w[0])), len(w))
}

// F32 copies floats into words.
func F32(f []float32) []uint32 {
	w := make([]uint32, len(f))
	copy(Floats(w), f)
	return w
}

// Poisoned returns n poisoned words.
func Poisoned(n int) []uint32 {
	w := make([]uint32, n)
	for i := range w {
		w[i] = Poison
	}
	return w
}

// Rand returns n normal floats of the given standard deviation.
func Rand(seed uint64, n int, sigma float64) []float32 {
	r := rand.New(rand.NewPCG(seed, 0x5e11))
	f := make([]float32, n)
	for i := range f {
		f[i] = float32(r.NormFloat64() * sigma)
	}
	return f
}

// Seqs lays sequences out as the words of a seqs buffer.
func Seqs(seqs ...shaders.Seq) []uint32 {
	w := make([]uint32, max(len(seqs), 1)*shaders.SeqWords)
	for i, s := range seqs {
		copy(w[i*shaders.SeqWords:], (*[shaders.SeqWords]uint32)(unsafe.Pointer(&s))[:])
	}
	return w
}
