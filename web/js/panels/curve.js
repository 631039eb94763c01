// Accuracy over size, computed here: the paper's Figure 7, live.
import { lineChart } from "../chart.js";
import { el } from "../dom.js";
import { accuracy as paper, archs as trained, chance, levels as paperLevels, named } from "../paper.js";
import { onWidth } from "../picture.js";
import { choice } from "./switches.js";

export const title = "Accuracy";

const archs = [...trained, { id: "constructed", name: "by hand" }];
const taskNames = { st: "state tracking", recall: "recall", sbr: "both" };
const sizes = { st: [4, 8, 16, 32, 64, 128, 256, 512], recall: paperLevels, sbr: paperLevels };

// words is about how long a program is, and so what it costs.
const words = { st: (n) => n + 5, recall: (n) => n + 6, sbr: (n) => 2 * n + 10 };

// slow says whether a device computes on a processor.
export const slow = (device) => !device || device.device === "cpu" || /swiftshader|llvmpipe|lavapipe|software|basic render/i.test(device.adapter ?? "");

// cost is how many words some models read for so many programs at each size.
export const cost = (task, models, levels, samples) => models * samples * levels.reduce((s, n) => s + words[task](n), 0);

// preset is what a slow device measures of so many models in about 90 s:
// {levels, samples}.
export function preset(task, models, rate) {
  const levels = [4, 8, 16];
  return { levels, samples: Math.min(Math.max(Math.floor((90 * rate) / cost(task, models, levels, 1)), 2), 64) };
}

// stderr is the binomial standard error of a share p of samples.
export const stderr = (p, samples) => (samples > 0 ? Math.sqrt((p * (1 - p)) / samples) : 0);

// left estimates the seconds that are still to go: done and total in words.
export const left = (seconds, done, total) => (done > 0 ? (seconds * (total - done)) / done : NaN);

export function duration(s) {
  if (!Number.isFinite(s)) return "\u2026";
  if (s < 1) return "less than a second";
  if (s < 90) return `${Math.ceil(s)} s`;
  return `${Math.round(s / 60)} min`;
}

