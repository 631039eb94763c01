// Line charts in SVG. Colours come from classes (compare.css), so that both
// themes and the exported file have their own.
import { svg } from "./dom.js";

const marks = [
  (x, y, r) => svg("circle", { cx: x, cy: y, r }),
  (x, y, r) => svg("rect", { x: x - r * 0.9, y: y - r * 0.9, width: 1.8 * r, height: 1.8 * r }),
  (x, y, r) => svg("path", { d: `M${x} ${y - 1.25 * r}L${x + 1.2 * r} ${y + r}H${x - 1.2 * r}z` }),
  (x, y, r) => svg("path", { d: `M${x} ${y - 1.4 * r}L${x + 1.4 * r} ${y}L${x} ${y + 1.4 * r}L${x - 1.4 * r} ${y}z` }),
  (x, y, r) => svg("path", { d: `M${x} ${y + 1.25 * r}L${x + 1.2 * r} ${y - r}H${x - 1.2 * r}z` }),
  (x, y, r) => svg("path", { d: `M${x - r} ${y - 1.5}h${2 * r}v3h${-2 * r}z` }),
];

// spread moves labels at the heights ys apart, gap between neighbours, within
// from..to where they fit, and keeps their order.
export function spread(ys, gap, from, to) {
  const order = ys.map((y, i) => i).sort((a, b) => ys[a] - ys[b]);
  const out = ys.slice();
  order.forEach((i, k) => { out[i] = Math.max(out[i], k ? out[order[k - 1]] + gap : from); });
  let most = to;
  for (const i of order.toReversed()) {
    out[i] = Math.min(out[i], most);
    most = out[i] - gap;
  }
  return out;
}

const superscript = (n) => [...String(n)].map((c) => (c === "-" ? "\u207b" : "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"[c])).join("");

// decades are the powers of ten that hold every positive y, at least two.
export function decades(ys) {
  const logs = ys.filter((y) => y > 0 && Number.isFinite(y)).map(Math.log10);
  if (!logs.length) return [-6, 0];
  const low = Math.floor(Math.min(...logs));
  return [low, Math.max(Math.ceil(Math.max(...logs)), low + 1) + 0];
}

// steps are round numbers from 0 to most, about count of them.
export function steps(most, count) {
  const raw = Math.max(most, 1) / count;
  const e = 10 ** Math.floor(Math.log10(raw));
  const by = Math.max([1, 2, 5, 10].find((m) => m * e >= raw) * e, 1);
  return Array.from({ length: Math.floor(most / by) + 1 }, (_, i) => i * by);
}

