// Who looks at whom: the delta rule's own attention map beside the softmax map
// of an attention layer, in one drawing.
import { color, niceLimit, nothing } from "../colors.js";
import { el, svg } from "../dom.js";
import { number } from "../format.js";
import { Sheet, fill, largest, latest, minus, onWidth, palette, picker, timed, tip } from "../picture.js";

export const title = "Attention maps";

const kinds = {
  gdn: { name: "delta rule", title: "The delta rule's own map", scale: "signed",
    says: "Unrolled, the output at a word is a sum of the values v of the words before, with these weights. They can be negative, and each later word's decay and erase is in them." },
  attention: { name: "attention", title: "The softmax map", scale: "chance",
    says: "The output at a word is a mean of the values v of the words before, with these weights. They are positive and add up to 1." },
};

// plan lays a map of n words out in so much room: cells of whole pixels, of
// quarters where they are small, with several words in one where there are
// more words than pixels.
export function plan(n, room, most = 26) {
  const pool = Math.max(1, Math.ceil(n / Math.max(room, 1)));
  const cells = Math.ceil(n / pool);
  const fit = room / cells;
  return { pool, cells, cell: Math.max(1, Math.min(most, fit < 4 ? Math.floor(4 * fit) / 4 : Math.floor(fit))) };
}

// block is the number farthest from zero among pool x pool weights, of the
// rows up to t.
export function block(rows, i, j, pool, t) {
  let m;
  for (let a = i * pool; a < Math.min((i + 1) * pool, t + 1, rows.length); a++) {
    for (let b = j * pool; b < Math.min((j + 1) * pool, rows[a].length); b++) m = largest(m, rows[a][b]);
  }
  return m;
}

const short = (word) => (word.length > 11 ? `${word.slice(0, 10)}\u2026` : word);

class Pane {
  #app;
  #kind;
  #what;
  #chip = el("p", { class: "verdict-chip" });
  #none = el("p", { class: "dim" });
  #width = 0;
  #layerPick;
  #headPick;
  #painted = null; // what is on the canvas: {key, t, limit, theme, cells}
  #words = null;
  #run = 0; // counts the runs seen, as part of the key
  layer = -1;
  head = 0;
  map = null; // {key, rows, worst, bound, t}
  asked = null; // resolves when the map is drawn

