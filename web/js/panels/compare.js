// Compare: a second model beside the first on the same program, and the answers
// of all five architectures.
import { boundaries, guesses } from "../beliefs.js";
import { clean, describe } from "../changes.js";
import { color, niceLimit, nothing, reach } from "../colors.js";
import { el } from "../dom.js";
import { number, percent, short } from "../format.js";
import { archs, named } from "../paper.js";
import { Sheet, latest, onWidth, palette, picker, tip } from "../picture.js";
import { answerAt } from "../trace.js";
import { guessBars } from "../views.js";
import { choice, editor } from "./switches.js";

export const title = "Compare";

// differ says in which beliefs two steps at the same word differ, or that their
// likeliest next words do; null where one of them was not seen.
export function differ(a, b) {
  if (!a || !b) return null;
  if (a.belief && b.belief) {
    const other = new Map(guesses(b.belief).map((g) => [`${g.bit} ${g.name}`, g.word]));
    return guesses(a.belief).filter((g) => other.get(`${g.bit} ${g.name}`) !== g.word).map((g) => (g.bit ? `bits[${g.name}]` : g.name));
  }
  return a.top?.[0]?.word === b.top?.[0]?.word ? [] : ["next word"];
}

// agreement counts where two runs were asked what they believe: {all, both,
// differ: [t]}, of the boundaries of statements up to t, and those where both
// have answered; a and b are steps by t.
export function agreement(words, t, a, b) {
  const at = boundaries(words, t);
  const both = at.filter((i) => a[i]?.belief && b[i]?.belief);
  return { all: at.length, both: both.length, differ: both.filter((i) => differ(a[i], b[i]).length > 0) };
}

// agreed says that in a sentence.
export function agreed({ all, both, differ }) {
  const n = differ.length;
  const where = n ? `beliefs differ at ${n} of them, last at word ${differ[n - 1]}` : "no belief differs";
  if (both < all) return `asking\u2026, ${both} of ${all} compared${both ? `: so far ${where}` : ""}.`;
  if (!all) return "Nothing to compare yet: beliefs are asked where statements end.";
  return `All ${all} ends of statements up to here compared: ${where}.`;
}

const minus = (rows, from) => rows.map((r, i) => r.map((x, j) => x - from[i][j]));

