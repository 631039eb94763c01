// Drawings of the panels: heat maps, colour bars and small charts on one sheet.
// A sheet is SVG with concrete colours, so that it can be saved as it is; large
// matrices lie under it as canvases, which do not flicker and cost one node.
export { latest, timed } from "./timed.js";
import { css, inkOn, table } from "./colors.js";
import { el, svg } from "./dom.js";
import { number } from "./format.js";

// palette is the page's colours and fonts as an SVG file needs them. They are
// read again when the root's attributes say that they are others: asking for a
// style in the middle of a drawing costs more than the drawing.
let known = { key: null };
export function palette(theme) {
  const key = [theme, ...[...document.documentElement.attributes].map((a) => a.value)].join(" ");
  if (known.key === key) return known;
  const s = getComputedStyle(document.documentElement);
  const get = (name) => s.getPropertyValue(`--${name}`).trim();
  return known = { key, theme, text: get("text"), dim: get("dim"), line: get("line"), chip: get("chip"), panel: get("panel"), accent: get("accent"), good: get("good"), bad: get("bad"), flag: get("flag"), mono: get("mono"), sans: getComputedStyle(document.body).fontFamily };
}

// minus writes a true minus sign.
export const minus = (s) => String(s).replace(/-/g, "\u2212");

// brief has two decimals, so that columns of numbers line up.
export function brief(x) {
  if (typeof x !== "number" || !Number.isFinite(x)) return number(x);
  const s = x.toFixed(2);
  return minus(s === "-0.00" ? "0.00" : s);
}

// vector writes the first few numbers of x.
export function vector(x, most = 5) {
  const some = x.length > most ? x.slice(0, most - 1) : x;
  return `(${some.map(brief).join(", ")}${some.length < x.length ? ", \u2026" : ""})`;
}

// largest of two numbers is the one farther from zero; NaN stays.
export const largest = (a, b) => (a === undefined || !(Math.abs(b) <= Math.abs(a)) ? b : a);

// fill paints the rows from a canvas's row on: ink(i, j) is a pixel's colour.
export function fill(ctx, from, to, cols, ink) {
  const image = ctx.createImageData(cols, to - from);
  const { data } = image;
  let o = 0;
  for (let i = from; i < to; i++) for (let j = 0; j < cols; j++) {
    const c = ink(i, j);
    data[o++] = c[0];
    data[o++] = c[1];
    data[o++] = c[2];
    data[o++] = 255;
  }
  ctx.putImageData(image, 0, from);
}

// Columns of an area are all cw wide, or lie between its edges.
const leftOf = (a, j) => a.x + (a.edges ? a.edges[j] : j * a.cw);
const widthOf = (a, j) => (a.edges ? a.edges[j + 1] - a.edges[j] : a.cw);
const columnAt = (a, x) => (a.edges ? a.edges.findLastIndex((e) => e <= x) : Math.floor(x / a.cw));

export class Sheet {
  #svg;
  #canvases = new Map(); // by key: {canvas, x, y, w, h, used}
  #areas = []; // {x, y, w, h, cw or edges, ch, rows, cols, tell, pick}
  #cursor = null; // {area, i, j} as positions
  #mark = svg("rect", { fill: "none", "stroke-width": 2, visibility: "hidden", "data-cursor": "" });
  #tell;
  #colors;
  #bar = null; // the legend's colours: {key, g}

