// Player moves through a run. The run is a source:
//   { words: [{word, ...}], seek(t, keep): Promise<step or null> }
// with t from -1 (nothing read) to words.length - 1; keep(step) takes steps
// seen on the way, and says whether to go on; if not, that step is the result.
// Moves are done one after the other; of several asked for in the meantime only
// the last is done.
import { endOf, question } from "./trace.js";

export class Player {
  #source;
  #wanted = null;
  #busy = null;
  #timer = null;
  #clock;

  t = -1;
  steps = []; // every step seen, by t
  playing = false;
  leaving = false; // another run is on its way: no moves in this one, and no errors
  perSecond = 2;
  onchange = () => {};
  onbelief = () => {};
  onerror = () => {};
  onwait = () => {}; // called with goal and place of a move that takes longer than a moment

  constructor(clock = globalThis) { this.#clock = clock; }

  get words() { return this.#source?.words ?? []; }
  get step() { return this.t >= 0 ? this.steps[this.t] ?? null : null; }
  get end() { return endOf(this.words); }
  get source() { return this.#source; }

  // use starts on a source, standing at t with the steps already known.
  use(source, t = -1, steps = []) {
    this.pause();
    this.#source = source;
    this.#wanted = null;
    this.leaving = false;
    this.t = t;
    this.steps = steps;
    this.onchange();
  }

  // leave stands still until another run is there, or stay is called.
  leave() {
    this.pause();
    this.#wanted = null;
    this.leaving = true;
  }

  stay() { this.leaving = false; }

  // believe adds to a step, seen or not, what the model believes after it.
  believe(t, belief, truth) {
    this.steps[t] = { t, truth, ...this.steps[t], belief };
    this.onbelief();
  }

  // go moves to t and resolves when the player stands still.
  go(t) {
    if (!this.#source || this.leaving) return Promise.resolve();
    this.#wanted = Math.min(Math.max(t, -1), this.words.length - 1);
    this.#busy ??= this.#work();
    return this.#busy;
  }

  async #work() {
    await null; // so that #busy is set before it is cleared
    while (this.#wanted !== null) {
      const source = this.#source;
      const t = this.#wanted;
      if (t === this.t) {
        this.#wanted = null;
        break;
      }
      let at = this.t;
      let late = false;
      const wait = this.#clock.setTimeout(() => { late = true; this.onwait(t, at); }, 250);
      try {
        const step = await source.seek(t, (s) => {
          if (source !== this.#source) return false;
          this.steps[s.t] = s;
          at = s.t;
          if (late) this.onwait(t, at);
          return this.#wanted === t;
        });
        if (source !== this.#source) continue;
        this.t = step?.t ?? t; // less where another wish came on the way
        if (step) this.steps[step.t] = step;
        this.onchange();
      } catch (e) {
        if (source !== this.#source) continue;
        this.#wanted = null;
        this.pause();
        if (!this.leaving) this.onerror(e);
      } finally {
        this.#clock.clearTimeout(wait);
      }
    }
    this.#busy = null;
  }

  // from is where the next relative move starts.
  get #from() { return this.#wanted ?? this.t; }

  forward() { this.pause(); return this.go(this.#from + 1); }
  back() { this.pause(); return this.go(this.#from - 1); }
  reset() { this.pause(); return this.go(-1); }
  toEnd() { this.pause(); return this.go(this.end); }
  jump(t) { this.pause(); return this.go(t); }

  toggle() { if (this.playing) this.pause(); else this.play(); }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    this.#clock.clearTimeout(this.#timer);
    this.onchange();
  }

  play() {
    if (this.playing || this.leaving || !this.#source || this.words.length === 0) return;
    this.playing = true;
    this.onchange();
    const start = this.t >= this.end ? this.go(-1) : Promise.resolve();
    start.then(() => this.#tick());
  }

  #tick() {
    if (!this.playing) return;
    if (this.t >= this.end) {
      this.pause();
      return;
    }
    const asked = this.#clock.performance.now();
    this.go(this.t + 1).then(() => {
      if (!this.playing) return;
      const wait = this.perSecond > 0 ? Math.max(1000 / this.perSecond - (this.#clock.performance.now() - asked), 0) : 0;
      this.#timer = this.#clock.setTimeout(() => this.#tick(), wait);
    });
  }
}

// traceSource plays a recorded trace.
export const traceSource = (words, steps) => ({ words, seek: async (t) => steps[t] ?? null });

// engineSource plays a session of the engine, which stands before the first
// word. full asks for states and attention rows too; an attention map needs
// them of every word, so then no word is jumped over. Else only the question
// is not, so that its answer is known, and every so-many-th, so that a long way
// is seen to be gone, and can be left.
const stage = 32;
export function engineSource(link, words, full = false) {
  let at = -1;
  const to = async (t) => {
    const fields = full ? { full: true } : {};
    const r = t === at + 1 ? await link.request("step", { count: 1, ...fields })
      : t === -1 ? await link.request("reset")
      : await link.request("seek", { t, ...fields });
    at = t;
    return r.step ?? null;
  };
  const asked = question(words);
  return {
    words,
    async seek(t, keep = () => true) {
      const stops = [];
      if (full) for (let i = at + 1; i < t; i++) stops.push(i);
      else {
        for (let i = at + stage; i < t; i += stage) stops.push(i);
        if (at < asked && asked < t && !stops.includes(asked)) stops.push(asked);
        stops.sort((a, b) => a - b);
      }
      for (const stop of stops) {
        const step = await to(stop);
        if (step && keep(step) === false) return step;
      }
      return to(t);
    },
  };
}
