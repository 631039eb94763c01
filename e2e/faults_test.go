//go:build !js

package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"shellgame/internal/chrome"
)

// faults makes WebGPU fail in page and frame as the page's query says, from the start, or once
// arm(fault) was called in the frame.
const faults = `(() => {
	if (!globalThis.GPUDevice) return;
	let fault = new URLSearchParams(top.location.search).get("fault") ?? "";
	const armed = new URLSearchParams(top.location.search).get("armed") !== null;
	let on = !armed;
	globalThis.arm = () => { on = true; };
	const is = (name) => on && fault === name;
	const wrap = (proto, name, f) => {
		const real = proto[name];
		proto[name] = function (...a) { return f.call(this, real, ...a); };
	};
	wrap(GPUDevice.prototype, "createShaderModule", function (real, d) {
		if (is("wrong")) d = { ...d, code: d.code.replaceAll("inverseSqrt(", "1.01 * inverseSqrt(") };
		if (is("wrong elsewhere") && d.label?.startsWith("gdn_inputs")) d = { ...d, code: d.code.replaceAll("exp(", "1.01 * exp(") };
		return real.call(this, d);
	});
	globalThis.pipelines = 0;
	wrap(GPUDevice.prototype, "createComputePipeline", function (real, d) {
		globalThis.pipelines++;
		return real.call(this, d);
	});
	const before = new WeakMap();
	wrap(GPUBuffer.prototype, "getMappedRange", function (real, ...a) {
		const now = real.apply(this, a);
		if (!(this.usage & GPUBufferUsage.MAP_READ)) return now;
		if (is("nan")) {
			const f = new Float32Array(now);
			let left = 1;
			for (let i = 0; i < f.length && left; i++) if (Math.abs(f[i]) > 1e-6 && Math.abs(f[i]) < 1e6) { f[i] = NaN; left--; }
		}
		const old = before.get(this);
		before.set(this, now.slice(0));
		return is("stale") && old ? old : now;
	});
	wrap(GPUBuffer.prototype, "mapAsync", function (real, ...a) {
		return is("silent") ? new Promise(() => {}) : real.apply(this, a);
	});
	wrap(GPUDevice.prototype, "createBuffer", function (real, d) {
		const b = real.call(this, d);
		if (is("memory") && d.size > 256) this.dispatchEvent(new GPUUncapturedErrorEvent("uncapturederror", { error: new GPUOutOfMemoryError("not enough memory left") }));
		return b;
	});
	wrap(GPUQueue.prototype, "submit", function (real, ...a) {
		if (is("lost")) {
			on = false; // once
			globalThis.device?.destroy();
		}
		return real.apply(this, a);
	});
	wrap(GPUAdapter.prototype, "requestDevice", async function (real, ...a) {
		return (globalThis.device = await real.apply(this, a));
	});
	if (fault === "dressed") {
		for (const [k, v] of Object.entries({ vendor: "nvidia", architecture: "blackwell", device: "", description: "", isFallbackAdapter: false })) {
			Object.defineProperty(GPUAdapterInfo.prototype, k, { get: () => v });
		}
	}
})();`

// own is a program as somebody would type it; two more swaps than the answer needs.
const own = "a,b,c,d,e=range(5)\na,c=c,a\nb,d=d,b\na,e=e,a\nassert a=="

// typed puts a program into the editor without running it.
func (p page) typed(program string) {
	p.Helper()
	eval[bool](p, fmt.Sprintf(`((e) => { e.value = %q; e.dispatchEvent(new Event("input", {bubbles: true})); return true; })(document.getElementById("program"))`, program))
}

// onCPU checks what must hold after a GPU was refused: the badge's one line, the notice, the program,
// the numbers, the report.
func (p page) onCPU(badge, notice string) {
	p.Helper()
	if d := eval[string](p, "shellgamePage.state().device.device"); d != "cpu" {
		p.Errorf("the page computes on %s, want cpu", d)
	}
	got, said := p.text("device-text"), p.notice("device")
	p.Logf("%s | %s", got, said)
	if got != badge || !strings.Contains(said, notice) || strings.Contains(said, "\n") || len(said) > 300 {
		p.Errorf("badge %q and notice %q, want %q and one line with %q", got, said, badge, notice)
	}
	if program := eval[string](p, "[shellgamePage.state().program, document.getElementById('program').value].join('|')"); program != own+"|"+own {
		p.Errorf("the program is %q, want what was typed", program)
	}
	p.ask2("4")
	compareSteps(p)
}

// compareSteps compares all numbers of the page's run with the command's on the CPU.
func compareSteps(p page) {
	p.Helper()
	var got struct{ Trace map[string]any }
	if err := json.Unmarshal([]byte(p.request(`{type: "trace"}`)), &got); err != nil {
		p.Fatal(err)
	}
	want := command(p, "trace", "--device", "cpu", "--model", "web/zoo/st-constructed", own)
	numbers := 0
	compare(p, "steps", got.Trace["steps"], want["steps"], &numbers)
	if numbers < 100 {
		p.Errorf("compared %d numbers", numbers)
	}
}

