//go:build !js

package e2e

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"shellgame/internal/chrome"
)

// countBuffers counts the GPU buffers that are not destroyed, and their bytes.
const countBuffers = keepMemory + `
if (globalThis.GPUDevice) {
  globalThis.gpuLive = { buffers: 0, bytes: 0, made: 0 };
  const create = GPUDevice.prototype.createBuffer, destroy = GPUBuffer.prototype.destroy;
  const alive = new WeakSet();
  GPUDevice.prototype.createBuffer = function (d) {
    const b = create.call(this, d);
    alive.add(b);
    gpuLive.buffers++; gpuLive.made++; gpuLive.bytes += b.size;
    return b;
  };
  GPUBuffer.prototype.destroy = function () {
    if (alive.delete(this)) { gpuLive.buffers--; gpuLive.bytes -= this.size; }
    return destroy.call(this);
  };
}`

// Models that are loaded, run and left for others leave nothing behind, neither in the wasm's memory
// nor on the GPU. SOAK says how many tens of them; two rounds of four without it.
func TestLoadCycles(t *testing.T) {
	if !whole && os.Getenv("SOAK") == "" {
		t.Skip("takes a minute: E2E=whole, or SOAK=1 for a soak")
	}
	models := []string{"st-gdn-neg", "st-hybrid-neg", "st-transformer", "st-constructed"}
	rounds := 2
	if n, _ := strconv.Atoi(os.Getenv("SOAK")); n > 0 {
		rounds = (10*n + len(models) - 1) / len(models)
	}
	p := open(t, chrome.Options{Script: countBuffers}, "?task=st&model=st-constructed&n=4&stage=no")
	p.live("st-constructed")
	eval[bool](p, talk)
	type use struct{ Buffers, Bytes, Made float64 }
	round := func() (wasm float64, gpu use) {
		t.Helper()
		for _, m := range models {
			if said := eval[string](p, fmt.Sprintf(`(async () => {
				for (const message of [{ type: "load", model: %q }, { type: "run", program: "a,b,c,d,e=range(5) a,c=c,a b,d=d,b assert a==" }, { type: "seek", t: 3, full: true }, { type: "step", full: true }, { type: "trace" }]) {
					const r = await ask(message);
					if (!r.ok) return message.type + ": " + r.error;
				}
				return "";
			})()`, m)); said != "" {
				t.Fatalf("%s: %s", m, said)
			}
		}
		wasm, _ = p.use()
		return wasm, eval[use](p, "document.querySelector('iframe').contentWindow.gpuLive")
	}
	round() // what is made once
	wasm, gpu := round()
	from := time.Now()
	var last float64
	for i := range rounds {
		w, g := round()
		last = w
		if g.Buffers != gpu.Buffers || g.Bytes != gpu.Bytes {
			t.Fatalf("after %d models more the GPU holds %v buffers of %v bytes, want %v of %v as before", (i+1)*len(models), g.Buffers, g.Bytes, gpu.Buffers, gpu.Bytes)
		}
		if g.Made <= gpu.Made {
			t.Fatal("no buffer was made: the models do not run on the GPU")
		}
	}
	t.Logf("%d models in %v: wasm memory %.2f MiB, then %.2f MiB; %v GPU buffers of %.2f MiB before and after", rounds*len(models), time.Since(from).Round(time.Second), wasm/(1<<20), last/(1<<20), gpu.Buffers, gpu.Bytes/(1<<20))
	if last > wasm+4<<20 {
		t.Errorf("the wasm's memory grew from %.2f to %.2f MiB", wasm/(1<<20), last/(1<<20))
	}
	p.quiet()
}
