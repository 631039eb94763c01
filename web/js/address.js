// The page's address: every choice of store.js, so that a link opened elsewhere
// shows the same picture. What a course would write by hand stands in the
// query; the rest in the fragment, as `#v=1&z=` and the base64url of the
// deflated JSON of what is not at its default, or `#v=1&j=` and the JSON itself
// where the browser cannot deflate. Links are written by anybody: every field
// is checked, and what makes no sense is left out and named.
import { panels } from "./panels.js";
import { defaults } from "./store.js";

export const generator = 1; // the version of the programs that a seed gives

const limits = { fragment: 1 << 16, json: 1 << 17, text: 1 << 15, address: 2000 };

export const maxSize = (task) => (task === "st" ? 512 : 128);

// A check returns the value, or throws what it wants instead.
const want = (text) => { throw new Error(text); };
const whole = (from, to) => (v) => (Number.isSafeInteger(v) && v >= from && v <= to ? v : want(`a whole number from ${from} to ${to}`));
const oneOf = (...names) => (v) => (names.includes(v) ? v : want(names.filter(Boolean).join(", ").replace(/, ([^,]*)$/, " or $1")));
const bool = (v) => (typeof v === "boolean" ? v : want("true or false"));
const text = (v) => (typeof v === "string" && v.length <= limits.text && !/[\0-\x08\x0b\x0c\x0e-\x1f]/.test(v) ? v : want(`text of at most ${limits.text} characters`));
const textOrNull = (v) => (v === null ? v : text(v));
const list = (most, item) => (v) => (Array.isArray(v) && v.length <= most ? Array.from(v, (x) => item(x)) : want(`a list of at most ${most}`));

const pair = (item) => (v) => (Array.isArray(v) && v.length === 2 ? Array.from(v, (x) => item(x)) : want("pairs of layer and head"));

// model is a name of the zoo, or the address of a folder (anything with a slash).
function model(v) {
  if (v === "") return v;
  if (typeof v !== "string" || v.length > limits.address) want("a name of the zoo or the address of a folder");
  if (/^[A-Za-z0-9._-]+$/.test(v) && !/^\.+$/.test(v)) return v;
  if (v.includes("/") && folderOf(v, "https://x.invalid/a/")) return v;
  return want("a name of the zoo or the address of a folder");
}

function lesson(v) {
  if (v === "" || typeof v === "string" && /^[a-z0-9-]{1,60}$/.test(v)) return v;
  if (typeof v === "string" && v.length <= limits.address && v.includes("/") && folderOf(v, "https://x.invalid/a/")) return v;
  return want("the name of a lesson or the address of a file");
}

const parts = {
  beta: oneOf("sigmoid", "clamp"),
  decay: oneOf(false), conv: oneOf(false), gate: oneOf(false),
  layers: list(256, whole(0, 1023)),
  heads: list(4096, pair(whole(0, 1023))),
  store: oneOf("bf16", "f16"),
};

// patch is one change of the state, as README.md has them.
function patch(v) {
  if (v === null || typeof v !== "object" || Array.isArray(v)) want("an object for each patch");
  const out = { t: whole(-1, 9999)(v.t), from: oneOf("zero", "model", "program")(v.from) };
  if (v.layer !== undefined) out.layer = whole(0, 1023)(v.layer);
  if (v.head !== undefined) out.head = whole(0, 1023)(v.head);
  if (out.from === "model") out.model = model(v.model);
  if (out.from === "program") out.program = text(v.program);
  if (out.from === "program" && v.at !== undefined) out.at = whole(-1, 9999)(v.at);
  return out;
}

// members checks each member of an object by itself and leaves out those that are wrong.
const members = (known) => (v, drop) => {
  if (v === null || typeof v !== "object" || Array.isArray(v)) want("an object");
  const out = {};
  for (const [k, x] of Object.entries(v)) {
    try {
      if (!Object.hasOwn(known, k)) want(`one of ${Object.keys(known).join(", ")}`);
      out[k] = known[k](x);
    } catch (e) {
      drop(k, x, e.message);
    }
  }
  return out;
};

