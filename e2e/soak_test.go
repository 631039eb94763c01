//go:build !js

package e2e

import (
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	"github.com/chromedp/chromedp"

	"shellgame/internal/chrome"
)

// Hundreds of steps and some changes of the model leave neither memory nor listeners behind.
func TestSoak(t *testing.T) {
	const keep = `
const instantiate = WebAssembly.instantiateStreaming;
WebAssembly.instantiateStreaming = async function (...a) {
  const r = await instantiate.apply(this, a);
  globalThis.wasmMemory = r.instance.exports.mem;
  return r;
};`
	p := open(t, chrome.Options{Script: keep}, "?task=st&model=st-hybrid-neg&n=64")
	p.live("st-hybrid-neg")
	use := func() (bytes float64, listeners int64) {
		p.Helper()
		if _, err := chromedp.Call(p.Chrome.Context(), heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			t.Fatal(err)
		}
		n, err := chromedp.Call(p.Chrome.Context(), memory.GetDOMCounters, cdp.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		return eval[float64](p, "document.querySelector('iframe').contentWindow.wasmMemory.buffer.byteLength"), n.JsEventListeners
	}
	round := func() {
		p.Helper()
		eval[[]float64](p, steps)
		for _, model := range []string{"st-gdn-neg", "st-gdn-pos", "st-transformer", "st-constructed", "st-hybrid-neg"} {
			p.choose("model", model)
			p.live(model)
		}
	}
	round() // what is made once
	round()
	before, had := use()
	for range 5 {
		round()
	}
	after, has := use()
	t.Logf("wasm memory %.1f MB, then %.1f MB; listeners %d, then %d", before/1e6, after/1e6, had, has)
	if after > 1.25*before {
		t.Errorf("the wasm's memory grew from %.1f to %.1f MB in five rounds", before/1e6, after/1e6)
	}
	if has > had+20 {
		t.Errorf("listeners grew from %d to %d in five rounds", had, has)
	}
	p.quiet()
}