  // tell(text, byKey) gets what stands under the pointer or the cursor.
  constructor(label, tell = () => {}) {
    this.#tell = tell;
    this.#svg = svg("svg", { "aria-hidden": "true" });
    this.root = el("div", { class: "sheet", role: "img", "aria-label": label }, this.#svg);
    this.root.addEventListener("pointermove", (e) => this.#point(e));
    this.root.addEventListener("pointerdown", (e) => this.#point(e));
    this.root.addEventListener("pointerleave", () => { this.#hide(); this.#tell("", false); });
    this.root.addEventListener("click", (e) => { const at = this.#at(e); if (at) at.area.pick?.(at.i, at.j); });
    this.root.addEventListener("keydown", (e) => this.#key(e));
    this.root.addEventListener("blur", () => this.#hide());
  }

  set label(text) { this.root.setAttribute("aria-label", text); }

  // begin starts a drawing of width x height in these colours. It clears the
  // sheet, unless keep says that the caller looks after what is there.
  begin(width, height, colors, keep = false) {
    this.#colors = colors;
    this.#areas = [];
    for (const c of this.#canvases.values()) c.used = false;
    if (!keep || this.#svg.getAttribute("width") !== String(width)) for (const [k, v] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) this.#svg.setAttribute(k, v);
    if (!keep) this.#svg.replaceChildren();
    this.#mark.setAttribute("stroke", colors.text);
  }

  // end puts the cursor back and drops what was not drawn again.
  end() {
    for (const [key, c] of this.#canvases) {
      if (c.used) continue;
      c.canvas.remove();
      this.#canvases.delete(key);
    }
    this.#svg.append(this.#mark);
    if (this.#areas.length) this.root.tabIndex = 0;
    else this.root.removeAttribute("tabindex");
    const c = this.#cursor;
    if (c && this.#mark.getAttribute("visibility") === "visible") {
      if (this.#areas[c.area]) this.#show(c.area, c.i, c.j, false);
      else this.#hide();
    }
  }

  add(...nodes) { this.#svg.append(...nodes); }

  text(x, y, text, { size = 12, anchor = "start", fill = this.#colors.dim, mono = false, bold = false, turn = 0 } = {}) {
    const t = svg("text", { x, y, "font-size": size, "text-anchor": anchor, fill, "font-family": mono ? this.#colors.mono : this.#colors.sans, "font-weight": bold ? 650 : 400, transform: turn ? `rotate(${turn} ${x} ${y})` : null }, text);
    this.#svg.append(t);
    return t;
  }

  // canvas gives the context of a canvas of cols x rows pixels that fills a
  // part of the sheet; what was painted on it before is still there.
  canvas(key, x, y, w, h, cols, rows) {
    let c = this.#canvases.get(key);
    if (!c) {
      c = { canvas: el("canvas", { "aria-hidden": "true" }) };
      this.#canvases.set(key, c);
      this.root.prepend(c.canvas);
    }
    const s = c.canvas.style;
    if (c.x !== x || c.y !== y || c.w !== w || c.h !== h) {
      Object.assign(c, { x, y, w, h });
      s.left = `${x}px`;
      s.top = `${y}px`;
      s.width = `${w}px`;
      s.height = `${h}px`;
    }
    if (c.canvas.width !== cols || c.canvas.height !== rows) {
      c.canvas.width = cols;
      c.canvas.height = rows;
    }
    c.used = true;
    return c.canvas.getContext("2d");
  }

  // matrix draws rows x cols cells of cw x ch: at(i, j) is a number or
  // undefined, paint(x) its colour, tell(i, j) what a cell says. Cells with
  // room for it show their number.
  matrix(key, { x, y, rows, cols, cw, ch, at, paint, tell, pick, frame = this.#colors.line }) {
    const w = cols * cw;
    const h = rows * ch;
    if (cw >= 34 && ch >= 16) {
      for (let i = 0; i < rows; i++) for (let j = 0; j < cols; j++) {
        const v = at(i, j);
        const c = paint(v);
        this.#svg.append(svg("rect", { x: x + j * cw, y: y + i * ch, width: cw, height: ch, fill: css(c), stroke: frame, "stroke-width": 0.5 }));
        if (v !== undefined) this.text(x + (j + 0.5) * cw, y + (i + 0.5) * ch + 4, brief(v), { size: 11, anchor: "middle", mono: true, fill: inkOn(c) });
      }
    } else {
      fill(this.canvas(key, x, y, w, h, cols, rows), 0, rows, cols, (i, j) => paint(at(i, j)));
    }
    this.#svg.append(svg("rect", { x: x - 0.5, y: y - 0.5, width: w + 1, height: h + 1, fill: "none", stroke: frame }));
    if (tell) this.area({ x, y, w, h, cw, ch, rows, cols, tell, pick });
  }

  // area makes a part of the sheet say what its cells are.
  area(a) { this.#areas.push(a); }

  // legend draws a colour bar with its numbers.
  legend(x, y, width, kind, limit) {
    const key = `${kind} ${width} ${this.#colors.key}`;
    if (this.#bar?.key !== key) {
      const stops = table(this.#colors.theme, kind);
      const n = 48;
      const g = svg("g", {}, ...Array.from({ length: n }, (_, i) => svg("rect", { x: (i * width) / n, y: 0, width: width / n + 0.6, height: 9, fill: css(stops[Math.round((i * 254) / (n - 1))]) })),
        svg("rect", { x: -0.5, y: -0.5, width: width + 1.6, height: 10, fill: "none", stroke: this.#colors.line }));
      this.#bar = { key, g };
    }
    const bar = this.#bar.g.parentNode === this.#svg ? this.#bar.g.cloneNode(true) : this.#bar.g; // a sheet may have several
    bar.setAttribute("transform", `translate(${x} ${y})`);
    this.#svg.append(bar);
    const few = number(limit / 4).length * 7.5 > width / 5;
    const marks = kind !== "signed" ? [0, limit / 4, limit] : few ? [-limit, 0, limit] : [-limit, -limit / 4, 0, limit / 4, limit];
    marks.forEach((v, i) => this.text(x + (width * i) / (marks.length - 1), y + 21, minus(number(v)), { size: 11, anchor: i === 0 ? "start" : i === marks.length - 1 ? "end" : "middle" }));
  }

  // svg is the sheet as one element, canvases included.
  svg() {
    const copy = this.#svg.cloneNode(true);
    copy.querySelector("[data-cursor]")?.remove();
    copy.removeAttribute("aria-hidden");
    copy.prepend(...[...this.#canvases.values()].map((c) => svg("image", { x: c.x, y: c.y, width: c.w, height: c.h, href: c.canvas.toDataURL(), preserveAspectRatio: "none", style: null, "image-rendering": c.w >= c.canvas.width ? "pixelated" : "auto" })));
    return copy;
  }

  // find is the cell under an event.
  #at(e) {
    const r = this.#svg.getBoundingClientRect();
    const x = e.clientX - r.left;
    const y = e.clientY - r.top;
    for (const [n, a] of this.#areas.entries()) {
      if (x < a.x || y < a.y || x >= a.x + a.w || y >= a.y + a.h) continue;
      return { n, area: a, i: Math.min(Math.floor((y - a.y) / a.ch), a.rows - 1), j: Math.min(columnAt(a, x - a.x), a.cols - 1) };
    }
    return null;
  }

  #point(e) {
    const at = this.#at(e);
    if (at) {
      this.root.classList.toggle("picks", !!at.area.pick);
      this.#show(at.n, at.i, at.j, false);
    } else {
      this.#hide();
      this.#tell("", false);
    }
  }

  #show(n, i, j, byKey) {
    const a = this.#areas[n];
    i = Math.min(Math.max(i, 0), a.rows - 1);
    j = Math.min(Math.max(j, 0), a.cols - 1);
    this.#cursor = { area: n, i, j };
    const w = Math.max(widthOf(a, j), 4);
    const h = Math.max(a.ch, 4);
    for (const [k, v] of Object.entries({ x: leftOf(a, j) - 1, y: a.y + i * a.ch - 1, width: w + 2, height: h + 2, visibility: "visible" })) this.#mark.setAttribute(k, v);
    this.#tell(a.tell(i, j), byKey);
    if (byKey) a.seen?.(i, j);
  }

  #hide() { this.#mark.setAttribute("visibility", "hidden"); }

  // Arrows move within a matrix and over its edges to the next one.
  #key(e) {
    if (!this.#areas.length || e.ctrlKey || e.metaKey || e.altKey) return;
    let { area = 0, i = 0, j = 0 } = this.#cursor ?? {};
    area = Math.min(area, this.#areas.length - 1);
    const a = this.#areas[area];
    const move = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[e.key];
    if (!move && e.key !== "Enter") return;
    e.preventDefault();
    e.stopPropagation();
    if (!move) {
      a.pick?.(i, j);
      return;
    }
    if (this.#cursor && this.#mark.getAttribute("visibility") === "visible") {
      i += move[0];
      j += move[1];
      if (j >= a.cols || i >= a.rows) {
        if (area + 1 < this.#areas.length) [area, i, j] = [area + 1, 0, 0];
      } else if ((j < 0 || i < 0) && area > 0) {
        area--;
        [i, j] = [this.#areas[area].rows - 1, this.#areas[area].cols - 1];
      }
    }
    this.#show(area, i, j, true);
  }
}

// tip is a line that says what stands under the pointer; from the keyboard it
// is spoken too.
export function tip(app, idle) {
  const line = el("p", { class: "tip" }, idle);
  return {
    line,
    tell(text, byKey) {
      line.textContent = text || idle;
      if (byKey && text) app.say(text);
    },
  };
}

// onWidth calls f(width) when the width of an element changes.
export function onWidth(element, f) {
  let was = 0;
  new ResizeObserver(() => {
    const w = Math.floor(element.clientWidth);
    if (!w || w === was) return;
    was = w;
    f(w);
  }).observe(element);
}

// picker is a labelled select: options are [value, text].
export function picker(label, onchange) {
  const select = el("select", {});
  select.addEventListener("change", () => onchange(select.value));
  return {
    element: el("label", { class: "pick" }, `${label} `, select),
    set(options, value) {
      const key = options.map((o) => o.join("=")).join(";");
      if (select.dataset.key !== key) {
        select.dataset.key = key;
        select.replaceChildren(...options.map(([v, text]) => el("option", { value: v }, text)));
      }
      select.value = String(value);
    },
  };
}
