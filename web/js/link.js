// Link is the page's end of the line to the engine in the frame: requests with
// answers, and events. The messages are described in ../README.md.
export class Link {
  #next = 1;
  #waiting = new Map();
  #handlers = new Map();
  #here;
  #origin;
  #target;

  // called with the type of a request that has waited for a moment, and with ""
  // when it has been answered
  onbusy = () => {};
  #oldest;
  #late;
  #busy = false;

  // here is the window that receives, target() the one to talk to, or null.
  constructor(here, target) {
    this.#here = here;
    this.#target = target;
    this.#origin = here.origin;
    here.addEventListener("message", this.#receive);
  }

  // request resolves with the answer, or rejects with its error (an Error with
  // line and col where the answer has them).
  request(type, fields = {}) {
    const target = this.#target();
    if (!target) return Promise.reject(new Error("the engine is not there"));
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, type, since: Date.now() });
      this.#watch();
      // In a sandbox page and frame have origins of their own, which no message can name.
      target.postMessage({ sg: 1, id, type, ...fields }, this.#origin === "null" ? "*" : this.#origin);
    });
  }

  on(event, handler) { this.#handlers.set(event, handler); }

  // drop ends every open request with an error, when the engine is gone.
  drop(why) {
    for (const w of this.#waiting.values()) w.reject(new Error(why));
    this.#waiting.clear();
    this.#watch();
  }

  // What says by itself how far it is does not count.
  #watch() {
    const oldest = [...this.#waiting.values()].find((w) => !["check", "curve", "answers", "write", "inspect"].includes(w.type));
    if (oldest === this.#oldest) return;
    this.#oldest = oldest;
    clearTimeout(this.#late);
    if (this.#busy) this.onbusy("");
    this.#busy = false;
    if (!oldest) return;
    this.#late = setTimeout(() => {
      this.#busy = true;
      this.onbusy(oldest.type);
    }, Math.max(oldest.since + 400 - Date.now(), 0));
  }

  close() {
    this.#here.removeEventListener("message", this.#receive);
    this.drop("closed");
  }

  #receive = (e) => {
    if (e.origin !== this.#origin || e.source !== this.#target()) return;
    const m = e.data;
    if (m === null || typeof m !== "object" || m.sg !== 1) return;
    if (typeof m.event === "string") {
      this.#handlers.get(m.event)?.(m);
      return;
    }
    const w = this.#waiting.get(m.re);
    if (!w) return;
    this.#waiting.delete(m.re);
    this.#watch();
    if (m.ok) {
      w.resolve(m);
      return;
    }
    w.reject(Object.assign(new Error(typeof m.error === "string" && m.error || `${w.type} failed without a reason`), { line: m.line, col: m.col }));
  };
}
