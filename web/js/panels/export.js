// Export: this moment as picture and numbers, the run as a trace and as Python,
// and how to cite it.
import { color, niceLimit, nothing, reach } from "../colors.js";
import { el, svg } from "../dom.js";
import { save } from "../export.js";
import { number, percent } from "../format.js";
import { bibtex } from "../paper.js";
import { Sheet, latest, onWidth, palette, picker, tip } from "../picture.js";
import { python } from "../python.js";
import { rowNames } from "../trace.js";

export const title = "Export";

const most = 160; // words whose states all fit a trace of bearable size

const views = [["states", "states of all heads"], ["state", "state of one head"], ["attention", "attention of this word"], ["next", "likeliest next words"]];

export function create(app, root) {
  const { store } = app;
  let what = "states";
  let open = false;
  let full = null; // {t, words, step}: the moment with all its numbers

  // ---- the run

  const done = (button, text, label) => {
    button.textContent = text;
    app.say(text);
    setTimeout(() => { button.textContent = label; }, 2000);
  };

  // copier is a button that copies; where it may not, the text is selected.
  function copier(label, text, id) {
    const b = el("button", { type: "button", id, onclick: async () => {
      try {
        await navigator.clipboard.writeText(text());
        done(b, "Copied", label);
      } catch {
        shown.hidden = false;
        shown.value = text();
        shown.select();
        done(b, "Selected: press Ctrl+C", label);
      }
    } }, label);
    return b;
  }

  const shown = el("textarea", { rows: 6, readonly: true, hidden: true, "aria-label": "text to copy" });
  const trace = el("button", { type: "button", id: "export", onclick: async () => {
    trace.disabled = true;
    try {
      const every = app.moment().t > most ? 16 : 1;
      const t = await app.trace(every);
      save(new Blob([`${JSON.stringify(t)}\n`], { type: "application/json" }), `${t.model.name}-trace.json`);
      done(trace, every > 1 ? `Saved, with the state of every ${every}th word` : "Saved", "Save trace (JSON)");
    } catch (e) {
      app.notice("export", `The trace could not be saved: ${e.message}`, { bad: true });
    }
    trace.disabled = false;
  } }, "Save trace (JSON)");
  const text = () => python(app.moment().words);
  const script = el("button", { type: "button", onclick: () => save(new Blob([text()], { type: "text/x-python" }), "program.py") }, "Save as program.py");
  const card = (name) => el("a", { href: `zoo/${name}`, rel: "noopener" }, name);

  root.append(
    el("div", { class: "export-blocks" },
      el("section", {}, el("h2", {}, "This run"),
        el("div", { class: "row wrap" }, trace, copier("Copy as Python", text, "copy-python"), script),
        el("p", { class: "hint" }, `The trace holds every number of the words read so far, as the command shellgame trace prints them (beyond ${most} words the state of every 16th). The Python file runs with python3 and prints what is true; an assert that is not true stands in it as a comment.`), shown),
      el("section", {}, el("h2", {}, "Cite"),
        el("pre", { class: "bibtex", tabindex: "0", "aria-label": "BibTeX" }, bibtex.trimEnd()),
        el("div", { class: "row wrap" }, copier("Copy BibTeX", () => bibtex, "copy-bibtex"), el("a", { class: "button", href: "https://arxiv.org/abs/2604.03444", rel: "noopener" }, "arXiv 2604.03444")),
        el("p", { class: "hint" }, "The models: MIT, see ", card("LICENSE"), " and ", card("CITATION.cff"), "."))),
    el("h2", {}, "This moment"));

  // ---- the moment

  const pick = picker("Show", (v) => { what = v; draw(); });
  const layer = picker("layer", (v) => store.set({ layer: Number(v) }));
  const head = picker("head", (v) => store.set({ head: Number(v) }));
  const hover = tip(app, "Point at a cell to read its number.");
  const sheet = new Sheet("this moment", hover.tell);
  const picture = el("div", {}, sheet.root, hover.line);
  root.append(el("div", { class: "row picks" }, pick.element, layer.element, head.element), picture);

  // load fetches the numbers of the word that is shown.
  const load = latest(async () => {
    const m = app.moment();
    const whole = m.step?.layers?.some((l) => l.state || l.rows);
    if (m.t < 0) full = null;
    else if (whole || !m.live) full = { t: m.t, words: m.words, step: m.step };
    else {
      const r = await app.request("steps", { from: m.t, to: m.t, full: true });
      full = { t: m.t, words: m.words, step: r.steps?.[0] ?? null };
    }
    if (open) draw();
  });

  const chosen = (kind) => {
    const layers = app.moment().model?.layers ?? [];
    const of = layers.map((l, i) => [l, i]).filter(([l]) => l.kind === kind);
    const l = of.find(([, i]) => i === store.get("layer")) ?? of[0];
    return l ? { of, info: l[0], at: l[1], head: Math.min(store.get("head"), l[0].heads - 1) } : null;
  };

  // parts are the matrices of what is shown: [{title, rows, kind, limit, tell(i, j)}].
  function parts(m, step) {
    const layers = m.model.layers;
    const state = (l, i, h) => {
      const names = rowNames(m.model, l);
      return { title: `layer ${i} head ${h}`, rows: step.layers[i].state[h], kind: "signed",
        tell: (k, v) => `layer ${i} head ${h} state[k=${k}${names ? ` ${names[k]}` : ""},v=${v}] = ${number(step.layers[i].state[h][k][v])}` };
    };
    if (what === "states") return layers.map((l, i) => ({ l, i })).filter(({ l, i }) => l.kind === "gdn" && step.layers[i]?.state)
      .map(({ l, i }) => Array.from({ length: l.heads }, (_, h) => state(l, i, h)));
    const c = chosen(what === "state" ? "gdn" : "attention");
    if (!c) return [];
    if (what === "state") return step.layers[c.at]?.state ? [[state(c.info, c.at, c.head)]] : [];
    const rows = step.layers[c.at]?.rows;
    return rows ? [[{ title: `layer ${c.at}: where "${m.words[full.t].word}" looks, a row a head`, rows, kind: "chance",
      tell: (h, j) => `layer ${c.at} head ${h} looks at word ${j} "${m.words[j].word}": ${number(rows[h][j])}` }]] : [];
  }

  function draw() {
    const m = app.moment();
    pick.set(views, what);
    const c = what === "state" ? chosen("gdn") : what === "attention" ? chosen("attention") : null;
    layer.element.hidden = !c;
    head.element.hidden = !c || what !== "state";
    if (c) {
      layer.set(c.of.map(([, i]) => [i, i]), c.at);
      head.set(Array.from({ length: c.info.heads }, (_, h) => [h, h]), c.head);
    }
    const colors = palette(app.theme());
    const width = Math.max(Math.floor(picture.clientWidth) || 640, 280);
    const step = m.model && full && full.t === m.t ? full.step : null;
    const list = step && what !== "next" ? parts(m, step) : [];
    if (!step || what !== "next" && !list.length) {
      sheet.begin(width, 26, colors);
      sheet.text(0, 16, m.t < 0 ? "Nothing read yet: step once." : !step ? "\u2026" : what === "attention" ? "This model has no attention layer, or its numbers are not here." : "This model has no state, or its numbers are not here.");
      sheet.end();
      return;
    }
    if (what === "next") drawNext(step, width, colors);
    else drawParts(m, list, width, colors);
    sheet.label = `${views.find(([id]) => id === what)[1]}, after word ${m.t}`;
  }

  function drawParts(m, list, width, colors) {
    const across = what === "states" ? Math.max(1, Math.min(list[0].length, Math.floor((width + 16) / 150))) : 1;
    const room = (width - (across - 1) * 16) / across;
    const plans = list.map((row) => {
      const limit = row[0].kind === "signed" ? niceLimit(reach(row.flatMap((p) => p.rows.flat()))) : 1;
      const cols = row[0].rows[0].length;
      const cw = Math.min(Math.max(room / cols, 0.5), what === "states" ? 40 : 46);
      const w = cw >= 2 ? Math.floor(cw) : cw;
      const h = row[0].kind === "chance" ? 22 : w > 30 ? 24 : w;
      return { row, limit, cw: w, ch: h, height: Math.ceil(row.length / across) * (h * row[0].rows.length + 34) + 34 };
    });
    sheet.begin(width, plans.reduce((s, p) => s + p.height + 8, 0), colors);
    let y = 0;
    plans.forEach((p, n) => {
      p.row.forEach((part, i) => {
        const x = (i % across) * (room + 16);
        const top = y + Math.floor(i / across) * (p.ch * part.rows.length + 34);
        sheet.text(x, top + 13, part.title, { size: 12, fill: colors.text });
        sheet.matrix(`${n}.${i}`, { x: x + 0.5, y: top + 20, rows: part.rows.length, cols: part.rows[0].length, cw: p.cw, ch: p.ch, at: (r, k) => part.rows[r][k],
          paint: (v) => (v === undefined ? nothing(app.theme()) : color(app.theme(), part.kind, v, p.limit)), tell: part.tell });
      });
      y += p.height;
      sheet.legend(0, y - 32, Math.min(220, width), p.row[0].kind, p.limit);
      y += 8;
    });
    sheet.end();
  }

  function drawNext(step, width, colors) {
    sheet.begin(width, step.top.length * 24 + 8, colors);
    const from = 90;
    const room = Math.min(width, 560) - from - 64;
    step.top.forEach((x, i) => {
      const y = i * 24 + 6;
      sheet.text(from - 8, y + 13, x.word, { anchor: "end", mono: true, fill: colors.text });
      sheet.add(svg("rect", { x: from, y, width: room, height: 17, fill: colors.chip }), svg("rect", { x: from, y, width: Math.max(room * x.p, 1), height: 17, fill: colors.accent }));
      sheet.text(from + room + 8, y + 13, percent(x.p), { mono: true });
    });
    sheet.end();
  }

  const refresh = () => load().catch((e) => app.notice("export", e.message, { bad: true }));
  store.on((keys) => { if (open && (keys.has("layer") || keys.has("head"))) draw(); });
  onWidth(picture, () => { if (open) draw(); });
  app.onTheme(() => { if (open) draw(); });

  return {
    show() {
      open = true;
      draw();
      refresh();
    },
    close() { open = false; },
    svg() {
      if (!full) throw new Error("step once: nothing is read yet");
      return sheet.svg();
    },
    async table() {
      await load();
      const m = app.moment();
      if (!full) throw new Error("Nothing read yet: step once.");
      const step = full.step;
      const caption = `${views.find(([id]) => id === what)[1]}, after word ${m.t}`;
      if (what === "next") return { caption, columns: ["word", "p"], rows: step.top.map((x) => [x.word, x.p]) };
      if (what === "states") {
        return { caption, columns: ["layer", "head", "k", "v", "state"], rows: step.layers.flatMap((l, i) => (l.state ?? []).flatMap((s, h) => s.flatMap((row, k) => row.map((x, v) => [i, h, k, v, x])))) };
      }
      const c = chosen(what === "state" ? "gdn" : "attention");
      const part = c && step.layers[c.at];
      if (!part?.state && !part?.rows) throw new Error("this model has no such layer, or its numbers are not here");
      if (what === "state") {
        const s = part.state[c.head];
        return { caption: `state of layer ${c.at} head ${c.head}, after word ${m.t}`, columns: ["k", ...s[0].map((_, v) => `v=${v}`)], rows: s.map((row, k) => [k, ...row]) };
      }
      return { caption: `attention of layer ${c.at}, word ${m.t} "${m.words[m.t].word}"`, columns: ["looked at", "word", ...part.rows.map((_, h) => `head ${h}`)], rows: part.rows[0].map((_, j) => [j, m.words[j].word, ...part.rows.map((r) => r[j])]) };
    },
  };
}
