// Store holds every choice that a view depends on, in one place: the link, the
// panels and the lessons read and write it. Values are plain data; a choice
// that is back at its default is as good as never made.
export const defaults = Object.freeze({
  task: "st", // st, recall or sbr
  model: "", // name in the zoo, or the address of a folder
  weights: "", // how those of a folder are kept: f16, int8 or int4; "" is as they are stored
  n: 8,
  seed: 1,
  device: "auto",
  theme: "auto",
  program: null, // text where it was typed, null where task, n and seed say it
  draft: null, // text in the editor that was not run yet, null where there is none
  t: null, // word shown; null: as the page likes
  panel: "", // id of the open panel
  layer: -1, // position of the layer in the model, and its head; -1: all
  head: 0,
  switches: {}, // as in web/README.md; {} is the model as it is
  patches: [], // of the state, too
  other: "", // the model beside the first, "" where there is none
  otherSwitches: {},
  show: "a", // a, b or diff: what the stage draws of the two
  lesson: "", // address of a lesson, "" where none is open
  page: 0, // of the lesson
  embed: false,
  projector: false,
  speed: 2, // words a second, 0 as fast as it goes
  accuracy: {}, // what the Accuracy view measures: {task, models, sizes, samples, paper}, each where it was chosen
});

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export class Store {
  #values;
  #listeners = new Set();

  constructor(values = {}) { this.#values = { ...defaults, ...values }; }

  get(key) { return this.#values[key]; }
  all() { return { ...this.#values }; }

  // changed lists what is not at its default.
  changed() { return Object.fromEntries(Object.entries(this.#values).filter(([k, v]) => !same(v, defaults[k]))); }

  // set takes {key: value} and tells the listeners which keys got another value.
  set(patch) {
    const keys = new Set();
    for (const [k, v] of Object.entries(patch)) {
      if (!(k in defaults)) throw new Error(`store: no choice is called ${k}`);
      if (same(v, this.#values[k])) continue;
      this.#values[k] = v;
      keys.add(k);
    }
    if (keys.size) for (const f of this.#listeners) f(keys);
    return keys;
  }

  // on calls f(keys) after each change; it returns what ends that.
  on(f) {
    this.#listeners.add(f);
    return () => this.#listeners.delete(f);
  }
}