  constructor(app, kind) {
    this.#app = app;
    this.#kind = kind;
    this.#what = kinds[kind];
    const { line, tell } = tip(app, "Point at a cell, or move with the arrow keys; a click goes to the word.");
    this.sheet = new Sheet("", tell);
    this.#layerPick = picker("layer", (v) => app.store.set({ layer: Number(v), head: 0 }));
    this.#headPick = picker("head", (v) => app.store.set({ layer: this.layer, head: Number(v) }));
    this.picks = el("div", { class: "row view-controls" }, this.#layerPick.element, this.#headPick.element);
    this.drawn = el("div", {}, this.picks, this.sheet.root, line, this.#chip, el("p", { class: "hint" }, this.#what.says));
    this.root = el("section", { class: "map-pane" }, el("h2", {}, this.#what.title), this.#none, this.drawn);
    this.ask = latest((m, stale) => this.#ask(m, stale));
    onWidth(this.root, (w) => {
      this.#width = w;
      this.#painted = null;
      if (this.map) this.draw(app.moment());
    });
  }

  // show draws what is there and asks for what is not.
  show(m) {
    const all = (m.model?.layers ?? []).map((l, i) => ({ ...l, i }));
    const mine = all.filter((l) => l.kind === this.#kind);
    if (!mine.length) return this.#hide(all.length ? `${m.model.name} has no ${this.#what.name} layer: ${this.#kind === "gdn" ? "all its layers are attention" : "all its layers are delta rules, which look back only through their state"}.` : "No model is loaded yet.");
    const wanted = this.#app.store.get("layer");
    if (mine.some((l) => l.i === wanted)) {
      this.layer = wanted;
      this.head = this.#app.store.get("head");
    } else if (!mine.some((l) => l.i === this.layer)) {
      this.layer = mine[0].i;
      this.head = 0;
    }
    const info = mine.find((l) => l.i === this.layer);
    this.head = Math.min(Math.max(this.head, 0), info.heads - 1);
    this.#layerPick.set(mine.map((l) => [l.i, String(l.i)]), this.layer);
    this.#headPick.set(Array.from({ length: info.heads }, (_, h) => [h, String(h)]), this.head);
    if (m.t < 0) return this.#hide("Nothing read yet: step to the first word.");
    if (!m.live) return this.#hide("The maps come from the live engine, which is not there yet.");
    if (m.words !== this.#words) {
      this.#words = m.words;
      this.#run++;
    }
    const key = `${this.#run} ${this.layer} ${this.head}`;
    if (this.map?.key === key && this.map.rows.length > m.t) {
      this.draw(m);
      return;
    }
    this.asked = this.ask({ key, layer: this.layer, head: this.head });
  }

  async #ask({ key, layer, head }, stale) {
    try {
      const known = this.map?.key === key ? this.map.rows : [];
      const { map } = await this.#app.request("maps", { layer, head, from: known.length });
      if (stale()) return;
      const from = map.t + 1 - map.rows.length; // rows before it were known
      this.map = { ...map, key, rows: known.slice(0, from).concat(map.rows) };
      timed(() => this.draw(this.#app.moment()));
    } catch (e) {
      this.#hide(`The map could not be had: ${e.message}`);
    }
  }

  #hide(text) {
    this.map = null;
    this.#painted = null;
    this.#none.textContent = text;
    this.#none.hidden = false;
    this.drawn.hidden = true;
  }

  draw(m) {
    if (m.t < 0 || m.words !== this.#words || !m.words.length) return;
    this.#none.hidden = true;
    this.drawn.hidden = false;
    const { rows, key } = this.map;
    const t = Math.min(m.t, rows.length - 1);
    const s = this.sheet;
    const c = palette(this.#app.theme());
    const words = m.words;
    const width = Math.max(this.#width || this.root.clientWidth, 240);
    const long = Math.min(11, Math.max(...words.map((w) => w.word.length)));
    let left = 12 + long * 6.3;
    let right = 6 + long * 4; // for words that lean over
    let p = plan(words.length, Math.min(width - left - right, 460));
    const named = p.cell >= 10;
    if (!named) {
      left = 34;
      right = 4;
      p = plan(words.length, Math.min(width - left - right, 500));
    }
    const top = named ? 14 + long * 6 : 34;
    const side = p.cells * p.cell;
    s.begin(left + side + right, top + side + 36, c);
    this.#paint(p, left, top, side, t, c, key, rows);
    const at = (x) => (x / p.pool) * p.cell;
    if (named) {
      words.forEach((w, i) => {
        const ink = i === t ? c.text : c.dim;
        s.text(left - 5, top + at(i) + p.cell / 2 + 4, short(w.word), { size: 10, anchor: "end", mono: true, fill: ink, bold: i === t });
        s.text(left + at(i) + p.cell / 2 + 4, top - 5, short(w.word), { size: 10, mono: true, turn: -55, fill: ink });
      });
    } else {
      const step = [5, 10, 20, 50, 100, 200].find((x) => at(x) >= 34) ?? 500;
      for (let i = 0; i < words.length; i += step) {
        s.text(left - 5, top + at(i) + 4, i, { size: 10.5, anchor: "end" });
        s.text(left + at(i), top - 5, i, { size: 10.5, anchor: i ? "middle" : "start" });
      }
      s.text(left, top - 19, "word looked at \u2192", { size: 11 });
    }
    s.add(svg("rect", { x: left - 0.5, y: top - 0.5, width: side + 1, height: side + 1, fill: "none", stroke: c.line }),
      svg("rect", { x: left - 1, y: top + Math.floor(at(t) / p.cell) * p.cell - 1, width: Math.max(at(t + 1), p.cell) + 2, height: p.cell + 2, fill: "none", stroke: c.accent, "stroke-width": 2 }));
    s.legend(left, top + side + 10, Math.min(180, side), this.#what.scale, this.#painted.limit);
    s.area({ x: left, y: top, w: side, h: side, cw: p.cell, ch: p.cell, rows: p.cells, cols: p.cells, tell: (i, j) => this.#tell(words, i * p.pool, j * p.pool, p.pool, t), pick: (i) => this.#app.player.jump(Math.min(i * p.pool, words.length - 1)) });
    s.end();
    const row = rows[t];
    const j = row.reduce((best, x, i) => (Math.abs(x) > Math.abs(row[best]) ? i : best), 0);
    s.label = `${this.#what.title}, layer ${this.layer}, head ${this.head}: word ${t}, ${words[t].word}, takes most, ${minus(number(row[j]))}, of word ${j}, ${words[j].word}`;
    this.#check(row);
  }

  // paint colours the cells that are not on the canvas yet.
  #paint(p, left, top, side, t, c, key, rows) {
    const ctx = this.sheet.canvas("map", left, top, side, side, p.cells, p.cells);
    const was = this.#painted;
    const same = was && was.key === key && was.theme === c.theme && was.cells === p.cells;
    let limit = this.#kind === "gdn" ? (same ? was.limit : 0) : 1;
    if (this.#kind === "gdn") {
      let most = 0;
      for (let i = same ? Math.min(was.seen + 1, t) : 0; i <= t; i++) for (const x of rows[i]) most = Math.max(most, Math.abs(x));
      limit = Math.max(limit, niceLimit(most));
    }
    const whole = !same || was.limit !== limit;
    const from = whole ? 0 : Math.floor(Math.min(was.t + 1, t + 1) / p.pool);
    const to = whole ? p.cells : Math.floor(Math.max(was.t, t) / p.pool) + 1;
    const back = nothing(c.theme);
    if (to > from) fill(ctx, from, to, p.cells, (i, j) => {
      const x = i * p.pool > t ? undefined : p.pool === 1 ? rows[i][j] : block(rows, i, j, p.pool, t);
      return x === undefined ? back : color(c.theme, this.#what.scale, x, limit);
    });
    this.#painted = { key, t, seen: same ? Math.max(was.seen, t) : t, limit, theme: c.theme, cells: p.cells };
  }

  #tell(words, i, j, pool, t) {
    if (pool > 1 && i <= t) { // the strongest of the words that share the cell
      let best = [i, j];
      for (let a = i; a < Math.min(i + pool, t + 1); a++) for (let b = j; b < Math.min(j + pool, a + 1); b++) {
        if (Math.abs(this.map.rows[a][b]) > Math.abs(this.map.rows[best[0]]?.[best[1]] ?? 0)) best = [a, b];
      }
      [i, j] = best;
    }
    const name = (x) => `word ${x} "${words[Math.min(x, words.length - 1)].word}"`;
    if (i > t) return `${name(i)} is not read yet`;
    if (j > i) return `${name(i)} cannot look at ${name(j)}, which comes later`;
    return `${name(i)} takes ${minus(number(this.map.rows[i][j]))} of ${name(j)}`;
  }

  #check(row) {
    const { worst, bound } = this.map;
    let good;
    let text;
    if (this.#kind === "gdn") {
      good = worst <= bound;
      text = `map × V ${good ? "equals" : "differs from"} the kernel's output: worst error ${worst.toExponential(1)} (bound ${bound.toExponential(1)})`;
    } else {
      const off = Math.abs(row.reduce((s, x) => s + x, 0) - 1);
      good = off < 1e-5;
      text = `the row of this word adds up to 1 within ${off === 0 ? "rounding" : off.toExponential(1)}`;
    }
    this.#chip.className = `verdict-chip ${good ? "good" : "bad"}`;
    this.#chip.textContent = `${good ? "\u2713" : "\u2717"} ${text}`;
  }
}

export function create(app, root) {
  const panes = [new Pane(app, "gdn"), new Pane(app, "attention")];
  root.append(el("div", { class: "map-panes" }, ...panes.map((p) => p.root)));
  let open = false;
  app.store.on((keys) => { if (open && (keys.has("layer") || keys.has("head"))) for (const p of panes) p.show(app.moment()); });
  const drawn = () => panes.filter((p) => p.map);

  return {
    show(m) {
      open = true;
      for (const p of panes) p.show(m);
    },
    close() { open = false; },
    svg() {
      const c = palette(app.theme());
      const all = svg("svg", {});
      let x = 10;
      let height = 0;
      for (const p of drawn()) {
        const one = p.sheet.svg();
        one.setAttribute("x", x);
        one.setAttribute("y", 30);
        const { width, height: h } = one.viewBox.baseVal;
        all.append(svg("text", { x: x + 4, y: 20, "font-size": 14, "font-weight": 650, fill: c.text, "font-family": c.sans }, `${p.map.kind === "gdn" ? "Delta rule" : "Attention"}: layer ${p.layer}, head ${p.head}`), one);
        x += width + 24;
        height = Math.max(height, h);
      }
      if (!height) throw new Error("no map is drawn");
      all.setAttribute("viewBox", `0 0 ${x} ${height + 40}`);
      return all;
    },
    // The row of the word shown; for a short program whole maps.
    async table() {
      await Promise.all(panes.map((p) => p.asked));
      const { words, t } = app.moment();
      const some = drawn();
      if (!some.length) throw new Error("no map is drawn");
      const name = (p) => `${kinds[p.map.kind].name}, layer ${p.layer} head ${p.head}`;
      const rows = (from) => some.flatMap((p) => p.map.rows.slice(from, t + 1).map((r, i) => [name(p), `${from + i} ${words[from + i].word}`, ...Array.from({ length: t + 1 }, (_, j) => (j < r.length ? brief4(r[j]) : ""))]));
      return { caption: t <= 48 ? "Weights: a row for each word read, a column for each word it takes from" : `Weights of word ${t}, a column for each word it takes from`,
        columns: ["map", "word", ...words.slice(0, t + 1).map((w, j) => `${j} ${w.word}`)], rows: rows(t <= 48 ? 0 : t) };
    },
  };
}

const brief4 = (x) => (Math.abs(x) < 5e-5 ? "0" : String(Number(x.toPrecision(4))));
