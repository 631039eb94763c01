// One step of the delta rule in its five stages, with the numbers of one head.
import { color, niceLimit, reach } from "../colors.js";
import { el, svg } from "../dom.js";
import { number } from "../format.js";
import { Sheet, brief, fill, latest, minus, onWidth, palette, picker, timed, tip, vector } from "../picture.js";
import { rowNames } from "../trace.js";

export const title = "One step";

export const stages = [
  { name: "decay", says: "The whole state is multiplied by α: it fades, or stays where α is 1." },
  { name: "read before write", says: "What does the state hold along the key k now? Each row is weighted by its entry of k; the columns are summed." },
  { name: "erase", says: "β times that is taken away along k. With β over 1 more is taken than was there, and the sign turns." },
  { name: "write", says: "β times the new value v is added along k." },
  { name: "read", says: "The query q reads the new state: its rows weighted by q and summed are the output." },
];

// explain says in a sentence or two what a step did.
export function explain({ alpha, beta, k, v }) {
  const length = k.reduce((s, x) => s + x * x, 0);
  const along = 1 - beta * length;
  const percent = (x) => `${Math.round(100 * x)}%`;
  const fades = alpha < 0.02 ? "α 0: all that was there before is forgotten."
    : alpha < 0.995 ? `α ${brief(alpha)}: everything fades to ${percent(alpha)}.` : "";
  if (length < 1e-4) return `k is zero: nothing is erased or written.${fades ? ` ${fades}` : ""}`;
  if (beta < 0.02) return `β 0: nothing is written${fades ? `. ${fades}` : " and nothing fades: the state stays as it is."}`;
  const none = v.every((x) => Math.abs(x) < 1e-3);
  const write = none ? " v is 0, so nothing new is written." : "";
  const what = alpha < 0.02 ? `β ${brief(beta)}: v is written along k.`
    : along <= -0.9 ? `β ${brief(beta)}: a mirror. The parts along k change their sign${none ? "" : ", and β·v is added to them"}.`
    : along < -0.1 ? `β ${brief(beta)}: a weak mirror. The parts along k change their sign and shrink to ${percent(-along)}${none ? "" : ", and β·v is added to them"}.`
    : along <= 0.1 ? `β ${brief(beta)}: an overwrite. What stood along k is erased${none ? "" : " and replaced by v"}.`
    : `β ${brief(beta)}: a partial overwrite. ${percent(1 - along)} of what stood along k is ${none ? "erased" : "replaced by v"}.`;
  return [fades, what + (along <= 0.1 ? write : "")].filter(Boolean).join(" ");
}

const product = (w, S) => S.map((row, i) => row.map((x) => w[i] * x));
const zero = (a) => Array.from({ length: a.K }, () => new Array(a.V).fill(0));