// fields says for each choice where it stands in an address and what it may be.
export const fields = {
  task: { query: true, check: oneOf("st", "recall", "sbr") },
  model: { query: true, check: model },
  weights: { query: true, check: oneOf("", "f16", "int8", "int4") },
  n: { query: true, check: whole(1, 512) },
  seed: { query: true, check: whole(0, Number.MAX_SAFE_INTEGER) },
  device: { query: true, check: oneOf("auto", "cpu", "webgpu") },
  theme: { query: true, check: oneOf("auto", "light", "dark") },
  embed: { query: true, check: bool },
  lesson: { query: true, check: lesson },
  page: { check: whole(0, 99) },
  program: { check: textOrNull },
  draft: { check: textOrNull },
  t: { check: (v) => (v === null ? v : whole(-1, 9999)(v)) },
  panel: { check: oneOf("", ...panels.map((p) => p.id)) },
  layer: { check: whole(-1, 1023) },
  head: { check: whole(0, 1023) },
  switches: { check: members(parts) },
  patches: { check: list(64, patch) },
  other: { check: model },
  otherSwitches: { check: members(parts) },
  show: { check: oneOf("a", "b", "diff") },
  projector: { check: bool },
  speed: { check: (v) => ([0, 1, 2, 5, 10].includes(v) ? v : want("0, 1, 2, 5 or 10")) },
  accuracy: { check: members({
    task: oneOf("st", "recall", "sbr"),
    models: list(6, oneOf("transformer", "gdn-neg", "gdn-pos", "hybrid-neg", "hybrid-pos", "constructed")),
    sizes: list(8, (v) => ([4, 8, 16, 32, 64, 128, 256, 512].includes(v) ? v : want("sizes of the paper"))),
    samples: whole(1, 4096),
    paper: oneOf(false),
  }) },
};

// plain is text without what would break or turn a line.
const plain = (text) => text.replace(/[\s\p{C}]+/gu, " ").trim();

// shown is a value as JSON, of a large one a part: a message may hold anything.
function shown(v, depth = 3) {
  if (typeof v === "string") return JSON.stringify(v.slice(0, 60));
  if (v === null || typeof v !== "object") return typeof v === "function" ? "a function" : String(v);
  if (depth === 0) return "\u2026";
  if (ArrayBuffer.isView(v)) return "bytes";
  const list = Array.isArray(v);
  const parts = [];
  const keys = list ? v : Object.keys(v);
  for (let i = 0; i < keys.length && i < 8; i++) parts.push(list ? shown(v[i], depth - 1) : `${shown(keys[i])}:${shown(v[keys[i]], depth - 1)}`);
  if (keys.length > 8) parts.push("\u2026");
  return list ? `[${parts}]` : `{${parts}}`;
}

// brief is what a line says of a value.
export const brief = (v) => {
  const s = plain(typeof v === "string" ? v.slice(0, 60) : shown(v));
  return s.length > 40 ? s.slice(0, 39) + "\u2026" : s;
};

// literal is the same, with quotes around a text that would read as something else.
export const literal = (v) => (typeof v === "string" && /^(-?\d+|true|false|null)$/.test(v) ? `"${brief(v)}"` : brief(v));

const named = 12; // of what makes no sense; of the rest the number is told

// checkChoices keeps of {key: value} what makes sense; dropped says what did
// not, a phrase each. task is the one that n is for where raw names none.
export function checkChoices(raw, task = defaults.task) {
  const values = {};
  const dropped = [];
  let more = 0;
  const drop = (name, v, wanted) => {
    if (dropped.length < named) dropped.push(`${brief(name)}=${literal(v)} (want ${wanted})`);
    else more++;
  };
  for (const [k, v] of Object.entries(raw)) {
    if (!Object.hasOwn(fields, k)) {
      drop(k, v, "a choice that this page knows");
      continue;
    }
    try {
      values[k] = fields[k].check(v, (part, x, wanted) => drop(`${k}.${part}`, x, wanted));
    } catch (e) {
      drop(k, v, e.message);
    }
  }
  const most = maxSize(values.task ?? task);
  if (values.n > most) {
    drop("n", values.n, `at most ${most} for this task`);
    delete values.n;
  }
  if (more) dropped.push(`and ${more} more`);
  return { values, dropped };
}

