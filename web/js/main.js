// The page: controls, playback and the hand-over from the recorded first
// picture to the live engine in the frame.
import { Keeper, addressHolds, checkChoices, decodeName, folderOf, maxSize, plainAddress, readAddress, writeAddress, writeQuery } from "./address.js";
import { asset } from "./asset.js";
import { onWake } from "./awake.js";
import { describe } from "./changes.js";
import { serveEmbed } from "./embed-api.js";
import { style } from "./dom.js";
import { fetchBytes } from "./fetch.js";
import { beyond, fitModel, fitZoo, unknown } from "./fit.js";
import { bytes, percent, progress, stop } from "./format.js";
import { keep, kept } from "./keep.js";
import { Link } from "./link.js";
import { marks } from "./marks.js";
import { Offline } from "./offline.js";
import { Panels } from "./panels.js";
import { Player, engineSource, traceSource } from "./player.js";
import { answerAt, lines, markStatements, readTrace, spoken, wordsOf } from "./trace.js";
import { Second } from "./second.js";
import { Store, defaults } from "./store.js";
import { Trust } from "./trust.js";
import { Views } from "./views.js";

const $ = (id) => document.getElementById(id);
const opened = await readAddress(location);
// What a page that died in this tab left in its editor comes back as if the link had it.
const back = opened.values.embed ? null : kept();
const brought = back !== null && back !== opened.values.draft && back !== opened.values.program;
if (brought) opened.values.draft = back;

const tasks = {
  st: { hint: "Five values, n swaps. Who holds what at the end? Attention alone loses track.", size: "Swaps n" },
  recall: { hint: "m bits and an index. Which bit stands there? A small state alone forgets.", size: "Bits m" },
  sbr: { hint: "Five pointers into m bits, n = m swaps. Which bit does one point to? Only the hybrid does both at larger sizes.", size: "Size n = m" },
};

const page = {
  phase: "starting", // then "first" (recorded picture), "live", "failed"
  model: null, // the loaded model, as in trace.model
  programs: true, // it has the zoo's words
  program: "",
  device: null,
  lost: "", // why the GPU was lost, once it was
  noStage: false,
  error: "",
  settled: false, // the choices say what is shown
};
let running = ""; // what the session runs, as wanted says it
let generated = ""; // the text that task, n and seed gave last
let generatedFor = null; // those three
let due = false; // task, n or seed were changed, and their program was not made yet
let stood = null; // the choices of the last run, to which a page returns whose next load fails
let loaded = ""; // the choice that page.model came from
let loadedWeights = "";
let reloading = ""; // that of the model that the engine loads again
let zoo = [];
let zooError = "";
let first = null; // the shipped trace
let touched = false; // the controls changed before the engine was there
let frame = null;

const player = new Player();
const views = new Views($("views"), { onSeek: (t) => player.jump(t), onHover: hover });
const link = new Link(window, () => frame?.contentWindow ?? null);
// Who comes by no link sees the cups, which say what the state is about.
const store = new Store(location.search || location.hash ? opened.values : { panel: "cups", ...opened.values });
const keeper = new Keeper(store, window);
const offline = new Offline();
const trust = new Trust({ page, store, link, first: () => first, notice: (...a) => notice(...a) });
const themed = new Set(); // what else is drawn anew when the colours change
const followers = new Set(); // what else follows the playback
const listeners = new Map(); // of the engine's events, by name

// app is what panels and lessons know of the page.
const app = {
  store, player,
  request: (type, fields) => link.request(type, fields),
  // on calls f(message) at each event of the engine; it returns what ends that.
  on(event, f) {
    if (!listeners.has(event)) listeners.set(event, new Set());
    listeners.get(event).add(f);
    return () => listeners.get(event).delete(f);
  },
  moment: () => ({ model: page.model, words: player.words, steps: player.steps, t: player.t, step: player.step, live: page.phase === "live", noStage: page.noStage, device: page.device, program: page.program }),
  zoo: () => zoo,
  theme: () => (dark() ? "dark" : "light"),
  onTheme: (f) => themed.add(f),
  onMoment: (f) => followers.add(f),
  reduced: () => reduced.matches,
  notice: (key, text, options) => notice(key, text, options),
  progress: (text, done, total) => showProgress(text, done, total),
  say: (text) => { $("live").textContent = text; },
  // trace is the run so far in the trace format, with the state of every so-many-th word.
  async trace(every = 1) {
    const t = page.phase === "live" ? (await link.request("trace", { every })).trace : first;
    if (!t) throw new Error("no run to save yet");
    return t;
  },
  // open brings everything to some choices: a link, a lesson, a step back; with
  // end it stands at the question.
  open,
  // modelAddress is what the engine loads for a model's name.
  modelAddress: (name) => zoo.find((m) => m.name === name)?.folder ?? name,
  // run reads a program, or what the choices ask for, and stands at word t.
  run: (program, t) => {
    if (program !== undefined) {
      $("program").value = program;
      due = false;
    }
    return enqueue(() => bringUp(t));
  },
  // layout makes room for a lesson, or takes it back.
  layout(lesson) {
    $("setup").open = !lesson && wide.matches;
    fitFrame();
  },
  // loaded is the model that is: of the list, and whether it reads programs.
  loaded: () => ({ ...zoo.find((m) => m.name === loaded), name: loaded, programs: page.programs }),
  // use adds a model to the list, has it loaded and the program read by it.
  use(model) {
    zoo = [model, ...zoo.filter((m) => m.name !== model.name)];
    stopLoading();
    fillModels(model.name);
    change(() => bringUp());
  },
};
app.second = new Second(app);
const panels = new Panels($("panels"), app);
// The code of lessons is fetched with the first one.
let lessons = null;
let lessonsCode = null;
const withLessons = async (f) => {
  lessonsCode ??= Promise.all([import("./lessons.js"), style("lessons.css")]).then(([{ Lessons }]) => { lessons = new Lessons(app, $("lesson"), $("lessons-box")); });
  try {
    await lessonsCode;
  } catch (e) {
    lessonsCode = null;
    notice("lesson", `Lessons could not be loaded: ${e.message}`, { bad: true });
    return null;
  }
  return f(lessons);
};
app.onMoment(marks($("marks")));
const tell = (name, m) => { for (const f of listeners.get(name) ?? []) f(m); };
for (const name of ["curve", "wrote"]) link.on(name, (m) => tell(name, m));
// A request that waits is shown, whoever made it.
link.onbusy = (type) => {
  $("device").toggleAttribute("data-busy", type !== "");
  $("busy").textContent = type && "the engine is busy";
};