export function create(app, root) {
  let task = "";
  const results = { st: new Map(), recall: new Map(), sbr: new Map() }; // by architecture: Map of n -> {right, samples}
  let running = null; // {task, started, total, cost: Map of "arch n" -> words, cancelled}
  let message = "";
  let base = "shipped"; // or "here"
  let withPaper = true;
  let set = false; // the reader has set samples or sizes
  let own = false; // the choice is being made here
  let rate = 0; // words a second, as measured here last
  let trying = null; // a promise: a slow device is timed with two short programs
  let open = false;

  const of = (arch) => app.zoo().find((m) => m.task === task && m.arch === arch);
  const checkbox = (text, on, label = null) => {
    const input = el("input", { type: "checkbox", checked: on, onchange: () => chosen() });
    return { input, root: el("label", { class: "check" }, input, label, el("span", {}, text)) };
  };
  const swatch = (tone) => {
    const s = el("span", { class: `swatch tone-${tone}`, "aria-hidden": "true" });
    return s;
  };
  const tasks = choice("task", taskNames, (v) => { task = v; choose({ task }); draw(); });
  const models = archs.map((a, i) => ({ arch: a.id, ...checkbox(a.name, a.id !== "constructed", swatch(i)) }));
  const allLevels = sizes.st.map((n) => ({ n, ...checkbox(String(n), n <= 128) }));
  const samples = el("input", { type: "number", id: "curve-samples", min: 1, max: 4096, step: 1, value: 256, inputmode: "numeric", oninput: () => chosen() });
  const start = el("button", { type: "button", id: "curve-start", class: "primary", onclick: () => run() }, "Measure here");
  const cancel = el("button", { type: "button", id: "curve-cancel", hidden: true, onclick: () => {
    if (!running) return;
    running.cancelled = true;
    app.request("cancel").catch((e) => app.notice("curve", e.message, { bad: true }));
  } }, "Cancel");
  const bar = el("progress", { max: 1, value: 0, hidden: true, "aria-label": "programs answered" });
  const status = el("p", { class: "dim status", id: "curve-status" });
  const speed = el("p", { class: "hint" });
  const which = choice("numbers", { shipped: "shipped with the models", here: "measured here" }, (v) => { base = v; draw(); });
  const paperBox = el("input", { type: "checkbox", checked: true, onchange: () => { withPaper = paperBox.checked; choose({ paper: withPaper ? undefined : false }); draw(); } });
  const picture = el("div", { class: "picture" });
  const source = el("p", { class: "hint" });

  root.append(
    el("div", { class: "row curve-row" }, tasks.root),
    el("div", { class: "curve-form" },
      el("div", { role: "group", "aria-label": "models" }, el("h2", {}, "Models"), el("div", { class: "checks" }, ...models.map((m) => m.root))),
      el("div", { role: "group", "aria-label": "sizes" }, el("h2", {}, "Sizes n"), el("div", { class: "checks" }, ...allLevels.map((l) => l.root))),
      el("div", {}, el("h2", {}, el("label", { for: "curve-samples" }, "Programs per size")), el("div", { class: "row" }, samples, start, cancel))),
    speed, bar, status,
    el("div", { class: "row curve-row" }, which.root, el("label", { class: "check" }, paperBox, el("span", { class: "dots", "aria-hidden": "true" }), el("span", {}, "the paper\u2019s curve, dotted"))),
    picture, source,
    el("p", { class: "hint" }, named),
    el("p", { class: "hint" }, "What differs from the paper: D = 128 instead of 256 (0.9 to 1.2 million parameters), one word a swap instead of its unpublished tokens, 3,000 to 35,000 training steps instead of 20,000 to 200,000. The paper shows the best run of a sweep. Here it is the best of three runs for each model with negative eigenvalues, of two for the transformer, and a single run without negative eigenvalues. State tracking and both were trained up to 64: beyond that it is extrapolation."));

  const usable = (l) => sizes[task].includes(l.n);

  // choose keeps choices for the link.
  function choose(patch) {
    own = true;
    app.store.set({ accuracy: JSON.parse(JSON.stringify({ ...app.store.get("accuracy"), ...patch })) });
    own = false;
  }

  function chosen() {
    set = true;
    const n = Number(samples.value);
    choose({ models: models.filter((m) => m.input.checked).map((m) => m.arch), sizes: allLevels.filter((l) => l.input.checked).map((l) => l.n),
      ...(Number.isInteger(n) && n >= 1 && n <= 4096 ? { samples: n } : {}) });
    draw();
  }

  // follow takes what a link says.
  function follow() {
    const c = app.store.get("accuracy");
    if (!running) task = c.task ?? "";
    withPaper = paperBox.checked = c.paper !== false;
    set = Boolean(c.models || c.sizes || c.samples);
    for (const m of models) m.input.checked = c.models ? c.models.includes(m.arch) : m.arch !== "constructed";
    for (const l of allLevels) l.input.checked = c.sizes ? c.sizes.includes(l.n) : l.n <= 128;
    samples.value = c.samples ?? 256;
    draw();
  }

  function time(m) {
    const z = app.zoo().find((x) => x.name === m.model?.name && x.task);
    if (trying || rate || !z || !m.live) return;
    trying = app.request("curve", { task: z.task, models: [z.name], levels: [4], samples: 2, seed: 1 })
      .then((r) => { rate ||= r.seconds > 0 ? cost(z.task, 1, [4], 2) / r.seconds : 0; }, () => {}) // then the guess stays
      .then(draw);
  }

  async function run() {
    await trying;
    if (running) return;
    const chosen = models.filter((m) => m.input.checked && of(m.arch));
    const wanted = allLevels.filter((l) => l.input.checked && usable(l)).map((l) => l.n);
    const count = Number(samples.value);
    if (!chosen.length || !wanted.length || !Number.isInteger(count) || count < 1 || count > 4096) {
      message = "Choose a model, a size, and 1 to 4096 programs.";
      draw();
      return;
    }
    const mine = task;
    const names = new Map(chosen.map((m) => [of(m.arch).name, m.arch]));
    running = { task: mine, started: performance.now(), cost: new Map(), done: 0, programs: 0,
      total: cost(mine, chosen.length, wanted, count) };
    base = "here";
    message = "";
    for (const arch of names.values()) results[mine].delete(arch);
    const keep = (m) => {
      const arch = names.get(m.model);
      if (!arch) return;
      if (!results[mine].has(arch)) results[mine].set(arch, new Map());
      results[mine].get(arch).set(m.n, { right: m.right, samples: m.samples });
      running?.cost.set(`${arch} ${m.n}`, m.samples * words[mine](m.n));
      if (running) running.done = [...running.cost.values()].reduce((a, b) => a + b, 0);
    };
    const end = app.on("curve", (m) => {
      keep(m);
      draw();
    });
    draw();
    try {
      const r = await app.request("curve", { task: mine, models: [...names.keys()], levels: wanted, samples: count, seed: 1 });
      for (const c of r.curve) for (const l of c.levels) if (l.samples > 0) keep({ model: c.model, ...l });
      if (running.done > 0) rate = running.done / ((performance.now() - running.started) / 1000);
      message = r.cancelled ? "Cancelled: what was computed stays." : `Done in ${duration(r.seconds)}.`;
    } catch (e) {
      message = e.message;
    }
    end();
    running = null;
    draw();
    app.say(message);
  }

  // data is what is shown, by architecture: [{n, y, samples}] in order of n.
  const data = (arch) => {
    if (base === "here") return [...(results[task].get(arch) ?? [])].map(([n, r]) => ({ n, y: r.right / r.samples, samples: r.samples })).sort((a, b) => a.n - b.n);
    const m = of(arch);
    return (m?.accuracy ?? []).map((x) => ({ n: x.n, y: x.accuracy, samples: m.samples ?? 0 }));
  };

  function chart() {
    const shown = archs.map((a, tone) => ({ ...a, tone })).filter((a) => models[a.tone].input.checked);
    const lines = shown.map((a) => ({ name: a.name, tone: a.tone, points: data(a.id).map((p) => {
      const e = stderr(p.y, p.samples);
      return { x: p.n, y: p.y, error: e, title: `${a.name}, n = ${p.n}: ${p.y.toFixed(3)} \u00b1 ${e.toFixed(3)} (${p.samples} programs)` };
    }) }));
    const dotted = withPaper ? shown.filter((a, i) => lines[i].points.length && paper[task][a.id]).map((a) => ({ name: a.name, tone: a.tone, dotted: true, quiet: true, points: paper[task][a.id].map((y, i) => ({ x: paperLevels[i], y })) })) : [];
    const last = Math.max(128, ...lines.flatMap((l) => l.points.map((p) => p.x)));
    return lineChart({
      width: Math.max(Math.floor(picture.clientWidth) || 640, 280),
      label: `accuracy over n, ${taskNames[task]}, ${base === "here" ? "measured here" : "shipped with the models"}${withPaper ? ", with the paper\u2019s curve dotted" : ""}`,
      x: { scale: "log2", min: 4, max: last, ticks: sizes.st.filter((n) => n <= last), label: task === "recall" ? "bits m" : task === "st" ? "swaps n" : "size n = m" },
      y: { scale: "linear", min: 0, max: 1, ticks: [0, 0.2, 0.4, 0.6, 0.8, 1], label: "accuracy" },
      series: [...dotted, ...lines], rules: [{ y: chance[task], label: `chance ${chance[task]}` }], dodge: 3,
    });
  }

  function draw() {
    if (!open) return;
    const m = app.moment();
    task ||= app.zoo().find((z) => z.name === m.model?.name)?.task || app.store.get("task");
    tasks.set(task, running !== null);
    which.set(base);
    if (m.device && !running) {
      const tired = slow(m.device);
      if (tired) time(m);
      const known = rate || (tired ? 20 : 0);
      const chosen = models.filter((x) => x.input.checked && of(x.arch)).length;
      if (!set && tired) {
        const p = preset(task, Math.max(chosen, 1), known);
        samples.value = p.samples;
        for (const l of allLevels) l.input.checked = p.levels.includes(l.n);
      } else if (!set) {
        samples.value = m.device.samples || 256;
        for (const l of allLevels) l.input.checked = l.n <= 128;
      }
      const wanted = allLevels.filter((l) => l.input.checked && usable(l)).map((l) => l.n);
      const seconds = cost(task, chosen, wanted, Number(samples.value)) / known;
      speed.textContent = [known && seconds > 0 ? `This takes about ${duration(seconds)} here.` : "",
        tired && !set ? `This device (${m.device.device === "cpu" ? "the CPU" : m.device.adapter}) is slow: few programs and small sizes are set. More is more exact, and takes longer.` : ""].filter(Boolean).join(" ");
    }
    for (const x of models) {
      x.root.hidden = !of(x.arch);
      x.input.disabled = running !== null;
    }
    for (const l of allLevels) {
      l.root.hidden = !usable(l);
      l.input.disabled = running !== null;
    }
    samples.disabled = running !== null;
    start.disabled = running !== null || !m.live;
    cancel.hidden = bar.hidden = running === null;
    if (running) {
      const seconds = (performance.now() - running.started) / 1000;
      const share = Math.min(running.done / running.total, 1);
      bar.value = share;
      status.textContent = running.cancelled ? "cancelling\u2026" : `${Math.floor(share * 100)}%, about ${duration(left(seconds, running.done, running.total))} left. You can go on stepping.`;
    } else {
      status.textContent = message;
    }
    picture.replaceChildren(chart());
    const some = archs.filter((a, i) => models[i].input.checked && of(a.id)?.samples).map((a) => of(a.id).samples);
    source.textContent = base === "shipped" ? `Measured when the models were made, ${[...new Set(some)].join(" or ")} programs a size; bars are one binomial standard error.`
      : results[task].size ? `Measured on this device: ${m.device?.device === "cpu" ? "CPU" : m.device?.adapter ?? ""}. Bars are one binomial standard error.` : "Nothing measured here yet.";
  }

  follow();
  app.store.on((keys) => { if (keys.has("accuracy") && !own) follow(); });

  let drawn = "";
  onWidth(picture, draw);

  return {
    // A moment changes nothing here but the device, once it is known.
    show(m) {
      const key = JSON.stringify([m.live, m.device, app.zoo().length]);
      if (open && key === drawn) return;
      open = true;
      drawn = key;
      draw();
    },
    close() { open = false; },
    svg: () => picture.querySelector("svg"),
    table() {
      const rows = archs.flatMap((a, i) => {
        if (!models[i].input.checked || !of(a.id)) return [];
        const shipped = new Map((of(a.id).accuracy ?? []).map((x) => [x.n, x.accuracy]));
        const here = results[task].get(a.id) ?? new Map();
        return sizes[task].filter((n) => shipped.has(n) || here.has(n)).map((n) => {
          const r = here.get(n);
          const y = r ? r.right / r.samples : null;
          return [a.name, n, y === null ? null : y.toFixed(4), r ? stderr(y, r.samples).toFixed(4) : null, r?.samples ?? null, shipped.get(n)?.toFixed(4) ?? null, paper[task][a.id]?.[paperLevels.indexOf(n)] ?? null];
        });
      });
      return { caption: `accuracy, ${taskNames[task]} (chance ${chance[task]})`, columns: ["architecture", "n", "measured here", "standard error", "programs", "shipped", "paper"], rows };
    },
  };
}
