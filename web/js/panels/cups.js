// The shell game: what the variables truly hold, as cups that change places,
// and under each what the model believes.
import { asked, beliefAt, bitsOf, guesses, inShort, inWords, swapOf, used } from "../beliefs.js";
import { inkOn } from "../colors.js";
import { el, svg } from "../dom.js";
import { percent } from "../format.js";
import { onWidth, palette } from "../picture.js";
import { noAnswer } from "../trace.js";

export const title = "Shell game";

const cupColors = ["#3b6fb5", "#2a9d9d", "#d9b62f", "#8d5fb8", "#cf8f6e"];
const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

// placesAt says which cup stands at each place after word t: cups are numbered
// by where they started.
export function placesAt(words, names, t) {
  const at = names.map((_, i) => i);
  for (let i = 0; i <= t; i++) {
    const swap = swapOf(words[i]?.word);
    if (!swap) continue;
    const [x, y] = swap.map((n) => names.indexOf(n));
    if (x >= 0 && y >= 0) [at[x], at[y]] = [at[y], at[x]];
  }
  return at;
}

// sceneAt is all that the drawing shows after word t.
export function sceneAt({ words, steps, t, step }) {
  const names = used(words);
  const vars = step?.truth?.vars ?? {};
  const bits = bitsOf(words, t);
  const last = beliefAt(steps, t);
  const believed = guesses(last?.belief);
  const question = asked(words[t]?.word) ?? asked(words.slice(0, t + 1).findLast((w) => w.word.endsWith("=="))?.word);
  const pointers = words.some((w) => w.word === "bits=[");
  const cups = placesAt(words, names, t);
  return {
    names, bits, pointers, question, swap: swapOf(words[t]?.word), believedAt: last?.t ?? -1,
    places: names.map((name, i) => ({
      name, cup: cups[i], value: vars[name] ?? null, bit: pointers && vars[name] !== undefined ? bits[vars[name]] ?? null : null,
      asked: question?.name === name,
      belief: believed.find((g) => g.name === name && !g.bit) ?? null,
      bitBelief: believed.find((g) => g.name === name && g.bit) ?? null,
    })),
  };
}

const sure = (p) => percent(p).replace(/\.\d%/, "%");

