//go:build !js

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"shellgame/internal/chrome"
	"shellgame/model/construct"
	"shellgame/model/safetensors"
)

// elsewhere is a server of another origin with checkpoints behind every fault that a network has.
// The first part of a path says which.
type elsewhere struct {
	*httptest.Server
	held  chan struct{} // what the fault "slow" waits for
	whole atomic.Int64  // times that weights were asked for, but for a look whether they are the same
}

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	good := http.FileServerFS(os.DirFS(filepath.Join(root, "web", "zoo", "st-constructed")))
	s := &elsewhere{held: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Headers", "*")
		h.Set("Access-Control-Expose-Headers", "Content-Range")
		fault, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		r.URL.Path = "/" + name
		weights := name == "model.safetensors"
		if weights && r.Header.Get("Range") != "bytes=0-0" {
			s.whole.Add(1)
		}
		switch {
		case r.Method == http.MethodOptions:
			return
		case fault == "missing" && weights:
			http.NotFound(w, r)
			return
		case fault == "refused" && weights:
			http.Error(w, "no", http.StatusForbidden)
			return
		case fault == "noranges":
			r.Header.Del("Range")
		case fault == "lfs" && weights:
			fmt.Fprint(w, "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 3021\n")
			return
		case fault == "page":
			h.Set("Content-Type", "text/html")
			fmt.Fprint(w, "<!DOCTYPE html>\n<title>Not found</title>")
			return
		case (fault == "cut" || fault == "cutwhole" || fault == "slow") && weights:
			data, err := os.ReadFile(filepath.Join(root, "web", "zoo", "st-constructed", name))
			if err != nil {
				t.Error(err)
			}
			from := 0
			if fault != "cutwhole" {
				fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
				h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(data)-1, len(data)))
			}
			h.Set("Content-Length", fmt.Sprint(len(data)-from))
			if fault != "cutwhole" {
				w.WriteHeader(http.StatusPartialContent)
			}
			w.Write(data[from:max(from, len(data)*6/10)])
			w.(http.Flusher).Flush()
			time.Sleep(200 * time.Millisecond) // a browser drops what it has not handed on
			if fault == "slow" {
				select {
				case <-s.held:
				case <-r.Context().Done():
				}
			}
			panic(http.ErrAbortHandler)
		}
		good.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// loadMessage has the engine load an address or a folder and returns its answer.
func (p page) loadMessage(model string) string {
	p.Helper()
	return p.request(fmt.Sprintf(`{type: "load", model: %q}`, model))
}