// ---- small things of the page

function hover(text) { $("hover").textContent = text; }

function notice(key, text, { bad = false, action = null } = {}) {
  document.getElementById(`notice-${key}`)?.remove();
  if (!text) return;
  const p = document.createElement("div");
  p.id = `notice-${key}`;
  p.className = bad ? "notice bad" : "notice";
  p.setAttribute("role", bad ? "alert" : "status");
  const span = document.createElement("span");
  span.textContent = text;
  const buttons = document.createElement("span");
  buttons.className = "row";
  const button = (label, f) => {
    const b = document.createElement("button");
    b.type = "button";
    b.textContent = label;
    b.addEventListener("click", f);
    buttons.append(b);
  };
  if (action) button(action.label, action.run);
  button("Dismiss", () => p.remove());
  p.append(span, buttons);
  $("notices").append(p);
}

function showProgress(text, done = 0, total = 0) {
  $("progress").hidden = !text;
  $("progress-text").textContent = text;
  const bar = $("progress-bar");
  if (total > 0) {
    bar.max = total;
    bar.value = done;
  } else {
    bar.removeAttribute("value");
  }
}

const system = matchMedia("(prefers-color-scheme: dark)");
const reduced = matchMedia("(prefers-reduced-motion: reduce)");
const wide = matchMedia("(min-width: 1020px)"); // the controls have a column of their own
const dark = () => (store.get("theme") === "auto" ? system.matches : store.get("theme") === "dark");

function applyTheme() {
  const name = dark() ? "dark" : "light";
  const theme = store.get("theme");
  document.documentElement.dataset.theme = name;
  $("theme").setAttribute("aria-label", `Colours: ${theme === "auto" ? "as the system" : theme}`);
  $("theme").title = $("theme").getAttribute("aria-label");
  views.setTheme(name);
  if (page.phase === "live") link.request("theme", { theme: name }).catch(() => {});
  panels.show();
  for (const f of themed) f(name);
}

// ---- what a change of the playback shows

function show() {
  const { t, words, steps, step } = player;
  const n = words.length;
  $("where").textContent = n === 0 ? "" : t < 0 ? "nothing read yet" : `word ${t} of ${n - 1}`;
  $("reset").disabled = $("back").disabled = t < 0;
  $("step").disabled = t >= n - 1;
  $("end").disabled = t === player.end || n === 0;
  $("toggle").disabled = n === 0;
  $("toggle").setAttribute("aria-pressed", String(player.playing));
  $("toggle").setAttribute("aria-label", player.playing ? "Pause (space)" : "Play (space)");
  drawAnswer(answerAt(steps, t), words.some((w) => w.word.endsWith("==")));
  if (!$("picture").classList.contains("live")) views.show(steps, t);
  $("timeline").max = Math.max(n - 1, 0);
  $("timeline").min = -1;
  $("timeline").value = t;
  $("timeline").disabled = n === 0;
  $("timeline").setAttribute("aria-valuetext", t < 0 ? "before the first word" : `word ${t}: ${words[t]?.word ?? ""}`);
  panels.show();
  for (const f of followers) f(app.moment());
  if (!player.playing && page.settled) store.set({ t });
  if (!player.playing && page.phase !== "starting") $("live").textContent = spoken(words, step, t);
}

function drawAnswer(a, asks) {
  const out = $("answer");
  out.replaceChildren();
  if (!a) {
    const p = document.createElement("span");
    p.className = "dim";
    p.textContent = asks ? "asked at the end" : player.words.length ? "this program asks nothing" : "";
    out.append(p);
    return;
  }
  const word = document.createElement("b");
  word.textContent = a.word;
  const p = document.createElement("span");
  p.className = "dim";
  p.textContent = a.none ? a.word : percent(a.p);
  const mark = document.createElement("span");
  mark.className = `chip ${a.right ? "good" : "bad"}`;
  mark.textContent = a.right ? `\u2713 right, truth ${a.truth}` : `\u2717 wrong, truth ${a.truth}`;
  if (a.none) {
    mark.textContent = `\u2717 no answer, truth ${a.truth}`;
    out.append(p, mark);
  } else {
    out.append("model says ", word, p, mark);
  }
}

player.onchange = show;
// Beliefs come one by one, some at once: they are drawn together.
let believed = 0;
player.onbelief = () => {
  believed ||= setTimeout(() => {
    believed = 0;
    if (!$("picture").classList.contains("live")) views.believe(player.steps, player.t);
    panels.show();
    for (const f of followers) f(app.moment());
  }, 30);
};
player.onwait = (t, at) => {
  $("where").textContent = t < 0 ? "going back\u2026" : `word ${Math.max(at, 0)} \u2192 ${t}\u2026`;
  $("timeline").value = at;
};
player.onerror = (e) => notice("step", e.message, { bad: true });

// ---- controls

const task = () => document.querySelector("input[name=task]:checked").value;
const size = () => Number($("n").value);
const seed = () => Number($("seed").value);

function setTask(name) {
  document.querySelector(`input[name=task][value=${name}]`).checked = true;
  $("task-hint").textContent = tasks[name].hint;
  $("n-label").textContent = tasks[name].size;
  $("n").max = maxSize(name);
  if (size() > maxSize(name)) $("n").value = maxSize(name);
}

const modelsOf = (task) => zoo.filter((m) => m.task === task || m.folder);

// modelFor is the model wanted, or where the task has none of that name its first choice.
function modelFor(task, wanted) {
  const of = modelsOf(task);
  return [wanted, task === "st" && "st-constructed", `${task}-hybrid-neg`].find((name) => of.some((m) => m.name === name)) ?? of[0]?.name ?? "";
}