export function create(app, root) {
  const say = el("p", { class: "lead" });
  const drawing = svg("svg", { role: "img" });
  const box = el("div", { class: "cups" }, drawing);
  root.append(say, box);
  let shown = null; // {words, t}
  let scene = null;
  let moment = null;
  let frame = 0;
  let move = null; // {before, began, time} of the swap under way
  const cups = []; // groups by cup
  let layout = null;

  let wide = 0;
  onWidth(box, (w) => {
    wide = w;
    if (moment) draw();
  });

  function draw() {
    const c = palette(app.theme());
    const width = Math.max(wide || box.clientWidth, 280);
    const n = scene.names.length;
    const slot = Math.min(150, Math.floor((width - 8) / Math.max(n, 1)));
    const left = n < 5 ? 4 : Math.floor((width - n * slot) / 2);
    const w = Math.min(86, slot - 10);
    const lift = n > 1 ? 58 : 10;
    layout = { slot, left, lift, x: (i) => left + (i + 0.5) * slot, y: lift };
    drawing.replaceChildren();
    cups.length = 0;
    const text = (x, y, s, o = {}) => {
      const t = svg("text", { x, y, "text-anchor": o.anchor ?? "middle", "font-size": o.size ?? 12, fill: o.fill ?? c.dim, "font-family": o.mono ? c.mono : c.sans, "font-weight": o.bold ? 650 : 400 }, s);
      (o.into ?? drawing).append(t);
      return t;
    };

    const table = lift + 82;
    drawing.append(svg("line", { x1: layout.x(0) - slot / 2 + 2, x2: layout.x(n - 1) + slot / 2 - 2, y1: table, y2: table, stroke: c.line, "stroke-width": 2 }));
    const beliefs = scene.places.some((p) => p.belief || p.bitBelief);
    let y = table + 22;
    scene.places.forEach((p, i) => {
      if (p.asked) drawing.append(svg("rect", { x: layout.x(i) - 13, y: y - 17, width: 26, height: 24, rx: 6, fill: "none", stroke: c.accent, "stroke-width": 2 }));
      text(layout.x(i), y, p.name, { size: 16, mono: true, bold: true, fill: c.text });
    });
    y += 24;
    if (beliefs) {
      const lines = scene.places.some((p) => p.bitBelief) ? 2 : 1;
      const narrow = slot < 104; // then the probability has its own line
      const line = narrow ? 33 : 19;
      const wordBefore = moment.words[scene.believedAt]?.word ?? "";
      text(layout.x(0) - slot / 2 + 4, y, scene.believedAt === moment.t ? "the model believes" : `the model believed after ${wordBefore}`, { anchor: "start" });
      y += 8;
      scene.places.forEach((p, i) => {
        const both = [p.belief, p.bitBelief].filter(Boolean);
        if (!both.length) return;
        const wrong = both.some((g) => !g.right);
        const color = wrong ? c.bad : c.good;
        drawing.append(svg("rect", { x: layout.x(i) - slot / 2 + 3, y, width: slot - 6, height: 10 + line * lines, rx: 6, fill: color, "fill-opacity": 0.1, stroke: color, "stroke-width": wrong ? 2 : 1 }));
        both.forEach((g, k) => {
          const row = text(layout.x(i), y + 19 + line * k, "", { mono: true, fill: c.text });
          row.append(g.bit ? "bit " : lines === 2 && !noAnswer(g.word) ? "\u2192" : "", svg("tspan", { "font-weight": 700, "font-size": 14 }, inShort(g.word)), svg("tspan", { fill: g.right ? c.good : c.bad, "font-weight": 700 }, g.right ? " \u2713" : " \u2717"), narrow || noAnswer(g.word) ? "" : svg("tspan", { fill: c.dim }, ` ${sure(g.p)}`));
          if (narrow && !noAnswer(g.word)) text(layout.x(i), y + 32 + line * k, sure(g.p), { mono: true, size: 10.5 });
        });
      });
      y += 10 + line * lines + 8;
    }
    if (scene.pointers) y = drawBits(c, text, width, y + 14);

    // The cups last, so that they pass before everything else.
    for (const i of scene.names.keys()) {
      const p = scene.places.find((q) => q.cup === i);
      const color = cupColors[i];
      const ink = inkOn(rgb(color));
      const empty = p.value === null;
      const g = svg("g", {},
        svg("path", { d: `M${-w * 0.34} 4 q0 -4 5 -4 h${w * 0.68 - 10} q5 0 5 4 L${w / 2} 70 h${-w} Z`, fill: empty ? c.chip : color, stroke: empty ? c.line : color, "stroke-width": 1.5, "stroke-linejoin": "round", "stroke-dasharray": empty ? "4 4" : null }),
        empty ? null : svg("rect", { x: -w / 2 - 3, y: 68, width: w + 6, height: 9, rx: 4, fill: color, stroke: c.panel, "stroke-width": 1 }));
      if (!empty) {
        text(0, scene.pointers ? 32 : 44, (scene.pointers ? "\u2192" : "") + p.value, { size: w > 60 ? 22 : 17, bold: true, fill: ink, mono: true, into: g });
        if (scene.pointers) text(0, 54, p.bit === null ? "no bit" : `bit ${p.bit}`, { size: 13, fill: ink, mono: true, into: g });
      }
      cups[i] = g;
      drawing.append(g);
    }
    const height = y;
    for (const [k, v] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) drawing.setAttribute(k, v);
    place(performance.now());
  }

  function drawBits(c, text, width, y) {
    const cell = 28;
    const left = layout.left + 2;
    const across = Math.max(4, Math.min(scene.bits.length || 1, Math.floor((width - 2 * left) / cell)));
    text(left, y, scene.bits.length ? `bits: ${scene.bits.length}, with the variables that point at them` : "bits: none read yet", { anchor: "start" });
    y += 12;
    const target = scene.question ? scene.places.find((p) => p.asked)?.value ?? -1 : -1;
    const pointed = new Set(scene.places.map((p) => Math.floor((p.value ?? -across) / across))); // lines of bits with names below
    let top = y;
    scene.bits.forEach((bit, i) => {
      if (i > 0 && i % across === 0) top += pointed.has(i / across - 1) ? 52 : 40;
      const x = left + (i % across) * cell;
      const who = scene.places.filter((p) => p.value === i);
      text(x + cell / 2, top + 8, String(i), { size: 9.5 });
      const on = who.length > 0;
      drawing.append(svg("rect", { x: x + 2, y: top + 11, width: cell - 4, height: 22, rx: 4, fill: i === target ? c.accent : bit ? c.dim : c.panel, "fill-opacity": i === target ? 1 : bit ? 0.3 : 1, stroke: i === target || on ? c.accent : c.line, "stroke-width": on ? 2 : 1 }));
      text(x + cell / 2, top + 27, String(bit), { size: 13, mono: true, bold: on, fill: i === target ? c.panel : c.text });
      if (on) text(x + cell / 2, top + 44, who.map((p) => p.name).join(""), { size: who.length > 3 ? 9.5 : 12, mono: true, bold: true, fill: c.accent });
    });
    return top + (scene.bits.length ? 54 : 2);
  }

  // put stands the cups between where they were (by place) and where they are.
  function put(u, before) {
    const at = scene.places.map((p) => p.cup);
    const ease = u * u * (3 - 2 * u);
    at.forEach((cup, place) => {
      const from = before.indexOf(cup);
      const far = Math.abs(place - from);
      const arc = Math.sin(Math.PI * ease) * Math.min(52, 22 + 12 * far) * (place > from ? -1 : 0.45);
      cups[cup].setAttribute("transform", `translate(${layout.x(from) + (layout.x(place) - layout.x(from)) * ease} ${layout.y + (from === place ? 0 : arc)})`);
    });
  }

  function swap(before) {
    const room = app.player.perSecond > 0 ? 600 / app.player.perSecond : 0;
    const time = app.player.playing ? Math.min(400, room) : 400;
    if (time < 60) return;
    move = { before, began: performance.now(), time };
    const tick = (now) => {
      place(now);
      if (move) frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
  }

  // place puts the cups where they are now.
  function place(now) {
    const u = move ? Math.min(Math.max((now - move.began) / move.time, 0), 1) : 1;
    put(u, move?.before ?? scene.places.map((p) => p.cup));
    if (u === 1) move = null;
  }

  function sentence() {
    const { words, t } = moment;
    if (!words.length) return "Run a program to see its cups.";
    if (t < 0) return "Nothing read yet.";
    const word = words[t].word;
    const now = scene.places.flatMap((p) => [p.belief, p.bitBelief]).filter(Boolean);
    const right = now.filter((g) => g.right).length;
    const what = scene.swap ? `${word} exchanges what ${scene.swap[0]} and ${scene.swap[1]} hold.`
      : asked(word) ? `${word} asks ${asked(word).bit ? `for the bit that ${asked(word).name} points to` : `what ${asked(word).name} holds`}.`
      : `Word ${t}: \u201c${word}\u201d.`;
    const said = now.length && now.every((g) => noAnswer(g.word)) ? " The model has no preference." : now.length ? ` The model has ${right} of ${now.length} right.` : moment.live ? "" : " What the model believes comes from the live engine.";
    return what + (scene.places.some((p) => p.value !== null) ? said : "");
  }

  function label() {
    const hold = scene.places.map((p) => `${p.name} ${p.value === null ? "is empty" : `holds ${p.value}${p.bit === null ? "" : `, bit ${p.bit}`}`}${p.belief ? `, believed ${inWords(p.belief.word)}` : ""}${p.bitBelief ? `, bit believed ${inWords(p.bitBelief.word)}` : ""}`);
    return `Cups: ${hold.join("; ")}`;
  }

  return {
    show(m) {
      moment = m;
      scene = sceneAt(m);
      say.textContent = sentence();
      box.hidden = scene.names.length === 0;
      if (box.hidden) {
        shown = null;
        return;
      }
      drawing.setAttribute("aria-label", label());
      const same = shown?.words === m.words;
      const on = same && m.t === shown.t + 1 && scene.swap;
      const back = same && m.t === shown.t - 1 && swapOf(m.words[shown.t]?.word);
      if (!same || m.t !== shown.t) {
        move = null;
        cancelAnimationFrame(frame);
        if ((on || back) && !app.reduced()) swap(placesAt(m.words, scene.names, shown.t));
      }
      draw(); // a swap under way goes on
      shown = { words: m.words, t: m.t };
    },
    close() {
      cancelAnimationFrame(frame);
      move = shown = null;
    },
    svg: () => drawing,
    table: () => ({
      caption: `What the variables hold after word ${moment.t}, and what the model believes`,
      columns: ["variable", "truth", ...(scene.pointers ? ["its bit"] : []), "belief", "probability", "right", ...(scene.pointers ? ["bit believed", "probability", "right"] : [])],
      rows: scene.places.map((p) => [p.name, p.value ?? "", ...(scene.pointers ? [p.bit ?? ""] : []), p.belief ? inWords(p.belief.word) : "", p.belief?.p ?? "", p.belief ? (p.belief.right ? "yes" : "no") : "",
        ...(scene.pointers ? [p.bitBelief ? inWords(p.bitBelief.word) : "", p.bitBelief?.p ?? "", p.bitBelief ? (p.bitBelief.right ? "yes" : "no") : ""] : [])]),
    }),
  };
}
