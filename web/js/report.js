// The report on what computes, and the check on demand.
import { writeQuery } from "./address.js";
import { el } from "./dom.js";
import { bytes, number } from "./format.js";
import { off, plain } from "./trust.js";

const $ = (id) => document.getElementById(id);

// adapterInfo asks the browser what it says of its adapter; it may never answer.
async function adapterInfo() {
  const late = new Promise((resolve) => { setTimeout(resolve, 1000, null); });
  const asked = (async () => {
    const a = await navigator.gpu?.requestAdapter();
    if (!a) return null;
    const { vendor, architecture, device, description } = a.info ?? {};
    const software = a.info?.isFallbackAdapter ?? a.isFallbackAdapter;
    return [vendor, architecture, device, description, software ? "software" : "", `buffers up to ${bytes(a.limits.maxBufferSize)}`, `bindings up to ${bytes(a.limits.maxStorageBufferBindingSize)}`].filter(Boolean).join(", ");
  })().catch((e) => `error: ${e.message}`);
  return await Promise.race([asked, late]) ?? "none";
}

export class Report {
  #p;
  #checked = ""; // outcome of the last check on demand
  #running = false;
  #info = "";

  constructor(parts) {
    this.#p = parts;
    $("device-copy").addEventListener("click", () => this.#copy());
    $("device-test").addEventListener("click", () => (this.#running ? parts.link.request("cancel", { what: "check" }).catch(() => {}) : this.#check()));
  }

  // facts is the report, a pair a line.
  facts() {
    const { page, first } = this.#p;
    const d = page.device;
    const browser = ["browser", navigator.userAgent];
    if (!d) {
      return [["state", page.phase === "failed" ? `no engine: ${page.error}` : "a recorded run; the engine is being loaded"],
        ["recorded on", first() ? [first().device, first().adapter].filter(Boolean).join(", ") : "unknown"], browser];
    }
    const r = d.refused;
    const tested = d.proven ? "self-test at start, then every kernel of a step" : "self-test at start";
    return [["device", d.device === "webgpu" ? "WebGPU" : "CPU (Go in WebAssembly)"], ["adapter", (d.adapter || "none") + (d.software && d.device === "webgpu" ? ", which computes on the CPU" : "")],
      ["trusted", d.device === "cpu" ? "yes: it is the reference" : d.trusted ? `yes: it agrees with the CPU (${tested})` : "no"],
      ...(r ? [["refused", r.adapter || "a GPU"], ["for", plain(r.error)],
        ...(r.kernel ? [["kernel", r.kernel], ["shape", r.shape], ["worst error", off(r.worst)], ["bound", off(r.bound)]] : [])] : d.reason ? [["why", d.reason]] : []),
      ...(page.lost ? [["lost", page.lost]] : []), ...(this.#checked ? [["full check", this.#checked]] : []),
      ...(this.#info ? [["browser says", this.#info]] : []),
      ["drawing", page.noStage ? "HTML and SVG (no WebGL here)" : "WebGL"],
      ["version", d.version ?? "unknown"], browser];
  }

  // refresh shows the facts as they are now.
  refresh() {
    $("device-list").replaceChildren(...this.facts().flatMap(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]));
    const { page, store } = this.#p;
    const cpu = store.get("device") === "cpu";
    const onGPU = page.device?.device === "webgpu";
    $("device-other").hidden = !cpu && page.device?.device === "cpu";
    $("device-other").textContent = cpu ? "Let it use the GPU" : "Run on the CPU instead";
    $("device-other").href = (writeQuery(location.search, { device: cpu ? null : "cpu" }) || "?") + location.hash;
    $("device-test").hidden = !onGPU && !this.#running;
    $("device-test").textContent = this.#running ? "Stop the check" : "Check this GPU in full";
    $("device-checked").textContent = this.#running ? "" : this.#checked;
    $("device-progress").hidden = !this.#running;
  }

  open() {
    this.refresh();
    $("device-copy").textContent = "Copy";
    if (!$("device-box").open) $("device-box").showModal();
    adapterInfo().then((info) => {
      if (info === this.#info) return;
      this.#info = info;
      this.refresh();
    });
  }

  async #copy() {
    try {
      await navigator.clipboard.writeText(this.facts().map(([k, v]) => `${k}: ${v}`).join("\n"));
      $("device-copy").textContent = "Copied";
    } catch {
      getSelection().selectAllChildren($("device-list"));
      $("device-copy").textContent = "Selected: press Ctrl+C";
    }
  }

  // check compares each kernel with its twin; the engine refuses a GPU that fails.
  async #check() {
    this.#running = true;
    this.progress(0, 0);
    this.refresh();
    try {
      const { check } = await this.#p.link.request("check", { full: true });
      const worst = check.kernels.reduce((a, b) => (b.worst === null || b.worst / b.bound > a.worst / a.bound ? b : a));
      const names = new Set(check.kernels.map((k) => k.name));
      this.#checked = check.pass ? `passed: ${check.kernels.length} dispatches of ${names.size} kernels agree with the CPU, the worst error is ${number(worst.worst / worst.bound)} of its bound (${worst.name})`
        : `failed: ${check.kernels.filter((k) => !k.pass).length} of ${check.kernels.length} dispatches are wrong, the worst is ${worst.name} (${worst.shape}): off by ${off(worst.worst)}, want at most ${off(worst.bound)}`;
    } catch (e) {
      this.#checked = e.message === "cancelled" ? "stopped" : e.message;
    }
    this.#running = false;
    this.refresh();
  }

  // progress of a check that is under way.
  progress(done, total) {
    const bar = $("device-progress");
    if (total > 0) {
      bar.max = total;
      bar.value = done;
    } else {
      bar.removeAttribute("value");
    }
  }
}