// fillModels lists the models of the task and picks one.
function fillModels(wanted) {
  const of = modelsOf(task());
  const select = $("model");
  select.replaceChildren(...of.map((m) => {
    const o = document.createElement("option");
    o.value = m.name;
    o.textContent = m.own ? `${m.title} (your files)` : m.folder ? `${m.title} (${m.given ? "from its address" : "from the link"})` : m.constructed ? `${m.name} (by hand)` : m.name;
    return o;
  }));
  select.value = modelFor(task(), wanted);
  select.disabled = of.length === 0;
  describeModel();
}

function describeModel() {
  const m = zoo.find((x) => x.name === $("model").value);
  $("card").disabled = !m || !!m.folder;
  if (!m) {
    $("model-hint").textContent = zooError || (zoo.length ? "no model for this task" : "");
    return;
  }
  const total = (m.files ?? []).reduce((s, f) => s + f.bytes, 0);
  const facts = [];
  if (m.params) facts.push(`${m.params.toLocaleString("en")} parameters`);
  if (total) facts.push(bytes(total));
  $("model-hint").textContent = [m.description, facts.join(", "), m.loaded].filter(Boolean).join(" ");
}

function programError(e) {
  const text = $("program");
  const out = $("program-error");
  out.hidden = !e;
  showDraft();
  if (!e) {
    text.removeAttribute("aria-invalid");
    return;
  }
  text.setAttribute("aria-invalid", "true");
  out.textContent = e.line && !/^line \d/.test(e.message) ? `line ${e.line}, column ${e.col}: ${e.message}` : e.message;
  if (e.line) {
    const at = offset(text.value, e.line, e.col ?? 1);
    text.focus();
    text.setSelectionRange(at, at);
  }
}

// offset is where line and column (from 1, columns in characters) are in text.
function offset(text, line, col) {
  let at = 0;
  for (let i = 1; i < line; i++) {
    const next = text.indexOf("\n", at);
    if (next < 0) break;
    at = next + 1;
  }
  for (let i = 1; i < col && at < text.length && text[at] !== "\n"; i++) at += String.fromCodePoint(text.codePointAt(at)).length;
  return at;
}

// what is what the controls say a program is made from.
const what = () => ({ task: task(), n: size(), seed: seed() });

// remember takes the choices from the controls.
const remember = (also = {}) => store.set({ ...what(), model: $("model").value, ...also });

// showControls sets the controls to the choices.
function showControls() {
  const { task, n, seed, model } = store.all();
  $("n").value = n; // before the task, which limits it
  $("seed").value = seed;
  setTask(task);
  fillModels(model);
}

// leftOut names choices that were dropped: what is wanted is not there. more is a sentence after that.
const leftOut = (key, list, more = "") => notice(key, [list.length ? `Left out: ${list.join("; ")}.` : "", more].filter(Boolean).join(" "));

// open brings page and engine to choices; what is not named stays.
function open(choices, end = false) {
  touched = true;
  const { values, dropped } = checkChoices(choices, store.get("task"));
  leftOut("link", dropped);
  findModel(values.model);
  const { fit, left } = fitZoo({ ...store.all(), ...values }, values, zoo);
  leftOut("fit-zoo", left);
  const task = zoo.find((m) => m.name === values.model)?.task;
  store.set({ draft: null, ...(task ? { task } : {}), ...values, ...fit });
  showControls();
  keeper.quietly(remember);
  const to = store.all();
  due = to.program === null;
  return enqueue(() => settle(to, end));
}

// settle loads, runs and moves until the engine stands where choices say.
async function settle({ t, draft, program: own }, end = false) {
  const from = what();
  await load($("model").value);
  if (own !== null) $("program").value = own;
  else if (!await generate(from)) return;
  const program = $("program").value;
  if (draft !== null) $("program").value = draft;
  if (running !== wanted(program)) {
    if (!await run(t ?? 0, program)) return;
  } else {
    store.set({ draft });
    showOwn();
    if (!end) await player.go(t ?? 0);
  }
  if (end) await player.toEnd();
}

// wanted is what a run of a program would be.
const wanted = (program) => JSON.stringify([loaded, program, store.get("switches"), store.get("patches")]);

// Work of the engine goes one after the other; a newer wish of the same kind
// makes an older one that has not begun void.
let queue = Promise.resolve();
let wish = 0;
let doing = 0; // the wish under way
const overtaken = () => doing !== wish; // a newer one waits
function enqueue(work) {
  const mine = ++wish;
  queue = queue.then(async () => {
    if (mine !== wish || page.phase !== "live") return;
    doing = mine;
    document.querySelector("main").setAttribute("aria-busy", "true");
    try {
      await work();
    } catch (e) {
      if (!overtaken()) notice("work", e.message, { bad: !e.cancelled });
    } finally {
      player.stay();
      showProgress("");
      document.querySelector("main").removeAttribute("aria-busy");
    }
  });
  return queue;
}

async function load(name) {
  if (!name) throw new Error(zooError || "no model to load");
  const m = zoo.find((x) => x.name === name);
  const weights = m?.folder ? store.get("weights") : "";
  if (loaded === name && loadedWeights === weights) return;
  const title = m?.title ?? name;
  showProgress(`${title}: asking`);
  speed = await loads.then((l) => new l.Speed(), () => null);
  $("progress-cancel").hidden = false; // from here on the engine hears it
  try {
    const r = await link.request("load", { model: m?.folder ?? name, files: m?.own && m.files, weights, measure: m?.measure });
    player.leave(); // until then the run before it can be stepped
    page.model = r.model;
    page.programs = r.vocabulary === zooWords;
    loaded = name;
    loadedWeights = weights;
    stood ??= what();
    if (m?.folder) {
      m.loaded = `${weights ? `${weights} weights` : "Weights as stored"}, ${bytes(r.bytes)} on the device.${r.deviation ? ` Against f16: ${(await loads).deviation(r.deviation)}.` : ""}${(r.model.skipped ?? []).map((s) => ` Left aside: ${s.what}, ${bytes(s.bytes)}.`).join("")}`;
      describeModel();
    }
    if (m && !m.folder) offline.keep(["zoo/index.json", "zoo/tokenizer.json", ...[...(m.files ?? []).map((f) => f.name), "README.md"].map((f) => `zoo/${name}/${f}`)]);
    notice("work", "");
  } catch (e) {
    const cancelled = e.message === "cancelled";
    const failed = cancelled ? `Loading ${title} was cancelled.` : stop(`${title} could not be loaded: ${e.message}`);
    if (page.model) {
      if (!overtaken()) takeBack();
      throw Object.assign(new Error(`${failed} Still running ${page.model.name}.`), { cancelled, failed });
    }
    // The link's folder was the first: the page's own model stands in for it.
    if (m?.folder) fillModels();
    const other = $("model").value;
    if (!m?.folder || zoo.find((x) => x.name === other)?.folder) throw new Error(`${failed} Choose another one.`);
    keeper.quietly(remember);
    await load(other);
    notice("work", `${failed} This is ${other} instead.`, { bad: !cancelled });
  } finally {
    $("progress-cancel").hidden = true;
  }
}