// pictureOf is what stage n shows: the state after it, the matrix that made the
// difference, its vectors and the words for each.
export function pictureOf(a, n) {
  const e = brief;
  const sum = (w, S, j) => {
    const terms = w.map((x, i) => [x, S[i][j]]).filter(([x, s]) => x * s !== 0).sort((p, q) => Math.abs(q[0] * q[1]) - Math.abs(p[0] * p[1]));
    return (terms.slice(0, 4).map(([x, s], i) => `${i === 0 ? (x < 0 ? "\u2212" : "") : x < 0 ? " \u2212 " : " + "}${e(Math.abs(x))}·${e(s)}`).join("") || "0") + (terms.length > 4 ? ` \u2026 (${terms.length} terms)` : "");
  };
  switch (n) {
    case 0: return {
      state: a.decayed, term: a.before, op: `= ${e(a.alpha)} ×`, caption: "S before this word", short: "before", formula: `S ← α·S = ${e(a.alpha)}·S`,
      tellState: (i, j) => `α·S = ${e(a.alpha)} · ${number(a.before[i][j])}`, tellTerm: () => "the state after the word before",
    };
    case 1: return {
      state: a.decayed, term: product(a.k, a.decayed), op: "\u2192", caption: "rows weighted by k", short: "k weighs", column: ["k", a.k], row: { name: "kᵀS", x: a.read, tell: (j) => `the column's sum, ${sum(a.k, a.decayed, j)}` }, formula: `kᵀS = ${vector(a.k)} · S = ${vector(a.read)}`,
      tellState: () => "the state after decay", tellTerm: (i, j) => `k·S = ${e(a.k[i])} · ${number(a.decayed[i][j])}`,
    };
    case 2: return {
      state: a.erased, term: a.erase, op: "+=", caption: "−β·k (kᵀS)", column: ["k", a.k], row: { name: "kᵀS", x: a.read, tell: (j) => `read before, ${sum(a.k, a.decayed, j)}` }, formula: `S ← S − β·k (kᵀS) = S − ${e(a.beta)} · ${vector(a.k)} ⊗ ${vector(a.read)}`,
      tellState: (i, j) => `decayed ${number(a.decayed[i][j])} ${a.erase[i][j] < 0 ? "−" : "+"} ${number(Math.abs(a.erase[i][j]))}`, tellTerm: (i, j) => `−β·k·(kᵀS) = −${e(a.beta)} · ${e(a.k[i])} · ${number(a.read[j])}`,
    };
    case 3: return {
      state: a.written, term: a.write, op: "+=", caption: "β·k vᵀ", column: ["k", a.k], row: { name: "v", x: a.v, tell: () => "from this word, after convolution and SiLU" }, formula: `S ← S + β·k vᵀ = S + ${e(a.beta)} · ${vector(a.k)} ⊗ ${vector(a.v)}`,
      tellState: (i, j) => `erased ${number(a.erased[i][j])} ${a.write[i][j] < 0 ? "−" : "+"} ${number(Math.abs(a.write[i][j]))}`, tellTerm: (i, j) => `β·k·v = ${e(a.beta)} · ${e(a.k[i])} · ${number(a.v[j])}`,
    };
    default: return {
      state: a.written, term: product(a.q, a.written), op: "\u2192", caption: "rows weighted by q", short: "q weighs", column: ["q", a.q], row: { name: "qᵀS", x: a.out, tell: (j) => `the column's sum, ${sum(a.q, a.written, j)}` }, formula: `out = qᵀS = ${vector(a.q)} · S = ${vector(a.out)}`,
      tellState: () => "the state after this word", tellTerm: (i, j) => `q·S = ${number(a.q[i])} · ${number(a.written[i][j])}`,
    };
  }
}

// rest is the state before stage n, from which the picture fades.
const rest = (a, n) => [a.before, a.decayed, a.decayed, a.erased, a.written][n];

const limitOf = (...x) => niceLimit(reach(x.flat(2)));

