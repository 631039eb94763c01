// Lessons beside the picture: pages of text, each with what the page shows to
// it, and questions that the reader answers before the model does.
import { asset } from "./asset.js";
import { el, svg } from "./dom.js";
import { longest, parseLesson, places } from "./lesson.js";
import { render, renderInline } from "./markdown.js";

// addressOf is where a lesson's file is: a name is one of ours.
export const addressOf = (lesson, base) => (lesson.includes("/") ? new URL(lesson, base).href : asset(`lessons/${lesson}.md`));

// accuracies puts the zoo's measured shares into a text: {accuracy MODEL n}.
export function accuracies(text, zoo) {
  return text.replace(/\{accuracy ([\w.-]+) (\d+)\}/g, (whole, name, n) => {
    const a = zoo.find((m) => m.name === name)?.accuracy?.find((x) => x.n === Number(n))?.accuracy;
    if (a === undefined) return whole;
    return a < 1 && a >= 0.9995 ? ">99.9%" : `${Number((a * 100).toFixed(1))}%`;
  });
}

// readLesson fetches a lesson and refuses what is too long for one.
export async function readLesson(url, fetcher = fetch) {
  const r = await fetcher(url, { credentials: "omit" });
  if (!r.ok) throw new Error(`the server answered ${r.status}`);
  const reader = r.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
    if (text.length > longest) {
      reader.cancel().catch(() => {});
      throw new Error(`it has more than ${longest} characters`);
    }
  }
  return parseLesson(text + decoder.decode());
}

export class Lessons {
  #app;
  #root;
  #box; // the list of lessons
  #pointer;
  #name = ""; // what is open, or being opened
  #lesson = null;
  #guesses = new Map(); // by page: the option chosen

  // root is the element beside the picture, box the dialog that lists lessons.
  constructor(app, root, box) {
    this.#app = app;
    this.#root = root;
    this.#box = box;
    this.#pointer = new Pointer(app);
  }