// readQuery reads the query of an address: {values, dropped, noStage}. Keys that
// are not ours belong to somebody else, such as a course's own.
export function readQuery(search) {
  const q = new URLSearchParams(search);
  const raw = {};
  const dropped = [];
  for (const [k, f] of Object.entries(fields)) {
    const v = q.get(k);
    if (!f.query || v === null) continue;
    if (k === "n" || k === "seed") raw[k] = /^-?\d+$/.test(v) ? Number(v) : v;
    else if (k === "embed") raw[k] = v === "1" || v === "true" || v !== "0" && v !== "false" && v;
    else raw[k] = v;
  }
  const checked = checkChoices(raw);
  const stage = q.get("stage");
  if (stage !== null && stage !== "no") dropped.push(`stage=${brief(stage)} (want no)`);
  const gen = q.get("gen");
  if (gen !== null && gen !== String(generator)) dropped.push(`gen=${brief(gen)} (this page has version ${generator} of the programs: the same seed may give another one)`);
  return { values: checked.values, dropped: [...checked.dropped, ...dropped], noStage: stage === "no" };
}

// writeQuery sets choices in a query and keeps everything else.
export function writeQuery(search, values) {
  const q = new URLSearchParams(search);
  for (const [k, v] of Object.entries(values)) {
    if (v === undefined || v === null || v === "" || v === false) q.delete(k);
    else q.set(k, v === true ? "1" : String(v));
  }
  const s = q.toString().replaceAll("%2F", "/").replaceAll("%3A", ":");
  return s ? "?" + s : "";
}