const loads = import("./loads.js");
loads.catch(() => {}); // a load says so
let speed = null; // of the load under way
const stopLoading = () => { if (!$("progress-cancel").hidden) link.request("cancel", { what: "load" }).catch(() => {}); };
$("progress-cancel").addEventListener("click", () => {
  wish = doing; // nor what waits behind it
  stopLoading();
});

// takeBack brings the choices back to what runs.
function takeBack() {
  due = false;
  keeper.quietly(() => {
    const typed = $("program").value;
    store.set({ ...stood, model: loaded || reloading, weights: loadedWeights, t: player.t, draft: typed === page.program ? null : typed });
    showControls();
    remember(); // the zoo may not have the model
  });
}

// reveal puts the frame in the place of the page's own drawings.
function reveal() {
  if (!page.noStage && page.model) $("picture").classList.add("live");
  fitFrame();
}

// run starts the program in the editor, or the one that is given, and stands at
// word t. What the switches name and the model lacks is dropped.
async function run(t = 0, program = $("program").value) {
  const from = generatedFor && program.trim() === generated.trim() ? generatedFor : overtaken() && stood ? { task: stood.task, n: stood.n, seed: stood.seed } : what();
  $("picture").hidden = !page.programs;
  notice("text", page.programs ? "" : `${page.model.name} has words of its own, so it cannot read programs: write to it in the view Text, and look inside it in the view Inspect.`);
  if (!page.programs) {
    player.use({ words: [], seek: async () => null });
    views.open(page.model, []);
    running = page.program = "";
    if (store.get("panel") !== "inspect") store.set({ panel: "text" });
    stood = { ...from, program: null, switches: store.get("switches"), patches: store.get("patches") };
    return true;
  }
  const { fit, left } = fitModel(store.all(), page.model.layers);
  const { switches } = fit;
  const patches = store.get("patches");
  ran = JSON.stringify([switches, patches]);
  store.set(fit);
  player.leave();
  let r;
  refused = "";
  try {
    r = await link.request("run", { program, belief: true, switches, patches });
    programError(null);
    notice("switches", "");
    notice("warning", (r.warnings ?? []).slice(0, 3).map((w) => `line ${w.line}, column ${w.col}: ${w.message}`).join("; "));
  } catch (e) {
    refused = e.message;
    if (!e.line && ran !== "[{},[]]") notice("switches", e.message, { bad: true, action: { label: "As trained", run: asTrained } });
    else programError(e);
    return false;
  }
  page.program = program;
  running = wanted(program);
  const typed = $("program").value;
  store.set({ program: program.trim() === generated.trim() ? null : program, draft: typed === program ? null : typed });
  stood = { ...from, program: store.get("program"), switches, patches };
  showOwn();
  if (store.get("layer") >= 0) showHead();
  reveal();
  const words = markStatements(r.tokens);
  const last = words.length - 1;
  leftOut("fit", left, t > last ? `The program has no word ${t}: this is its last, ${last}.` : "");
  views.open(page.model, words);
  player.use(engineSource(link, words, page.noStage));
  await player.go(Math.min(t, last));
  return true;
}

const zooWords = 288; // in the vocabulary of programs
let refused = ""; // why the last program was not run
let applying = false; // choices are set by who runs them
let ran = "[{},[]]"; // switches and patches of the run
const asTrained = () => store.set({ switches: {}, patches: [] });

// showChanges says beside the playback what is not as trained.
function showChanges() {
  const list = describe(store.get("switches"), store.get("patches"));
  $("changes").hidden = list.length === 0;
  $("changes-text").textContent = `changed: ${list.join("; ")}`;
  const shown = store.get("show");
  $("shown").hidden = shown === "a" || !store.get("other");
  $("shown-text").textContent = `the picture shows ${shown === "b" ? `B, ${store.get("other")}` : `A \u2212 B, ${page.model?.name} less ${store.get("other")}`}`;
  fitFrame();
}
$("shown-reset").addEventListener("click", () => store.set({ show: "a" }));
$("changes-reset").addEventListener("click", asTrained);
store.on((keys) => {
  if (["switches", "patches", "show", "other"].some((k) => keys.has(k))) showChanges();
  if (!keys.has("switches") && !keys.has("patches")) return;
  if (applying || overtaken() || page.phase !== "live" || !page.program) return; // what waits runs with them
  if (JSON.stringify([store.get("switches"), store.get("patches")]) === ran) return;
  enqueue(async () => {
    if (due) await bringUp();
    await load($("model").value);
    if (running !== wanted(page.program)) await run(player.t, page.program);
  });
});

// generate makes the program of from, as what says it.
async function generate(from) {
  if (!$("controls").checkValidity()) {
    $("controls").reportValidity();
    return false;
  }
  const r = await link.request("generate", from);
  $("program").value = generated = r.program.trimEnd();
  generatedFor = from;
  if (!overtaken()) due = false;
  return true;
}