// lineChart draws
//
//	{width, label, x: {scale: "linear" | "log2", ticks, min, max, label},
//	 y: {scale: "linear" | "log", ticks?, min?, max?, label},
//	 series: [{name, tone: 0.., points: [{x, y, error?, title?}], dotted?, quiet?}],
//	 rules: [{y, label}], flags: [{x, title}], dodge}
//
// A series has a colour and a mark by its tone; a dotted one has no marks, a
// quiet one no label. Points are in the order of x. With dodge, series stand
// that many pixels apart, so that equal ones can be told.
export function lineChart({ width, label, x, y, series, rules = [], flags = [], dodge = 0 }) {
  const named = series.filter((s) => !s.quiet && s.points.length);
  const longest = Math.max(0, ...named.map((s) => s.name.length));
  const beside = width >= 560;
  const perRow = Math.max(1, Math.floor((width - 20) / (longest * 7 + 40)));
  const legendRows = beside ? 0 : Math.ceil(named.length / perRow);
  const box = { left: 50, top: 14, right: beside ? longest * 7 + 34 : 14, bottom: 42 + legendRows * 20 };
  const height = (beside ? 320 : 270) + legendRows * 20;
  const w = width - box.left - box.right;
  const h = height - box.top - box.bottom;
  const log = y.scale === "log";
  const range = log ? decades(series.flatMap((s) => s.points.map((p) => p.y))) : [y.min, y.max];
  const across = x.scale === "log2" ? Math.log2 : Number;
  const x0 = across(x.min);
  const inset = 6 + 2.5 * dodge; // room for marks at both ends
  const xs = (v) => box.left + inset + ((w - 2 * inset) * (across(v) - x0)) / Math.max(across(x.max) - x0, 1e-9);
  const ys = (v) => box.top + h - (h * ((log ? Math.log10(v) : v) - range[0])) / (range[1] - range[0]);
  const nodes = [];

  let every = 1;
  while (log && (range[1] - range[0]) / every > 6) every++;
  const ticks = log ? Array.from({ length: Math.floor((range[1] - range[0]) / every) + 1 }, (_, i) => 10 ** (range[0] + i * every)) : y.ticks;
  for (const v of ticks) {
    nodes.push(svg("line", { class: "grid", x1: box.left, x2: box.left + w, y1: ys(v), y2: ys(v) }),
      svg("text", { class: "tick", x: box.left - 7, y: ys(v) + 4, "text-anchor": "end" }, log ? `10${superscript(Math.round(Math.log10(v)))}` : v.toFixed(1)));
  }
  for (const v of x.ticks) {
    nodes.push(svg("line", { class: "grid", x1: xs(v), x2: xs(v), y1: box.top + h, y2: box.top + h + 4 }),
      svg("text", { class: "tick", x: xs(v), y: box.top + h + 17, "text-anchor": "middle" }, String(v)));
  }
  nodes.push(svg("path", { class: "axis", d: `M${box.left} ${box.top}V${box.top + h}H${box.left + w}` }),
    svg("text", { class: "axis-name", x: box.left + w / 2, y: box.top + h + 35, "text-anchor": "middle" }, x.label),
    svg("text", { class: "axis-name", x: 0, y: 0, "text-anchor": "middle", transform: `translate(11 ${box.top + h / 2}) rotate(-90)` }, y.label));
  for (const r of rules) {
    nodes.push(svg("line", { class: "rule", x1: box.left, x2: box.left + w, y1: ys(r.y), y2: ys(r.y) }));
  }
  for (const f of flags) {
    nodes.push(svg("line", { class: "flagged", x1: xs(f.x), x2: xs(f.x), y1: box.top, y2: box.top + h }, svg("title", {}, f.title)));
  }

  for (const s of series) {
    const aside = (p) => xs(p.x) + (s.tone - 2) * dodge;
    const g = svg("g", { class: `series tone-${s.tone}${s.dotted ? " dotted" : ""}` });
    let d = "";
    let pen = "M";
    for (const p of s.points) {
      if (!Number.isFinite(p.y) || log && p.y <= 0) {
        pen = "M";
        continue;
      }
      d += `${pen}${aside(p).toFixed(1)} ${ys(p.y).toFixed(1)}`;
      pen = "L";
    }
    g.append(svg("path", { class: "line", d }));
    for (const p of s.dotted ? [] : s.points) {
      if (!Number.isFinite(p.y) || log && p.y <= 0) continue;
      const at = [aside(p), ys(p.y)];
      if (p.error) g.append(svg("path", { class: "error-bar", d: `M${at[0]} ${ys(Math.min(p.y + p.error, range[1]))}V${ys(Math.max(p.y - p.error, range[0]))}` }));
      if (s.points.length > 70) continue; // a mark a point would be a thick line
      const m = marks[s.tone % marks.length](at[0], at[1], 4);
      m.setAttribute("class", "mark");
      if (p.title) m.append(svg("title", {}, p.title));
      g.append(m);
    }
    nodes.push(g);
  }

  for (const r of rules) nodes.push(svg("text", { class: "tick halo", x: box.left + w / 4, y: ys(r.y) + 14, "text-anchor": "middle" }, r.label));

  const name = (s, at, mark) => svg("g", { class: `series tone-${s.tone}` },
    marks[s.tone % marks.length](mark[0], mark[1], 4), svg("text", { class: "name", x: at[0], y: at[1] }, s.name));
  if (beside) {
    const ends = named.map((s) => s.points.findLast((p) => Number.isFinite(p.y) && !(log && p.y <= 0)) ?? { y: range[0] });
    const at = spread(ends.map((p) => (log && !(p.y > 0) ? box.top + h : ys(p.y))), 17, box.top + 4, box.top + h);
    named.forEach((s, i) => nodes.push(name(s, [box.left + w + 26, at[i] + 4], [box.left + w + 15, at[i]])));
  } else {
    named.forEach((s, i) => {
      const left = 16 + (i % perRow) * ((width - 20) / perRow);
      const top = box.top + h + 52 + Math.floor(i / perRow) * 20;
      nodes.push(name(s, [left + 10, top + 4], [left, top]));
    });
  }
  return svg("svg", { class: "chart", role: "img", "aria-label": label, width, height, viewBox: `0 0 ${width} ${height}` }, ...nodes);
}
