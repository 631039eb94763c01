//go:build !js

package e2e

import (
	"encoding/json"
	"slices"
	"testing"

	"shellgame/internal/chrome"
)

// talk puts ask(message) and the engine's events into the page: what its modules do, by hand.
const talk = `(() => {
	const frame = document.querySelector("iframe").contentWindow;
	let next = 2e6;
	const waiting = new Map();
	globalThis.heard = [];
	addEventListener("message", (e) => {
		if (e.data?.event) heard.push({ ...e.data, at: performance.now() });
		waiting.get(e.data?.re)?.(e.data);
	});
	globalThis.ask = (message) => new Promise((resolve) => {
		const id = next++;
		waiting.set(id, resolve);
		frame.postMessage({ sg: 1, id, ...message }, location.origin);
	});
	globalThis.pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
	// steps reads n words, with a pause before each, and returns how long each took to be answered.
	globalThis.steps = async (n, ms) => {
		const took = [];
		for (let i = 0; i < n; i++) {
			await pause(ms);
			const start = performance.now();
			const r = await ask({ type: "step", lane: 1 });
			if (!r.ok || r.t !== i) throw new Error(JSON.stringify(r));
			took.push(performance.now() - start);
		}
		return took;
	};
	return true;
})()`

func middle(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return s[len(s)/2]
}

// Belief and curves take their time without taking the page's: steps are answered beside them.
func TestEngineAnswersBesideLongWork(t *testing.T) {
	devices := []string{"cpu"}
	if whole {
		devices = append(devices, "webgpu")
	}
	for _, device := range devices {
		t.Run(device, func(t *testing.T) {
			p := open(t, chrome.Options{}, "?stage=no&device="+device)
			p.live("st-constructed")
			eval[bool](p, talk)
			program := `"bits=[0,1,1,0,1,0,0,1] a,b,c,d,e=3,0,2,1,3 a,c=c,a b,d=d,b a,e=e,a c,d=d,c a,b=b,a assert bits[a]=="`
			eval[bool](p, `ask({type: "load", lane: 1, model: "sbr-hybrid-neg"}).then((r) => r.ok)`)
			run := func(belief, ms string) []float64 {
				return eval[[]float64](p, `ask({type: "run", lane: 1, belief: `+belief+`, program: `+program+`}).then(() => steps(20, `+ms+`))`)
			}
			run("false", "0") // pipelines are made
			run("true", "0")
			p.Logf("steps without pause: %.0f ms, with belief %.0f ms", middle(run("false", "0")), middle(run("true", "0")))
			plain, believing := run("false", "250"), run("true", "250")
			p.Logf("steps every 250 ms: %.0f ms, at most %.0f; with belief %.0f, at most %.0f", middle(plain), slices.Max(plain), middle(believing), slices.Max(believing))
			if slow := middle(believing); slow > 200 {
				t.Errorf("beside the belief half the steps take more than %.0f ms, want at most 200", slow)
			}
			// Every end of a statement is asked once there is time.
			eval[bool](p, `(async () => { heard.length = 0; await ask({type: "run", lane: 1, belief: true, program: `+program+`}); await ask({type: "seek", lane: 1, t: 19}); return true; })()`)
			p.wait("heard.filter((e) => e.event === 'belief' && e.lane === 1).length === 4")

			curve := eval[string](p, `(async () => {
				heard.length = 0;
				await ask({type: "run", lane: 1, program: `+program+`});
				const answer = ask({type: "curve", task: "sbr", models: ["sbr-hybrid-neg", "sbr-gdn-pos"], levels: [4, 32], samples: 4, seed: 1});
				await pause(1500); // the models are fetched, the kernels made
				const took = await steps(12, 30);
				const second = await ask({type: "curve", task: "sbr", models: ["sbr-gdn-pos"], levels: [4], samples: 1});
				return JSON.stringify({ took, second, ...await answer, events: heard.filter((e) => e.event === "curve" && e.total === 16) });
			})()`)
			var c struct {
				Took   []float64
				Second struct{ Error string }
				Curve  []struct {
					Levels []struct{ Samples int }
				}
				Seconds float64
				Events  []struct{ Done, Total int }
			}
			if err := json.Unmarshal([]byte(curve), &c); err != nil {
				t.Fatal(err)
			}
			p.Logf("a curve of 16 programs took %.1f s; steps beside it %.0f ms, at most %.0f", c.Seconds, middle(c.Took), slices.Max(c.Took))
			if slow := middle(c.Took); slow > 500 { // a curve without pauses takes seconds
				t.Errorf("beside a curve half the steps take more than %.0f ms, want at most 500", slow)
			}
			if len(c.Curve) != 2 || len(c.Curve[0].Levels) != 2 || c.Curve[0].Levels[0].Samples != 4 || c.Events[len(c.Events)-1].Done != 16 {
				t.Errorf("got %s", curve)
			}
			if c.Second.Error == "" {
				p.Log("the curve was done before a second was asked")
			}
			for _, m := range []string{
				`{type: "answers", program: ` + program + `, models: ["sbr-hybrid-neg", "sbr-constructed"]}`,
				`{type: "drift", lane: 1, program: ` + program + `, store: "bf16"}`,
				`{type: "anatomy", lane: 1, t: 9, layer: 1, head: 1}`,
				`{type: "maps", lane: 1, layer: 2, head: 3}`,
				`{type: "check"}`,
			} {
				r := eval[string](p, `(async () => { const s = performance.now(); const r = await ask(`+m+`); return (performance.now() - s).toFixed(0) + " ms " + JSON.stringify(r).slice(0, 300); })()`)
				p.Logf("%s: %s", m, r)
			}
			p.quiet()
		})
	}
}
