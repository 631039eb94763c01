// The second lane: another model, or the same with other switches, that reads
// the program of the first and stands at the same word. It moves only while
// somebody looks: the view that compares is open, or the stage shows it.
import { clean } from "./changes.js";
import { latest } from "./picture.js";
import { engineSource } from "./player.js";

export class Second {
  #app;
  #loaded = "";
  #ran = "";
  #source = null;
  #shown = "a";
  #listeners = new Set();
  model = null; // in the trace's form
  steps = []; // seen, by t
  t = -1;
  error = "";
  waiting = false; // a model is on its way

  constructor(app) {
    this.#app = app;
    const follow = latest(() => this.#follow());
    app.onMoment(follow);
    app.on("belief", (m) => {
      if (m.lane !== 1 || !m.belief || !this.steps[m.t]) return;
      Object.assign(this.steps[m.t], { belief: m.belief, truth: m.truth });
      this.#tell();
    });
    app.store.on((keys) => { if (["other", "otherSwitches", "show", "panel"].some((k) => keys.has(k))) follow(); });
  }

  on(f) { this.#listeners.add(f); }

  get step() { return this.t >= 0 ? this.steps[this.t] ?? null : null; }

  #tell() { for (const f of this.#listeners) f(); }

  // #ask is a request to the second lane.
  #ask = (type, fields) => this.#app.request(type, { ...fields, lane: 1 });

  async #follow() {
    const { store } = this.#app;
    const m = this.#app.moment();
    const name = store.get("other");
    const looked = name && (store.get("panel") === "compare" || store.get("show") !== "a");
    if (!m.live || !m.words.length) return;
    try {
      if (looked) await this.#read(m, name);
      await this.#show(looked ? store.get("show") : "a");
    } catch (e) {
      this.error = e.message;
      this.waiting = false;
      this.#app.progress("");
      this.#tell();
    }
  }

  async #read(m, name) {
    const { store } = this.#app;
    if (name !== this.#loaded) {
      this.#ran = "";
      this.waiting = true;
      this.#tell();
      this.model = (await this.#ask("load", { model: this.#app.modelAddress(name) })).model;
      this.#loaded = name;
      this.waiting = false;
      this.#app.progress("");
    }
    const switches = clean(store.get("otherSwitches"), this.model.layers);
    const run = JSON.stringify([switches, m.program]);
    if (run !== this.#ran) {
      await this.#ask("run", { program: m.program, belief: true, switches });
      this.#ran = run;
      this.steps = [];
      this.t = -1;
      this.#source = engineSource({ request: this.#ask }, m.words);
    }
    if (m.t !== this.t) {
      const step = await this.#source.seek(m.t, (s) => { this.steps[s.t] = s; });
      if (step) this.steps[m.t] = step;
      this.t = m.t;
    }
    this.error = "";
    this.#tell();
  }

  async #show(what) {
    if (what === this.#shown) return;
    await this.#app.request("show", { lane: { a: 0, b: 1, diff: "diff" }[what] });
    this.#shown = what;
  }
}