const change = (work, also = {}) => {
  touched = true;
  remember(also);
  return enqueue(work);
};
const afresh = () => { // for another task, size or seed
  due = true;
  change(() => bringUp(), { program: null, draft: null });
};
// bringUp loads the model that is chosen and runs the program in the editor, or
// the generated one where that is due. Every work that could take the place of
// another begins so.
const bringUp = async (t = 0) => {
  const from = what();
  await load($("model").value);
  if (!due) return run(t);
  const own = isOwn() ? $("program").value : null;
  if (!await generate(from)) return false;
  if (own !== null) notice("own", "A generated program took the place of your own.", { action: { label: "Bring my program back", run: () => bring(own) } });
  return run();
};

// isOwn says whether the program in the editor is not the one of task, size and seed.
const isOwn = () => $("program").value.trim() !== "" && $("program").value.trim() !== generated.trim();

const hint = $("program-hint").textContent;
const showOwn = () => { $("program-hint").textContent = isOwn() ? "Your own program: another size or seed makes a generated one." : hint; };

function bring(program) {
  notice("own", "");
  app.run(program);
}

for (const r of document.querySelectorAll("input[name=task]")) {
  r.addEventListener("change", () => {
    stopLoading(); // of what is no longer wanted
    setTask(task());
    fillModels();
    afresh();
  });
}
$("model").addEventListener("change", () => {
  stopLoading();
  describeModel();
  change(() => bringUp());
});
for (const id of ["n", "seed"]) {
  $(id).addEventListener("change", () => { if ($("controls").checkValidity()) afresh(); else $("controls").reportValidity(); });
}
$("dice").addEventListener("click", () => {
  $("seed").value = (seed() || 0) + 1;
  afresh();
});
$("program").addEventListener("input", () => {
  touched = true;
  due = false;
  programError(null);
  store.set({ draft: $("program").value === page.program ? null : $("program").value });
  showOwn();
});
$("program").addEventListener("keydown", (e) => {
  if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) {
    e.preventDefault();
    $("controls").requestSubmit($("run"));
  }
});
$("controls").addEventListener("submit", (e) => {
  e.preventDefault();
  if ($("run").disabled) return;
  enqueue(() => bringUp());
});
// ---- playback

$("reset").addEventListener("click", () => player.reset());
$("back").addEventListener("click", () => player.back());
$("step").addEventListener("click", () => player.forward());
$("end").addEventListener("click", () => player.toEnd());
$("toggle").addEventListener("click", () => player.toggle());
$("timeline").addEventListener("input", () => player.jump(Number($("timeline").value)));
function applySpeed() {
  player.perSecond = store.get("speed");
  $("speed").value = String(player.perSecond);
}
applySpeed();
$("speed").addEventListener("change", () => store.set({ speed: Number($("speed").value) }));

// faster takes the next speed of the list, or the one before.
function faster(by) {
  const speed = $("speed");
  speed.selectedIndex = Math.min(Math.max(speed.selectedIndex + by, 0), speed.options.length - 1);
  speed.dispatchEvent(new Event("change"));
  app.say(`speed: ${speed.selectedOptions[0].textContent.replace("/ s", "words a second")}`);
}

function key(name) {
  switch (name) {
    case "ArrowRight": player.forward(); break;
    case "ArrowLeft": player.back(); break;
    case "Home": player.reset(); break;
    case "End": player.toEnd(); break;
    case " ": player.toggle(); break;
    case "?": $("help-box").showModal(); break;
    case "[": case "]": faster(name === "]" ? 1 : -1); break;
    default: return lessons?.key(name) || panels.key(name);
  }
  return true;
}
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented || document.querySelector("dialog[open]")) return;
  if (e.target.closest("input, textarea, select")) return;
  if (e.key === " " && e.target.closest("button, summary, a")) return;
  if (key(e.key)) e.preventDefault();
});

// The fragment holds the choices, so the skip link must not change it.
document.querySelector(".skip").addEventListener("click", (e) => {
  e.preventDefault();
  $("picture").focus();
});

// ---- dialogs

$("theme").addEventListener("click", () => {
  store.set({ theme: { auto: "light", light: "dark", dark: "auto" }[store.get("theme")] });
});
system.addEventListener("change", applyTheme);
$("help").addEventListener("click", () => $("help-box").showModal());
for (const b of document.querySelectorAll("[data-opens]")) {
  b.addEventListener("click", () => {
    b.closest("dialog")?.close();
    $(b.dataset.opens).showModal();
  });
}
$("cite").addEventListener("click", () => {
  store.set({ panel: "export" });
  $("panels").scrollIntoView();
});

// Projector: larger, and without what a lecture does not need.
function applyProjector() {
  const on = store.get("projector");
  document.documentElement.toggleAttribute("data-projector", on);
  $("projector").setAttribute("aria-pressed", String(on));
  fitFrame();
}
$("projector").addEventListener("click", () => store.set({ projector: !store.get("projector") }));

// An edited program is not what the picture shows.
const showDraft = () => {
  const edited = store.get("draft") !== null;
  $("edited").hidden = !edited || !$("program-error").hidden;
  $("answer").classList.toggle("stale", edited);
};
store.on((keys) => {
  if (keys.has("projector")) applyProjector();
  if (keys.has("speed")) applySpeed();
  if (keys.has("draft")) showDraft();
  if ((keys.has("draft") || keys.has("program")) && !store.get("embed")) keep(store.get("draft") ?? store.get("program"));
});
// A page that ends in order leaves all in its address, what fits there.
addEventListener("pagehide", () => { if (page.settled && addressHolds(location, store.all())) keep(null); });
for (const d of document.querySelectorAll("dialog")) d.addEventListener("click", (e) => { if (e.target === d) d.close(); });