export function create(app, root) {
  let a = null; // the anatomy shown
  let stage = 0;
  let layers = [];
  let layer = -1;
  let head = 0;
  let timer = 0;
  let frame = 0;
  let mix = 1; // how far the state has gone over to the stage's
  let open = false;
  let limits = { state: 1 };
  let names = null;
  let asked = null; // resolves when the step shown is drawn

  const { line, tell } = tip(app, "Point at a cell, or move with the arrow keys, to see its value and what it is made of.");
  const sheet = new Sheet("", tell);
  const thumbs = stages.map(() => el("canvas", { "aria-hidden": "true" }));
  const cards = stages.map((s, i) => el("button", { type: "button", class: "stage-card", onclick: () => { pause(); go(i); } },
    el("span", { class: "stage-name" }, el("b", {}, String(i + 1)), ` ${s.name}`), thumbs[i]));
  const play = el("button", { type: "button", class: "small", onclick: () => (timer ? pause() : start()) }, "Play");
  const back = el("button", { type: "button", class: "small", onclick: () => { pause(); go((stage + 4) % 5); } }, "Previous");
  const next = el("button", { type: "button", class: "small", onclick: () => { pause(); go((stage + 1) % 5); } }, "Next");
  const layerPick = picker("layer", (v) => app.store.set({ layer: Number(v), head: 0 }));
  const headPick = picker("head", (v) => app.store.set({ layer, head: Number(v) }));
  const what = el("p", { class: "lead" });
  const formula = el("p", { class: "formula" });
  const says = el("p", {});
  const check = el("p", { class: "verdict-chip" });
  const dialBox = el("div", { class: "dial" });
  const strip = el("div", { class: "stages", role: "group", "aria-label": "The five stages of the step" }, ...cards);
  const figure = el("div", { class: "stage-figure" }, formula, says, el("div", { class: "stage-room" }, sheet.root), line);
  const body = el("div", {}, what, strip, el("div", { class: "stage-split" }, figure, el("div", { class: "stage-side" }, dialBox, check)));
  const none = el("p", { class: "dim" });
  root.append(el("div", { class: "row view-controls" }, layerPick.element, headPick.element, el("span", { class: "row stage-buttons" }, back, play, next)), none, body);

  let wide = 0;
  onWidth(figure, (w) => {
    wide = w;
    if (a && open) draw();
  });
  app.store.on((keys) => { if (open && (keys.has("layer") || keys.has("head"))) refresh(app.moment()); });

  const ask = latest(async (t, layer, head, stale) => {
    try {
      const r = await app.request("anatomy", { t, layer, head });
      if (stale() || !open) return;
      const first = !a || a.layer !== layer || a.head !== head;
      a = r.anatomy;
      measure(first);
      mix = 1;
      timed(draw);
    } catch (e) {
      if (open) hide(`The numbers of this step could not be had: ${e.message}`);
    }
  });

  // measure sets the colours' reach; while a head is followed it only grows.
  function measure(first) {
    const was = first ? 0 : limits.state;
    const state = Math.max(was, limitOf(a.before, a.written, a.decayed));
    const of = (x) => Math.max(limitOf(x), state / 20); // or rounding would look like something
    limits = { state, q: limitOf(a.q), v: of(a.v), read: of(a.read), out: of(a.out) };
  }

  function refresh(m) {
    layers = (m.model?.layers ?? []).map((l, i) => ({ ...l, i })).filter((l) => l.kind === "gdn");
    if (!layers.length) return hide(m.model ? `${m.model.name} has no delta-rule layer: all its layers are attention, which keeps no state.` : "No model is loaded yet.");
    const wanted = app.store.get("layer");
    if (layers.some((l) => l.i === wanted)) layer = wanted;
    else if (!layers.some((l) => l.i === layer)) layer = layers[0].i;
    const info = layers.find((l) => l.i === layer);
    if (wanted === layer) head = app.store.get("head");
    head = Math.min(Math.max(head, 0), info.heads - 1);
    names = rowNames(m.model, info);
    layerPick.set(layers.map((l) => [l.i, String(l.i)]), layer);
    headPick.set(Array.from({ length: info.heads }, (_, h) => [h, String(h)]), head);
    if (m.t < 0) return hide("Nothing read yet: step to the first word.");
    if (!m.live) return hide("The arithmetic of a step comes from the live engine, which is not there yet.");
    asked = ask(m.t, layer, head);
  }

  function hide(text) {
    a = null;
    pause();
    none.hidden = false;
    none.textContent = text;
    body.hidden = true;
  }

  function draw() {
    none.hidden = true;
    body.hidden = false;
    const word = app.moment().words[a.t]?.word ?? "";
    what.textContent = "";
    what.append(el("code", {}, word), ` at layer ${a.layer}, head ${a.head}: ${explain(a)}`);
    const good = a.worst <= a.bound;
    check.className = `verdict-chip ${good ? "good" : "bad"}`;
    check.textContent = `${good ? "\u2713" : "\u2717"} The kernel's state differs from this arithmetic by ${a.worst === 0 ? "nothing" : `at most ${a.worst.toExponential(1)}`} (bound ${a.bound.toExponential(1)}).`;
    const c = palette(app.theme());
    drawStage(sheet, c, stage, mix, wide || figure.clientWidth);
    thumbs.forEach((canvas, i) => drawThumb(canvas, c, i));
    dialBox.replaceChildren(dial(c, a));
    mark();
  }

  function mark() {
    const p = pictureOf(a, stage);
    formula.textContent = p.formula;
    says.textContent = stages[stage].says;
    cards.forEach((b, i) => { if (i === stage) b.setAttribute("aria-current", "step"); else b.removeAttribute("aria-current"); });
    sheet.label = `Stage ${stage + 1}, ${stages[stage].name}: ${p.formula}`;
  }

  // drawStage draws: the state, what is done, and the matrix that does it with its vectors.
  function drawStage(s, c, n, u, room) {
    const p = pictureOf(a, n);
    const from = rest(a, n);
    const paint = (limit) => (x) => color(c.theme, "signed", x, limit);
    const gutter = names ? 16 : 0;
    const op = 62;
    const free = room - gutter - op - 12;
    let cw = Math.min(72, Math.floor(free / (2 * a.V + 1)));
    const numbers = cw >= 34;
    if (!numbers) cw = Math.max(1, Math.min(Math.floor((free - 10) / a.V) / 2, 12)); // half pixels do
    const ch = numbers ? Math.min(34, cw) : Math.max(1, Math.min(Math.floor(320 / a.K), 12, cw * 2));
    const side = numbers ? cw : 10; // of a vector
    const bar = numbers ? ch : 10;
    const top = bar + 30;
    const bottom = top + a.K * ch;
    const right = gutter + a.V * cw + op;
    const x2 = right + side + 8;
    const width = Math.max(x2 + a.V * cw + 2, 220);
    const height = bottom + 48;
    s.begin(width, height, c);
    const label = (i) => (names ? `${i} ${names[i]}` : i);
    s.text(gutter, top - 8, a.V * cw < 90 ? "S" : "S, the state", { fill: c.text, bold: true });
    s.matrix("state", { x: gutter, y: top, rows: a.K, cols: a.V, cw, ch, paint: paint(limits.state), at: (i, j) => from[i][j] + (p.state[i][j] - from[i][j]) * u,
      tell: (i, j) => `S[${label(i)}, ${j}] = ${number(p.state[i][j])}: ${p.tellState(i, j)}` });
    if (names) names.forEach((name, i) => s.text(gutter - 6, top + (i + 0.5) * ch + 4, name, { anchor: "end", mono: true }));
    s.text(gutter + a.V * cw + (p.column ? op / 2 : (op + side) / 2), top + (a.K * ch) / 2 + 5, p.op, { anchor: "middle", size: 13, mono: true, fill: c.text, bold: true });
    if (p.column) {
      const [name, x] = p.column;
      s.text(right + side / 2, top - 8, name, { anchor: "middle", mono: true, fill: c.text });
      s.matrix("column", { x: right, y: top, rows: a.K, cols: 1, cw: side, ch, paint: paint(name === "q" ? limits.q : 1), at: (i) => x[i], tell: (i) => `${name}[${label(i)}] = ${number(x[i])}` });
    }
    if (p.row) {
      const { name, x, tell } = p.row;
      const limit = { "kᵀS": limits.read, v: limits.v, "qᵀS": limits.out }[name];
      s.text(x2 - 8, 2 + bar / 2 + 4, name, { anchor: "end", mono: true, fill: c.text });
      s.matrix("row", { x: x2, y: 2, rows: 1, cols: a.V, cw, ch: bar, paint: paint(limit), at: (_, j) => x[j], tell: (_, j) => `${name}[${j}] = ${number(x[j])}: ${tell(j)}` });
      if (limit !== limits.state && a.V * cw >= 230) s.text(x2 + a.V * cw, top - 8, `above: \u00b1${number(limit)}`, { anchor: "end", size: 11 });
    }
    s.text(x2, top - 8, a.V * cw < 130 ? p.short ?? p.caption : p.caption, { fill: c.text, bold: true });
    s.matrix("term", { x: x2, y: top, rows: a.K, cols: a.V, cw, ch, paint: paint(limits.state), at: (i, j) => p.term[i][j],
      tell: (i, j) => `${p.caption} [${label(i)}, ${j}] = ${number(p.term[i][j])}: ${p.tellTerm(i, j)}` });
    s.legend(gutter, bottom + 14, Math.min(180, Math.max(a.V * cw, 110)), "signed", limits.state);
    s.end();
    return { width, height };
  }

  function drawThumb(canvas, c, n) {
    const row = n === 1 ? a.read : n === 4 ? a.out : null;
    const m = row ? [row] : n === 0 ? a.decayed : pictureOf(a, n).term;
    const limit = n === 1 ? limits.read : n === 4 ? limits.out : limits.state;
    canvas.width = a.V;
    canvas.height = m.length;
    canvas.style.width = `${Math.min(104, 16 * a.V)}px`;
    canvas.style.height = row ? "12px" : "52px";
    fill(canvas.getContext("2d"), 0, m.length, a.V, (i, j) => color(c.theme, "signed", m[i][j], limit));
  }

  // go shows a stage; the state goes over to it in a moment.
  function go(n) {
    stage = n;
    if (!a) return;
    cancelAnimationFrame(frame);
    const c = palette(app.theme());
    const room = wide || figure.clientWidth;
    mark();
    if (app.reduced()) {
      mix = 1;
      drawStage(sheet, c, stage, 1, room);
      return;
    }
    const began = performance.now();
    const tick = (now) => {
      mix = Math.min(Math.max((now - began) / 500, 0), 1);
      drawStage(sheet, c, stage, mix, room);
      if (mix < 1) frame = requestAnimationFrame(tick);
    };
    tick(began);
  }

  function start() {
    if (!a) return;
    play.textContent = "Pause";
    const on = () => {
      if (stage === 4) return pause();
      go(stage + 1);
      timer = setTimeout(on, 1600);
    };
    if (stage === 4) go(0);
    timer = setTimeout(on, stage === 0 ? 1200 : 0);
  }

  function pause() {
    clearTimeout(timer);
    timer = 0;
    play.textContent = "Play";
  }

  return {
    show(m) {
      open = true;
      refresh(m);
    },
    close() {
      open = false;
      pause();
      cancelAnimationFrame(frame);
    },
    // All five stages below one another, and the dial.
    svg() {
      if (!a) throw new Error("no step is shown");
      const c = palette(app.theme());
      const all = svg("svg", {});
      let y = 24;
      let width = 0;
      const word = app.moment().words[a.t]?.word ?? "";
      const text = (s, at, o) => all.append(svg("text", { x: 10, y: at, "font-size": o.size, fill: o.fill, "font-family": o.mono ? c.mono : c.sans, "font-weight": o.bold ? 650 : 400 }, s));
      text(`${app.moment().model.name}, word ${a.t} ${word}, layer ${a.layer}, head ${a.head}`, y, { size: 14, fill: c.text, bold: true });
      y += 22;
      text(explain(a), y, { size: 13, fill: c.text });
      const gauge = dial(c, a);
      stages.forEach((st, n) => {
        const s = new Sheet("");
        const box = drawStage(s, c, n, 1, 700);
        text(`${n + 1} ${st.name}`, y + 30, { size: 14, fill: c.text, bold: true });
        text(pictureOf(a, n).formula, y + 48, { size: 12, fill: c.dim, mono: true });
        const part = s.svg();
        part.setAttribute("x", 10);
        part.setAttribute("y", y + 56);
        all.append(part);
        width = Math.max(width, box.width + 20);
        y += box.height + 56;
      });
      gauge.setAttribute("x", width + 10);
      gauge.setAttribute("y", 60);
      all.append(gauge);
      width = Math.max(width + 260, 760);
      all.setAttribute("viewBox", `0 0 ${width} ${y + 10}`);
      return all;
    },
    async table() {
      await asked;
      if (!a) throw new Error("no step is shown");
      const columns = Array.from({ length: a.V }, (_, j) => `v=${j}`);
      const lines = (name, m) => m.map((r, i) => [`${name}[k=${i}]`, ...r.map(number)]);
      return {
        caption: `Word ${a.t}, layer ${a.layer}, head ${a.head}: alpha ${number(a.alpha)}, beta ${number(a.beta)}, eigenvalue along k ${number(a.eigenvalue)}`, columns: ["", ...columns],
        rows: [...lines("before", a.before), ...lines("decayed", a.decayed), ["read before write", ...a.read.map(number)], ...lines("erase", a.erase), ...lines("erased", a.erased),
          ["v", ...a.v.map(number)], ...lines("write", a.write), ...lines("written", a.written), ["output", ...a.out.map(number)],
          ["k (over k)", ...a.k.map(number)], ["q (over k)", ...a.q.map(number)]],
      };
    },
  };
}