// What can go wrong with an address is said in one line, by the page as in a terminal, and the model
// before it goes on.
func TestAddressFaults(t *testing.T) {
	s := newElsewhere(t)
	p := open(t, chrome.Options{}, "?device=cpu&task=st&model=st-constructed&n=4")
	p.live("st-constructed")
	size, err := os.Stat(filepath.Join(root, "web", "zoo", "st-constructed", "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	cut := fmt.Sprintf("the connection ended after %d of %d bytes (%d %%), want all: load it again: ", size.Size()*6/10, size.Size(), 100*(size.Size()*6/10)/size.Size())
	for _, c := range []struct{ fault, want string }{
		{"missing", "model missing: safetensors: found neither model.safetensors nor model.safetensors.index.json, want one of them: http: GET " + s.URL + "/missing/model.safetensors: got status 404, want 200: file does not exist"},
		{"refused", "model refused: safetensors: model.safetensors: http: GET " + s.URL + "/refused/model.safetensors: got status 403, want 200"},
		{"lfs", "model lfs: safetensors: model.safetensors: got a Git-LFS pointer (git lfs pull fetches the file itself), want a safetensors file"},
		{"page", `model page: config: config.json: got "<!DOCTYPE html>\n<title>Not found</title>", want a JSON object`},
		{"cut", "model cut: weights: "},
		{"cutwhole", cut},
	} {
		got := p.loadMessage(s.URL + "/" + c.fault)
		var reply struct{ Error string }
		if err := json.Unmarshal([]byte(got), &reply); err != nil {
			t.Fatal(err)
		}
		said := reply.Error
		t.Log(said)
		if !strings.Contains(said, c.want) || strings.Contains(said, "\n") || len(said) > 400 {
			t.Errorf("%s: got %s, want one line with %q", c.fault, got, c.want)
		}
		if strings.HasPrefix(c.fault, "cut") && !strings.Contains(said, cut) {
			t.Errorf("%s: %q does not say %q", c.fault, said, cut)
		}
	}
	if got := p.loadMessage(s.URL + "/noranges"); !strings.Contains(got, `"ok":true`) {
		t.Errorf("a server without ranges: %s", got)
	}
	p.loadMessage("st-constructed")
	before := s.whole.Load()
	if got := p.loadMessage(s.URL + "/noranges"); !strings.Contains(got, `"ok":true`) || s.whole.Load() != before {
		t.Errorf("again: %s, %d downloads, want none: the browser keeps the file", got, s.whole.Load()-before)
	}
	p.loadMessage("st-constructed")

	// By the dialog: an error leaves the model before it, and a good address is loaded and read.
	p.click("own")
	p.wait("document.querySelector('#own-box[open]')")
	p.shot("own")
	address := func(url string) {
		p.Helper()
		eval[bool](p, fmt.Sprintf(`(document.getElementById("own").click(), new Promise((r) => setTimeout(r, 50)).then(() => { const i = document.getElementById("own-url"); i.value = %q; i.form.requestSubmit(); return true; }))`, url))
	}
	address(s.URL + "/lfs/model.safetensors")
	p.wait("!s.busy && document.querySelector('#notice-work')")
	if said := p.text("notice-work"); !strings.Contains(said, "lfs could not be loaded: ") || !strings.Contains(said, "Still running st-constructed.") {
		t.Errorf("the page says %q", said)
	}
	address(s.URL + "/noranges")
	p.live("noranges")
	if said := p.ask(); !strings.Contains(said, "right") {
		t.Errorf("the page says %q, want a right answer", said)
	}

	// With smaller weights, and what they change.
	p.click("own")
	eval[bool](p, `((box) => { box.querySelector("#own-weights").value = "int4"; box.querySelector(".own-weights input").click(); return true; })(document.getElementById("own-box"))`)
	p.shot("own-weights")
	address(s.URL + "/again")
	p.live("again")
	if said := p.text("model-hint"); !strings.Contains(said, "int4 weights, ") || !regexp.MustCompile(`Against f16: logits off by \d+\.\d% \(RMS\), KL [\d.e-]+ nats, the same likeliest token in \d+\.\d% of 64\.`).MatchString(said) {
		t.Errorf("the page says %q of small weights", said)
	}
	if at := eval[string](p, "location.search"); !strings.Contains(at, "weights=int4") {
		t.Errorf("the address is %q, want the weights in it", at)
	}
	p.click("own")
	eval[bool](p, `((box) => { box.querySelector("#own-weights").value = ""; box.querySelector(".own-weights input").click(); return true; })(document.getElementById("own-box"))`)
	address(s.URL + "/noranges")
	p.live("noranges")

	// A load that does not come to an end is cancelled.
	address(s.URL + "/slow")
	p.wait("s.busy && !document.getElementById('progress-cancel').hidden && document.getElementById('progress-text').textContent.includes('checkpoint')")
	p.click("progress-cancel")
	p.wait("!s.busy && s.model === 'noranges'")
	if said := p.text("notice-work"); !strings.Contains(said, "Loading slow was cancelled. Still running noranges.") || eval[bool](p, "document.querySelector('#notice-work.bad') !== null") {
		t.Errorf("the page says %q", said)
	}
	p.click("reset")
	p.at(-1)
	if said := p.ask(); !strings.Contains(said, "right") {
		t.Errorf("after cancelling: the page says %q", said)
	}
}

// drag drops files of this machine at a point of the page, as a hand would.
func (p page) drag(x, y float64, paths ...string) {
	p.Helper()
	data := &input.DragData{Items: []*input.DragDataItem{}, Files: paths, DragOperationsMask: 1}
	for _, kind := range []input.DispatchDragEventType{input.DispatchDragEventTypeDragEnter, input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDragOver, input.DispatchDragEventTypeDrop} {
		if _, err := chromedp.Call(p.Chrome.Context(), input.DispatchDragEvent, input.DispatchDragEventParams{Type: kind, X: x, Y: y, Data: data}); err != nil {
			p.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond) // the sheet comes over the frame
	}
}

// A folder or its files, dropped on the page or on the frame in it, are a model; what is none is
// said in a line, and so are files that contradict each other.
func TestDrop(t *testing.T) {
	zoo := filepath.Join(root, "web", "zoo")
	dir := filepath.Join(t.TempDir(), "my <b>model")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(zoo, "st-constructed"))); err != nil {
		t.Fatal(err)
	}
	shard := filepath.Join(t.TempDir(), "sharded")
	splitInto(t, dir, shard)
	p := open(t, chrome.Options{}, "?device=cpu&task=st&model=st-gdn-neg&n=4&weights=int8")
	p.live("st-gdn-neg")
	p.drag(100, 300, dir)
	p.live("my <b>model")
	if got := eval[string](p, "document.getElementById('model').selectedOptions[0].textContent"); got != "my <b>model (your files)" {
		t.Errorf("the list shows %q", got)
	}
	if said := p.ask(); !strings.Contains(said, "right") {
		t.Errorf("the page says %q, want a right answer", said)
	}
	if said := p.text("model-hint"); !strings.Contains(said, "int8 weights") {
		t.Errorf("the page says %q, want the weights that the link asks for", said)
	}
	// On the frame, over its drawings.
	at := eval[[]float64](p, "((r) => [r.x + r.width / 2, r.y + 40])(document.querySelector('#frame').getBoundingClientRect())")
	p.drag(at[0], at[1], shard)
	p.live("sharded")
	if said := p.ask(); !strings.Contains(said, "right") {
		t.Errorf("sharded: the page says %q, want a right answer", said)
	}
	// Loose files.
	p.drag(100, 300, filepath.Join(dir, "config.json"), filepath.Join(dir, "model.safetensors"))
	p.live("chosen files")
	// No checkpoint.
	p.drag(100, 300, filepath.Join(dir, "model.safetensors"))
	p.wait("document.querySelector('#own-box[open] .error:not([hidden])')")
	if said := eval[string](p, "document.querySelector('#own-box .error').textContent"); said != "found no config.json in model.safetensors, want it with the weights and tokenizer.json: drop the whole folder" {
		t.Errorf("the dialog says %q", said)
	}
	p.shot("own-error")
	eval[bool](p, "(document.getElementById('own-box').close(), true)")
	p.drag(100, 300, filepath.Join(shard, "config.json"), filepath.Join(shard, "model.safetensors.index.json"), filepath.Join(shard, "model-00001-of-00002.safetensors"))
	p.wait("!s.busy && document.querySelector('#notice-work')")
	if said := p.text("notice-work"); !strings.Contains(said, "shard model-00002-of-00002.safetensors: missing, want it beside the model.safetensors.index.json that names it") {
		t.Errorf("the page says %q", said)
	}
	p.quiet()
}

