// The panels under the picture: one is open at a time, each a module of
// panels/ that is fetched when it is opened. A module exports
//
//	title   what its tab says
//	create(app, root) -> panel
//
// and a panel has
//
//	show(moment)   draws the moment {model, words, steps, t, step}; called when it
//	               is opened and after each change of it, never while it is closed
//	close()        optional: stops what runs; the panel may be opened again
//	svg()          optional: its drawing as an SVG element with its own colours,
//	               or a promise of it
//	table(here)    optional: the same in numbers, {caption, columns, rows}, or a
//	               promise of it; here: for the page, where a part may do
//	tools          optional: an element for the row of buttons
//
// app is what main.js makes: request, on, moment, player, store, theme, zoo,
// notice, spoken.
import { el } from "./dom.js";
import { stop } from "./format.js";
import { timed } from "./timed.js";

const files = () => import("./export.js"); // when somebody first asks for one

export const panels = [
  { id: "cups", title: "Shell game" },
  { id: "anatomy", title: "One step" },
  { id: "maps", title: "Attention maps" },
  { id: "belief", title: "Truth and belief" },
  { id: "compare", title: "Compare" },
  { id: "switches", title: "Switches" },
  { id: "curve", title: "Accuracy" },
  { id: "export", title: "Export" },
  { id: "text", title: "Text" },
  { id: "inspect", title: "Inspect" },
];

export class Panels {
  #app;
  #root;
  #body = el("div", { class: "panel-body" });
  #tabs = new Map();
  #made = new Map(); // by id: {panel, root}
  #open = "";
  #opening = null;
  #pointed = false; // the tab with the focus got it by a pointer: arrows step the program

  constructor(root, app) {
    this.#app = app;
    this.#root = root;
    const list = el("div", { role: "tablist", "aria-label": "Views", class: "tabs" });
    for (const p of panels) {
      const tab = el("button", { type: "button", role: "tab", id: `tab-${p.id}`, "aria-selected": "false", "aria-controls": "panel", tabindex: "-1",
        onclick: (e) => {
          this.#pointed = e.detail > 0;
          this.#toggle(p.id);
        } }, p.title);
      this.#tabs.set(p.id, tab);
      list.append(tab);
    }
    list.addEventListener("keydown", (e) => this.#move(e));
    list.addEventListener("focusout", () => { this.#pointed = false; });
    root.replaceChildren(list, this.#body);
    this.#body.id = "panel";
    this.#body.hidden = true;
    this.#body.setAttribute("role", "tabpanel");
    this.#mark();
    app.store.on((keys) => { if (keys.has("panel")) this.#opening = this.open(app.store.get("panel")); });
  }

  // toggle opens a panel and brings it into sight, or closes it.
  async #toggle(id) {
    this.#app.store.set({ panel: this.#open === id ? "" : id });
    await this.#opening;
    if (this.#open) this.#root.scrollIntoView({ block: "nearest" });
  }

  // open shows a panel, or none.
  async open(id) {
    if (!this.#tabs.has(id)) id = "";
    if (id === this.#open) return;
    this.#made.get(this.#open)?.panel.close?.();
    this.#open = id;
    this.#mark();
    this.#body.hidden = !id;
    this.#body.replaceChildren();
    if (!id) return;
    try {
      const made = this.#made.get(id) ?? await this.#make(id);
      if (this.#open !== id) return;
      this.#body.replaceChildren(made.root);
      this.show();
    } catch (e) {
      this.#body.replaceChildren(el("p", { class: "error" }, `${stop(`This view could not be opened: ${e.message}`)} Open it again to try again.`));
    }
  }

  // key opens or closes the panel whose digit was pressed, and says whether there is one.
  key(name) {
    const p = /^[0-9]$/.test(name) ? panels[(Number(name) + 9) % 10] : undefined;
    if (!p) return false;
    this.#toggle(p.id);
    return true;
  }

  // show redraws the open panel.
  show() {
    const made = this.#made.get(this.#open);
    if (!made) return;
    try {
      timed(() => made.panel.show(this.#app.moment()));
      if (made.numbers.open) this.#fill(made);
    } catch (e) {
      this.#app.notice("panel", `This view could not be drawn: ${e.message}`, { bad: true });
    }
  }

  get panel() { return this.#made.get(this.#open)?.panel ?? null; }

  async #make(id) {
    const module = await import(`./panels/${id}.js`);
    const inner = el("div", { class: `view view-${id}` });
    const panel = module.create(this.#app, inner);
    const numbers = el("details", { class: "numbers" }, el("summary", {}, "The numbers as a table"), el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The numbers as a table" }));
    const made = { panel, numbers, root: null };
    numbers.addEventListener("toggle", () => { if (numbers.open) this.#fill(made); });
    const name = () => [id, this.#app.moment().model?.name, `t${this.#app.moment().t}`].filter(Boolean).join("-");
    const save = (label, f) => el("button", { type: "button", class: "small", onclick: async () => {
      try {
        await f();
      } catch (e) {
        this.#app.notice("panel", `The ${label} could not be made: ${e.message}`, { bad: true });
      }
    } }, label);
    const tools = el("div", { class: "row panel-tools" });
    if (panel.tools) tools.append(panel.tools);
    if (panel.svg) tools.append(save("PNG", async () => (await files()).savePNG(await panel.svg(), name())), save("SVG", async () => (await files()).saveSVG(await panel.svg(), name())));
    if (panel.table) tools.append(save("CSV", async () => (await files()).saveCSV(await panel.table(), name())));
    made.root = el("div", {}, inner, tools, panel.table ? numbers : null);
    this.#made.set(id, made);
    return made;
  }

  async #fill(made) {
    const out = made.numbers.lastElementChild;
    try {
      out.replaceChildren((await files()).tableElement(await made.panel.table(true)));
    } catch (e) {
      out.replaceChildren(el("p", { class: "dim" }, e.message));
    }
  }

  #mark() {
    for (const [id, tab] of this.#tabs) {
      tab.setAttribute("aria-selected", String(id === this.#open));
      tab.tabIndex = id === (this.#open || panels[0].id) ? 0 : -1;
    }
    if (this.#open) this.#body.setAttribute("aria-labelledby", `tab-${this.#open}`);
  }

  #move(e) {
    if (this.#pointed) return;
    const ids = panels.map((p) => p.id);
    const at = ids.findIndex((id) => this.#tabs.get(id) === document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: ids.length - 1 }[e.key];
    if (to === undefined || at < 0) return;
    e.preventDefault();
    e.stopPropagation();
    this.#tabs.get(ids[(to + ids.length) % ids.length]).focus();
  }
}