// readFragment reads what writeFragment wrote: {values, dropped}.
export async function readFragment(hash) {
  const q = new URLSearchParams(hash.replace(/^#/, ""));
  const none = (why) => ({ values: {}, dropped: [`the part after # (${why})`] });
  if (!q.has("v")) return { values: {}, dropped: [] }; // a place on the page
  if (q.get("v") !== "1") return none(`version ${brief(q.get("v"))}, want 1`);
  if (hash.length > limits.fragment) return none(`${hash.length} characters, want at most ${limits.fragment}`);
  const z = q.get("z");
  const j = q.get("j");
  if (z === null && j === null) return { values: {}, dropped: [] };
  let raw;
  try {
    raw = JSON.parse(z === null ? j : await inflate(z));
  } catch (e) {
    return none(`it cannot be read: ${plain(e.message).slice(0, 120)}`);
  }
  if (raw === null || typeof raw !== "object" || Array.isArray(raw)) return none("got no object");
  return checkChoices(raw);
}

// writeFragment returns the fragment of choices, "" where there are none.
export async function writeFragment(values) {
  if (Object.keys(values).length === 0) return "";
  if (typeof CompressionStream !== "function") return writePlain(values);
  return `#v=1&z=${base64url(await through(new TextEncoder().encode(JSON.stringify(values)), new CompressionStream("deflate-raw")))}`;
}

// writePlain is the same at once, without deflating.
export const writePlain = (values) => (Object.keys(values).length ? `#v=1&j=${encodeURIComponent(JSON.stringify(values))}` : "");

// readAddress reads query and fragment; the query wins where both name a choice.
export async function readAddress({ search, hash }) {
  const q = readQuery(search);
  const f = await readFragment(hash);
  return { values: { ...f.values, ...q.values }, dropped: [...q.dropped, ...f.dropped], noStage: q.noStage };
}

// split parts choices that are not at their default into query and fragment.
// The model, and what a program is made from, are always said.
export function split(all) {
  const query = {};
  const fragment = {};
  for (const [k, f] of Object.entries(fields)) {
    const same = JSON.stringify(all[k]) === JSON.stringify(defaults[k]);
    if (f.query) query[k] = same && !(k === "task" || k === "model") ? null : all[k];
    else if (!same) fragment[k] = all[k];
  }
  if (all.program === null) Object.assign(query, { n: all.n, seed: all.seed, gen: generator });
  else query.gen = null;
  return { query, fragment };
}

// writeAddress is the address of choices, relative to the page at location.
export async function writeAddress(location, all) {
  const { query, fragment } = split(all);
  return location.pathname + writeQuery(location.search, query) + await writeFragment(fragment);
}

// plainAddress is the same at once.
export function plainAddress(location, all) {
  const { query, fragment } = split(all);
  return location.pathname + writeQuery(location.search, query) + writePlain(fragment);
}

// addressHolds tells whether choices are small enough to be read again.
export const addressHolds = (location, all) => [all.program, all.draft].every((s) => s === null || s.length <= limits.text)
  && new URL(plainAddress(location, all), location.href).hash.length <= limits.fragment;

// folderOf is the address of a folder of http or https, or undefined.
export function folderOf(text, base) {
  try {
    const u = new URL(text, base);
    u.search = u.hash = "";
    if (!/^https?:$/.test(u.protocol) || u.username || u.password) return undefined;
    return u.href.replace(/\/*$/, "");
  } catch {
    return undefined;
  }
}

// decodeName is the last part of an address, for people.
export function decodeName(url) {
  const name = url.slice(url.lastIndexOf("/") + 1);
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function base64url(data) {
  let s = "";
  for (let i = 0; i < data.length; i += 0x8000) s += String.fromCharCode(...data.subarray(i, i + 0x8000));
  return btoa(s).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

async function inflate(z) {
  if (!/^[A-Za-z0-9_-]*$/.test(z)) throw new Error("z is not base64url");
  const packed = Uint8Array.from(atob(z.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  return new TextDecoder("utf-8", { fatal: true }).decode(await through(packed, new DecompressionStream("deflate-raw")));
}

// through sends bytes through a stream and gives up where too much comes out.
async function through(data, stream) {
  const reader = new Blob([data]).stream().pipeThrough(stream).getReader();
  const chunks = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > limits.json) {
      reader.cancel().catch(() => {});
      throw new Error(`more than ${limits.json} bytes`);
    }
    chunks.push(value);
  }
  const out = new Uint8Array(size);
  let at = 0;
  for (const c of chunks) {
    out.set(c, at);
    at += c.length;
  }
  return out;
}

// Changes of these are a step back of the browser; others change the entry.
const larger = new Set(["task", "model", "n", "seed", "program", "panel", "lesson", "page", "other"]);

// Keeper keeps the address of a window in step with a store, from start on.
export class Keeper {
  #store;
  #window;
  #last = null; // what the entry should say
  #timer = null;
  #quiet = 0;
  #queue = Promise.resolve();

  constructor(store, window) {
    this.#store = store;
    this.#window = window;
  }

  start() {
    this.#last = this.#store.all();
    this.#store.on((keys) => this.#changed(keys));
    // What waits could be lost with the page.
    this.#window.addEventListener("pagehide", () => {
      if (this.#timer === null) return;
      this.#cancel();
      this.#put("replaceState", plainAddress(this.#window.location, this.#last));
    });
  }

  // quietly changes the entry by what f, or the promise it returns, does and adds none.
  quietly(f) {
    this.#quiet++;
    const end = () => { this.#quiet--; };
    let done;
    try {
      done = f();
    } finally {
      if (done instanceof Promise) done.then(end, end);
      else end();
    }
    return done;
  }

  #changed(keys) {
    // A frame's steps would be steps of the page around it.
    if (this.#quiet === 0 && !this.#store.get("embed") && [...keys].some((k) => larger.has(k))) {
      if (this.#cancel()) this.#write("replaceState", this.#last);
      this.#write("pushState", this.#store.all());
    } else {
      this.#timer ??= setTimeout(() => {
        this.#timer = null;
        this.#write("replaceState", this.#last);
      }, 400); // browsers refuse more than some 200 changes in 10 s
    }
    this.#last = this.#store.all();
  }

  #cancel() {
    const waits = this.#timer !== null;
    clearTimeout(this.#timer);
    this.#timer = null;
    return waits;
  }

  #write(method, choices) {
    this.#queue = this.#queue.then(async () => this.#put(method, await writeAddress(this.#window.location, choices)));
  }

  #put(method, address) {
    try {
      this.#window.history[method](null, "", address);
    } catch { /* a frame without an origin of its own has no say */ }
  }
}
