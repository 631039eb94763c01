// Inspect: what a model's states and gates were like over a whole text, layer by
// layer and head by head, and which heads did most at one of its words: what the
// command shellgame inspect prints.
import { niceLimit } from "../colors.js";
import { el, style, svg } from "../dom.js";
import { save } from "../export.js";
import { number, percent } from "../format.js";
import { Sheet, latest, onWidth, palette, timed, tip } from "../picture.js";
import { readable, shared, sharing, tokenizer } from "../prompt.js";

export const title = "Inspect";

const named = 5; // heads in a list
const few = 40; // heads that are all shown at first
const mostWords = 160; // in the strip
const H = 25; // of a row

const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

// The first bin of beta that lies beyond 1, where an eigenvalue is negative.
const beyond = (borders) => borders.findIndex((b) => b >= 1);

// parted is the histogram of beta in two: those up to 1, and those above. A beta
// of 1 is counted with the bin that begins there, but its eigenvalue is 0.
export function parted(beta, borders, negative) {
  const from = beyond(borders);
  const total = beta.reduce((a, b) => a + b, 0);
  const above = beta.map((n, i) => (i < from ? 0 : n));
  const ones = above.reduce((a, b) => a + b, 0) - Math.round(negative * total);
  above[from] -= ones;
  return { below: beta.map((n, i) => n - above[i]), above };
}

// together is what a layer's heads are together: for the delta rule the least and
// the largest norm, the gates of all, the mean share of negative eigenvalues and
// the most that one wrote and read; for attention its head with the largest weight.
export function together({ kind, heads }) {
  if (kind !== "gdn") return heads.reduce((a, b) => (b.weight > a.weight ? b : a));
  const all = (key) => heads.map((h) => h[key]);
  const sum = (lists) => lists[0].map((_, i) => lists.reduce((s, l) => s + l[i], 0));
  return { least: Math.min(...all("norm")), norm: Math.max(...all("norm")), alpha: sum(all("alpha")), beta: sum(all("beta")),
    negative: all("negative").reduce((a, b) => a + b, 0) / heads.length, wrote: Math.max(...all("wrote")), read: Math.max(...all("read")) };
}

// bars is a path of a histogram's bars, w wide, that stand on y and are at most h
// high; on is what lies below each.
export function bars(counts, most, x, y, w, h, on = null) {
  const each = w / counts.length;
  const high = (n) => (n > 0 && most > 0 ? Math.max((h * n) / most, 1.5) : 0);
  return counts.map((n, i) => {
    if (!(n > 0)) return "";
    const top = y - high(n + (on?.[i] ?? 0));
    const foot = y - high(on?.[i] ?? 0);
    return `M${(x + i * each + 0.5).toFixed(1)} ${foot.toFixed(1)}V${top.toFixed(1)}h${(each - 1).toFixed(1)}V${foot.toFixed(1)}z`;
  }).join("");
}

// windowOf is what the strip shows of n words: [from, to), the same as before
// while the chosen one is in it.
export function windowOf(at, n, from, most = mostWords) {
  if (at < from || at >= from + most) from = at - Math.floor(most / 2);
  from = Math.max(Math.min(from, n - most), 0);
  return [from, Math.min(from + most, n)];
}

// columns lays a row out: {x, w} of each part, in so many CSS pixels.
export function columns(width) {
  const roomy = width >= 620;
  const gap = roomy ? 18 : 8;
  const parts = roomy ? { name: 148, norm: 0, alpha: 0, beta: 0, negative: 50, wrote: 0, read: 0 } : { name: 60, norm: 0, alpha: 0, beta: 0, negative: 46 };
  const weight = { norm: 1.5, alpha: 1.2, beta: 1.2, wrote: 0.8, read: 0.8 };
  const open = Object.keys(parts).filter((k) => !parts[k]);
  const rest = width - 8 - Object.values(parts).reduce((a, b) => a + b, 0) - gap * (Object.keys(parts).length - 1);
  const all = open.reduce((s, k) => s + weight[k], 0);
  let x = 4;
  const out = { roomy };
  for (const [k, w] of Object.entries(parts)) {
    out[k] = { x, w: w || Math.min(Math.floor((rest * weight[k]) / all), 230) };
    x += out[k].w + gap;
  }
  out.width = x - gap + 4;
  return out;
}

