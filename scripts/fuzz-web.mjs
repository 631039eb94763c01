// node scripts/fuzz-web.mjs [--time 30s] [TARGET...]: looks for inputs that break
// what web/test/targets.mjs lists, for so long each, and keeps those that it finds in
// web/testdata/fuzz, where web/test/fuzz.test.mjs tries them each time. FASTCHECK names
// the folder of the package fast-check.
import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { serialize } from "node:v8";
import { corpus, run, targets } from "../web/test/targets.mjs";

const { values: { time: given }, positionals } = parseArgs({ options: { time: { type: "string", default: "30s" } }, allowPositionals: true });
const parts = /^(\d+)(s|m)$/.exec(given);
if (!parts || positionals.some((p) => !targets.some((t) => t.name === p))) {
  console.error(`fuzz: got --time ${given} ${positionals.join(" ")}, want a time such as 30s or 2m, and of ${targets.map((t) => t.name).join(", ")}`);
  process.exit(2);
}
const time = Number(parts[1]) * (parts[2] === "m" ? 60 : 1);
const { default: fc } = await import(pathToFileURL(`${process.env.FASTCHECK}/lib/fast-check.js`));
const longest = 1 << 18;

// texts are the seeds with some edits: cut, doubled, words put in, many times over.
function texts(target) {
  const seeds = [...target.seeds(), ...corpus(target).map(([, text]) => text)];
  const words = fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...target.words) }, fc.string({ unit: "binary", maxLength: 8 }));
  const edit = fc.record({ kind: fc.constantFrom("cut", "double", "put", "repeat", "set"), at: fc.double({ min: 0, max: 1, noNaN: true }), size: fc.double({ min: 0, max: 1, noNaN: true }), word: words, times: fc.oneof({ weight: 20, arbitrary: fc.nat(20) }, fc.nat(longest)) });
  const apply = (text, { kind, at, size, word, times }) => {
    const i = Math.floor(at * text.length);
    const j = Math.min(text.length, i + Math.floor(size ** 4 * text.length) + 1);
    const into = (s) => (text.slice(0, i) + s + text.slice(i)).slice(0, longest);
    switch (kind) {
      case "cut": return text.slice(0, i) + text.slice(j);
      case "double": return into(text.slice(i, j));
      case "put": return into(word);
      case "repeat": return into(word.repeat(Math.min(times, Math.floor(longest / Math.max(word.length, 1)))));
      default: return text.slice(0, i) + word + text.slice(j);
    }
  };
  const begin = fc.oneof({ weight: 3, arbitrary: fc.constantFrom(...seeds) }, fc.constant(""), fc.array(words, { maxLength: 60 }).map((w) => w.join("")));
  return fc.tuple(begin, fc.array(edit, { maxLength: 6 })).map(([text, edits]) => edits.reduce(apply, text));
}

const cloneable = (v) => {
  try {
    structuredClone(v);
    return true;
  } catch {
    return false;
  }
};

// messages are whatever a structured clone can be, most of them nearly right.
function messages(target) {
  const keys = ["shellgame", "sg", "id", "type", "choices", "count", "t", "visible", "event", "re", "ok", "error", "line", "task", "model", "n", "seed", "program", "panel", "layer", "head", "switches", "patches", "other", "otherSwitches", "show", "lesson", "page", "theme", "beta", "heads", "layers", "store", "from", "at", "toString", "valueOf", "toJSON", "__proto__", "constructor", "length"];
  const any = fc.oneof(
    fc.anything({ withBigInt: true, withDate: true, withMap: true, withSet: true, withTypedArray: true, withSparseArray: true, maxDepth: 3 }),
    fc.constantFrom(1, 0, -1, 1.5, NaN, Infinity, "st", "load", "step", "state", "visible", "zero", "model", "x".repeat(1e6), 10n, [], {}, new Map([[1, 2]]), Array(1e5).fill("y")),
    fc.dictionary(fc.constantFrom(...keys), fc.oneof(fc.nat(5), fc.constant(null), fc.string({ maxLength: 5 }))));
  const seeds = [...target.seeds(), ...corpus(target).map(([, m]) => m)];
  const edit = fc.record({ path: fc.array(fc.nat(20), { maxLength: 3 }), key: fc.constantFrom(...keys), value: any, kind: fc.constantFrom("set", "set", "set", "drop", "cycle") });
  const apply = (message, { path, key, value, kind }) => {
    let at = message;
    for (const p of path) {
      const inside = at && typeof at === "object" ? Object.values(at).filter((v) => v && typeof v === "object" && !ArrayBuffer.isView(v)) : [];
      if (inside.length === 0) break;
      at = inside[p % inside.length];
    }
    if (!at || typeof at !== "object" || Object.isFrozen(at)) return message;
    const put = (v) => Object.defineProperty(at, key, { value: v, enumerable: true, configurable: true, writable: true });
    try {
      if (kind === "set") put(value);
      else if (kind === "cycle") put(message);
      else delete at[key];
    } catch { /* a length that cannot be */ }
    return message;
  };
  const begin = fc.oneof({ weight: 6, arbitrary: fc.constantFrom(...seeds) }, any).filter(cloneable).map((m) => structuredClone(m));
  return fc.tuple(begin, fc.array(edit, { maxLength: 5 })).map(([m, edits]) => edits.reduce(apply, structuredClone(m))).filter(cloneable).map((m) => structuredClone(m));
}

let failed = 0;
for (const target of targets) {
  if (positionals.length && !positionals.includes(target.name)) continue;
  const ends = Date.now() + time * 1000;
  let n = 0;
  let found = null;
  while (Date.now() < ends && !found) {
    const result = await fc.check(fc.asyncProperty(target.messages ? messages(target) : texts(target), async (input) => {
      n++;
      await run(target, input);
    }), { numRuns: 1e9, interruptAfterTimeLimit: Math.min(ends - Date.now(), 20_000) + 1, markInterruptAsFailure: false });
    if (result.failed) found = result;
  }
  if (n === 0) throw new Error(`${target.name}: nothing was tried`);
  console.log(`fuzz: web ${target.name}: ${n} inputs in ${time} s: ${found ? "FAILED" : "passed"}`);
  if (!found) continue;
  failed++;
  const [input] = found.counterexample;
  const data = target.messages ? serialize(input) : Buffer.from(input);
  const folder = new URL(`../web/testdata/fuzz/${target.name}/`, import.meta.url);
  mkdirSync(folder, { recursive: true });
  const file = new URL(createHash("sha256").update(data).digest("hex").slice(0, 12), folder);
  writeFileSync(file, data);
  console.log(`  ${found.errorInstance?.stack ?? found.error}\n  kept in ${file.pathname} (${data.length} bytes)`);
}
process.exit(failed ? 1 : 0);
