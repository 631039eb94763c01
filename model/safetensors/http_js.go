package safetensors

import (
	"context"
	"errors"
	"io"
	"strconv"
	"syscall/js"
)

// fetch uses the page's fetch, since net/http would add over 1 MB to the wasm: or, with keep, what
// the frame puts before it (web/js/kept.js).
func fetch(ctx context.Context, url, byteRange string, keep bool) (*response, error) {
	global := js.Global()
	abort := global.Get("AbortController").New()
	options := map[string]any{"signal": abort.Get("signal")}
	if byteRange != "" {
		options["headers"] = map[string]any{"Range": byteRange}
	}
	get := "fetch"
	if keep && global.Get("shellgameFetch").Truthy() {
		get = "shellgameFetch"
	}
	r, err := await(ctx, global.Call(get, url, options))
	if err != nil {
		abort.Call("abort")
		return nil, err
	}
	length := int64(-1)
	headers := r.Get("headers")
	// A compressed body's Content-Length is not the file's size.
	if headers.Call("get", "Content-Encoding").IsNull() {
		if n, err := strconv.ParseInt(headerText(headers, "Content-Length"), 10, 64); err == nil {
			length = n
		}
	}
	body := &fetchBody{ctx: ctx, abort: abort}
	if b := r.Get("body"); b.Truthy() {
		body.reader = b.Call("getReader")
	}
	return &response{r.Get("status").Int(), headerText(headers, "Content-Range"), length, body}, nil
}

func headerText(headers js.Value, name string) string {
	if v := headers.Call("get", name); !v.IsNull() {
		return v.String()
	}
	return ""
}

// fetchBody reads a ReadableStream.
type fetchBody struct {
	ctx    context.Context
	abort  js.Value
	reader js.Value // undefined for a response without body, or at its end
	chunk  js.Value // Uint8Array
	pos    int
}

func (b *fetchBody) Read(p []byte) (int, error) {
	for !b.chunk.Truthy() || b.pos == b.chunk.Length() {
		if b.reader.IsUndefined() {
			return 0, io.EOF
		}
		next, err := await(b.ctx, b.reader.Call("read"))
		if err != nil {
			return 0, err
		}
		if next.Get("done").Bool() {
			b.reader = js.Undefined()
			return 0, io.EOF
		}
		b.chunk, b.pos = next.Get("value"), 0
	}
	n := js.CopyBytesToGo(p, b.chunk.Call("subarray", b.pos))
	b.pos += n
	return n, nil
}

// Close ends a download that was not read to its end.
func (b *fetchBody) Close() error {
	if !b.reader.IsUndefined() {
		b.abort.Call("abort")
		b.reader, b.chunk = js.Undefined(), js.Undefined()
	}
	return nil
}

// await blocks its goroutine, and so must not run in a js.FuncOf callback.
func await(ctx context.Context, promise js.Value) (js.Value, error) {
	done := make(chan js.Value, 1)
	failed := make(chan js.Value, 1)
	first := func(to chan js.Value) js.Func {
		return js.FuncOf(func(_ js.Value, args []js.Value) any {
			to <- args[0]
			return nil
		})
	}
	onDone, onFail := first(done), first(failed)
	release := func() {
		onDone.Release()
		onFail.Release()
	}
	promise.Call("then", onDone, onFail)
	select {
	case v := <-done:
		release()
		return v, nil
	case v := <-failed:
		release()
		return js.Undefined(), errors.New(v.Call("toString").String())
	case <-ctx.Done():
		// The promise still settles, since the caller aborts; release only then.
		go func() {
			select {
			case <-done:
			case <-failed:
			}
			release()
		}()
		return js.Undefined(), ctx.Err()
	}
}