// three writes a number with three digits that count, so that a column of them reads well.
export const three = (x) => (x >= 0.01 && x < 999.5 ? x.toPrecision(3) : number(x));

// rows are the numbers of a report as a table, of some layers or all.
export function rows(report, layers = null) {
  return report.layers.filter((l) => !layers || layers.has(l.layer)).flatMap((l) => l.heads.map((h) => [l.layer, h.head, l.kind, h.norm, h.negative, h.wrote, h.read, h.token, h.weight, h.entropy]));
}

const tableColumns = ["layer", "head", "kind", "norm", "beta > 1", "wrote", "read", "attends to", "weight", "entropy"];

export function create(app, root) {
  const ready = style("inspect.css");
  const { store } = app;
  let open = false;
  let model = null; // whose text and report these are
  let words = null; // of the program that text is
  let text = null; // {ids, pieces, prompt, unit}: what is read
  let at = 0; // the chosen word
  let report = null;
  let seen = null; // the text that report is of
  let reading = false;
  let slow = false; // for longer than a moment
  let stopped = ""; // why the text is not read
  let progress = "";
  let shown = null; // Set of layers that are open
  let width = 0;

  const prompt = el("textarea", { rows: "3", spellcheck: "false", "aria-label": "Prompt" });
  const follow = sharing(prompt, app);
  const go = el("button", { type: "button", class: "primary", onclick: () => (reading ? stop() : words ? again() : take(false)) }, "Read");
  const written = el("button", { type: "button", onclick: () => take(true) }, "Read what the view Text wrote");
  const said = el("p", { class: "hint", role: "status" });
  const lead = el("p", { class: "lead" });
  const strip = el("ol", { class: "strip", "aria-label": "the words that were read" });
  const { line, tell } = tip(app, "Point at a figure, or move with the arrow keys.");
  const captions = el("div", { class: "inspect-captions" });
  const list = el("div", { class: "inspect-layers", role: "group", "aria-label": "layers and heads" });
  const chosen = el("h2", {});
  const strongest = el("div", { class: "inspect-strongest" });
  const note = el("p", { class: "hint" });
  const body = el("div", { hidden: true }, lead,
    chosen, strip, strongest, el("h2", {}, "Layers and heads"), captions, list, line,
    note);
  root.append(prompt, el("div", { class: "row inspect-ask" }, go, written, said), body);

  const json = el("button", { type: "button", class: "small", onclick: () => {
    if (!fresh()) app.notice("panel", "The JSON could not be made: nothing is read yet", { bad: true });
    else save(new Blob([`${JSON.stringify(report)}\n`], { type: "application/json" }), `${report.model.name}-inspect.json`);
  } }, "JSON");

  // ---- what is read

  const stop = () => app.request("cancel", { what: "inspect" }).catch(() => {});
  app.on("progress", (m) => {
    if (m.what !== "inspect" || !reading || !text) return;
    progress = `${m.done} of ${plural(m.total, text.unit)} read`;
    if (slow) status();
  });

  const fresh = () => report !== null && seen === text;

  const ask = latest(async () => {
    const mine = text;
    if (!mine || !open || fresh() && report.at === at) return;
    reading = true;
    stopped = progress = "";
    const late = setTimeout(() => {
      slow = true;
      status();
    }, 300);
    try {
      const { inspect } = await app.request("inspect", { ids: mine.ids, at, top: named });
      if (text === mine) {
        seen = mine;
        report = Object.assign(inspect, { prompt: mine.prompt, tokens: mine.ids.map((id, i) => ({ id, text: mine.pieces[i] })) });
      }
    } catch (e) {
      if (text === mine && open) stopped = e.message === "cancelled" ? ["Stopped", progress].filter(Boolean).join(": ") : e.message;
    }
    clearTimeout(late);
    reading = slow = false;
    if (open) timed(draw);
  });

  function again() {
    stopped = "";
    ask();
  }

  // take reads the prompt, or what the view Text has written.
  async function take(whole) {
    const of = model;
    stopped = progress = "";
    go.disabled = written.disabled = true;
    shared.prompt = prompt.value;
    said.textContent = "";
    try {
      const t = await tokenizer(app, (s) => { said.textContent = s; });
      const ids = whole ? shared.ids.slice() : [...await t.encode(prompt.value)];
      if (!ids.length) throw new Error("got an empty prompt, want at least one token");
      const next = { ids, pieces: await t.pieces(ids), prompt: whole ? await t.decode(ids) : prompt.value, unit: "token" };
      if (of !== model) return;
      text = next;
      at = ids.length - 1;
      ask();
    } catch (e) {
      stopped = e.message;
    } finally {
      written.disabled = false;
      draw();
    }
  }

  function choose(i) {
    i = Math.min(Math.max(i, 0), text.ids.length - 1);
    if (words) {
      app.player.jump(i);
      return;
    }
    at = i;
    ask();
    drawStrip();
  }

  // ---- drawing

  function status() {
    const own = !app.loaded().programs;
    prompt.hidden = !own;
    written.hidden = !own || reading || shared.model !== app.loaded().name || !shared.ids.length;
    go.textContent = slow ? "Stop" : "Read";
    go.disabled = reading && !slow;
    go.hidden = !own && !slow && !stopped;
    said.className = stopped && !stopped.startsWith("Stopped") ? "error" : "hint";
    said.textContent = slow ? progress || "Reading\u2026" : stopped;
  }

  // name is a word as the page writes it.
  const name = (i) => `${seen.unit} ${i}, \u201c${readable(seen.pieces[i])}\u201d`;

  let cells = { text: null, from: -1, list: [] };
  function drawStrip() {
    const [from, to] = windowOf(at, seen.ids.length, cells.text === seen ? cells.from : 0);
    if (cells.text !== seen || cells.from !== from) {
      const focused = strip.contains(document.activeElement);
      const far = (label, i) => el("li", { class: "gap" }, el("button", { type: "button", class: "later", tabindex: "-1", onclick: () => choose(i) }, label));
      const items = [];
      for (let i = from; i < to; i++) {
        const b = el("button", { type: "button", onclick: () => choose(i), "aria-label": name(i), "data-at": i }, readable(seen.pieces[i]));
        items.push({ b, li: el("li", { class: words && i > 0 && words[i].statement !== words[i - 1].statement ? "gap" : undefined }, b) });
      }
      strip.replaceChildren(...(from > 0 ? [far(`\u2026 ${from} before`, from - 1)] : []), ...items.map((c) => c.li), ...(to < seen.ids.length ? [far(`${seen.ids.length - to} after \u2026`, to)] : []));
      cells = { text: seen, from, list: items.map((c) => c.b) };
      if (focused) cells.list[at - from].focus();
    }
    cells.list.forEach((b, k) => {
      const now = k + from === at;
      b.className = now ? "now" : "read";
      b.tabIndex = now ? 0 : -1;
      if (now) b.setAttribute("aria-current", "true");
      else b.removeAttribute("aria-current");
    });
    const now = cells.list[at - from]?.parentElement;
    if (now && strip.scrollHeight > strip.clientHeight) strip.scrollTop = now.offsetTop - strip.clientHeight / 2;
  }

  strip.addEventListener("keydown", (e) => {
    const here = Number(e.target.dataset?.at);
    const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: seen?.ids.length - 1 }[e.key];
    if (!Number.isInteger(here) || to === undefined || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    e.stopPropagation();
    choose(to);
    cells.list[Math.min(Math.max(to, 0), seen.ids.length - 1) - cells.from]?.focus();
  });

  function drawStrongest() {
    const kinds = new Set(report.layers.map((l) => l.kind));
    const lists = [
      { title: "Wrote most of their state", of: report.wrote, kind: "gdn" },
      { title: "Read most of their state", of: report.read, kind: "gdn" },
      { title: `Attended most to one ${seen.unit}`, of: report.looked, kind: "attention" },
    ].filter((l) => kinds.has(l.kind));
    strongest.replaceChildren(...lists.map((l) => el("section", {}, el("h3", {}, l.title), el("ol", {}, ...l.of.filter((r) => r.by > 0).map((r) => {
      const share = percent(r.by);
      const to = l.kind === "attention" ? report.layers[r.layer].heads[r.head].token : -1;
      const fill = el("i");
      fill.style.width = `${Math.min(100 * r.by, 100)}%`;
      return el("li", {}, el("button", { type: "button", "data-layer": r.layer, "data-head": r.head, onclick: () => goTo(r.layer, r.head), title: words ? "Its attention map" : "Where it stands below" },
        el("span", {}, `layer ${r.layer} head ${r.head}`), el("span", { class: "bar", "aria-hidden": "true" }, fill), el("span", { class: "p" }, share),
        to >= 0 ? el("span", { class: "to" }, `\u2192 ${name(to)}`) : null));
    })), l.of.some((r) => r.by > 0) ? null : el("p", { class: "dim" }, "none"))));
  }

  // goTo goes to a head's map where there is one, else to its row.
  function goTo(layer, head) {
    if (words) {
      store.set({ layer, head, panel: "maps" });
      return;
    }
    shown.add(layer);
    store.set({ layer, head });
    drawLayers();
    const sheet = list.querySelector(`#inspect-${layer} .sheet`);
    sheet?.scrollIntoView({ block: "nearest" });
    sheet?.focus({ preventScroll: true });
  }

  const panes = new Map(); // by layer: {button, drawing, room, sheet}

  function pane(i) {
    let p = panes.get(i);
    if (!p) {
      const button = el("button", { type: "button", class: "inspect-layer", "aria-controls": `inspect-${i}`, "data-layer": i, onclick: () => {
        if (!shown.delete(i)) shown.add(i);
        drawLayer(i);
      } });
      p = { button, room: el("div", { id: `inspect-${i}` }), sheet: null, root: null };
      p.root = el("div", {}, button, p.room);
      panes.set(i, p);
    }
    return p;
  }

  list.addEventListener("keydown", (e) => {
    const buttons = [...list.querySelectorAll(".inspect-layer")];
    const here = buttons.indexOf(document.activeElement);
    const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: buttons.length - 1 }[e.key];
    if (here < 0 || to === undefined || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    e.stopPropagation();
    buttons[Math.min(Math.max(to, 0), buttons.length - 1)].focus();
  });

  // pen draws parts of rows: as functions of c, the colours, and k, the columns.
  function pen(c, k, add) {
    const write = (x, y, s, { size = 11.5, anchor = "start", fill = c.dim, mono = false, bold = false } = {}) => add(svg("text", { x, y, "font-size": size, "text-anchor": anchor, fill, "font-family": mono ? c.mono : c.sans, "font-weight": bold ? 650 : 400 }, s));
    const bar = ({ x, w }, y, from, to, fill) => add(svg("rect", { x, y: y + 9, width: w, height: 7, fill: c.chip }), svg("rect", { x: x + w * from, y: y + 9, width: to > 0 ? Math.max(w * (to - from), 1.5) : 0, height: 7, fill }));
    const histogram = ({ x, w }, y, below, above) => {
      const most = Math.max(...below.map((n, i) => n + (above?.[i] ?? 0)));
      add(svg("path", { d: bars(below, most, x, y + 21, w, 17), fill: c.accent }));
      if (above) add(svg("path", { d: bars(above, most, x, y + 21, w, 17, below), fill: c.flag }));
      add(svg("rect", { x, y: y + 21, width: w, height: 1, fill: c.line }));
    };
    const share = ({ x, w }, y, v) => {
      if (w >= 78) bar({ x, w: w - 48 }, y, 0, Math.min(v, 1), c.accent);
      write(x + w, y + 16, percent(v), { anchor: "end", mono: true, fill: c.text, size: 11 });
    };
    return {
      write,
      gdn(y, h, limit) {
        const { x, w } = k.norm;
        bar(k.roomy ? { x, w: w - 48 } : k.norm, y, (h.least ?? 0) / limit, h.norm / limit, c.accent);
        if (k.roomy) write(x + w, y + 16, three(h.norm), { anchor: "end", mono: true, fill: c.text, size: 11 });
        const { below, above } = parted(h.beta, report.betas, h.negative);
        histogram(k.alpha, y, h.alpha);
        histogram(k.beta, y, below, above);
        write(k.negative.x + k.negative.w, y + 16, percent(h.negative), { anchor: "end", mono: true, fill: h.negative > 0 ? c.flag : c.dim, size: 11 });
        if (!k.roomy) return;
        share(k.wrote, y, h.wrote);
        share(k.read, y, h.read);
      },
      attention(y, h) {
        const long = Math.floor(k.norm.w / 6.6);
        const s = `\u2192 ${h.token} ${readable(seen.pieces[h.token])}`;
        write(k.norm.x, y + 16, s.length > long ? `${s.slice(0, long - 1)}\u2026` : s, { mono: true, fill: c.text, size: 11 });
        bar(k.alpha, y, 0, h.weight, c.good);
        write(k.beta.x, y + 16, `${k.roomy ? "weight " : ""}${number(h.weight)}`, { mono: true, fill: c.text, size: 11 });
        if (k.roomy) write(k.negative.x, y + 16, `entropy ${number(h.entropy)} nats`, { mono: true, size: 11 });
      },
    };
  }

  const limitOf = () => niceLimit(Math.max(0, ...report.layers.flatMap((l) => (l.kind === "gdn" ? l.heads.map((h) => h.norm) : []))));
  const drawing = (k, height, ...nodes) => svg("svg", { width: k.width, height, viewBox: `0 0 ${k.width} ${height}`, "aria-hidden": "true" }, ...nodes);

  function drawCaptions(c, k) {
    const nodes = [];
    const { write } = pen(c, k, (...n) => nodes.push(...n));
    const named = (col, s, fill = c.dim) => write(col.x, 12, s, { fill });
    const ticks = (col, w, list) => list.forEach((s, i) => write(col.x + (w * i) / (list.length - 1), 27, s, { size: 10.5, mono: true, anchor: i === 0 ? "start" : i === list.length - 1 ? "end" : "middle" }));
    if (!report.layers.some((l) => l.kind === "gdn")) {
      named(k.norm, `at ${at} looks at`);
      named(k.alpha, "weight");
      ticks(k.alpha, k.alpha.w, ["0", "1"]);
    } else {
      named(k.norm, k.roomy ? "\u2016S\u2016, norm" : "\u2016S\u2016");
      ticks(k.norm, k.roomy ? k.norm.w - 48 : k.norm.w, ["0", number(limitOf())]);
      named(k.alpha, k.roomy ? "\u03b1, decay" : "\u03b1");
      ticks(k.alpha, k.alpha.w, [report.alphas[0], report.alphas[(report.alphas.length - 1) / 2], report.alphas.at(-1)].map(String));
      named(k.beta, k.roomy ? "\u03b2, write strength" : "\u03b2");
      ticks(k.beta, k.beta.w, [0, 1, 2].map(String));
      write(k.negative.x + k.negative.w, 12, "\u03b2 > 1", { anchor: "end", fill: c.flag });
      if (k.roomy) {
        named(k.wrote, `wrote at ${at}`);
        named(k.read, `read at ${at}`);
      }
    }
    return drawing(k, 34, ...nodes);
  }

  const kindName = (l) => (l.kind === "gdn" ? "delta rule" : "attention");

  function drawHeader(l, c, k, limit) {
    const nodes = [];
    const p = pen(c, k, (...n) => nodes.push(...n));
    const x = k.name.x;
    nodes.push(svg("path", { d: shown.has(l.layer) ? `M${x} 9h9l-4.5 7z` : `M${x + 1} 8v9l7 -4.5z`, fill: c.dim }));
    p.write(x + 14, 17, `layer ${l.layer}`, { bold: true, fill: c.text, size: 12.5 });
    if (k.roomy) p.write(x + 72, 17, kindName(l), { size: 12 });
    const t = together(l);
    if (l.kind === "gdn") p.gdn(0, t, limit);
    else {
      p.attention(0, t);
      if (k.roomy) p.write(k.read.x, 17, `by head ${t.head}`);
    }
    return drawing(k, H, ...nodes);
  }

  const headerLabel = (l) => {
    const t = together(l);
    return `layer ${l.layer}, ${kindName(l)}, ${plural(l.heads.length, "head")}: ${l.kind === "gdn" ? `norm ${number(t.least)} to ${number(t.norm)}, negative eigenvalues at ${percent(t.negative)} of the ${seen.unit}s` : `most weight ${number(t.weight)}, of head ${t.head} on ${name(t.token)}`}`;
  };

  function drawHeads(l, sheet, c, k, limit) {
    sheet.begin(k.width, l.heads.length * H, c);
    const p = pen(c, k, (...n) => sheet.add(...n));
    const mine = store.get("layer") === l.layer ? store.get("head") : -1;
    l.heads.forEach((h, i) => {
      if (h.head === mine) sheet.add(svg("rect", { x: 0.5, y: i * H + 1.5, width: k.width - 1, height: H - 2, rx: 4, fill: "none", stroke: c.accent }));
      p.write(k.name.x + 14, i * H + 17, `head ${h.head}`, { fill: h.head === mine ? c.text : c.dim, bold: h.head === mine });
      if (l.kind === "gdn") p.gdn(i * H, h, limit);
      else p.attention(i * H, h);
    });
    const bins = (col, n) => Array.from({ length: n }, (_, i) => col.x + (col.w * i) / n);
    const edges = l.kind === "gdn"
      ? [0, ...bins(k.alpha, report.alphas.length - 1), ...bins(k.beta, report.betas.length - 1), k.negative.x - 4, ...(k.roomy ? [k.wrote.x - 4, k.read.x - 4] : []), k.width]
      : [0, k.alpha.x - 4, k.beta.x - 4, ...(k.roomy ? [k.negative.x - 4] : []), k.width];
    sheet.area({ x: 0, y: 0, w: k.width, h: l.heads.length * H, ch: H, edges, rows: l.heads.length, cols: edges.length - 1,
      tell: (i, j) => `layer ${l.layer} head ${l.heads[i].head}: ${l.kind === "gdn" ? tellState(l.heads[i], j) : tellLook(l.heads[i], j)}`,
      pick: (i) => {
        store.set({ layer: l.layer, head: l.heads[i].head });
        drawLayers();
      } });
    sheet.end();
    sheet.label = `${headerLabel(l)}; its heads, a row each`;
  }

  function tellState(h, j) {
    const n = seen.ids.length;
    const of = (what, borders, counts, i) => `${what} from ${number(borders[i])} to ${number(borders[i + 1])} at ${counts[i]} of ${plural(n, seen.unit)}`;
    const alphas = report.alphas.length - 1;
    const betas = report.betas.length - 1;
    if (j === 0) return `norm of its state ${number(h.norm)}`;
    if (j <= alphas) return of("\u03b1", report.alphas, h.alpha, j - 1);
    j -= alphas + 1;
    if (j < betas) {
      const { above } = parted(h.beta, report.betas, h.negative);
      return `${of("\u03b2", report.betas, h.beta, j)}${above[j] > 0 ? `, a negative eigenvalue at ${above[j] === h.beta[j] ? "each" : above[j]}` : ""}`;
    }
    if (j === betas) return `\u03b2 above 1, a negative eigenvalue, at ${percent(h.negative)} of ${plural(n, seen.unit)}`;
    return j === betas + 1 ? `at ${name(report.at)}, it wrote ${percent(h.wrote)} of its state` : `at ${name(report.at)}, the query read ${percent(h.read)} of its state`;
  }

  const tellLook = (h, j) => (j < 3 ? `${name(report.at)}, attends most to ${name(h.token)}: ${number(h.weight)}` : `entropy of its weights at ${name(report.at)}: ${number(h.entropy)} nats`);

  function drawLayer(i, c = palette(app.theme()), k = columns(width), limit = limitOf()) {
    const l = report.layers[i];
    const p = pane(i);
    const is = shown.has(i);
    p.button.setAttribute("aria-expanded", String(is));
    p.button.replaceChildren(el("span", { class: "sr" }, headerLabel(l)), drawHeader(l, c, k, limit));
    p.room.hidden = !is;
    if (!is) {
      p.room.replaceChildren();
      p.sheet = null;
      return;
    }
    if (!p.sheet) {
      p.sheet = new Sheet("", tell);
      p.room.replaceChildren(p.sheet.root);
    }
    drawHeads(l, p.sheet, c, k, limit);
  }

  function drawLayers() {
    const c = palette(app.theme());
    const k = columns(width);
    const limit = limitOf();
    captions.replaceChildren(drawCaptions(c, k));
    report.layers.forEach((l) => drawLayer(l.layer, c, k, limit));
    if (list.childElementCount !== report.layers.length) list.replaceChildren(...report.layers.map((l) => pane(l.layer).root));
  }

  function summary() {
    const of = (kind) => report.layers.filter((l) => l.kind === kind);
    const count = (kind, what) => {
      const l = of(kind);
      return `${plural(l.length, `${what} layer`)} (${plural(l.reduce((s, x) => s + x.heads.length, 0), "head")})`;
    };
    const gdn = of("gdn");
    const heads = gdn.flatMap((l) => l.heads);
    const kinds = [gdn.length ? count("gdn", "delta-rule") : "", of("attention").length ? count("attention", "attention") : ""].filter(Boolean).join(" and ");
    const negative = heads.reduce((s, h) => s + h.negative, 0) / heads.length;
    return [`${report.model.name} read ${plural(seen.ids.length, seen.unit)} with ${kinds}.`,
      heads.length ? `${percent(negative)} of the delta rule\u2019s steps had a negative eigenvalue.` : "It has no delta-rule layer: there is no state, decay or write strength to show.",
      heads.length && !of("attention").length ? "It has no attention layer: no head looks back." : ""].filter(Boolean).join(" ");
  }

  let drawn = []; // what the rest was drawn from
  function draw() {
    if (!open) return;
    status();
    body.hidden = !report || !width;
    body.classList.toggle("stale", report !== null && !fresh());
    if (body.hidden || !fresh()) return;
    drawStrip();
    const from = [report, width, palette(app.theme()), store.get("layer"), store.get("head"), store.get("patches")];
    if (from.every((x, i) => x === drawn[i])) return;
    drawn = from;
    if (!shown) {
      const all = report.layers.reduce((s, l) => s + l.heads.length, 0);
      shown = new Set(all <= few ? report.layers.map((l) => l.layer) : report.layers.filter((l) => l.layer === store.get("layer")).map((l) => l.layer));
    }
    lead.textContent = summary();
    chosen.textContent = `At ${name(report.at)}`;
    const kinds = new Set(report.layers.map((l) => l.kind));
    note.textContent = [
      kinds.has("gdn") ? `\u2016S\u2016 is the norm of the state after the last ${seen.unit} (Frobenius norm, in the units of v); \u03b1 and \u03b2 are histograms of decay and write strength over all ${seen.unit}s, and \u03b2 > 1 is the share of them with a negative eigenvalue; wrote and read are how much of its state a head wrote, and its query met, at the chosen one. A layer\u2019s own row: the least and the largest norm, the gates of all heads, the most that one wrote and read.` : "",
      kinds.has("attention") ? `An attention head: the ${seen.unit} that the chosen one attends to most, with its weight and the entropy of all weights.` : "",
      report.switches ? "Read with the switches." : "", words && store.get("patches").length ? "Read without the patches of the state." : ""].filter(Boolean).join(" ");
    drawStrongest();
    drawLayers();
  }

  onWidth(root, (w) => {
    width = w;
    if (open) draw();
  });
  store.on((keys) => { if (open && fresh() && (keys.has("layer") || keys.has("head"))) draw(); });
  ready.then(() => { if (open) draw(); });

  return {
    show(m) {
      open = true;
      follow();
      if (m.model !== model) {
        if (reading) stop();
        model = m.model;
        text = report = seen = words = shown = null;
        stopped = "";
        panes.clear();
        list.replaceChildren();
      }
      if (!m.live || !m.model) {
        body.hidden = prompt.hidden = go.hidden = written.hidden = true;
        said.textContent = m.model ? "These figures come from the live engine, which is not there yet." : "No model is loaded yet.";
        return;
      }
      const program = app.loaded().programs && m.words.length ? m.words : null;
      if (program !== words) {
        if (reading) stop();
        words = program;
        text = words && { ids: words.map((w) => w.id), pieces: words.map((w) => w.word), prompt: m.program, unit: "word" };
        stopped = "";
      }
      if (words) at = m.t < 0 ? words.length - 1 : m.t;
      draw();
      if (!stopped) ask();
    },
    close() {
      open = false;
      if (reading) stop();
    },
    tools: json,
    svg() {
      if (!fresh()) throw new Error("nothing is read yet");
      const c = palette(app.theme());
      const k = columns(width);
      const all = svg("svg", {});
      all.append(svg("text", { x: 4, y: 14, "font-size": 14, "font-weight": 650, fill: c.text, "font-family": c.sans }, `${report.model.name}: ${plural(seen.ids.length, seen.unit)}, at ${name(report.at)}`));
      let y = 24;
      const put = (s, height) => {
        s.setAttribute("x", 0);
        s.setAttribute("y", y);
        s.removeAttribute("aria-hidden");
        all.append(s);
        y += height;
      };
      put(drawCaptions(c, k), 34);
      for (const l of report.layers) {
        put(drawHeader(l, c, k, limitOf()), H);
        if (shown.has(l.layer)) put(pane(l.layer).sheet.svg(), l.heads.length * H + 6);
      }
      all.setAttribute("viewBox", `0 0 ${k.width} ${y}`);
      return all;
    },
    table(here) {
      if (!fresh()) throw new Error("nothing is read yet: there are no numbers");
      return { caption: `${report.model.name}, ${plural(seen.ids.length, seen.unit)}, at ${name(report.at)}: norms of states, shares, and the most attended ${seen.unit}${here ? "; the heads of the layers that are open" : ""}. The histograms are in the JSON.`, columns: tableColumns, rows: rows(report, here ? shown : null) };
    },
  };
}
