package safetensors

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall/js"
	"testing"
)

// fakeFetch replaces the page's fetch by one that serves size bytes, byte i
// being i % 251, or in the way that the URL names.
func fakeFetch(t *testing.T) {
	old := js.Global().Get("fetch")
	t.Cleanup(func() { js.Global().Set("fetch", old) })
	js.Global().Set("fetch", js.Global().Call("eval", `(async (url, options = {}) => {
		if (url.includes("never")) {
			return new Promise((_, no) => options.signal.addEventListener("abort", () => no(new Error("aborted"))));
		}
		if (url.includes("gone")) return new Response("no", {status: 404});
		if (url.includes("offline")) throw new TypeError("Failed to fetch");
		const size = Number(url.split("size=")[1]);
		const all = Uint8Array.from({length: size}, (_, i) => i % 251);
		const range = /bytes=(\d+)-(\d*)/.exec((options.headers || {}).Range || "");
		if (!range || url.includes("whole")) return new Response(all);
		const [from, to] = [Number(range[1]), range[2] ? Math.min(Number(range[2]), size - 1) : size - 1];
		return new Response(all.slice(from, to + 1), {status: 206, headers: {"Content-Range": "bytes " + from + "-" + to + "/" + size}});
	})`))
}

func TestFetch(t *testing.T) {
	fakeFetch(t)
	want := make([]byte, 8<<20+10)
	for i := range want {
		want[i] = byte(i % 251)
	}
	for _, base := range []string{"http://host/ranges", "http://host/whole"} {
		var done int64
		h := &HTTP{Base: base, Progress: func(d, _ int64) { done = d }}
		r, size, _, err := h.Open("size=8388618")
		if err != nil || size != int64(len(want)) {
			t.Fatal(base, size, err)
		}
		got, err := io.ReadAll(io.NewSectionReader(r, 0, size))
		if err != nil || !bytes.Equal(got, want) || done != size {
			t.Errorf("%s: got %d bytes, progress %d, %v, want %d", base, len(got), done, err, size)
		}
	}
}

func TestFetchErrors(t *testing.T) {
	fakeFetch(t)
	_, _, _, err := (&HTTP{Base: "http://host/gone"}).Open("x")
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "http://host/gone/x") {
		t.Errorf("404: got %v", err)
	}
	_, _, _, err = (&HTTP{Base: "http://host/offline"}).Open("x")
	if err == nil || !strings.Contains(err.Error(), "TypeError: Failed to fetch") {
		t.Errorf("offline: got %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go cancel()
	if _, _, _, err = (&HTTP{Context: ctx, Base: "http://host/never"}).Open("x"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

func TestBlobs(t *testing.T) {
	data := shardFile(t, "a")
	bits := js.Global().Get("Uint8Array").New(len(data))
	js.CopyBytesToJS(bits, data)
	files := Blobs{singleName: js.Global().Get("Blob").New([]any{bits})}
	c, err := OpenCheckpoint(files)
	if err != nil {
		t.Fatal(err)
	}
	if x, err := c.ReadF32("a"); err != nil || x[1] != -1 {
		t.Errorf("got %v, %v", x, err)
	}
	if _, _, _, err := files.Open("other"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}