$("card").addEventListener("click", async () => {
  const name = $("model").value;
  $("card-title").textContent = name;
  $("card-text").textContent = "\u2026";
  $("card-box").showModal();
  try {
    const r = await fetchBytes(`zoo/${encodeURIComponent(name)}/README.md`, "text/plain", () => {});
    const { render } = await import("./markdown.js");
    $("card-text").replaceChildren(...render((await r.text()).replace(/^---\n[^]*?\n---\n+/, "").replace(/^# .*\n+/, ""))); // without front matter and title
  } catch (e) {
    $("card-text").textContent = `The card could not be read: ${e.message}`;
  }
});

// ---- the engine

let fail;
let live;
const ready = new Promise((resolve) => {
  live = () => resolve(state());
  fail = () => resolve(state());
});

function state() {
  const a = answerAt(player.steps, player.t);
  return {
    phase: page.phase, error: page.error, device: page.device, noStage: page.noStage,
    model: page.model?.name ?? null, task: task(), n: size(), seed: seed(), program: page.program,
    lost: page.lost, t: player.t, words: player.words.map((w) => w.word), playing: player.playing,
    choices: store.all(), top: player.step?.top ?? [], answer: a, busy: document.querySelector("main").hasAttribute("aria-busy"),
  };
}

// fitFrame gives the frame what is left of the window, but no less than its
// drawings need and no more than they can use.
let needs = { least: 0, most: Infinity };
function fitFrame(size) {
  if (size) needs = size;
  const top = $("picture").getBoundingClientRect().top + scrollY;
  const below = document.querySelector("footer").offsetHeight + $("hover").offsetHeight + 26; // with the gaps and borders
  const left = Math.max(innerHeight - top - below, 360);
  $("frame").style.height = `${Math.ceil(Math.max(Math.min(left, needs.most), needs.least))}px`;
}
addEventListener("resize", () => fitFrame());
new ResizeObserver(() => fitFrame()).observe($("panels"));

function enable(on) {
  $("run").disabled = $("dice").disabled = !on;
}

function engineFailed(error) {
  page.error = error;
  const was = page.phase;
  page.phase = "failed";
  link.drop(error);
  enable(false);
  showProgress("");
  trust.badge("no live engine", "bad");
  $("picture").classList.remove("live");
  const t = player.t;
  if (was === "live" && first) openFirst(Math.min(t, first.steps.length - 1));
  notice("engine", `${stop(`The live engine ${was === "live" ? "stopped" : "could not start"}: ${error}`)}${first ? " The recorded run below can still be stepped." : ""}`,
    { bad: true, action: { label: "Try again", run: () => location.reload() } });
  writeNow();
  if (!page.settled) keeper.start();
  page.settled = true;
  fail();
}

// writeNow puts what was chosen and typed before the address was kept in step into it, so that it is
// there after a reload.
function writeNow() {
  const { values } = opened;
  if (page.settled || store.get("embed") || (values.program ?? null) === store.get("program") && (values.draft ?? null) === store.get("draft") && !touched) return;
  try {
    history.replaceState(null, "", plainAddress(location, store.all()));
  } catch { /* a frame without an origin of its own has no say */ }
}

// frameStarts gives up on a frame whose scripts did not come.
let heard = false; // from the frame's own script
function frameStarts() {
  if (page.phase === "live") engineFailed("its frame was loaded again");
  setTimeout(() => {
    if (!heard && page.phase !== "live" && page.phase !== "failed") engineFailed("its files could not be loaded whole (stage.html and its scripts)");
  }, 2000);
}

function startEngine() {
  showProgress("engine");
  frame = document.createElement("iframe");
  frame.title = "Drawings of the model's state, attention and next word; the page says the same in words";
  const q = new URLSearchParams({ theme: dark() ? "dark" : "light" });
  if (opened.noStage) q.set("stage", "no");
  frame.src = `${asset("stage.html")}?${q}`;
  frame.addEventListener("load", frameStarts);
  fitFrame();
  $("frame").append(frame);
}

link.on("progress", (m) => {
  heard = true;
  const fast = m.what === "checkpoint" ? speed?.at(m.done, m.total) : "";
  if (m.what === "check") trust.progress(m.done, m.total);
  else if (!["answers", "prompt", "inspect"].includes(m.what)) showProgress([progress(m.what, m.done, m.total), fast].filter(Boolean).join(", "), m.done, m.total);
  tell("progress", m);
});
link.on("guard", (m) => { page.noStage = m.noStage; });
link.on("fatal", (m) => page.phase !== "failed" && engineFailed(m.error || "no reason given"));
link.on("belief", (m) => {
  if (m.error) notice("belief", `What the model believes could not be asked: ${m.error}`, { bad: true });
  else if (!m.lane) player.believe(m.t, m.belief, m.truth);
  tell("belief", m);
});
link.on("hover", (m) => hover(m.text ?? ""));
link.on("seek", (m) => player.jump(m.t));
link.on("select", (m) => store.set({ layer: m.layer, head: Math.max(m.head, 0) }));
link.on("size", (m) => fitFrame({ least: m.least, most: m.most }));
link.on("key", (m) => key(m.key));
link.on("stage-lost", (m) => {
  if (page.noStage) return;
  page.noStage = true;
  notice("stage", `The drawings stopped: ${m.error}. The page draws them itself now.`);
  $("picture").classList.remove("live");
  if (page.phase !== "live") return;
  link.request("visible", { visible: false }).catch(() => {});
  enqueue(() => bringUp(Math.max(player.t, 0)));
});
link.on("device-lost", (m) => {
  reloading = loaded || reloading;
  loaded = ""; // should the engine not get that far
  trust.ails(m);
});
link.on("device", (m) => {
  loaded = reloading;
  showProgress("");
  trust.replaced(m);
});
link.on("proven", () => trust.proven());
link.on("ready", async () => {
  showProgress("engine: testing the device");
  try {
    const d = await link.request("init", {
      device: store.get("device"), base: new URL("zoo/", document.baseURI).href,
      theme: dark() ? "dark" : "light", reducedMotion: reduced.matches });
    page.phase = "live";
    trust.started(d);
    await takeOver();
  } catch (e) {
    engineFailed(e.message);
  }
});

// takeOver hands the picture to the engine: the same program at the same word
// if nobody asked for another.
async function takeOver() {
  await zooRead;
  const lead = await lessonRead; // what a lesson's page shows, if the link leaves it to that
  if (lead) {
    store.set(lead.choices);
    showControls();
    keeper.quietly(remember);
  }
  const typed = $("program").value.trim() !== "" && $("program").value !== page.program && $("program").value !== back;
  enable(true);
  await enqueue(async () => {
    if (!typed && (asked || touched) || !$("program").value.trim()) {
      await settle(store.all(), lead?.end);
      return;
    }
    due = false;
    await load($("model").value || (first?.model.name ?? ""));
    await run(typed ? 0 : player.t);
  });
  keeper.quietly(remember);
  writeNow();
  page.settled = true;
  show();
  keeper.start();
  performance.mark("shellgame-live");
  live();
  if (!store.get("embed")) setTimeout(() => offline.start(), 3000);
}

// The stage does not draw where nobody looks.
let inView = true; // of the page around this one
function showStage() {
  if (page.phase === "live" && !page.noStage) link.request("visible", { visible: inView && !document.hidden }).catch(() => {});
}
// Where nobody looks a run stands still, since timers do.
let resume = false;
document.addEventListener("visibilitychange", () => {
  showStage();
  if (document.hidden) {
    resume = player.playing;
    player.pause();
  } else if (resume) {
    resume = false;
    player.play();
  }
});

// A GPU may have gone, or gone wrong, while the machine slept.
onWake(() => { if (page.phase === "live") link.request("test").catch((e) => notice("work", e.message, { bad: true })); });

// ---- the page around this one, where there is one

function outside() {
  const { phase, model, task, n, seed, program, t, words, top, answer } = state();
  return { phase, model, task, n, seed, program, t, words: words.length, word: words[t] ?? null, top: top.slice(0, 3).map(({ word, p }) => ({ word, p })), answer };
}

// loadOutside brings page and engine to choices whole, or throws what makes no
// sense of them and leaves everything as it was.
async function loadOutside(choices) {
  await ready;
  try {
    const lesson = choices.lesson ?? store.get("lesson");
    if (lesson && ("lesson" in choices || "page" in choices)) await withLessons((l) => l.holds(lesson, choices.page ?? 0));
    if (choices.lesson && !picture(choices)) return await withLessons((l) => l.open(choices.lesson, choices.page));
    if (page.phase !== "live") {
      if (picture(Object.fromEntries(Object.entries(choices).filter(([k]) => k !== "panel")))) throw new Error(`the live engine is not there: ${page.error}`);
      return await open(choices);
    }
    let failed = new Error("something else was asked for in the meantime, ask again");
    await enqueue(() => apply(choices).then(() => { failed = null; }, (e) => { failed = e; }));
    if (failed) throw failed;
  } catch (e) {
    throw new Error(`load: ${e.failed ?? e.message}`.replace(/\.$/, ""));
  }
}

// apply is loadOutside's work of the engine: it asks first, then touches, and takes back
// what only the model, or a run, can tell.
async function apply(choices) {
  const refuse = ([first]) => { if (first) throw new Error(first); };
  const all = store.all();
  const named = zoo.find((m) => m.name === choices.model);
  const { values, dropped } = checkChoices(choices, named?.task || all.task);
  refuse(dropped);
  refuse([unknown(values.model, zoo)]);
  refuse(fitZoo({ ...all, ...values }, values, zoo).left);
  const next = { ...all, draft: null, ...(named?.task ? { task: named.task } : {}), ...values };
  if (!("program" in values) && ["task", "n", "seed"].some((k) => k in values)) next.program = null;
  next.n = Math.min(next.n, maxSize(next.task));
  const from = { task: next.task, n: next.n, seed: next.seed };
  const program = next.program ?? (await link.request("generate", from)).program.trimEnd();
  const { tokens } = await link.request("parse", { program }).catch((e) => { throw new Error(`program: ${e.line ? `line ${e.line}, column ${e.col}: ` : ""}${e.message}`); });
  refuse([beyond(values.t, tokens.length)]);
  const t = "t" in values ? values.t ?? 0 : Math.min(player.t, tokens.length - 1);
  const fits = () => {
    const { layers } = page.model;
    refuse(fitModel({ layer: values.layer ?? (all.layer < layers.length ? all.layer : -1), head: values.head ?? 0, switches: values.switches ?? {} }, layers).left);
  };
  findModel(values.model);
  next.model = modelFor(next.task, values.model ?? all.model);
  if (next.model === loaded) fits();

  const was = { loaded, generated, generatedFor, typed: $("program").value, program: page.program, t: player.t };
  const put = (to) => {
    applying = true;
    store.set(to);
    applying = false;
    showControls();
    keeper.quietly(remember);
  };
  touched = true;
  due = false;
  try {
    await load(next.model);
    fits();
    put(next);
    $("program").value = program;
    if (next.program === null) [generated, generatedFor] = [program, from];
    if (running !== wanted(program)) {
      if (!await run(t, program)) throw new Error(refused);
      return;
    }
    showOwn();
    await player.go(t);
  } catch (e) {
    put(all);
    $("program").value = was.typed;
    [generated, generatedFor] = [was.generated, was.generatedFor];
    programError(null);
    notice("switches", "");
    if (loaded !== was.loaded) {
      await load(was.loaded);
      await run(was.t, was.program);
    }
    throw e;
  }
}

const tellOutside = serveEmbed(window, {
  load: loadOutside,
  step({ count, t }) {
    const wrong = beyond(t, player.words.length);
    if (wrong) throw new Error(`step: ${wrong}`);
    return player.jump(t ?? player.t + count);
  },
  visible(on) {
    inView = on;
    if (!on) player.pause();
    showStage();
  },
  state: outside,
});
let told = { t: null, answer: null };
app.onMoment(() => {
  if (!page.settled) return;
  const s = outside();
  if (s.t !== told.t) tellOutside("step", { t: s.t, word: s.word, top: s.top });
  const answer = JSON.stringify(s.answer);
  if (s.answer && answer !== told.answer) tellOutside("answer", { answer: s.answer });
  told = { t: s.t, answer };
});
ready.then(() => tellOutside("ready", { state: outside() }));
document.body.classList.toggle("embed", store.get("embed"));
$("full").addEventListener("click", () => { $("full").href = plainAddress(location, { ...store.all(), embed: false }); });

// ---- start

function openFirst(t) {
  const words = wordsOf(first.steps);
  views.open({ ...first.model }, words, first.steps);
  player.use(traceSource(words, first.steps), t, first.steps.slice());
}

async function readFirst() {
  try {
    const r = await fetch(asset("first.json"));
    if (!r.ok) throw new Error(`the server answered ${r.status}`);
    first = readTrace(await r.json());
  } catch (e) {
    notice("first", `${stop(`The recorded picture could not be read: ${e.message}`)} The live engine will draw one.`);
    return;
  }
  page.phase = "first";
  page.program = lines(wordsOf(first.steps));
  generated = page.program;
  if (!$("program").value) $("program").value = page.program;
  openFirst(Math.min((asked ? null : opened.values.t) ?? 1, first.steps.length - 1));
  trust.badge("recorded picture", "");
  performance.mark("shellgame-first");
}

async function readZoo() {
  try {
    const r = await fetch("zoo/index.json");
    if (!r.ok) throw new Error(`the server answered ${r.status}`);
    const list = await r.json();
    zoo = Array.isArray(list) ? list : list.models;
    if (!Array.isArray(zoo)) throw new Error("got no list");
  } catch (e) {
    zoo = [];
    zooError = `The list of models could not be read (zoo/index.json: ${e.message})`;
    notice("zoo", stop(zooError), { bad: true });
  }
  const { model: wanted } = store.all();
  findModel(wanted);
  const { fit, left } = fitZoo(store.all(), opened.values, zoo);
  store.set(fit);
  leftOut("fit-zoo", left);
  const { model } = store.all();
  const known = zoo.find((m) => m.name === model);
  if (model && !known && !zooError) notice("model", `The link asks for model ${model}, which is not in the zoo.`);
  if (known?.task && !opened.values.task) setTask(known.task);
  fillModels(model || "st-constructed");
}

// ---- models of one's own

// The code is fetched with the first one.
let own = null;
const withOwn = (f) => {
  own ??= import("./own.js").then(({ Own }) => new Own(app));
  return own.then(f, (e) => {
    own = null;
    notice("own-model", `Models of your own cannot be opened: ${e.message}`, { bad: true });
  });
};
$("own").addEventListener("click", () => withOwn((o) => o.open()));
link.on("drag", () => withOwn((o) => o.cover()));
for (const type of ["dragenter", "dragover", "drop"]) {
  addEventListener(type, (e) => {
    if (!e.dataTransfer?.types.includes("Files")) return;
    e.preventDefault();
    if (type === "dragenter") withOwn((o) => o.cover());
    if (type !== "drop") return;
    // At once: a transfer is empty later.
    const entries = [...e.dataTransfer.items].filter((i) => i.kind === "file").map((i) => i.webkitGetAsEntry?.() ?? i.getAsFile());
    withOwn((o) => o.drop(entries));
  });
}

// findModel adds a folder that a link or a lesson names to the list of models.
function findModel(name) {
  if (name?.startsWith("your-files/")) { // own.js calls them so
    if (!zoo.some((m) => m.name === name)) notice("own-model", "The link names files of somebody's own, which no link can bring: drop or choose them again.");
    return;
  }
  const folder = name?.includes("/") && !zoo.some((m) => m.name === name) ? folderOf(name, document.baseURI) : undefined;
  if (folder) zoo = [{ name, folder, title: decodeName(folder), task: "", description: `A folder that the link names: ${folder}` }, ...zoo];
}

// ---- the address

// picture tells whether choices say what is shown, or leave that to a lesson.
const picture = (values) => Object.keys(values).some((k) => !["theme", "device", "embed", "lesson", "page", "projector", "speed", "accuracy"].includes(k));

// asked says that the link wants more than a word of the recorded picture.
const asked = Object.keys(opened.values).some((k) => !["t", "theme", "device", "embed", "panel", "layer", "head", "projector", "speed", "accuracy"].includes(k));
if (opened.dropped.length) notice("link", `Left out of the link: ${opened.dropped.join("; ")}.`);

const showHead = () => link.request("view", { layer: store.get("layer"), head: store.get("head") }).catch(() => {});
store.on((keys) => {
  if (keys.has("theme")) applyTheme();
  if (keys.has("lesson") || keys.has("page")) withLessons((l) => l.follow());
  if ((keys.has("layer") || keys.has("head")) && page.phase === "live") showHead();
});
addEventListener("popstate", async () => {
  const { values, dropped } = await readAddress(location);
  const { device, embed } = store.all();
  if (values.lesson && !picture(values)) await keeper.quietly(() => withLessons((l) => l.open(values.lesson, values.page)));
  else await keeper.quietly(() => open({ ...defaults, ...values, device, embed }));
  if (dropped.length) notice("link", `Left out of the link: ${dropped.join("; ")}.`);
});
$("lessons").addEventListener("click", () => withLessons((l) => l.list()));
let forget; // of what the button said
$("copy-link").addEventListener("click", async () => {
  const address = new URL(await writeAddress(location, { ...store.all(), embed: false }), location.href).href;
  try {
    await navigator.clipboard.writeText(address);
    notice("copied", "");
    $("copied").textContent = "Link copied";
    clearTimeout(forget);
    forget = setTimeout(() => { $("copied").textContent = ""; }, 3000);
  } catch {
    notice("copied", address);
    getSelection().selectAllChildren(document.querySelector("#notice-copied > span"));
  }
});

if (brought) {
  $("program").value = back;
  notice("brought", "What you typed is back in the editor: the page had ended before it was kept.");
}
applyTheme();
applyProjector();
showDraft();
$("n").value = store.get("n");
$("seed").value = store.get("seed");
setTask(store.get("task"));
enable(false);
if (!wide.matches) $("setup").open = false;
wide.addEventListener("change", (e) => { if (e.matches && !store.get("lesson")) $("setup").open = true; });
show();
const zooRead = readZoo();
const firstRead = readFirst();
firstRead.finally(() => {
  document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: asset("compare.css") }));
  startEngine();
});
panels.open(store.get("panel"));
const lessonRead = store.get("lesson") ? zooRead.then(() => withLessons((l) => l.start(!picture(opened.values)))) : null; // its text quotes the zoo

// For tests and scripts: see README.md.
globalThis.shellgamePage = { state, ready, first: firstRead.then(state) };
