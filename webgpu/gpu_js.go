//go:build js

package webgpu

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall/js"
	"time"

	"github.com/gogpu/wgpu"
)

// watch keeps what gogpu/wgpu's browser side hides: the adapter's name, errors that no error
// scope caught, and the loss of the device. It wraps requestAdapter and requestDevice before
// gogpu/wgpu calls them, and holds on to the raw GPUDevice.
type watch struct {
	request js.Value // the original requestAdapter
	adapter js.Value
	device  js.Value
	funcs   []js.Func

	breathed time.Time

	mu       sync.Mutex
	uncaught []string
	lostText string
	lostChan chan struct{}
}

func newWatch(kind string) (w *watch, backends wgpu.Backends, err error) {
	if kind != "" && kind != "browser" {
		return nil, 0, fmt.Errorf("webgpu: device %s: only the browser's own WebGPU is here: %w", kind, ErrNoAdapter)
	}
	// A page may have replaced navigator.gpu by anything, a throwing getter too.
	defer func() {
		if r := recover(); r != nil {
			w, err = nil, fmt.Errorf("webgpu: navigator.gpu: %v: %w", r, ErrNoAdapter)
		}
	}()
	navigator := js.Global().Get("navigator")
	if navigator.Type() != js.TypeObject {
		return nil, 0, fmt.Errorf("webgpu: there is no navigator object: %w", ErrNoAdapter)
	}
	// Get would let what a getter throws end the program; Call turns it into a panic.
	gpu := js.Global().Get("Reflect").Call("get", navigator, "gpu")
	if gpu.Type() != js.TypeObject || gpu.Get("requestAdapter").Type() != js.TypeFunction {
		return nil, 0, fmt.Errorf("webgpu: this browser has no WebGPU (navigator.gpu is %s): %w", gpu.Type(), ErrNoAdapter)
	}
	w = &watch{request: gpu.Get("requestAdapter"), lostChan: make(chan struct{})}
	gpu.Set("requestAdapter", w.fn(func(_ js.Value, args []js.Value) any {
		gpu.Set("requestAdapter", w.request) // the next to ask is another
		opts := js.Undefined()
		if len(args) > 0 {
			opts = args[0]
		}
		p, err := try(func() js.Value { return w.request.Call("call", gpu, opts) })
		if err != nil {
			return js.Global().Get("Promise").Call("reject", err.Error())
		}
		return js.Global().Get("Promise").Call("resolve", p).Call("then", w.fn(func(_ js.Value, a []js.Value) any {
			if a[0].Type() == js.TypeObject {
				w.wrapAdapter(a[0])
			}
			return a[0]
		}))
	}))
	return w, 0, nil
}

func try(f func() js.Value) (v js.Value, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return f(), nil
}

func (w *watch) fn(f func(js.Value, []js.Value) any) js.Func {
	g := js.FuncOf(f)
	w.funcs = append(w.funcs, g)
	return g
}

func (w *watch) wrapAdapter(a js.Value) {
	w.adapter = a
	request := a.Get("requestDevice")
	a.Set("requestDevice", w.fn(func(_ js.Value, args []js.Value) any {
		desc := js.Undefined()
		if len(args) > 0 {
			desc = args[0]
		}
		return request.Call("call", a, desc).Call("then", w.fn(func(_ js.Value, d []js.Value) any {
			w.watchDevice(d[0])
			return d[0]
		}))
	}))
}

func (w *watch) watchDevice(d js.Value) {
	w.device = d
	d.Call("addEventListener", "uncapturederror", w.fn(func(_ js.Value, e []js.Value) any {
		e[0].Call("preventDefault")
		w.mu.Lock()
		w.uncaught = append(w.uncaught, describe(e[0].Get("error")))
		w.mu.Unlock()
		return nil
	}))
	d.Get("lost").Call("then", w.fn(func(_ js.Value, l []js.Value) any {
		w.mu.Lock()
		w.lostText = "device lost (" + l[0].Get("reason").String() + "): " + l[0].Get("message").String()
		w.mu.Unlock()
		close(w.lostChan)
		return nil
	}))
}

// describe gives a GPUError in a line: its kind and message.
func describe(e js.Value) string {
	kind := e.Get("constructor").Get("name").String()
	text := strings.Join(strings.Fields(e.Get("message").String()), " ")
	if len(text) > 600 {
		text = text[:600] + " …"
	}
	return kind + ": " + text
}

func gpuError(what, text string) error {
	sentinel := ErrGPU
	if strings.HasPrefix(text, "GPUOutOfMemoryError") {
		sentinel = ErrOutOfMemory
	}
	return fmt.Errorf("webgpu: %s: %s: %w", what, text, sentinel)
}

func (w *watch) adapterInfo(*wgpu.Adapter) (Info, error) {
	info := Info{Kind: "browser", Adapter: "unnamed WebGPU adapter"}
	ai := w.adapter.Get("info")
	if ai.Type() == js.TypeObject {
		// Some browsers give a description or a device, others only vendor and architecture.
		field := func(k string) string {
			if v := ai.Get(k); v.Type() == js.TypeString {
				return strings.TrimSpace(v.String())
			}
			return ""
		}
		for _, name := range []string{
			strings.TrimSpace(field("device") + " " + field("description")),
			strings.TrimSpace(field("vendor") + " " + field("architecture")),
		} {
			if name != "" {
				info.Adapter = name
				break
			}
		}
		if v := ai.Get("vendor"); v.Type() == js.TypeString {
			info.Driver = v.String()
			if a := ai.Get("architecture"); a.Type() == js.TypeString {
				info.Driver += " " + a.String()
			}
		}
		info.Software = truthy(ai.Get("isFallbackAdapter"))
	}
	low := strings.ToLower(info.Adapter + " " + info.Driver)
	info.Software = info.Software || truthy(w.adapter.Get("isFallbackAdapter")) ||
		strings.Contains(low, "swiftshader") || strings.Contains(low, "llvmpipe") || strings.Contains(low, "basic render")
	return info, nil
}

