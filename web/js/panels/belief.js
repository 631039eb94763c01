// Truth and belief: what the model believes of each variable at the end of each
// statement, beside the truth.
import { asked, ends, guesses, inShort, inWords, score, swapOf, used } from "../beliefs.js";
import { el, svg } from "../dom.js";
import { percent } from "../format.js";
import { Sheet, onWidth, palette, tip } from "../picture.js";
import { noAnswer } from "../trace.js";

export const title = "Truth and belief";

const W = 38; // of a column
const H = 36; // of a row
const HEAD = 46;
const GAP = 8; // between variables and bits

// columnsOf lists the ends of statements at which something can be believed.
export function columnsOf(words) {
  const from = words.findIndex((w) => /^(a,b,c,d,e=|[a-e]=$)/.test(w.word));
  return from < 0 ? [] : ends(words).filter((t) => t >= from && !words[t].word.endsWith("=="));
}

// statementName is a statement in a few letters.
export function statementName(words, t) {
  const swap = swapOf(words[t].word);
  if (swap) return swap.join("\u2194");
  const q = asked(words[t - 1]?.word);
  if (q) return `${q.name}?`;
  const m = /^([a-e])=$/.exec(words[t - 1]?.word ?? "");
  return m ? `${m[1]}=${words[t].word}` : "start";
}