  // start opens what the link names. apply says whether the page shows what the
  // lesson asks for, or keeps what the link says. It returns whether it does.
  async start(apply) {
    const { lesson, page } = this.#app.store.all();
    if (!lesson || !await this.#read(lesson)) return null;
    const at = this.#at(page);
    this.#draw();
    return apply ? at : null;
  }

  // list shows the lessons that there are.
  async list() {
    const out = this.#box.querySelector("ol");
    this.#box.showModal();
    try {
      const r = await fetch(asset("lessons/index.json"));
      if (!r.ok) throw new Error(`the server answered ${r.status}`);
      const lessons = await r.json();
      out.replaceChildren(...lessons.map((l) => el("li", {}, el("button", { type: "button", class: "lesson-item", "aria-current": l.name === this.#name, onclick: () => { this.#box.close(); this.open(l.name); } },
        el("b", {}, l.title), el("span", {}, l.summary), el("span", { class: "dim" }, `${l.pages} pages`)))));
    } catch (e) {
      out.replaceChildren(el("li", { class: "error" }, `The list of lessons could not be read: ${e.message}`));
    }
  }

  // open opens a lesson at a page and shows what that asks for.
  async open(name, page = 0) {
    if (await this.#read(name)) await this.go(page);
  }

  // holds throws where there is no such lesson, or it has no such page.
  async holds(name, page) {
    const { pages } = await readLesson(addressOf(name, document.baseURI)).catch((e) => { throw new Error(`lesson=${name} could not be opened: ${e.message}`); });
    if (page >= pages.length) throw new Error(`page=${page} (want 0 to ${pages.length - 1})`);
  }

  // go turns to a page.
  async go(page) {
    this.#guesses.delete(page);
    if (!this.#lesson || page < 0 || page >= this.#lesson.pages.length) return;
    const p = this.#lesson.pages[page];
    const done = this.#app.open({ ...fresh, ...p.choices, lesson: this.#name, page }, p.end);
    this.#draw();
    this.#root.querySelector("h2")?.focus({ preventScroll: true });
    if (this.#root.getBoundingClientRect().top < 0) this.#root.scrollIntoView({ block: "start" });
    await done;
  }

  close() { this.#app.store.set({ lesson: "", page: 0 }); }

  // key turns pages; it reports whether the key did something.
  key(name) {
    const step = { n: 1, N: 1, b: -1, B: -1 }[name];
    if (!step || !this.#lesson) return false;
    this.go(this.#app.store.get("page") + step);
    return true;
  }

  #at(page) { return this.#lesson.pages[page] ?? this.#lesson.pages[0]; }

  async #read(name) {
    if (this.#lesson && this.#name === name) return true;
    this.#name = name;
    try {
      const lesson = await readLesson(addressOf(name, document.baseURI));
      if (this.#name !== name) return false;
      this.#lesson = lesson;
      this.#guesses.clear();
      this.#app.notice("lesson", "");
      return true;
    } catch (e) {
      if (this.#name === name) {
        this.#name = this.#lesson ? this.#name : "";
        this.#app.notice("lesson", `The lesson ${name} could not be opened: ${e.message}`, { bad: true });
      }
      return false;
    }
  }

  // follow draws what the choices say, after a step back or from outside.
  async follow() {
    const name = this.#app.store.get("lesson");
    if (!name) {
      this.#name = "";
      this.#lesson = null;
    } else if (!await this.#read(name)) {
      return;
    }
    this.#draw();
  }

  #draw() {
    const { lesson } = this.#app.store.all();
    const open = !!this.#lesson && lesson === this.#name;
    document.body.classList.toggle("has-lesson", open);
    if (open === this.#root.hidden) {
      this.#root.hidden = !open;
      this.#app.layout(open);
    }
    this.#pointer.at([]);
    if (!open) {
      this.#root.replaceChildren();
      return;
    }
    const { title, pages } = this.#lesson;
    const i = Math.min(this.#app.store.get("page"), pages.length - 1);
    const page = pages[i];
    const marks = this.#guesses.has(i) && page.predict?.then?.highlight.length ? page.predict.then.highlight : page.highlight;
    const words = (text) => accuracies(text, this.#app.zoo());
    const body = el("div", { class: "lesson-text" });
    body.append(...render(words(page.text)));
    this.#places(body);
    const turn = (label, to, kind = "") => el("button", { type: "button", class: kind, disabled: to < 0, onclick: () => this.go(to) }, label);
    const bar = el("progress", { max: pages.length, "aria-hidden": "true" });
    bar.value = i + 1;
    this.#root.replaceChildren(
      el("div", { class: "lesson-head" }, el("span", {}, title),
        el("button", { type: "button", class: "lesson-close", "aria-label": "Close the lesson", title: "Close the lesson", onclick: () => this.close() }, "\u00d7")),
      el("h2", { id: "lesson-title", tabindex: "-1" }, page.title),
      body,
      ...(page.predict ? [this.#predict(page, i, words)] : []),
      ...(page.live === "check" ? [this.#check()] : []),
      el("nav", { class: "lesson-nav", "aria-label": "Pages of the lesson" },
        turn("Back", i - 1),
        el("span", { class: "lesson-of" }, `${i + 1} of ${pages.length}`, bar),
        i < pages.length - 1 ? turn("Next", i + 1, "primary") : el("button", { type: "button", class: "primary", onclick: () => this.list() }, "All lessons")),
      el("p", { class: "lesson-again" },
        ...(marks.length ? [el("button", { type: "button", class: "link", onclick: () => this.#pointer.at(marks, true) }, "Show me where")] : []),
        el("button", { type: "button", class: "link", onclick: () => this.go(i) }, "Start this page again")),
    );
    this.#pointer.at(marks);
  }

  // places makes links to places of the page point there.
  #places(body) {
    for (const a of body.querySelectorAll("a[href^='#']")) {
      const name = a.getAttribute("href").slice(1);
      if (!Object.hasOwn(places, name)) continue;
      const b = el("button", { type: "button", class: "link", onclick: () => this.#pointer.at([name], true) });
      b.append(...a.childNodes);
      a.replaceWith(b);
    }
  }

  #predict({ predict }, i, words) {
    const chosen = this.#guesses.get(i);
    const out = el("div", { class: "predict" }, el("p", { class: "predict-question", id: "predict-question" }, ...renderInline(words(predict.question))));
    const options = el("div", { class: "options", role: "group", "aria-labelledby": "predict-question" });
    for (const o of predict.options) {
      const right = o === predict.answer;
      const mark = chosen === undefined ? "" : right ? " right" : o === chosen ? " wrong" : "";
      options.append(el("button", { type: "button", class: `option${mark}`, disabled: chosen !== undefined, "aria-pressed": chosen === undefined ? null : String(o === chosen),
        onclick: () => this.#guess(i, o) }, mark === " right" ? "\u2713 " : mark === " wrong" ? "\u2717 " : "", ...renderInline(o)));
    }
    out.append(options);
    if (chosen === undefined) {
      out.append(el("p", { class: "dim" }, "Choose first; then the page shows what happens."));
      return out;
    }
    const explain = el("div", { class: "explain", role: "status" }, el("p", {}, el("b", {}, chosen === predict.answer ? "Yes." : `No: ${predict.answer}.`)));
    explain.append(...render(words(predict.explain)));
    this.#places(explain);
    out.append(explain, el("button", { type: "button", class: "small", onclick: () => this.go(i) }, "Ask me again"));
    return out;
  }

  #guess(i, option) {
    this.#guesses.set(i, option);
    const { predict } = this.#lesson.pages[i];
    if (predict.then) this.#app.open(predict.then.choices, predict.then.end);
    this.#draw();
    const explain = this.#root.querySelector(".explain");
    explain?.setAttribute("tabindex", "-1");
    explain?.focus({ preventScroll: true });
    explain?.scrollIntoView({ block: "nearest" });
  }

  // check offers the device's self-test, here and now.
  #check() {
    const out = el("div", { class: "live-check" });
    const button = el("button", { type: "button", class: "primary", onclick: async () => {
      button.disabled = true;
      button.textContent = "Checking\u2026";
      try {
        const { check } = await this.#app.request("check", { full: false });
        out.replaceChildren(verdict(check), button);
      } catch (e) {
        out.replaceChildren(el("p", { class: "error" }, `The check could not run: ${e.message}`), button);
      }
      button.disabled = false;
      button.textContent = "Check again";
    } }, "Check this device");
    out.append(button);
    return out;
  }
}

// fresh is what a page shows unless it says otherwise.
const fresh = { program: null, draft: null, t: 0, panel: "", layer: -1, head: 0, switches: {}, patches: [], other: "", otherSwitches: {}, show: "a", n: 8, seed: 1 };

function verdict(check) {
  const show = (x) => (x === 0 ? "0" : x.toExponential(1));
  const kernels = [...check.kernels].sort((a, b) => b.name.startsWith("gdn_") - a.name.startsWith("gdn_")); // what lessons are about
  return el("div", {},
    el("p", {}, el("b", { class: check.pass ? "good" : "bad" }, check.pass ? "\u2713 " : "\u2717 "), `${check.kernels.length} kernels on ${check.adapter || check.device}: ${check.pass ? "all agree with plain Go" : "not all agree with plain Go"}.`),
    el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Kernels" },
      el("table", { class: "data" }, el("thead", {}, el("tr", {}, ...["kernel", "worst", "bound", "shape"].map((t) => el("th", { scope: "col" }, t)))),
        el("tbody", {}, ...kernels.map((k) => el("tr", { class: k.pass ? null : "bad" }, el("th", { scope: "row" }, k.name), el("td", {}, show(k.worst)), el("td", {}, show(k.bound)), el("td", {}, k.shape)))))));
}

// Pointer draws an outline and an arrow around elements of the page.
class Pointer {
  #app;
  #marks = [];

  constructor(app) {
    this.#app = app;
    const place = () => this.#place();
    addEventListener("resize", place);
    addEventListener("scroll", place, { passive: true, capture: true });
    const sizes = new ResizeObserver(place);
    for (const e of document.querySelectorAll("header, #notices, main, main > *, .right > *")) sizes.observe(e);
  }

  // at points at places, by name; show brings the first into view.
  at(names, show = false) {
    for (const m of this.#marks) m.box.remove();
    this.#marks = names.map((name) => {
      const box = el("div", { class: "pointer", "aria-hidden": "true" }, svg("svg", { viewBox: "0 0 32 32" }, svg("path", { d: "M3 3 25 25 M25 12 25 25 12 25" })));
      document.body.append(box);
      return { name, box };
    });
    const first = names.length ? document.querySelector(places[names[0]]) : null;
    const hidden = first?.closest("details:not([open])");
    if (hidden) hidden.open = true;
    if (show) first?.scrollIntoView({ block: "nearest", behavior: this.#app.reduced() ? "auto" : "smooth" });
    this.#place();
  }

  #place() {
    for (const { name, box } of this.#marks) {
      const r = document.querySelector(places[name])?.getBoundingClientRect();
      box.hidden = !r || r.width === 0;
      if (box.hidden) continue;
      box.classList.toggle("near-top", r.top + scrollY < 30);
      box.classList.toggle("near-left", r.left + scrollX < 30);
      box.style.left = `${r.left + scrollX - 4}px`;
      box.style.top = `${r.top + scrollY - 4}px`;
      box.style.width = `${r.width + 8}px`;
      box.style.height = `${r.height + 8}px`;
    }
  }
}