// splitInto writes a checkpoint as two shards.
func splitInto(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(from, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	var parts [2][]safetensors.Entry
	var index []string
	for i, name := range f.Names() {
		x, _ := f.Tensor(name)
		parts[i%2] = append(parts[i%2], safetensors.Entry{Name: name, DType: x.DType, Shape: x.Shape, Data: data[x.Offset:][:x.Bytes]})
		index = append(index, fmt.Sprintf(`%q: "model-0000%d-of-00002.safetensors"`, name, i%2+1))
	}
	for i, entries := range parts {
		out, err := os.Create(filepath.Join(to, fmt.Sprintf("model-0000%d-of-00002.safetensors", i+1)))
		if err != nil {
			t.Fatal(err)
		}
		if err := safetensors.Write(out, entries, nil); err != nil {
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
	}
	err = os.WriteFile(filepath.Join(to, "model.safetensors.index.json"), []byte(`{"weight_map": {`+strings.Join(index, ", ")+`}}`), 0o666)
	if err == nil {
		err = os.Remove(filepath.Join(to, "model.safetensors"))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// gpuMemory counts what a frame's GPU buffers hold, and what it ever held.
const gpuMemory = `
if (globalThis.GPUDevice) {
  globalThis.gpuBytes = 0;
  globalThis.gpuMost = 0;
  const sizes = new WeakMap();
  const create = GPUDevice.prototype.createBuffer;
  GPUDevice.prototype.createBuffer = function (d) {
    const b = create.call(this, d);
    sizes.set(b, d.size);
    globalThis.gpuMost = Math.max(globalThis.gpuMost, globalThis.gpuBytes += d.size);
    return b;
  };
  const destroy = GPUBuffer.prototype.destroy;
  GPUBuffer.prototype.destroy = function () {
    globalThis.gpuBytes -= sizes.get(this) ?? 0;
    sizes.delete(this);
    return destroy.call(this);
  };
}`

// Some 200 MB of weights go to the GPU without a copy in the wasm's memory; a load that is given up
// leaves nothing on the GPU, and so does a model that is no longer wanted.
func TestLargeMemory(t *testing.T) {
	if !whole {
		t.Skip("takes a minute: E2E=whole")
	}
	const text = `{"model_type": "olmo_hybrid", "vocab_size": 20000, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 5,
		"num_attention_heads": 8, "linear_num_key_heads": 8, "linear_num_value_heads": 8, "linear_key_head_dim": 96, "linear_value_head_dim": 192,
		"rope_parameters": {"rope_theta": null}}`
	dir := filepath.Join(t.TempDir(), "large")
	if err := (construct.Random{Config: []byte(text), DType: safetensors.F16, Seed: 1}).Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	size := float64(info.Size())
	files := http.FileServer(http.Dir(dir))
	const half = 100 << 20
	held := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Access-Control-Allow-Headers", "*")
		kind, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		r.URL.Path = "/" + name
		if kind == "noranges" {
			r.Header.Del("Range")
		}
		if kind == "stuck" && name == "model.safetensors" {
			w = &stopping{w, half, held, r}
		}
		files.ServeHTTP(w, r)
	}))
	defer srv.Close()
	defer close(held)

	p := open(t, chrome.Options{Script: keepMemory + gpuMemory}, "?task=st&model=st-constructed&n=4")
	p.live("st-constructed")
	gpu := func(name string) float64 {
		return eval[float64](p, "document.querySelector('iframe').contentWindow."+name)
	}
	idle, _ := p.use()
	idleGPU := gpu("gpuBytes")
	for _, kind := range []string{"ranges", "noranges"} {
		from := time.Now()
		if got := p.loadMessage(srv.URL + "/" + kind); !strings.Contains(got, `"ok":true`) {
			t.Fatalf("%s: %s", kind, got)
		}
		after, _ := p.use()
		t.Logf("%s: %.0f MB of weights in %.1f s; wasm memory %.1f MiB, then %.1f MiB; GPU buffers %.0f MB, then %.0f MB", kind, size/1e6, time.Since(from).Seconds(), idle/(1<<20), after/(1<<20), idleGPU/1e6, gpu("gpuBytes")/1e6)
		if size < 190e6 || after > idle+64<<20 {
			t.Errorf("%s: after %.0f MB of weights the wasm's memory is %.1f MiB larger, want less than 64", kind, size/1e6, (after-idle)/(1<<20))
		}
		if got := gpu("gpuBytes"); got < 0.95*size {
			t.Errorf("%s: the GPU holds %.0f MB, want the weights there", kind, got/1e6)
		}
		p.loadMessage("st-constructed")
		p.write("a,b,c,d,e=range(5)\nassert a==") // plays, after which what was let go is freed
		p.wait("!s.busy && s.t >= 0 && s.program.endsWith('assert a==')")
		if got := gpu("gpuBytes"); got > idleGPU+8e6 {
			t.Errorf("%s: after another model the GPU holds %.1f MB, want about %.1f MB as before", kind, got/1e6, idleGPU/1e6)
		}
	}
	eval[bool](p, fmt.Sprintf(`(document.querySelector("iframe").contentWindow.postMessage({sg: 1, id: 1e9, type: "load", model: %q}, location.origin), true)`, srv.URL+"/stuck"))
	p.wait(fmt.Sprintf("document.querySelector('iframe').contentWindow.gpuBytes > %f && /^checkpoint: [5-9]\\d/.test(document.getElementById('progress-text').textContent)", idleGPU+0.9*size))
	p.request(`{type: "cancel", what: "load"}`)
	p.wait(fmt.Sprintf("document.querySelector('iframe').contentWindow.gpuBytes < %f", idleGPU+8e6))
	t.Logf("cancelled half-way: GPU buffers %.1f MB, at most %.1f MB", gpu("gpuBytes")/1e6, gpu("gpuMost")/1e6)
}

// stopping is a response that stands still after so many bytes.
type stopping struct {
	http.ResponseWriter
	left int
	held chan struct{}
	r    *http.Request
}

func (s *stopping) Write(p []byte) (int, error) {
	if s.left -= len(p); s.left < 0 {
		select {
		case <-s.held:
		case <-s.r.Context().Done():
		}
		return 0, http.ErrAbortHandler
	}
	return s.ResponseWriter.Write(p)
}