export function create(app, root) {
  const said = el("span", { class: "lead" });
  const toWrong = el("button", { type: "button", class: "small" }, "");
  const toEnd = el("button", { type: "button", class: "small", onclick: () => app.player.toEnd() }, "Read to the end");
  toWrong.addEventListener("click", () => { if (wrong.length) app.player.jump(wrong[0]); });
  const { line, tell } = tip(app, "Above what the model believes, below \u2713, or \u2717 and the truth; the stronger the colour, the surer it is. A click goes to the word.");
  const names = svg("svg", { "aria-hidden": "true" });
  const sheet = new Sheet("", tell);
  const scroll = el("div", { class: "belief-scroll" }, sheet.root);
  const grid = el("div", { class: "belief-grid" }, names, scroll);
  const none = el("p", { class: "dim" });
  root.append(el("div", { class: "row view-controls" }, said, el("span", { class: "row stage-buttons" }, toWrong, toEnd)), none, grid, line);

  let drawn = { words: null, theme: "" };
  let columns = [];
  let rows = []; // {name, bit}
  let groups = []; // by column: {g, key}; only those in view are in the drawing
  let seen = { from: 0, to: 0 };
  let left = 0; // how far it is scrolled
  let room = 0;
  const all = svg("g");
  let here = null; // outline of the current column
  let first = null; // mark of the first wrong step
  let wrong = [];
  let moment = null;
  let open = false;

  const top = (r) => HEAD + r * H + (rows[r].bit ? GAP : 0);
  const height = () => HEAD + rows.length * H + (rows.some((r) => r.bit) ? GAP : 0) + 2;

  function start(m, c) {
    drawn = { words: m.words, theme: c.theme };
    columns = columnsOf(m.words);
    const vars = used(m.words);
    const pointers = m.words.some((w) => w.word === "bits=[");
    rows = [...vars.map((name) => ({ name, bit: false })), ...(pointers ? vars.map((name) => ({ name, bit: true })) : [])];
    groups = columns.map(() => ({ g: svg("g"), key: null }));
    seen = { from: 0, to: 0 };
    all.replaceChildren();
    const left = pointers ? 74 : 26;
    for (const [k, v] of Object.entries({ width: left, height: height(), viewBox: `0 0 ${left} ${height()}` })) names.setAttribute(k, v);
    names.replaceChildren(...rows.map((r, i) => svg("text", { x: left - 8, y: top(i) + H / 2 + 5, "text-anchor": "end", "font-size": 13.5, "font-family": c.mono, fill: c.text }, r.bit ? `bits[${r.name}]` : r.name)));
    here = svg("rect", { x: 0, y: 1, width: W, height: height() - 3, rx: 5, fill: "none", stroke: c.accent, "stroke-width": 2 });
    first = svg("path", { d: "M-5 0h10l-5 6z", fill: c.bad });
    sheet.begin(columns.length * W + 4, height(), c);
    sheet.add(all, first, here);
    sheet.end();
  }

  // column draws one column anew if it says something else than before.
  function column(i, m, c) {
    const t = columns[i];
    const step = m.steps[t];
    const key = step?.belief ?? (step ? "read" : "later");
    const x = groups[i];
    if (x.key === key) return;
    x.key = key;
    const at = i * W + 2;
    const text = (y, s, size, fill, bold) => svg("text", { x: at + W / 2, y, "text-anchor": "middle", "font-size": size, fill, "font-family": c.mono, "font-weight": bold ? 650 : 400 }, s);
    x.g.replaceChildren(text(24, statementName(m.words, t), 12, step ? c.text : c.dim), text(38, String(t), 10, c.dim));
    const of = guesses(step?.belief);
    rows.forEach((r, k) => {
      const g = of.find((y) => y.name === r.name && y.bit === r.bit);
      const y = top(k);
      const color = !g ? c.chip : g.right ? c.good : c.bad;
      x.g.append(svg("rect", { x: at + 1, y: y + 1, width: W - 3, height: H - 3, rx: 4, fill: g ? color : "none", "fill-opacity": g ? 0.08 + 0.45 * g.p : 1, stroke: g && !g.right ? c.bad : c.line, "stroke-width": g && !g.right ? 1.5 : 0.75 }));
      if (!g) return;
      const truth = r.bit ? step.truth?.bits?.[r.name] : step.truth?.vars?.[r.name];
      x.g.append(text(y + 15, inShort(g.word), 13, c.text, true), text(y + 29, g.right ? "\u2713" : `\u2717${truth ?? ""}`, 11, c.text, !g.right));
    });
  }

  const cell = (k, i) => {
    const r = rows[k];
    const t = columns[i];
    const step = moment.steps[t];
    const g = guesses(step?.belief).find((y) => y.name === r.name && y.bit === r.bit);
    const what = r.bit ? `bits[${r.name}]` : r.name;
    const truth = r.bit ? step?.truth?.bits?.[r.name] : step?.truth?.vars?.[r.name];
    if (!g) return `word ${t} "${moment.words[t].word}": ${step ? "the model is still being asked" : "not read yet"}`;
    return `after word ${t} "${moment.words[t].word}": asked for ${what} the model ${noAnswer(g.word) ? "has no preference" : `says ${g.word} (${percent(g.p)})`}, ${g.right ? "which is right" : `the truth is ${truth ?? "another"}`}`;
  };

  function show(m) {
    moment = m;
    const c = palette(app.theme());
    if (drawn.words !== m.words || drawn.theme !== c.theme) start(m, c);
    const s = score(m.steps, m.steps.length - 1);
    wrong = s.wrong;
    toEnd.hidden = !m.live || columns.length === 0 || m.steps[columns.at(-1)] !== undefined || m.t >= app.player.end;
    toWrong.hidden = !wrong.length;
    if (wrong.length) toWrong.textContent = `Go to the first wrong step: word ${wrong[0]}`;
    grid.hidden = line.hidden = !columns.length;
    none.hidden = columns.length > 0;
    none.textContent = m.words.length ? "This program sets no variable." : "Run a program to see what the model believes.";
    said.textContent = s.all ? `${s.right} of ${s.all} beliefs right so far (${percent(s.right / s.all)}).`
      : !columns.length ? "" : m.t < columns[0] ? "Nothing is believed before the variables are set." : m.live ? "The model is being asked\u2026" : "This recorded run does not hold what the model believes; the live engine asks it.";
    if (!columns.length) return;
    if (!open) [open, left, room] = [true, scroll.scrollLeft, scroll.clientWidth];
    const now = columns.findLastIndex((t) => t <= m.t);
    here.setAttribute("visibility", now < 0 ? "hidden" : "visible");
    here.setAttribute("x", now * W + 1.5);
    const f = wrong.length ? columns.indexOf(wrong[0]) : -1;
    first.setAttribute("visibility", f < 0 ? "hidden" : "visible");
    first.setAttribute("transform", `translate(${f * W + 2 + W / 2} 4)`);
    sheet.begin(columns.length * W + 4, height(), c, true);
    for (const bit of [false, true]) {
      const mine = rows.map((r, k) => ({ r, k })).filter((x) => x.r.bit === bit);
      if (!mine.length) continue;
      sheet.area({ x: 2, y: top(mine[0].k), w: columns.length * W, h: mine.length * H, cw: W, ch: H, rows: mine.length, cols: columns.length,
        tell: (k, i) => cell(mine[k].k, i), pick: (_, i) => app.player.jump(columns[i]), seen: (_, i) => into(i) });
    }
    sheet.end();
    into(Math.max(now, 0));
    view(c);
    sheet.label = `What the model believes at the ends of ${columns.length} statements: ${said.textContent} ${wrong.length ? `First wrong at word ${wrong[0]}.` : ""}`;
  }

  // into scrolls a column into view.
  function into(i) {
    const x = i * W;
    if (x >= left + (left && W) && x + 2 * W <= left + room) return;
    scroll.scrollLeft = x - room / 2;
    left = scroll.scrollLeft;
  }

  // view draws the columns in view, and takes the others out.
  function view(c, from = Math.floor(left / W) - 3, to = Math.ceil((left + room) / W) + 3) {
    from = Math.max(from, 0);
    to = Math.min(to, columns.length);
    for (let i = seen.from; i < seen.to; i++) if (i < from || i >= to) groups[i].g.remove();
    for (let i = from; i < to; i++) {
      column(i, moment, c);
      if (i < seen.from || i >= seen.to) all.append(groups[i].g);
    }
    seen = { from, to };
  }

  scroll.addEventListener("scroll", () => {
    left = scroll.scrollLeft;
    if (moment) view(palette(app.theme()));
  });
  onWidth(scroll, () => {
    room = scroll.clientWidth;
    if (!moment || !columns.length) return;
    into(Math.max(columns.findLastIndex((t) => t <= moment.t), 0));
    view(palette(app.theme()));
  });

  return {
    show,
    close() { open = false; },
    // The last 40 statements read, names on the left.
    svg() {
      const to = columns.findLastIndex((t) => moment.steps[t]) + 1;
      const from = Math.max(to - 40, 0);
      const margin = names.viewBox.baseVal.width;
      const width = Math.max((to - from) * W, W) + 4;
      const c = palette(app.theme());
      view(c, from, to);
      const part = sheet.svg();
      view(c);
      for (const [k, v] of Object.entries({ x: margin, width, viewBox: `${from * W} 0 ${width} ${height()}` })) part.setAttribute(k, v);
      return svg("svg", { viewBox: `0 0 ${margin + width} ${height()}` }, names.cloneNode(true), part);
    },
    table: () => ({
      caption: "What the model believes at the end of each statement",
      columns: ["word", "statement", "asked", "truth", "belief", "probability", "right"],
      rows: columns.flatMap((t) => guesses(moment.steps[t]?.belief).map((g) => [t, statementName(moment.words, t), g.bit ? `bits[${g.name}]` : g.name,
        (g.bit ? moment.steps[t].truth?.bits?.[g.name] : moment.steps[t].truth?.vars?.[g.name]) ?? (g.right ? g.word : ""), inWords(g.word), g.p, g.right ? "yes" : "no"])),
    }),
  };
}
