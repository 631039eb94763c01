//go:build !js

package e2e

import (
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/memory"
	"github.com/chromedp/chromedp"

	"shellgame/internal/chrome"
)

// keepMemory keeps the wasm's memory where a test finds it.
const keepMemory = `
const instantiate = WebAssembly.instantiateStreaming;
WebAssembly.instantiateStreaming = async function (...a) {
  const r = await instantiate.apply(this, a);
  globalThis.wasmMemory = r.instance.exports.mem;
  return r;
};`

// use returns how large the wasm's memory is, in bytes, and how many listeners the page has.
func (p page) use() (bytes float64, listeners int64) {
	p.Helper()
	if _, err := chromedp.Call(p.Chrome.Context(), heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
		p.Fatal(err)
	}
	n, err := chromedp.Call(p.Chrome.Context(), memory.GetDOMCounters, cdp.Empty{})
	if err != nil {
		p.Fatal(err)
	}
	return eval[float64](p, "document.querySelector('iframe').contentWindow.wasmMemory.buffer.byteLength"), n.JsEventListeners
}

// Hundreds of steps and some changes of the model leave neither memory nor listeners behind.
func TestSoak(t *testing.T) {
	p := open(t, chrome.Options{Script: keepMemory}, "?task=st&model=st-hybrid-neg&n=64")
	p.live("st-hybrid-neg")
	round := func() {
		p.Helper()
		eval[[]float64](p, steps)
		for _, model := range []string{"st-gdn-neg", "st-gdn-pos", "st-transformer", "st-constructed", "st-hybrid-neg"} {
			p.choose("model", model)
			p.live(model)
		}
	}
	rounds := 2
	if whole {
		rounds = 5
	}
	round() // what is made once
	round()
	before, had := p.use()
	for range rounds {
		round()
	}
	after, has := p.use()
	t.Logf("wasm memory %.1f MB, then %.1f MB; listeners %d, then %d", before/1e6, after/1e6, had, has)
	if after > 1.25*before {
		t.Errorf("the wasm's memory grew from %.1f to %.1f MB in %d rounds", before/1e6, after/1e6, rounds)
	}
	if has > had+20 {
		t.Errorf("listeners grew from %d to %d in %d rounds", had, has, rounds)
	}
	p.quiet()
}

// Ten thousand steps of a long program, read again and again, with the stage drawing: from the
// thousandth on the wasm's memory grows by at most 1 MiB and no listener is added.
func TestSoakSteps(t *testing.T) {
	cases := []struct{ device, model string }{{"cpu", "st-constructed"}}
	if whole {
		cases = append(cases, struct{ device, model string }{"cpu", "st-hybrid-neg"}, struct{ device, model string }{"auto", "st-constructed"})
	}
	for _, c := range cases {
		t.Run(c.device+" "+c.model, func(t *testing.T) {
			p := open(t, chrome.Options{Script: keepMemory}, "?task=st&n=512&device="+c.device+"&model="+c.model)
			p.live(c.model)
			read := 0
			until := func(n int) {
				t.Helper()
				for read < n {
					read += len(eval[[]float64](p, steps)) + 1
				}
			}
			until(1000)
			before, had := p.use()
			from := time.Now()
			until(10000)
			after, has := p.use()
			t.Logf("%d steps in %v; wasm memory %.2f MiB, then %.2f MiB; listeners %d, then %d", read, time.Since(from).Round(time.Second), before/(1<<20), after/(1<<20), had, has)
			if after > before+1<<20 {
				t.Errorf("the wasm's memory grew from %.2f to %.2f MiB", before/(1<<20), after/(1<<20))
			}
			if has > had {
				t.Errorf("listeners grew from %d to %d", had, has)
			}
			p.quiet()
		})
	}
}
