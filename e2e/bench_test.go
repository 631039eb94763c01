//go:build !js

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"shellgame/internal/chrome"
)

// BenchmarkWasm reports how large the wasm is, as it is and compressed for a site (`make site`).
func BenchmarkWasm(b *testing.B) {
	for b.Loop() {
	}
	b.ReportMetric(0, "ns/op")
	for _, ext := range []string{"", ".gz", ".br"} {
		found, err := filepath.Glob(filepath.Join(root, "dist", "shellgame-*.wasm"+ext))
		if err != nil || len(found) != 1 {
			b.Fatalf("got %d files dist/shellgame-*.wasm%s, want one: run make site", len(found), ext)
		}
		info, err := os.Stat(found[0])
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(info.Size())/1e6, "MB"+ext)
	}
}

// BenchmarkPageStart reports when the first picture and the live engine are there, in a new browser
// with an empty cache, in milliseconds from the start of the navigation: the median of five.
func BenchmarkPageStart(b *testing.B) {
	for _, device := range []string{"webgpu", "cpu"} {
		b.Run(device, func(b *testing.B) {
			var first, live []float64
			for b.Loop() {
				p := open(b, chrome.Options{}, "?model=sbr-hybrid-neg&n=8&device="+map[string]string{"webgpu": "auto", "cpu": "cpu"}[device])
				p.live("sbr-hybrid-neg")
				if got := eval[string](p, "shellgamePage.state().device.device"); got != device {
					b.Fatalf("the page runs on %s, want %s", got, device)
				}
				m := eval[[]float64](p, "['shellgame-first', 'shellgame-live'].map((m) => performance.getEntriesByName(m)[0].startTime)")
				first, live = append(first, m[0]), append(live, m[1])
				p.Close()
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(first), "ms-first")
			b.ReportMetric(median(live), "ms-live")
		})
	}
}

// BenchmarkPageStep reports how long a step of the trained hybrid takes with all that is drawn of
// it, from the page's message to its answer: the median over a program, one step after the other.
// Without the stage it is the engine alone.
func BenchmarkPageStep(b *testing.B) {
	for _, device := range []string{"webgpu", "cpu"} {
		for _, stage := range []string{"yes", "no"} {
			b.Run(device+"/stage="+stage, func(b *testing.B) {
				p := open(b, chrome.Options{}, fmt.Sprintf("?task=sbr&model=sbr-hybrid-neg&n=32&device=%s&stage=%s", device, stage))
				p.live("sbr-hybrid-neg")
				var all []float64
				for b.Loop() {
					all = append(all, eval[[]float64](p, steps)...)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(median(all), "ms-step")
				slices.Sort(all)
				b.ReportMetric(all[len(all)*9/10], "ms-step-p90")
			})
		}
	}
}

// steps runs the program anew and reads it to its end; its value is the time of each step but the
// first, in milliseconds.
const steps = `(async () => {
	const frame = document.querySelector("iframe").contentWindow;
	let id = 2e6;
	const request = (fields) => new Promise((resolve, reject) => {
		const mine = id++;
		addEventListener("message", function f(e) {
			if (e.data?.re !== mine) return;
			removeEventListener("message", f);
			if (e.data.ok) resolve(e.data); else reject(new Error(e.data.error));
		});
		frame.postMessage({ sg: 1, id: mine, ...fields }, location.origin);
	});
	const run = await request({ type: "run", program: shellgamePage.state().program });
	const times = [];
	for (let t = 0; t < run.tokens.length; t++) {
		const from = performance.now();
		await request({ type: "step", count: 1 });
		times.push(performance.now() - from);
	}
	return times.slice(1);
})()`

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}
