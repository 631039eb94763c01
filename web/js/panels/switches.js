// Switches: the model changed on purpose, live, and its state patched.
import { betas, clean, describePatch, flipHead, flipLayer, parts, stores } from "../changes.js";
import { lineChart, steps } from "../chart.js";
import { el } from "../dom.js";
import { number } from "../format.js";

export const title = "Switches";

let editors = 0;

// choice is a row of radio buttons; it returns {root, set(value, disabled)}.
export function choice(label, values, onset) {
  const name = `choice-${++editors}`;
  const inputs = Object.entries(values).map(([value, text]) => {
    const input = el("input", { type: "radio", name, value, onchange: () => onset(value) });
    return [input, el("label", {}, input, el("span", {}, text))];
  });
  return {
    root: el("fieldset", { class: "choice" }, el("legend", {}, label), ...inputs.map(([, l]) => l)),
    set(value, disabled = false) {
      for (const [input] of inputs) {
        input.checked = input.value === value;
        input.disabled = disabled;
      }
    },
  };
}

// editor shows switches and changes them: get() and set(switches) hold them,
// model() is the model in the trace's form, negative() whether its beta goes
// beyond 1 (undefined: not known).
export function editor({ get, set, model, negative }) {
  const put = (patch) => set(clean({ ...get(), ...patch }, model()?.layers));
  const beta = choice("beta", betas, (v) => put({ beta: v }));
  const store = choice("the state is stored as", stores, (v) => put({ store: v }));
  const betaNote = el("p", { class: "hint" });
  const toggles = Object.entries(parts).map(([key, name]) => {
    const input = el("input", { type: "checkbox", role: "switch", onchange: () => put({ [key]: input.checked ? undefined : false }) });
    return { key, input, root: el("label", { class: "toggle" }, input, el("span", {}, name)) };
  });
  const grid = el("div", { class: "grid-heads", role: "group", "aria-label": "layers and heads" });
  let drawn = "";

  function drawGrid(layers) {
    const most = Math.max(...layers.map((l) => l.heads));
    grid.replaceChildren(...layers.map((l, i) => {
      const row = el("div", { class: "grid-row" },
        el("button", { type: "button", class: "cell layer-cell", "data-layer": i, onclick: () => set(flipLayer(get(), i)) }, `layer ${i}`, el("small", {}, l.kind === "gdn" ? "delta rule" : "attention")),
        ...Array.from({ length: l.heads }, (_, h) => el("button", { type: "button", class: "cell", "data-layer": i, "data-head": h, "aria-label": `layer ${i} head ${h}`, onclick: () => set(flipHead(get(), i, h)) }, String(h))));
      row.style.gridTemplateColumns = `minmax(110px, 150px) repeat(${most}, minmax(34px, 46px))`;
      return row;
    }));
  }

  const root = el("div", { class: "switches" },
    el("div", { class: "switch-block" }, el("h2", {}, "Write strength \u03b2"), beta.root, betaNote),
    el("div", { class: "switch-block" }, el("h2", {}, "Parts of the delta-rule layers"), el("div", { class: "toggles" }, ...toggles.map((t) => t.root)),
      el("p", { class: "hint" }, "Without decay nothing fades (\u03b1 = 1). Without the short convolution a token sees only itself before the state. Without the output gate each head speaks at full strength.")),
    el("div", { class: "switch-block" }, el("h2", {}, "Layers and heads"), grid, el("p", { class: "hint" }, "Press one to turn it off: it adds nothing, and the rest goes on.")),
    el("div", { class: "switch-block" }, el("h2", {}, "State stored as"), store.root,
      el("p", { class: "hint" }, "Rounded after every token. Sums are computed in 32 bits either way.")));

  return {
    root,
    draw() {
      const s = get();
      const m = model();
      const gdn = !m || m.layers.some((l) => l.kind === "gdn");
      const shape = JSON.stringify(m?.layers ?? null);
      if (m && shape !== drawn) {
        drawGrid(m.layers);
        drawn = shape;
      }
      beta.set(s.beta ?? "", !gdn);
      store.set(s.store ?? "", !gdn);
      betaNote.textContent = !gdn ? "This model has attention alone: no \u03b2, no state." : negative?.() === false
        ? "This model was trained without negative eigenvalues: its \u03b2 never exceeds 1, so both change nothing."
        : "A swap is a mirror: \u03b2 = 2, eigenvalue 1 \u2212 \u03b2 = \u22121. Sigmoid halves every \u03b2, also those that were right at 1. Clamping cuts only what lies above 1: a swap then erases, and the other writes stay as they were.";
      for (const t of toggles) {
        t.input.checked = s[t.key] !== false;
        t.input.disabled = !gdn;
      }
      for (const b of grid.querySelectorAll("button")) {
        const l = Number(b.dataset.layer);
        const h = b.dataset.head;
        const layerOff = (s.layers ?? []).includes(l);
        const off = layerOff || h !== undefined && (s.heads ?? []).some((x) => x[0] === l && x[1] === Number(h));
        b.setAttribute("aria-pressed", String(!off));
        b.disabled = h !== undefined && layerOff;
      }
    },
  };
}