export function create(app, root) {
  const { store, second } = app;
  let open = false;
  const first = () => app.moment().model;

  // ---- the five answers

  let answers = null; // {program, task, by: Map of arch -> {word, p, truth} or {error}}
  let asking = "";
  const ask = el("button", { type: "button", id: "ask-all", onclick: () => askAll() }, "Ask all five");
  const cards = el("ul", { class: "cards" });
  const asked = el("p", { class: "hint", "aria-live": "polite" });

  // The statement about the five holds where it is hard: at the default size others get by.
  const harder = el("button", { type: "button", class: "small", id: "harder", onclick: () => app.open({ task: "sbr", model: of("hybrid-neg").name, n: 64, program: null }) }, "Try n = 64");
  const easy = el("p", { class: "hint easy" }, "At small sizes others get by too, and chance alone is right every second time. Only the hybrid does both at larger sizes. ", harder);

  const task = () => app.zoo().find((m) => m.name === first()?.name)?.task || store.get("task");
  const of = (arch) => app.zoo().find((m) => m.name === `${task()}-${arch}`);

  async function askAll() {
    const program = app.moment().program;
    const models = archs.map((a) => of(a.id)).filter(Boolean);
    asking = "asking\u2026";
    drawCards();
    const end = app.on("progress", (m) => {
      if (m.what !== "answers") return;
      asking = `asked ${m.done} of ${m.total}`;
      drawCards();
    });
    try {
      const r = await app.request("answers", { models: models.map((m) => m.name), program });
      const by = new Map(r.answers.map((a) => [models.find((m) => m.name === a.model)?.arch, a.error ? { error: a.error } : a.asks.at(-1) ?? { error: "asked nothing" }]));
      answers = { program, task: task(), by };
      app.say(archs.map((a) => `${a.name}: ${verdict(by.get(a.id))}`).join("; "));
    } catch (e) {
      app.notice("compare", `The five could not be asked: ${e.message}`, { bad: true });
    }
    end();
    app.progress("");
    asking = "";
    drawCards();
  }

  const right = (a) => String(a.truth) === a.word;
  const verdict = (a) => (!a ? "not asked" : a.error ? a.error : `${a.word}, ${right(a) ? "right" : `wrong, truth ${a.truth}`}`);

  const chip = (a, wrong = "wrong, truth") => el("span", { class: `verdict-chip ${right(a) ? "good" : "bad"}` }, right(a) ? "\u2713 right" : `\u2717 ${wrong} ${a.truth}`);

  function drawCards() {
    const m = app.moment();
    const known = answers && answers.program === m.program && answers.task === task() ? answers.by : null;
    const asks = m.words.some((w) => w.word.endsWith("=="));
    ask.disabled = !m.live || !asks || asking !== "";
    asked.textContent = asking || (asks ? "" : "This program asks nothing.");
    easy.hidden = task() !== "sbr" || store.get("n") >= 64 || !of("hybrid-neg");
    harder.disabled = !m.live;
    cards.replaceChildren(...archs.filter((a) => of(a.id)).map((a) => {
      const name = of(a.id).name;
      const r = known?.get(a.id);
      const isFirst = name === m.model?.name;
      const isOther = name === store.get("other");
      return el("li", { class: `card-arch${isFirst || isOther ? " on" : ""}` },
        el("h3", {}, a.name, isFirst || isOther ? el("span", { class: "lane" }, isFirst ? "A" : "B") : null),
        el("p", { class: "says" }, ...(!r ? [el("span", { class: "dim" }, "\u2013")] : r.error ? [el("span", { class: "error" }, r.error)] : [el("b", {}, r.word), " ", el("span", { class: "dim" }, percent(r.p))])),
        r && !r.error ? chip(r, "truth") : null,
        isFirst ? null : el("button", { type: "button", class: "small", "aria-pressed": String(isOther), "aria-label": `${isOther ? "take away" : "compare with"} ${a.name}`, onclick: () => store.set({ other: isOther ? "" : name }) }, isOther ? "take away" : "compare"));
    }));
  }

  // ---- the second model

  const pick = picker("Beside it (B)", (v) => store.set({ other: v, ...(v ? {} : { otherSwitches: {}, show: "a" }) }));
  const stage = choice("the picture shows", { a: "A", b: "B", diff: "A \u2212 B" }, (v) => store.set({ show: v }));
  const stageChoice = el("div", { class: "stage-choice" }, el("span", { class: "dim" }, "The picture shows"), stage.root);
  const changes = editor({
    get: () => store.get("otherSwitches"), set: (otherSwitches) => store.set({ otherSwitches }), model: () => second.model,
    negative: () => app.zoo().find((z) => z.name === second.model?.name)?.neg_eigval,
  });
  const more = el("details", {}, el("summary", {}, "Switches of B"), changes.root);
  const both = el("div", { class: "both" });
  const strip = el("ol", { class: "strip agree", "aria-label": "where A and B differ, word by word" });
  const summary = el("p", { class: "hint" });
  const layer = picker("layer", (v) => store.set({ layer: Number(v) }));
  const head = picker("head", (v) => store.set({ head: Number(v) }));
  const hover = tip(app, "Point at a cell to read its numbers.");
  const sheet = new Sheet("states of A and B and their difference", hover.tell);
  const states = el("div", {}, el("div", { class: "row picks" }, layer.element, head.element), sheet.root, hover.line);
  const waiting = el("p", { class: "dim", "aria-live": "polite" });
  const rest = el("div", { class: "rest" },
    more, both,
    el("h2", {}, "Where they differ"), strip, summary, el("h2", {}, "The same head of both"), states);
  root.append(el("h2", {}, "All five on this program"), cards, el("div", { class: "row ask" }, ask, asked), easy, el("p", { class: "hint" }, named),
    el("div", { class: "row beside" }, pick.element, stageChoice), waiting, rest);

  function drawChooser(m) {
    const z = app.zoo();
    const name = m.model?.name;
    const fits = z.filter((x) => x.task === task() || x.name === name);
    const other = store.get("other");
    pick.set([["", "no second model"], ...fits.map((x) => [x.name, x.name === name ? `${x.name}, with other switches` : x.name]), ...(other && !fits.some((x) => x.name === other) ? [[other, other]] : [])], other);
    stage.set(store.get("show"), m.noStage);
    changes.draw();
  }

  const side = (letter, model, list, steps, t) => {
    const step = steps[t];
    const a = answerAt(steps, t);
    return el("section", { class: "side-of", "aria-label": `${letter}: ${model?.name ?? ""}` },
      el("h2", {}, el("span", { class: "lane" }, letter), ` ${model?.name ?? ""}`),
      list.length ? el("p", { class: "flag" }, `changed: ${list.join("; ")}`) : null,
      el("p", { class: "says" }, ...(a ? ["says ", el("b", {}, a.word), " ", el("span", { class: "dim" }, percent(a.p)), " ", chip(a)] : [el("span", { class: "dim" }, "not asked yet")])),
      el("ol", { class: "bars", "aria-label": "likeliest next words" }, ...guessBars(step, 5)));
  };

  // ---- agreement, from the steps that both have seen

  let cells = null; // {words, list}
  let seen = null; // {of, a, b}: steps asked of the engine; of: the runs that they are of, by their lists of steps
  const fetchSteps = latest(async () => {
    const m = app.moment();
    if (seen?.of[0] !== m.steps || seen.of[1] !== second.steps) seen = { of: [m.steps, second.steps], a: [], b: [] };
    const mine = seen;
    for (const [lane, list, have] of [[0, mine.a, m.steps], [1, mine.b, second.steps]]) {
      for (let i = 0; i <= m.t; i++) list[i] ??= have[i]?.top && have[i];
      const from = list.findIndex((s, i) => !s && i <= m.t);
      if (from < 0) continue;
      const r = await app.request("steps", { lane, from, to: m.t });
      for (const s of r.steps ?? []) list[s.t] = s;
    }
    if (mine === seen && open) drawStrip();
  });

  let later = 0;
  app.on("belief", (m) => {
    const step = (m.lane === 1 ? seen?.b : seen?.a)?.[m.t];
    if (!step || !m.belief) return;
    step.belief = m.belief;
    if (open) later ||= requestAnimationFrame(() => { later = 0; drawStrip(); });
  });

  function drawStrip() {
    const { words, t, steps } = app.moment();
    const { a, b: other } = seen?.of[0] === steps && seen.of[1] === second.steps ? seen : { a: [], b: [] };
    const waits = new Set(boundaries(words, t).filter((i) => !a[i]?.belief || !other[i]?.belief));
    if (cells?.words !== words) {
      const list = words.map((w, i) => {
        const mark = el("i", { "aria-hidden": "true" });
        const b = el("button", { type: "button", tabindex: "-1", onclick: () => app.player.jump(i) }, w.word);
        return { b, mark, li: el("li", { class: i > 0 && w.statement !== words[i - 1].statement ? "gap" : undefined }, b, mark) };
      });
      strip.replaceChildren(...list.map((c) => c.li));
      cells = { words, list };
    }
    cells.list.forEach(({ b, li }, i) => {
      const d = i <= t && !waits.has(i) ? differ(a[i], other[i]) : null;
      const belief = d?.length > 0 && d[0] !== "next word";
      li.className = `${li.classList.contains("gap") ? "gap " : ""}${belief ? "differs" : d?.length ? "top" : d ? "same" : ""}`;
      b.className = i < t ? "read" : i === t ? "now" : "later";
      b.tabIndex = i === Math.max(t, 0) ? 0 : -1;
      b.title = belief ? `beliefs differ: ${d.join(", ")}` : d?.length ? "the likeliest next word differs" : d ? "they agree" : "";
      b.setAttribute("aria-label", `word ${i}, ${words[i].word}${b.title ? `: ${b.title}` : ""}`);
    });
    const now = cells.list[Math.max(t, 0)]?.li;
    if (now && strip.scrollHeight > strip.clientHeight) strip.scrollTop = now.offsetTop - strip.clientHeight / 2;
    summary.textContent = t < 0 ? "Nothing read yet." : `${agreed(agreement(words, t, a, other))} Orange: what they believe of a variable differs. Grey: only the likeliest next word does.`;
  }

  strip.addEventListener("keydown", (e) => {
    const list = [...strip.querySelectorAll("button")];
    const at = list.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: list.length - 1 }[e.key];
    if (at < 0 || to === undefined) return;
    e.preventDefault();
    e.stopPropagation();
    list[Math.min(Math.max(to, 0), list.length - 1)].focus();
  });

  // ---- one head of both

  let pair = null; // {t, layer, head, kind, a, b, say: [string, string]}
  const chosen = () => {
    const layers = first()?.layers ?? [];
    const l = store.get("layer");
    const at = l >= 0 && l < layers.length ? l : Math.max(layers.findIndex((x) => x.kind === "gdn"), 0);
    return { layer: at, head: Math.min(store.get("head"), (layers[at]?.heads ?? 1) - 1) };
  };

  const fetchPair = latest(async (stale) => {
    const m = app.moment();
    if (m.t < 0 || !second.model) {
      pair = null;
      drawPair();
      return;
    }
    const c = chosen();
    const [a, b] = await Promise.all([m.model, second.model].map((model, lane) => one(model, c, lane, m.t)));
    if (stale()) return;
    pair = { t: m.t, ...c, a, b };
    drawPair();
  });

  // one is what a head holds: {kind, rows, say}, or {why} where it has nothing.
  async function one(model, { layer: l, head: h }, lane, t) {
    const info = model.layers[l];
    if (!info || h >= info.heads) return { why: "has no such head" };
    try {
      if (info.kind === "gdn") {
        const { anatomy: x } = await app.request("anatomy", { t, layer: l, head: h, lane });
        return { kind: "gdn", rows: x.state, say: `\u03b1 ${short(x.alpha)} \u03b2 ${short(x.beta)}` };
      }
      const { map } = await app.request("maps", { layer: l, head: h, lane, from: t });
      const row = map.t === t ? map.rows.at(-1) : null;
      return row ? { kind: "attention", rows: [Array.from({ length: app.moment().words.length }, (_, j) => row[j] ?? 0)], say: "attention of this word" } : { why: "is not there yet" };
    } catch (e) {
      return { why: e.message };
    }
  }

  function drawPair() {
    const layers = first()?.layers ?? [];
    const c = chosen();
    layer.set(layers.map((l, i) => [i, `${i} (${l.kind === "gdn" ? "delta rule" : "attention"})`]), c.layer);
    head.set(Array.from({ length: layers[c.layer]?.heads ?? 0 }, (_, h) => [h, h]), c.head);
    const colors = palette(app.theme());
    const width = Math.max(Math.floor(states.clientWidth) || 640, 280);
    if (!pair) {
      sheet.begin(width, 24, colors);
      sheet.text(0, 15, "Step once to see what they hold.");
      sheet.end();
      return;
    }
    const comparable = pair.a.rows && pair.b.rows && pair.a.kind === pair.b.kind && pair.a.rows.length === pair.b.rows.length && pair.a.rows[0].length === pair.b.rows[0].length;
    const parts = [
      { name: `A  ${first().name}`, ...pair.a }, { name: `B  ${second.model.name}`, ...pair.b },
      comparable ? { name: "A \u2212 B", kind: pair.a.kind, rows: minus(pair.a.rows, pair.b.rows), say: "" } : { name: "A \u2212 B", why: "their shapes differ" }];
    const scale = pair.a.kind === "gdn" || pair.b.kind === "gdn" ? "signed" : "chance";
    const limit = scale === "signed" ? niceLimit(reach([pair.a, pair.b].flatMap((x) => (x.kind === "gdn" ? x.rows.flat() : [])))) : 1;
    const flat = parts.every((p) => !p.rows || p.rows.length === 1);
    const across = width >= 560 && !flat ? 3 : 1;
    const gap = 24;
    const room = (width - (across - 1) * gap) / across;
    const top = 38;
    const size = (p) => {
      if (!p.rows) return [0, 0];
      const cw = Math.min(Math.max(room / p.rows[0].length, 1), 46);
      const whole = cw >= 2 ? Math.floor(cw) : cw;
      return [whole, p.rows.length === 1 ? 22 : Math.min(whole, 20 + (whole > 34 ? 26 : 0))];
    };
    const heights = parts.map((p) => (p.rows ? size(p)[1] * p.rows.length : 24) + top);
    const lines = across === 3 ? [Math.max(...heights)] : heights;
    const total = lines.reduce((s, h) => s + h + 14, 0);
    sheet.begin(width, total + 30, colors);
    sheet.label = `layer ${pair.layer} head ${pair.head} after word ${pair.t}: A, B and their difference`;
    let y = 0;
    parts.forEach((p, i) => {
      const x = across === 3 ? i * (room + gap) : 0;
      sheet.text(x, y + 13, p.name, { size: 13, bold: true, fill: colors.text });
      sheet.text(x, y + 30, p.why ?? p.say, { size: 12 });
      if (p.rows) {
        const [cw, ch] = size(p);
        const kind = i === 2 ? "signed" : p.kind === "gdn" ? "signed" : "chance";
        const paint = (v) => (v === undefined ? nothing(app.theme()) : color(app.theme(), kind, v, p.kind === "gdn" ? limit : 1));
        sheet.matrix(`part${i}`, { x: x + 0.5, y: y + top, rows: p.rows.length, cols: p.rows[0].length, cw, ch, at: (r, k) => p.rows[r][k], paint,
          tell: (r, k) => {
            const where = p.kind === "gdn" ? `[k=${r},v=${k}]` : ` looks at word ${k} "${app.moment().words[k]?.word ?? ""}"`;
            const value = (q) => (q.rows?.[r]?.[k] === undefined ? "\u2013" : number(q.rows[r][k]));
            return comparable ? `layer ${pair.layer} head ${pair.head}${where}: A ${value(parts[0])}, B ${value(parts[1])}, A \u2212 B ${value(parts[2])}` : `${p.name.slice(0, 1)}${where}: ${value(p)}`;
          } });
      }
      if (across === 1) y += heights[i] + 14;
    });
    sheet.legend(0, total, Math.min(220, width), scale, limit);
    sheet.end();
  }

  function draw() {
    const m = app.moment();
    const on = store.get("other") !== "";
    drawCards();
    drawChooser(m);
    rest.hidden = stageChoice.hidden = !on || !second.model;
    waiting.className = second.error && on ? "error" : "dim";
    waiting.textContent = second.error && on ? `B: ${second.error}` : on && second.waiting ? "loading the second model\u2026" : "";
    if (rest.hidden) return;
    both.replaceChildren(side("A", m.model, describe(store.get("switches"), store.get("patches")), m.steps, m.t),
      side("B", second.model, describe(clean(store.get("otherSwitches"), second.model.layers)), second.steps, second.t));
    drawStrip();
    if (second.t !== m.t) return;
    fetchSteps().catch((e) => { summary.textContent = e.message; });
    fetchPair().catch((e) => app.notice("compare", e.message, { bad: true }));
  }

  second.on(() => { if (open) draw(); });
  store.on((keys) => { if (open && ["other", "otherSwitches", "show", "layer", "head"].some((k) => keys.has(k))) draw(); });
  onWidth(states, () => { if (open && !rest.hidden) drawPair(); });
  app.onTheme(() => { if (open && !rest.hidden) drawPair(); });

  return {
    show() {
      open = true;
      draw();
    },
    close() { open = false; },
    svg() {
      if (!pair) throw new Error("choose a second model and step once");
      return sheet.svg();
    },
    table() {
      const m = app.moment();
      if (!pair?.a.rows || !second.model) {
        const rows = archs.filter((a) => of(a.id)).map((a) => {
          const r = answers?.program === m.program ? answers.by.get(a.id) : undefined;
          return [a.name, r?.word ?? "", r?.p === undefined ? "" : number(r.p), r?.truth ?? "", r ? verdict(r) : "not asked"];
        });
        return { caption: "answers of the five architectures", columns: ["architecture", "answer", "p", "truth", "verdict"], rows };
      }
      const b = pair.b.rows;
      return { caption: `layer ${pair.layer} head ${pair.head} after word ${pair.t}`, columns: [pair.a.kind === "gdn" ? "k" : "row", pair.a.kind === "gdn" ? "v" : "word", "A", "B"],
        rows: pair.a.rows.flatMap((r, i) => r.map((x, j) => [i, j, number(x), b?.[i]?.[j] === undefined ? "" : number(b[i][j])])) };
    },
  };
}