// A GPU that fails from the start is refused, named, and nothing of it is shown.
func TestRefusedAtStart(t *testing.T) {
	p := open(t, chrome.Options{Script: faults}, "?device=cpu")
	for _, c := range some(1, []struct{ fault, badge, notice string }{
		{"wrong", "CPU \u00b7 GPU refused: wrong numbers", "its kernel rms_norm is off by 0.0"},
		{"dressed", "CPU \u00b7 GPU refused: as slow as a CPU", "The GPU (nvidia blackwell) is refused: it calls itself hardware and computes "},
		{"stale", "CPU \u00b7 GPU refused: stale data", "read back the stamp of play 1"},
		{"memory", "CPU \u00b7 GPU refused: out of memory", "not enough memory left"},
		{"nan", "CPU \u00b7 GPU refused: wrong numbers", "is off by not a number"},
		{"silent", "CPU \u00b7 GPU refused: no answer", "a mapping did not settle within 3s"},
		{"lost", "CPU \u00b7 GPU refused: lost", "Device was destroyed"},
	}) {
		t.Run(c.fault, func(t *testing.T) {
			p.TB = t
			p.goTo(served.url + "?task=st&model=st-constructed&fault=" + url.QueryEscape(c.fault))
			p.typed(own)
			p.wait("s.phase === 'live' && !s.busy && s.words.length === 7")
			p.onCPU(c.badge, c.notice)
			if n := eval[int](p, "document.querySelector('iframe').contentWindow.pipelines"); n > 6 {
				t.Errorf("the check at start made %d pipelines, want at most 6", n)
			} else if c.fault == "dressed" && n != 6 {
				t.Errorf("%d pipelines were counted, want the six of a whole check", n)
			}
			p.click("device")
			p.wait("document.querySelectorAll('#device-list dt').length > 5")
			eval[bool](p, "(navigator.clipboard.writeText = async (t) => { globalThis.copied = t; }, document.getElementById('device-copy').click(), true)")
			p.wait("!!globalThis.copied")
			report := eval[string](p, "copied")
			want := []string{"device: CPU", "refused: ", "for: ", "browser: Mozilla", "version: "}
			if c.fault == "wrong" {
				want = append(want, "kernel: rms_norm", "shape: norm, token 0", "worst error: 0.0", "bound: ", "refused: google swiftshader")
				p.shot("device-refused")
			}
			for _, w := range want {
				if !strings.Contains(report, w) {
					t.Errorf("the report lacks %q: %s", w, report)
				}
			}
			p.quiet()
		})
	}
}

// One that fails later is refused in the middle of a run, and the step is repeated.
func TestRefusedOnTheWay(t *testing.T) {
	p := open(t, chrome.Options{Script: faults}, "?device=cpu")
	for _, c := range some(1, []struct{ fault, badge, notice string }{
		{"nan", "CPU \u00b7 GPU refused: gave no numbers", "NaN or infinity"},
		{"silent", "CPU \u00b7 GPU refused: no answer", "a mapping did not settle within 3s"},
		{"stale", "CPU \u00b7 GPU refused: stale data", "read back the stamp of play "},
		{"memory", "CPU \u00b7 GPU refused: out of memory", "not enough memory left"},
	}) {
		t.Run(c.fault, func(t *testing.T) {
			p.TB = t
			p.goTo(served.url + "?task=st&model=st-constructed&armed&fault=" + c.fault)
			p.live("st-constructed")
			if d := eval[string](p, "shellgamePage.state().device.device"); d != "webgpu" {
				t.Fatalf("the page computes on %s before the fault", d)
			}
			p.write(own)
			p.wait("s.words.length === 7 && !s.busy")
			p.click("step")
			p.at(1)
			eval[bool](p, "(document.querySelector('iframe').contentWindow.arm(), true)")
			if c.fault == "memory" {
				p.choose("model", "st-hybrid-neg")
				p.live("st-hybrid-neg")
				p.choose("model", "st-constructed")
				p.live("st-constructed")
			} else {
				p.click("step")
				p.at(2)
			}
			p.onCPU(c.badge, c.notice)
			p.shot("refused-" + c.fault)
			p.quiet()
		})
	}
}

// A kernel that the check at start leaves out is found while nothing is asked; all kernels on demand.
func TestCheckOnDemand(t *testing.T) {
	p := open(t, chrome.Options{Script: faults}, "?task=st&model=st-constructed&fault=wrong%20elsewhere")
	p.live("st-constructed")
	p.write(own)
	p.wait("s.words.length === 7 && !s.busy")
	if d := eval[string](p, "shellgamePage.state().device.device"); d != "webgpu" {
		t.Fatalf("the page computes on %s before the fault is found", d)
	}
	p.wait("s.device.device === 'cpu' && s.t >= 0 && !s.busy && !document.getElementById('notice-device').textContent.includes('Reading')")
	p.onCPU("CPU \u00b7 GPU refused: wrong numbers", "its kernel gdn_inputs")
	if !whole {
		return
	}
	p.goTo(served.url + "?task=st&model=st-constructed")
	p.live("st-constructed")
	p.wait("s.device.proven")
	p.click("device")
	p.wait("document.getElementById('device-box').open")
	p.click("device-test")
	p.wait("document.getElementById('device-progress').value > 20")
	p.shot("check-under-way")
	p.click("device-test")
	p.wait("document.getElementById('device-checked').textContent === 'stopped'")
	p.click("device-test")
	if err := p.Wait("document.getElementById('device-checked').textContent.startsWith('passed: ')", 5*time.Minute); err != nil {
		t.Fatal(err)
	}
	t.Log(p.text("device-checked"))
	p.shot("check-passed")
	p.quiet()
}