export function create(app, root) {
  const { store } = app;
  const model = () => app.moment().model;
  const changes = editor({
    get: () => store.get("switches"), set: (switches) => store.set({ switches }), model,
    negative: () => app.zoo().find((m) => m.name === model()?.name)?.neg_eigval,
  });

  // ---- patches

  const list = el("ul", { class: "patches" });
  let chosen = false; // the reader said after which word
  const at = el("input", { type: "number", min: 0, step: 1, inputmode: "numeric", "aria-label": "after word", oninput: () => { chosen = true; } });
  const layer = el("select", { "aria-label": "layer" });
  const head = el("select", { "aria-label": "head" });
  const from = el("select", { "aria-label": "what the state becomes" });
  const program = el("textarea", { rows: 4, spellcheck: "false", "aria-label": "the other program" });
  const until = el("input", { type: "number", min: 0, step: 1, inputmode: "numeric", "aria-label": "its state after word" });
  const other = el("div", { class: "patch-program", hidden: true }, el("label", {}, "the other program", program), el("label", {}, "its state after word ", until));
  const add = el("button", { type: "button", id: "patch-add", onclick: () => {
    const p = { t: Number(at.value) };
    if (layer.value !== "") p.layer = Number(layer.value);
    if (layer.value !== "" && head.value !== "") p.head = Number(head.value);
    const [kind, name] = from.value.split("/");
    p.from = kind;
    if (kind === "model") p.model = name;
    if (kind === "program") Object.assign(p, { program: program.value, at: Number(until.value) });
    chosen = false;
    store.set({ patches: [...store.get("patches"), p] });
  } }, "Patch the state");
  from.addEventListener("change", () => { other.hidden = from.value !== "program"; });
  layer.addEventListener("change", () => fillHeads());

  const option = (value, text) => el("option", { value }, text);
  function fillHeads() {
    const heads = model()?.layers[Number(layer.value)]?.heads ?? 0;
    head.replaceChildren(option("", "all heads"), ...(layer.value === "" ? [] : Array.from({ length: heads }, (_, h) => option(h, `head ${h}`))));
    head.disabled = layer.value === "";
  }

  let known = "";
  function drawPatches(moment) {
    list.replaceChildren(...store.get("patches").map((p, i) => el("li", {}, el("span", {}, describePatch(p)),
      el("button", { type: "button", class: "small", "aria-label": `remove: ${describePatch(p)}`, onclick: () => store.set({ patches: store.get("patches").filter((_, j) => j !== i) }) }, "Remove"))));
    const m = moment.model;
    const gdn = m?.layers.map((l, i) => [l, i]).filter(([l]) => l.kind === "gdn") ?? [];
    add.disabled = gdn.length === 0;
    if (!chosen) at.value = Math.max(moment.t, 0);
    const shape = JSON.stringify([m?.name, m?.layers, app.zoo().length, moment.words.length]);
    if (shape === known) return;
    known = shape;
    at.max = moment.words.length - 1;
    until.value = moment.words.length - 1;
    layer.replaceChildren(option("", "all layers"), ...gdn.map(([, i]) => option(i, `layer ${i}`)));
    fillHeads();
    const z = app.zoo();
    const mine = z.find((x) => x.name === m?.name);
    const same = z.filter((x) => x.name !== m?.name && mine && x.layers === mine.layers && x.constructed === mine.constructed && x.task === mine.task);
    from.replaceChildren(option("zero", "zero"), option("program", "this model's, of another program"), ...same.map((x) => option(`model/${x.name}`, `that of ${x.name}`)));
    other.hidden = true;
    if (!program.value) program.value = moment.program;
  }

  // ---- drift

  let drift = null; // {store, steps, flips, program}
  let driftError = "";
  let asking = false;
  let runs = 0;
  const picture = el("div", { class: "drift" });
  const measure = (kind) => el("button", { type: "button", "data-store": kind, onclick: () => ask(kind) }, `Plot the drift of ${kind}`);
  const buttons = el("div", { class: "row" }, measure("bf16"), measure("f16"));

  async function ask(kind) {
    if (asking) return;
    asking = true;
    driftError = "";
    drawDrift();
    try {
      const text = app.moment().program;
      const r = await app.request("drift", { program: text, store: kind });
      drift = { ...r.drift, id: ++runs, model: model()?.name, program: text };
    } catch (e) {
      driftError = e.message;
    }
    asking = false;
    drawDrift();
  }

  const lines = () => {
    const gdn = model()?.layers.map((l, i) => [l, i]).filter(([l]) => l.kind === "gdn").map(([, i]) => i) ?? [];
    const n = drift.steps[0]?.state.length ?? 0;
    return [...Array.from({ length: n }, (_, k) => ({ name: `layer ${gdn[k] ?? k}`, tone: k, points: drift.steps.map((s) => ({ x: s.t, y: s.state[k], title: `word ${s.t}, layer ${gdn[k] ?? k}: ${number(s.state[k])}` })) })),
      { name: "next word", tone: 4, points: drift.steps.map((s) => ({ x: s.t, y: s.p, title: `word ${s.t}: a next-word probability moved by ${number(s.p)}` })) }];
  };

  const chart = () => lineChart({
    width: Math.max(picture.clientWidth || 640, 280),
    label: `how far the state stored as ${drift.store} is from that in float32, word by word`,
    x: { scale: "linear", min: 0, max: Math.max(drift.steps.length - 1, 1), ticks: steps(drift.steps.length - 1, 8), label: "words read" },
    y: { scale: "log", label: "difference" }, series: lines(),
    flags: drift.flips.map((t) => ({ x: t, title: `word ${t}: another answer` })),
  });

  let shown = ""; // what the picture was drawn from
  function drawDrift() {
    for (const b of buttons.children) b.disabled = asking || !app.moment().live || !model()?.layers.some((l) => l.kind === "gdn");
    const before = drift !== null && (drift.program !== app.moment().program || drift.model !== model()?.name);
    const from = JSON.stringify([asking, driftError, drift?.id, before, picture.clientWidth]);
    if (from === shown) return;
    shown = from;
    if (asking) picture.replaceChildren(el("p", { class: "dim" }, "reading the program twice\u2026"));
    else if (driftError) picture.replaceChildren(el("p", { class: "error" }, driftError));
    else if (!drift) picture.replaceChildren();
    else {
      const flips = drift.flips.length ? `The answer changed at word ${drift.flips.join(", ")}.` : "No answer changed.";
      picture.replaceChildren(chart(), el("p", { class: "hint" }, `${drift.store} against float32. Layers: RMS of the difference over RMS of the state. Next word: the largest change of a probability. ${flips}${before ? " This was the run before." : ""}`));
    }
  }

  root.append(changes.root,
    el("div", { class: "switch-block wide" }, el("h2", {}, "Drift"), el("p", { class: "hint" }, "The program twice: the state rounded after each token, and not."), buttons, picture),
    el("div", { class: "switch-block wide" }, el("h2", {}, "Patch the state"),
      el("div", { class: "patch-form" }, el("label", {}, "after word", at), el("label", {}, "layer", layer), el("label", {}, "head", head), el("label", { class: "grow" }, "the state becomes", from), add), other, list));

  const draw = () => {
    const moment = app.moment();
    changes.draw();
    drawPatches(moment);
    drawDrift();
  };
  let open = false;
  store.on((keys) => { if (open && (keys.has("switches") || keys.has("patches"))) draw(); });
  new ResizeObserver(() => { if (open && drift && !asking) drawDrift(); }).observe(picture);

  return {
    show() {
      open = true;
      draw();
    },
    close() { open = false; },
    svg() {
      if (!drift) throw new Error("plot the drift first");
      return picture.querySelector("svg");
    },
    table() {
      if (!drift) throw new Error("plot the drift first: there are no numbers yet");
      const series = lines();
      return { caption: `difference of the state stored as ${drift.store} from float32`, columns: ["t", ...series.map((s) => s.name)], rows: drift.steps.map((s, i) => [s.t, ...series.map((l) => l.points[i].y)]) };
    },
  };
}
