// The second lane: another model, or the same with other switches, that reads
// the program of the first and stands at the same word. It moves only while
// somebody looks: the view that compares is open, or the stage shows it.
import { fitSwitches } from "./fit.js";
import { latest } from "./timed.js";
import { engineSource } from "./player.js";

export class Second {
  #app;
  #loaded = "";
  #ran = "";
  #source = null;
  #shown = "a";
  #failed = ""; // the model that could not be loaded
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
    if (name !== this.#failed) this.#failed = "";
    const looked = name && !this.#failed && (store.get("panel") === "compare" || store.get("show") !== "a");
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
      this.#start();
      this.waiting = true;
      this.#tell();
      try {
        this.model = (await this.#ask("load", { model: this.#app.modelAddress(name) })).model;
      } catch (e) {
        this.#failed = name; // asked again once another was chosen
        throw e;
      }
      this.#loaded = name;
      this.waiting = false;
      this.#app.progress("");
    }
    const { fit: switches, left } = fitSwitches(store.get("otherSwitches"), this.model.layers, "otherSwitches");
    store.set({ otherSwitches: switches });
    if (left.length) this.#app.notice("fit-second", `Left out: ${left.join("; ")}.`);
    const run = JSON.stringify([switches, m.program]);
    if (run !== this.#ran) {
      this.#start();
      await this.#ask("run", { program: m.program, belief: true, switches });
      this.#start(run); // beliefs of the run before may have come
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

  // start forgets the run before: its steps are not those of the next.
  #start(run = "") {
    this.#ran = run;
    this.steps = [];
    this.t = -1;
  }

  async #show(what) {
    if (what === this.#shown) return;
    await this.#app.request("show", { lane: { a: 0, b: 1, diff: "diff" }[what] });
    this.#shown = what;
  }
}