// dial shows the eigenvalues of the step's transition α(I − β k kᵀ) on a half
// circle from −1 to 1.
function dial(c, { alpha, beta, eigenvalue, K }) {
  const w = 240;
  const r = 88;
  const cx = w / 2;
  const cy = 130;
  const point = (x, d) => {
    const angle = Math.PI * (1 - (Math.min(Math.max(x, -1), 1) + 1) / 2);
    return [cx + d * Math.cos(angle), cy - d * Math.sin(angle)].map((v) => Number(v.toFixed(2)));
  };
  const arc = (from, to, color, width) => svg("path", { d: `M${point(from, r)} A${r} ${r} 0 0 1 ${point(to, r)}`, fill: "none", stroke: color, "stroke-width": width });
  const text = (x, y, s, o = {}) => svg("text", { x, y, "text-anchor": o.anchor ?? "middle", "font-size": o.size ?? 12, fill: o.fill ?? c.dim, "font-family": o.mono ? c.mono : c.sans, "font-weight": o.bold ? 650 : 400 }, s);
  const g = svg("svg", { width: w, height: 220, viewBox: `0 0 ${w} 220`, role: "img", "aria-label": `Eigenvalues of the step: ${brief(eigenvalue)} along k, ${brief(alpha)} in ${K - 1} other directions` });
  g.append(text(cx, 14, "eigenvalues of the step", { fill: c.text }), arc(-1, 0, c.bad, 9), arc(0, 1, c.line, 9));
  for (const x of [-1, -0.5, 0, 0.5, 1]) {
    const [x1, y1] = point(x, r - 8);
    const [x2, y2] = point(x, r + 6);
    g.append(svg("line", { x1, y1, x2, y2, stroke: c.dim }));
    const [tx, ty] = point(x, r + 16);
    g.append(text(tx, ty + 4, minus(x), { size: 11 }));
  }
  const hand = (x, color, width, d) => {
    const [px, py] = point(x, d);
    return svg("line", { x1: cx, y1: cy, x2: px, y2: py, stroke: color, "stroke-width": width, "stroke-linecap": "round" });
  };
  const along = eigenvalue < 0 ? c.bad : c.text;
  const [ax, ay] = point(alpha, r);
  g.append(hand(eigenvalue, along, 4, r - 14), svg("circle", { cx, cy, r: 6, fill: along }),
    svg("circle", { cx: ax, cy: ay, r: 6, fill: c.panel, stroke: c.accent, "stroke-width": 3 }),
    text(cx, 162, `${brief(eigenvalue)} along k`, { size: 17, bold: true, fill: along }),
    text(cx, 181, `α(1 − β|k|²), β ${brief(beta)}`, { mono: true, size: 11.5 }),
    svg("circle", { cx: 30, cy: 201, r: 5, fill: c.panel, stroke: c.accent, "stroke-width": 2.5 }),
    text(42, 205, `α ${brief(alpha)} in the ${K - 1} other directions`, { anchor: "start" }));
  return g;
}