func truthy(v js.Value) bool { return v.Type() == js.TypeBoolean && v.Bool() }

// deviceDescriptor asks for nothing beyond WebGPU's defaults.
func (w *watch) deviceDescriptor(*wgpu.Adapter) *wgpu.DeviceDescriptor { return nil }

func (w *watch) shaderModule(name, src string) (*wgpu.ShaderModuleDescriptor, error) {
	return &wgpu.ShaderModuleDescriptor{Label: name, WGSL: src}, nil
}

func roomy(f func() error) error { return f() } // natively only

func (w *watch) wait(*wgpu.Device) {}

var scopes = []string{"internal", "out-of-memory", "validation"}

// scoped runs f inside error scopes and returns its error, or what the scopes caught.
func (w *watch) scoped(what string, f func() error) error {
	for _, s := range scopes {
		w.device.Call("pushErrorScope", s)
	}
	err := f()
	for range scopes {
		caught, popErr := await(w.device.Call("popErrorScope"))
		if err == nil && popErr != nil { // the browser says why a little later
			w.explain()
			if err = w.err(); err == nil {
				err = fmt.Errorf("webgpu: %s: %v: %w", what, popErr, ErrDeviceLost)
			}
		}
		if err == nil && caught.Type() == js.TypeObject {
			err = gpuError(what, describe(caught))
		}
	}
	if err != nil {
		return err
	}
	return w.err()
}

// await blocks the goroutine until a promise settles. It must not be called inside a callback.
func await(p js.Value) (js.Value, error) {
	type result struct {
		v   js.Value
		err error
	}
	ch := make(chan result, 1)
	ok := js.FuncOf(func(_ js.Value, a []js.Value) any { ch <- result{v: a[0]}; return nil })
	bad := js.FuncOf(func(_ js.Value, a []js.Value) any {
		ch <- result{err: errors.New(js.Global().Get("String").Invoke(a[0]).String())}
		return nil
	})
	defer ok.Release()
	defer bad.Release()
	p.Call("then", ok, bad)
	r := <-ch
	return r.v, r.err
}

// err returns the first error that no scope caught, or the loss of the device.
func (w *watch) err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lostText != "" {
		return fmt.Errorf("webgpu: %s: %w", w.lostText, ErrDeviceLost)
	}
	if len(w.uncaught) > 0 {
		text := w.uncaught[0]
		w.uncaught = nil
		return gpuError("uncaught", text)
	}
	return nil
}

// explain waits for the reason of a play that failed: a browser says that the device is lost after
// it has rejected what was under way, and on a busy machine long after.
func (w *watch) explain() {
	select {
	case <-w.lostChan:
	case <-time.After(2 * time.Second):
	}
}

func (w *watch) lost() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lostText
}

// How long a mapping may take. A GPU may have long work to do, a browser that says it is done maps
// at once.
const (
	askAfter  = 2 * time.Second // then the queue is asked whether it is done
	mapsIn    = 3 * time.Second // after the queue is done
	answersIn = time.Minute     // the queue
)

// guard gives a context that ends when the device is lost, since a mapping may then never settle, and
// when it gives no answer. What it returns beside ends the watch and says what was waited for in vain.
func (w *watch) guard(ctx context.Context) (context.Context, func() string) {
	ctx, cancel := context.WithCancel(ctx)
	stop, silent := make(chan struct{}), ""
	vain := fmt.Sprintf("its work was not done within %v", answersIn)
	go func() {
		wait := time.NewTimer(askAfter)
		defer wait.Stop()
		var done chan struct{}
		for asked := false; ; {
			select {
			case <-w.lostChan:
				cancel()
				return
			case <-stop:
				return
			case <-done:
				done = nil
				vain = fmt.Sprintf("its work is done, and a mapping did not settle within %v", mapsIn)
				wait.Reset(mapsIn)
			case <-wait.C:
				if asked {
					silent = vain
					cancel()
					return
				}
				asked, done = true, w.workDone()
				wait.Reset(answersIn)
			}
		}
	}()
	return ctx, func() string {
		close(stop)
		cancel()
		return silent
	}
}

// workDone is closed when the queue has done what was submitted.
func (w *watch) workDone() chan struct{} {
	done := make(chan struct{})
	go func() {
		if _, err := await(w.device.Get("queue").Call("onSubmittedWorkDone")); err == nil {
			close(done)
		}
	}()
	return done
}

// breathe lets the page run where it has not for a while: compiling a model's pipelines must not
// freeze it.
func (w *watch) breathe() {
	if time.Since(w.breathed) > sliceTime {
		time.Sleep(time.Microsecond) // 0 would return at once
		w.breathed = time.Now()
	}
}

// close does nothing: the promises of lost and of late requests may still call back, so the functions
// stay.
func (w *watch) close() {}
