// The page's own drawings, in HTML, SVG and canvas: the first picture, and all
// there is where the stage cannot draw. They show what the stage shows.
import { color, css, inkOn, niceLimit, nothing, reach, table } from "./colors.js";
import { beliefAt, inShort, names } from "./beliefs.js";
import { el, svg } from "./dom.js";
import { number, percent, short } from "./format.js";
import { alike, answerAt, rowNames } from "./trace.js";

const largest = (x) => {
  let m = 0;
  for (const v of x.flat(Infinity)) if (Number.isFinite(v) && Math.abs(v) > m) m = Math.abs(v);
  return m;
};

// columns chooses how many heads stand side by side.
const columns = (heads, width, least) => {
  const n = Math.max(1, Math.min(heads, Math.floor((width + 12) / (least + 12))));
  const lines = Math.ceil(heads / n);
  return Math.ceil(heads / lines);
};

// guessBars are the likeliest next words of a step as items of a list.
export function guessBars(step, most) {
  const top = (step?.top ?? []).slice(0, most);
  const truth = step?.truth?.answer;
  const asked = truth !== undefined && truth !== null;
  if (!top.length) return [el("li", { class: "dim empty" }, "step to see what the model expects")];
  return top.map((x, i) => {
    const right = asked && x.word === String(truth);
    const wrong = asked && i === 0 && !right && !alike(top);
    const fill = el("i");
    fill.style.width = `${Math.max(Math.min(x.p, 1) * 100, x.p > 0 ? 0.5 : 0)}%`;
    return el("li", { class: right ? "good" : wrong ? "bad" : undefined },
      el("span", { class: "mark" }, right ? "\u2713" : wrong ? "\u2717" : ""),
      el("code", {}, x.word), el("span", { class: "bar" }, fill), el("span", { class: "p" }, percent(x.p)));
  });
}

export class Views {
  #root;
  #seek;
  #hover;
  #words = [];
  #model = null;
  #limits = [];
  #shown = null; // {steps, t}
  #alone = null; // {layer, head} shown large
  #chips = [];
  #parts = {};
  theme = "light";

