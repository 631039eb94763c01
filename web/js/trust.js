// What computes: the badge, and what is said when a GPU fails. The report behind
// it, report.js, is fetched when it is opened.
import { number } from "./format.js";

const $ = (id) => document.getElementById(id);

// plain leaves the part of the program that an error comes from out of it.
export const plain = (error) => String(error ?? "no reason given").replace(/^((webgpu|check|model): )+/, "")
  .replace(/^(?!lost \d).*?device lost \((\w+)\)/, "$1").replace(/: no WebGPU adapter( context deadline exceeded)?$|: GPU device lost$/, "").replace(/\.$/, "");

// fault is what a GPU was refused for, in a few words.
export function fault(error) {
  const of = [
    [/taken for software/, "as slow as a CPU"], [/NaN or infinity/, "gave no numbers"], [/wrong numbers/, "wrong numbers"], [/earlier step's data/, "stale data"],
    [/does not answer/, "no answer"], [/out of GPU memory/, "out of memory"], [/device lost/, "lost"],
  ];
  return of.find(([re]) => re.test(error))?.[1] ?? "failed";
}

// off is how far a kernel is off.
export const off = (x) => (x === null || x === undefined ? "not a number" : number(x));

// blame says what a refused GPU failed by, in a line.
export function blame(refused) {
  const gpu = refused.adapter ? `The GPU (${refused.adapter})` : "The GPU";
  if (refused.kernel) return `${gpu} is refused: its kernel ${refused.kernel} is off by ${off(refused.worst)}, want at most ${off(refused.bound)}`;
  if (/NaN or infinity/.test(refused.error)) return `${gpu} gave what is no number, and the CPU does not: ${plain(refused.error)}`;
  return `${gpu} is refused: ${plain(refused.error)}`;
}

// Trust has the page's {page, store, link, first, notice}; first() is the recorded trace.
export class Trust {
  #p;
  #report = null;

  constructor(parts) {
    this.#p = parts;
    $("device").addEventListener("click", () => this.#open());
  }

  async #open() {
    try {
      const { Report } = await import("./report.js");
      this.#report ??= new Report(this.#p);
      this.#report.open();
    } catch (e) {
      this.#p.notice("report", `The report could not be loaded: ${e.message}`, { bad: true });
    }
  }

  // progress of a check that is under way.
  progress(done = 0, total = 0) { this.#report?.progress(done, total); }

  badge(text, kind, title = text) {
    $("device-text").textContent = text;
    $("device").title = title;
    $("device-dot").className = `dot ${kind}`;
  }

  // show says in the badge what computes.
  show() {
    const { page, store } = this.#p;
    const d = page.device;
    const gpu = d.device === "webgpu";
    const after = page.lost && !d.refused ? " \u00b7 after a loss" : "";
    const why = gpu ? "" : d.refused ? ` \u00b7 GPU refused: ${fault(d.refused.error)}` : store.get("device") === "cpu" ? " \u00b7 as asked" : page.lost ? "" : " \u00b7 no trusted GPU";
    this.badge((gpu ? `WebGPU${d.software ? " in software" : ""} \u00b7 ${d.adapter}` : "CPU") + why + after, gpu && d.trusted && !page.lost ? "good" : "warn",
      plain(d.reason || page.lost || (gpu ? d.adapter : "asked for by the link")));
  }

  // started takes in the answer to init.
  started(d) {
    const { page, store, notice } = this.#p;
    page.device = { device: d.device, adapter: d.adapter, trusted: d.trusted, reason: d.reason, version: d.version, samples: d.samples, refused: d.refused, software: d.software };
    this.show();
    if (d.refused) this.#refused();
    else if (d.device === "cpu" && d.reason && store.get("device") !== "cpu") {
      notice("device", `Running on the CPU: ${plain(d.reason)}. The numbers are the same, only slower.`);
    }
  }

  #refused() {
    this.#p.notice("device", `${blame(this.#p.page.device.refused)}. Everything runs on the CPU: the numbers are right, only slower.`, { bad: true, action: { label: "Report", run: () => this.#open() } });
  }

  // ails takes in that the device has failed; the engine is opening another.
  ails(m) {
    const { page, notice } = this.#p;
    const lost = m.what === "lost";
    if (lost) page.lost = plain(m.error);
    this.badge(lost ? "GPU lost, opening a device again" : `GPU failed: ${fault(m.error)}`, "bad");
    notice("device", `${lost ? `The GPU was lost (${page.lost}).` : `The GPU failed (${plain(m.error)}).`} Reading the program again\u2026`, { bad: true });
  }

  // replaced takes in the device that the engine goes on with.
  replaced(m) {
    const { page, notice } = this.#p;
    const gpu = m.what === "webgpu";
    const before = page.device ?? {};
    page.device = { ...before, device: m.what, adapter: m.text, trusted: true, proven: false, reason: m.error, refused: m.refused, software: m.software };
    this.show();
    if (m.refused) this.#refused();
    else if (page.lost) notice("device", `The GPU was lost (${page.lost}). The step was repeated on ${gpu ? `the GPU, opened again (${m.text})` : `the CPU, since ${plain(m.error)}`}.`);
    else notice("device", "");
    this.#report?.refresh();
  }

  // proven takes in that all kernels of a step agree with the CPU.
  proven() {
    if (this.#p.page.device) this.#p.page.device.proven = true;
    this.#report?.refresh();
  }
}