  constructor(root, { onSeek, onHover }) {
    this.#root = root;
    this.#seek = onSeek;
    this.#hover = onHover;
    let width = 0;
    new ResizeObserver(() => {
      if (Math.abs(root.clientWidth - width) < 1) return;
      width = root.clientWidth;
      this.#redraw();
    }).observe(root);
    root.addEventListener("mouseleave", () => this.#hover(""));
  }

  // open starts on a run of a model; known are steps for the colour scales.
  open(model, words, known = []) {
    this.#model = model;
    this.#words = words;
    this.#limits = model.layers.map(() => 0);
    this.#alone = null;
    this.#shown = null;
    for (const s of known) this.#measure(s);
    this.#build();
  }

  setTheme(theme) {
    this.theme = theme;
    this.#redraw();
  }

  // show draws the moment after word t; steps are the steps so far.
  show(steps, t) {
    this.#shown = { steps, t };
    if (steps[t]) this.#measure(steps[t]);
    this.#redraw();
  }

  // believe draws the variables again, when what the model believes of them has come.
  believe(steps, t) {
    if (this.#shown) this.#drawVars(steps, steps[t], t);
  }

  #measure(step) {
    (step.layers ?? []).forEach((l, i) => {
      if (l.state) this.#limits[i] = Math.max(this.#limits[i] ?? 0, niceLimit(reach(l.state.flat(2))));
    });
  }

  #build() {
    const strip = el("ol", { class: "strip", "aria-label": "The program, word by word" });
    let before;
    this.#chips = this.#words.map((w, i) => {
      const mark = el("i", { "aria-hidden": "true" });
      const b = el("button", { type: "button", tabindex: "-1", onclick: () => this.#seek(i) }, w.word);
      const li = el("li", { class: i > 0 && w.statement !== before ? "gap" : undefined }, b, mark);
      before = w.statement;
      strip.append(li);
      return { b, mark, li };
    });
    const answer = el("li", { class: "verdict" });
    strip.append(answer);
    const caption = el("span", { class: "dim" });
    const bars = el("ol", { class: "bars" });
    const truth = el("span", { class: "dim" });
    const vars = el("table", { class: "vars" });
    const layers = el("div", { class: "layers" });
    const gaze = el("span", { class: "dim right-end" });
    this.#root.replaceChildren(
      el("div", { class: "head" }, el("h2", {}, "program"), caption, gaze),
      strip,
      el("div", { class: "body" },
        layers,
        el("div", { class: "side" },
          el("div", { class: "head" }, el("h2", {}, "next word"), truth), bars,
          el("h2", {}, "variables"), vars)));
    this.#parts = { strip, answer, caption, bars, truth, vars, layers, gaze };
    this.#redraw();
  }

  #redraw() {
    if (!this.#shown || !this.#parts.strip) return;
    const { steps, t } = this.#shown;
    const step = t >= 0 ? steps[t] : null;
    this.#drawStrip(steps, step, t);
    this.#drawBars(step);
    this.#drawVars(steps, step, t);
    this.#drawLayers(steps, step, t);
  }

  #drawStrip(steps, step, t) {
    const p = this.#parts;
    p.caption.textContent = t < 0 ? "nothing read yet" : `word ${t} of ${this.#words.length - 1}`;
    const gaze = this.#gaze(step);
    p.gaze.textContent = gaze ? `underlined: what layer ${gaze.layer} attends to` : "";
    this.#chips.forEach(({ b, mark, li }, i) => {
      b.className = i < t ? "read" : i === t ? "now" : "later";
      b.tabIndex = i === Math.max(t, 0) ? 0 : -1;
      if (i === t) b.setAttribute("aria-current", "step");
      else b.removeAttribute("aria-current");
      const x = gaze?.row[i] ?? 0;
      mark.style.background = x >= 0.005 ? css(color(this.theme, "chance", x, 1)) : "none";
      li.title = x >= 0.005 ? `attention ${number(x)}` : "";
    });
    const a = answerAt(steps, t);
    p.answer.className = "verdict " + (a ? (a.right ? "good" : "bad") : "");
    p.answer.textContent = a ? `\u2192 ${a.word} ${a.right ? "\u2713" : `\u2717 truth ${a.truth}`}` : "\u2192 ?";
    p.answer.hidden = !this.#words.some((w) => w.word.endsWith("=="));
    const now = this.#chips[Math.max(t, 0)]?.li;
    if (now && p.strip.scrollHeight > p.strip.clientHeight) {
      p.strip.scrollTop = now.offsetTop - p.strip.offsetTop - p.strip.clientHeight / 3;
    }
  }

  // gaze is the strongest attention of the last word in the last attention layer.
  #gaze(step) {
    const l = step?.layers?.findLast((x) => x.kind === "attention" && x.rows);
    if (!l) return null;
    return { layer: l.layer, row: l.rows[0].map((_, j) => Math.max(...l.rows.map((r) => r[j]))) };
  }

  #drawBars(step) {
    const top = (step?.top ?? []).slice(0, 8);
    const truth = step?.truth?.answer;
    this.#parts.truth.textContent = truth === undefined || truth === null ? (alike(top) ? "no preference" : "")
      : `truth: ${truth}${top.some((x) => x.word === String(truth)) ? "" : ", not among these"}`;
    this.#parts.bars.replaceChildren(...guessBars(step, 8));
  }

  #drawVars(steps, step, t) {
    const vars = step?.truth?.vars ?? {};
    const last = beliefAt(steps, t);
    // What was believed of another truth is no belief of this one: it is yet to be asked.
    const belief = names.every((n) => steps[last?.t]?.truth?.vars?.[n] === vars[n]) ? last?.belief.vars : null;
    this.#parts.vars.replaceChildren(
      el("thead", {}, el("tr", {}, el("td"), ...names.map((n) => el("th", { scope: "col" }, n)))),
      el("tbody", {}, el("tr", {}, el("th", { scope: "row" }, "truth"),
        ...names.map((n) => el("td", {}, vars[n] === undefined || vars[n] === null ? "\u00b7" : String(vars[n])))),
      belief ? el("tr", {}, el("th", { scope: "row" }, "belief"),
        ...names.map((n) => el("td", { class: belief[n] ? (belief[n].right ? "good" : "bad") : undefined }, belief[n] ? inShort(belief[n].word) : "\u00b7"))) : null));
  }

  #drawLayers(steps, step, t) {
    const root = this.#parts.layers;
    const width = root.clientWidth || 640;
    const layers = this.#model.layers;
    const nodes = [];
    layers.forEach((info, i) => {
      if (this.#alone && this.#alone.layer !== i) return;
      const data = step?.layers?.[i];
      nodes.push(info.kind === "attention"
        ? this.#attention(info, data, i, steps, t, width)
        : this.#gdn(info, data, i, width));
    });
    root.replaceChildren(...nodes);
  }

  #section(info, data, i, text, kind, limit, grid) {
    const name = data?.layer ?? info.layer ?? i;
    const back = this.#alone ? el("button", { type: "button", class: "small", onclick: () => this.#choose(null) }, "show all heads") : null;
    return el("section", { class: "layer", "aria-label": `layer ${name}` },
      el("div", { class: "head" }, el("h2", {}, `layer ${name}`), el("span", { class: "dim" }, text), back, this.#legend(kind, limit, kind === "signed" && largest(data?.state ?? []) > 1.001 * limit)), grid);
  }

  #choose(alone) {
    this.#alone = alone;
    this.#redraw();
  }

  #legend(kind, limit, beyond) {
    const stops = table(this.theme, kind).filter((_, i) => i % 32 === 0 || i === 254).map(css).join(",");
    const bar = el("i");
    bar.style.background = `linear-gradient(90deg, ${stops})`;
    const labels = kind === "signed" ? [-limit, -limit / 4, 0, limit / 4, limit] : [0, limit / 4, limit];
    return el("span", { class: "legend", role: "img", "aria-label": `colours from ${number(labels[0])} to ${number(limit)}` },
      bar, el("span", {}, ...labels.map((x, i) => el("span", {}, (beyond && i === 0 ? "\u2264" : beyond && i === 4 ? "\u2265" : "") + number(x).replace("-", "\u2212")))));
  }

  #grid(heads, width, least, each) {
    const list = this.#alone ? [this.#alone.head] : Array.from({ length: heads }, (_, h) => h);
    const n = columns(list.length, width, least);
    const grid = el("div", { class: "heads" });
    grid.style.gridTemplateColumns = `repeat(${n}, minmax(0, 1fr))`;
    const col = (width - (n - 1) * 12) / n;
    grid.append(...list.map((h) => each(h, col)));
    return grid;
  }

  #head(i, h, lines, label, picture) {
    return el("figure", { class: "one" },
      el("figcaption", {},
        el("button", { type: "button", class: "plain", "aria-label": `layer ${i} head ${h}, ${this.#alone ? "show all" : "show alone"}`,
          onclick: () => this.#choose(this.#alone ? null : { layer: i, head: h }) }, `head ${h}`), ...lines),
      el("div", { role: "img", "aria-label": label, class: "map" }, picture));
  }

  #gdn(info, data, i, width) {
    const K = info.k;
    const V = info.v;
    const limit = this.#limits[i] || 1;
    const names = rowNames(this.#model, info);
    const small = K * V <= 64 && V <= 4;
    const room = names ? width - 18 : width;
    const grid = this.#grid(info.heads, small ? Math.min(room, info.heads * 222) : room, small ? 48 : 118, (h, col) => {
      const alpha = data?.alpha?.[h];
      const beta = data?.beta?.[h];
      const lines = [];
      if (alpha !== undefined && beta !== undefined) {
        lines.push(el("span", { class: small ? "gates wide" : "gates" }, el("span", {}, `\u03b1 ${short(alpha)}\u00a0`), " ", el("span", { class: beta > 1 ? (small ? "flag" : "flag chip") : undefined }, `\u03b2 ${short(beta)}`)));
        if (beta > 1 && small && col >= 92) lines.push(el("span", { class: "flag chip" }, `1\u2212\u03b2 ${short(1 - beta)}`));
      }
      const state = data?.state?.[h];
      const label = `state of layer ${i} head ${h}, ${K} by ${V}${state ? "" : ", not recorded"}`;
      const where = (k, v) => `layer ${data?.layer ?? i} head ${h} state[k=${k}${names ? " " + names[k] : ""},v=${v}] = ${number(state[k][v])}`;
      const picture = !state ? el("div", { class: "absent" }, known(data) ? "not recorded" : "empty")
        : small ? this.#tiles(state, K, V, col, limit, h === 0 || this.#alone ? names : null, where)
        : this.#pixels(K, V, Math.min(col, this.#alone ? 900 : 420), 12 * (this.#alone ? 2 : 1), (k, v) => color(this.theme, "signed", state[k][v], limit), where);
      return this.#head(i, h, lines, label, picture);
    });
    if (names) grid.classList.add("named");
    if (small) grid.style.maxWidth = `${info.heads * 222}px`;
    return this.#section(info, data, i, `gated delta rule \u00b7 state K ${K} \u00d7 V ${V}`, "signed", limit, grid);
  }

  // tiles draws a small state in SVG with its numbers.
  #tiles(state, K, V, col, limit, names, where) {
    const w = Math.min(Math.floor(col / V), 200);
    const h = this.#alone || innerHeight > 900 ? 72 : 52;
    const nodes = [];
    for (let k = 0; k < K; k++) {
      for (let v = 0; v < V; v++) {
        const c = color(this.theme, "signed", state[k][v], limit);
        nodes.push(svg("rect", { x: v * w, y: k * h, width: w - (v < V - 1), height: h - (k < K - 1), fill: css(c), "data-k": k, "data-v": v },
          svg("title", {}, where(k, v))));
        if (w >= 36) nodes.push(svg("text", { x: v * w + w / 2, y: k * h + h / 2 + 4, "text-anchor": "middle", fill: inkOn(c) }, short(state[k][v])));
      }
      if (names) nodes.push(svg("text", { x: -8, y: k * h + h / 2 + 4, "text-anchor": "end", class: "name" }, names[k]));
    }
    const s = svg("svg", { class: "tiles", width: V * w, height: K * h, viewBox: `0 0 ${V * w} ${K * h}` }, ...nodes);
    s.addEventListener("mouseover", (e) => {
      const k = e.target.dataset?.k;
      if (k !== undefined) this.#hover(where(Number(k), Number(e.target.dataset.v)));
    });
    return s;
  }

  // pixels draws rows x cols cells on a canvas, in whole device pixels; where
  // there are more cells than pixels, only every so-many-th is drawn.
  #pixels(rows, cols, width, most, at, where, after) {
    if (!rows || !cols) return el("canvas", { width: 0, height: 0 });
    const scale = globalThis.devicePixelRatio || 1;
    const fit = (width * scale) / cols;
    const cell = Math.max(1, Math.min(Math.floor(fit), Math.round(most * scale)));
    const pool = fit < 1 ? Math.ceil(1 / fit) : 1;
    const w = Math.ceil(cols / pool);
    const h = Math.ceil(rows / pool);
    const small = new ImageData(w, h);
    for (let i = 0; i < h; i++) {
      for (let j = 0; j < w; j++) {
        const c = at(i * pool, j * pool, pool);
        small.data.set([c[0], c[1], c[2], 255], 4 * (i * w + j));
      }
    }
    const source = document.createElement("canvas");
    source.width = w;
    source.height = h;
    source.getContext("2d").putImageData(small, 0, 0);
    const canvas = el("canvas", { width: w * cell, height: h * cell });
    canvas.style.width = `${(w * cell) / scale}px`;
    canvas.style.height = `${(h * cell) / scale}px`;
    const ctx = canvas.getContext("2d");
    ctx.imageSmoothingEnabled = false;
    ctx.drawImage(source, 0, 0, w * cell, h * cell);
    after?.(ctx, cell, scale, pool);
    canvas.addEventListener("mousemove", (e) => {
      const r = canvas.getBoundingClientRect();
      const i = Math.min(Math.floor(((e.clientY - r.top) / r.height) * h) * pool, rows - 1);
      const j = Math.min(Math.floor(((e.clientX - r.left) / r.width) * w) * pool, cols - 1);
      if (i >= 0 && j >= 0) this.#hover(where(i, j));
    });
    canvas.addEventListener("mouseleave", () => this.#hover(""));
    return canvas;
  }

  #attention(info, data, i, steps, t, width) {
    const words = this.#words;
    const T = words.length;
    const grid = this.#grid(info.heads, width, 118, (h, col) => {
      const row = data?.rows?.[h];
      const lines = [];
      let label = `attention of layer ${i} head ${h}, nothing read yet`;
      if (row) {
        const j = row.reduce((best, p, k) => (p > row[best] ? k : best), 0);
        lines.push(el("span", { class: "gates" }, `${short(row[j])} on `, el("code", {}, words[j].word)));
        label = `attention of layer ${i} head ${h}: most, ${number(row[j])}, on word ${j}, ${words[j].word}`;
      }
      const p = (a, b) => (b <= a && a <= t ? steps[a]?.layers?.[i]?.rows?.[h]?.[b] : undefined);
      const back = nothing(this.theme);
      const most = (a, b, pool) => {
        let m;
        for (let x = a; x < Math.min(a + pool, T); x++) for (let y = b; y < Math.min(b + pool, T); y++) {
          const q = p(x, y);
          if (q !== undefined && !(q <= m)) m = q;
        }
        return m === undefined ? back : color(this.theme, "chance", m, 1);
      };
      const where = (a, b) => {
        const q = p(a, b);
        const head = `layer ${data?.layer ?? i} head ${h}: word ${a} "${words[a].word}"`;
        return q === undefined ? `${head} does not look at word ${b} "${words[b].word}"` : `${head} looks at word ${b} "${words[b].word}": ${number(q)}`;
      };
      const named = info.heads === 1 || this.#alone;
      const room = named ? Math.min(col, 640) - 90 : Math.min(col, 260);
      const picture = this.#pixels(T, T, room, 24, most, where, (ctx, cell, scale, pool) => {
        if (pool > 1 || t < 0) return;
        ctx.strokeStyle = getComputedStyle(this.#root).getPropertyValue("--accent");
        ctx.lineWidth = Math.max(1, scale);
        ctx.strokeRect(0.5, t * cell + 0.5, (t + 1) * cell - 1, cell - 1);
      });
      return this.#head(i, h, lines, label, picture);
    });
    return this.#section(info, data, i, `attention \u00b7 ${info.heads} head${info.heads === 1 ? "" : "s"}`, "chance", 1, grid);
  }
}

const known = (data) => data !== undefined && data !== null;
