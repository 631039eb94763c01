// Tests of the page's modules that need no document: node --test web/test/
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { color, niceLimit, reach, notANumber, table } from "../js/colors.js";
import { fetchBytes } from "../js/fetch.js";
import { bytes, number, percent, progress, short } from "../js/format.js";
import { Link } from "../js/link.js";
import { Player, engineSource, traceSource } from "../js/player.js";
import { answerAt, endOf, lines, markStatements, question, readTrace, rowNames, spoken, wordsOf } from "../js/trace.js";

const words = (text) => text.split(" ").map((word) => ({ word }));
const st = words("<bos> a,b,c,d,e=range(5) a,c=c,a assert a== 2");

test("statements are told apart by their words", () => {
  const sbr = words("<bos> bits=[ 0, 1, ] a,b,c,d,e= 1, 0, 1, 0, 1, a,c=c,a assert bits[a]== 1");
  assert.deepEqual(markStatements(sbr).map((w) => w.statement), [-1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 3, 3, 3]);
  assert.equal(lines(sbr), "bits=[ 0, 1, ]\na,b,c,d,e= 1, 0, 1, 0, 1,\na,c=c,a\nassert bits[a]== 1");
  assert.equal(lines(words("<bos> bits=[ 0, 1, ] a= 1 assert bits[a]==")), "bits=[ 0, 1, ]\na= 1\nassert bits[a]==");
  assert.equal(lines(st), "a,b,c,d,e=range(5)\na,c=c,a\nassert a== 2");
  assert.deepEqual(markStatements([{ word: "x", statement: 7 }]), [{ word: "x", statement: 7 }]);
});

test("the question is the last word that asks", () => {
  assert.equal(question(st), 4);
  assert.equal(endOf(st), 4);
  assert.equal(question(st.slice(0, 3)), -1);
  assert.equal(endOf(st.slice(0, 3)), 2);
});

const steps = [
  { t: 0, word: "<bos>", top: [{ word: "assert", p: 0.5 }] },
  { t: 1, word: "a==", top: [{ word: "2", p: 0.25 }], truth: { answer: "2" } },
  { t: 2, word: "2", top: [{ word: "assert", p: 1 }] },
  undefined,
  { t: 4, word: "b==", top: [{ word: "2", p: 0.75 }], truth: { answer: "3" } },
];

test("the answer stays after its question and is judged by the truth", () => {
  assert.equal(answerAt(steps, 0), null);
  assert.deepEqual(answerAt(steps, 1), { word: "2", p: 0.25, truth: "2", right: true });
  assert.deepEqual(answerAt(steps, 3), { word: "2", p: 0.25, truth: "2", right: true });
  assert.deepEqual(answerAt(steps, 4), { word: "2", p: 0.75, truth: "3", right: false });
  assert.equal(answerAt(steps, -1), null);
});

test("a step in words", () => {
  assert.equal(spoken(st, null, -1), "nothing read yet, 5 words to come");
  assert.equal(spoken(st, steps[0], 0), "step 0 of 5: <bos>; the model says assert, 50 percent");
  assert.equal(spoken(st, steps[1], 1), "step 1 of 5: a==; the model says 2, 25 percent; that is right");
  assert.equal(spoken(st, steps[4], 4), "step 4 of 5: b==; the model says 2, 75 percent; the truth is 3");
});

test("all words equally likely are no answer", () => {
  const none = { t: 1, word: "a==", top: [{ word: "<pad>", p: 0.003 }, { word: "<bos>", p: 0.003 }] };
  const asked = { ...none, truth: { answer: "3" } };
  assert.deepEqual(answerAt([, asked], 1), { word: "no preference", p: 0.003, truth: "3", right: false, none: true });
  assert.equal(spoken(st, none, 1), "step 1 of 5: a==; no preference");
  assert.equal(spoken(st, asked, 1), "step 1 of 5: a==; no preference; the truth is 3");
});

test("a trace that the views cannot draw is refused", () => {
  const good = () => ({ version: 1, model: { layers: [] }, steps: [{ t: 0, word: "x" }] });
  assert.equal(readTrace(good()).version, 1);
  for (const [change, message] of [
    [(t) => { t.version = 2; }, "trace: got version 2, want 1"],
    [(t) => { t.steps = []; }, "trace: got no steps"],
    [(t) => { delete t.model; }, "trace: got no model.layers"],
    [(t) => { t.steps[0].t = 3; }, "trace: step 0: got t = 3, want 0"],
    [(t) => { delete t.steps[0].word; }, "trace: step 0: got no word"],
  ]) {
    const t = good();
    change(t);
    assert.throws(() => readTrace(t), { message });
  }
  assert.throws(() => readTrace(null), { message: "trace: got no object" });
});

test("the shipped first picture is small and plays", () => {
  const text = readFileSync(new URL("../first.json", import.meta.url), "utf8");
  const t = readTrace(JSON.parse(text));
  const w = wordsOf(t.steps);
  assert.ok(question(w) > 0);
  const a = answerAt(t.steps, t.steps.length - 1);
  assert.equal(a.right, true);
  assert.deepEqual(rowNames(t.model, t.model.layers[0]), ["a", "b", "c", "d", "e"]);
  // Its five states side by side are a permutation matrix from the first statement on.
  for (const s of t.steps.slice(1)) {
    const m = s.layers[0].state.map((h) => h.map((row) => Math.round(row[0])));
    for (let i = 0; i < 5; i++) {
      assert.equal(m[i].reduce((x, y) => x + y), 1, `step ${s.t}, head ${i}`);
      assert.equal(m.reduce((x, h) => x + h[i], 0), 1, `step ${s.t}, row ${i}`);
    }
  }
});

test("first picture with its page is at most 200 KB", () => {
  const sizes = new Map();
  const take = (url) => {
    if (sizes.has(url.href)) return;
    const text = readFileSync(url, "utf8");
    sizes.set(url.href, text.length);
    if (url.href.endsWith(".js")) for (const [, name] of text.matchAll(/^(?:import|export) [^"]*"(\.[^"]+)";$/gm)) take(new URL(name, url));
  };
  const page = new URL("../index.html", import.meta.url);
  take(page);
  for (const [, name] of readFileSync(page, "utf8").matchAll(/(?:src|href)="([\w./-]+\.(?:js|css|svg|json))"/g)) take(new URL(name, page));
  assert.ok([...sizes.keys()].some((f) => f.endsWith("/js/store.js")) && [...sizes.keys()].some((f) => f.endsWith("/first.json")));
  const total = [...sizes.values()].reduce((x, y) => x + y);
  assert.ok(total <= 200_000, `${total} bytes: ${[...sizes].map(([f, n]) => `${f.replace(/.*\/web\//, "")} ${n}`).join(", ")}`);
});

test("no inline scripts, styles or foreign addresses in the pages", () => {
  for (const f of ["index.html", "stage.html"]) {
    const html = readFileSync(new URL(`../${f}`, import.meta.url), "utf8");
    assert.doesNotMatch(html, /<script(?![^>]*\ssrc=)/, f);
    assert.doesNotMatch(html, /\s(style|on[a-z]+)=/, f);
    assert.doesNotMatch(html, /(src|href)="(\/|https?:(?!\/\/arxiv\.org))/, f);
  }
});

test("numbers for people", () => {
  for (const [x, want] of [[0, "0"], [-0.131, "-0.131"], [1e-5, "1.0e-5"], [123.456, "123.5"], [1, "1"], [100, "100"], [NaN, "NaN"], [Infinity, "+Inf"], [null, "NaN"]]) assert.equal(number(x), want);
  for (const [x, want] of [[-1, "\u22121.00"], [-0.001, "0.00"], [2, "2.00"], [NaN, "NaN"]]) assert.equal(short(x), want);
  for (const [x, want] of [[0, "0.0%"], [1, "100.0%"], [0.9996, ">99.9%"], [0.0002, "<0.1%"], [0.5, "50.0%"], [NaN, "NaN"]]) assert.equal(percent(x), want);
  assert.deepEqual([bytes(12), bytes(4500), bytes(2.3e6)], ["12 B", "5 kB", "2.3 MB"]);
  assert.equal(progress("engine", 1e6, 4e6), "engine: 1.0 MB of 4.0 MB");
  assert.equal(progress("engine", 1e6, 0), "engine: 1.0 MB");
});

test("colour scales: ends, middle, and NaN outside them", () => {
  for (const theme of ["light", "dark"]) {
    const signed = table(theme, "signed");
    assert.equal(color(theme, "signed", 2, 2), signed[254]);
    assert.equal(color(theme, "signed", -7, 2), signed[0]);
    assert.equal(color(theme, "signed", 0, 2), signed[127]);
    assert.equal(color(theme, "chance", 0.25, 1), table(theme, "chance")[127]);
    for (const x of [NaN, Infinity, -Infinity, null, undefined]) assert.equal(color(theme, "signed", x, 1), notANumber);
    for (const kind of ["signed", "chance"]) {
      for (const c of table(theme, kind)) assert.ok(Math.hypot(...c.map((v, i) => v - notANumber[i])) > 120);
    }
  }
  assert.deepEqual([0.87, 1, 1.0000001, 1.2, 3, 7, 0, NaN].map(niceLimit), [1, 1, 1, 2, 5, 10, 1, 1]);
});

test("the colour scale reaches as far as the stage's", () => {
  assert.equal(reach([0, -9, 3]), 9);
  const many = Array.from({ length: 1000 }, (_, i) => (i % 2 ? -0.5 : 0.5));
  many[0] = 2;
  many[1] = NaN;
  assert.equal(reach(many), 0.5625);
  many[0] = -80;
  assert.equal(reach(many), 10);
  assert.equal(reach(new Array(1000).fill(0)), 0);
});

test("page and stage use the same colours", () => {
  const go = readFileSync(new URL("../../stage/colour.go", import.meta.url), "utf8");
  const js = readFileSync(new URL("../js/colors.js", import.meta.url), "utf8");
  const stops = (text, from, to) => text.slice(text.indexOf(from)).split(to)[0].match(/0x[0-9a-f]{6}/g);
  for (const [name, theme, kind] of [["divergingLight", "light", "signed"], ["divergingDark", "dark", "signed"], ["sequentialLight", "light", "chance"], ["sequentialDark", "dark", "chance"]]) {
    const section = js.slice(js.indexOf(`  ${theme}: {`));
    const page = stops(section, `${kind}: [`, "]");
    assert.ok(page.length >= 5, name);
    assert.deepEqual(page, stops(go, `${name} `, "}\n"), name);
  }
});

// A window and a frame that keep what is posted.
function windows() {
  const posted = [];
  let listener;
  const frame = { postMessage: (m, origin) => posted.push({ m, origin }) };
  const here = { origin: "https://here", addEventListener: (_, f) => { listener = f; }, removeEventListener: () => { listener = undefined; } };
  return { posted, frame, here, say: (data, from = frame, origin = "https://here") => listener?.({ data, source: from, origin }) };
}

test("link: requests are answered by number, errors keep line and column", async () => {
  const w = windows();
  const link = new Link(w.here, () => w.frame);
  const a = link.request("load", { model: "x" });
  const b = link.request("run", { program: "?" });
  assert.deepEqual(w.posted[0], { m: { sg: 1, id: 1, type: "load", model: "x" }, origin: "https://here" });
  w.say({ sg: 1, re: 2, ok: false, error: "unknown word", line: 3, col: 5 });
  w.say({ sg: 1, re: 1, ok: true, model: { name: "x" } });
  assert.equal((await a).model.name, "x");
  await assert.rejects(b, (e) => e.message === "unknown word" && e.line === 3 && e.col === 5);
});

test("link: only the frame of the same origin is heard", async () => {
  const w = windows();
  const link = new Link(w.here, () => w.frame);
  const seen = [];
  link.on("hover", (m) => seen.push(m.text));
  w.say({ sg: 1, event: "hover", text: "1" });
  w.say({ sg: 1, event: "hover", text: "2" }, {});
  w.say({ sg: 1, event: "hover", text: "3" }, w.frame, "https://elsewhere");
  for (const data of [null, "text", 7, { event: "hover", text: "4" }, { sg: 1, event: "unknown" }, { sg: 1, re: 99, ok: true }]) w.say(data);
  assert.deepEqual(seen, ["1"]);
});

test("link: in a sandbox nobody has an origin to name", () => {
  const w = windows();
  w.here.origin = "null";
  const link = new Link(w.here, () => w.frame);
  const seen = [];
  link.on("hover", (m) => seen.push(m.text));
  link.request("step").catch(() => {});
  assert.equal(w.posted[0].origin, "*");
  w.say({ sg: 1, event: "hover", text: "1" }, w.frame, "null");
  w.say({ sg: 1, event: "hover", text: "2" }, w.frame, "https://here");
  w.say({ sg: 1, event: "hover", text: "3" }, {}, "null");
  assert.deepEqual(seen, ["1"]);
});

test("link: a dead engine ends what waits", async () => {
  const w = windows();
  const link = new Link(w.here, () => w.frame);
  const a = link.request("step");
  link.drop("it crashed");
  await assert.rejects(a, { message: "it crashed" });
  await assert.rejects(new Link(w.here, () => null).request("step"), { message: "the engine is not there" });
});

test("player: relative moves add up and only the last wish is done", async () => {
  const asked = [];
  const p = new Player();
  p.use({ words: words("a b c d e f"), seek: async (t) => { asked.push(t); await null; return { t }; } });
  p.forward();
  p.forward();
  await p.forward();
  assert.equal(p.t, 2);
  assert.equal(asked.at(-1), 2);
  assert.ok(asked.length <= 2, `asked ${asked}`);
  await p.back();
  await p.jump(99);
  assert.equal(p.t, 5);
  await p.reset();
  assert.equal(p.t, -1);
  await p.back();
  assert.equal(p.t, -1);
  assert.equal(p.step, null);
});

test("player: moves asked for while one is under way count from its goal", async () => {
  const gates = [];
  const p = new Player();
  p.use({ words: words("a b c d e f"), seek: (t) => new Promise((k) => gates.push(() => k({ t }))) });
  const done = p.forward();
  await new Promise(setImmediate);
  for (let i = 0; i < 4; i++) p.forward();
  gates.shift()();
  await new Promise(setImmediate);
  gates.shift()();
  await done;
  assert.equal(p.t, 4);
});

test("player: a move that takes a moment says where it goes, a quick one does not", async () => {
  let late = [];
  const said = [];
  const p = new Player({ setTimeout: (f) => late.push(f), clearTimeout: () => { late = []; } });
  p.onwait = (t) => said.push(t);
  let release;
  p.use({ words: words("a b c"), seek: (t) => new Promise((k) => { release = () => k({ t }); }) });
  const slow = p.jump(2);
  await new Promise(setImmediate);
  late.forEach((f) => f());
  release();
  await slow;
  assert.deepEqual(said, [2]);
  const quick = p.jump(0);
  await new Promise(setImmediate);
  release();
  await quick;
  late.forEach((f) => f());
  assert.deepEqual(said, [2]);
});

test("player: an error stops it and it can go on", async () => {
  let bad = true;
  const errors = [];
  const p = new Player();
  p.onerror = (e) => errors.push(e.message);
  p.use({ words: words("a b"), seek: async (t) => { if (bad) throw new Error("no"); return { t }; } });
  await p.forward();
  assert.deepEqual(errors, ["no"]);
  assert.equal(p.t, -1);
  bad = false;
  await p.forward();
  assert.equal(p.t, 0);
});

test("player: a run that is left says nothing more and takes no moves", async () => {
  const errors = [];
  const gates = [];
  const p = new Player();
  p.onerror = (e) => errors.push(e.message);
  p.use({ words: words("a b c"), seek: () => new Promise((_, no) => gates.push(() => no(new Error("nothing has been run yet")))) });
  p.play();
  await new Promise(setImmediate);
  p.leave();
  assert.equal(p.playing, false);
  gates[0]();
  await new Promise(setImmediate);
  await p.forward();
  p.play();
  assert.deepEqual([errors, gates.length, p.playing], [[], 1, false]);
  p.stay();
  const move = p.forward();
  await new Promise(setImmediate);
  gates[1]();
  await move;
  assert.deepEqual(errors, ["nothing has been run yet"]);
  p.leave();
  p.use(traceSource(words("x"), [{ t: 0 }]));
  await p.forward();
  assert.equal(p.t, 0);
});

test("player: a long way is seen to be gone, and can be left for another", async () => {
  const late = [];
  const said = [];
  const gates = [];
  const p = new Player({ setTimeout: (f) => late.push(f), clearTimeout: () => {} });
  p.onwait = (t, at) => said.push([t, at]);
  const link = { request: (type, f = {}) => new Promise((k) => gates.push(() => k({ step: type === "reset" ? null : { t: f.t } }))) };
  p.use(engineSource(link, words("w ".repeat(100).trim())));
  const open = async () => {
    await new Promise(setImmediate);
    gates.shift()();
    await new Promise(setImmediate);
  };
  const far = p.jump(99);
  await new Promise(setImmediate);
  late.forEach((f) => f());
  await open();
  await open();
  assert.deepEqual(said, [[99, -1], [99, 31], [99, 63]]);
  const back = p.jump(50);
  await open(); // the part under way
  assert.equal(p.t, 95);
  await open();
  await Promise.all([far, back]);
  assert.deepEqual([p.t, gates.length, p.steps[63].t], [50, 0, 63]);
});

test("player: an answer for an earlier run is dropped", async () => {
  let release;
  const p = new Player();
  p.use({ words: words("a b"), seek: () => new Promise((k) => { release = () => k({ t: 0, word: "old" }); }) });
  const first = p.forward();
  await new Promise(setImmediate);
  p.use(traceSource(words("x y"), [{ t: 0, word: "x" }, { t: 1, word: "y" }]));
  const second = p.forward();
  release();
  await Promise.all([first, second]);
  assert.equal(p.t, 0);
  assert.equal(p.step.word, "x");
});

test("player: play stops at the question and starts over from there", async () => {
  const clock = { performance, setTimeout: (f, ms) => (ms > 0 ? null : setImmediate(f)), clearTimeout: clearImmediate };
  const p = new Player(clock);
  p.perSecond = 0;
  p.use(traceSource(st, st.map((w, t) => ({ t, ...w }))));
  const until = async () => { for (let i = 0; i < 200 && p.playing; i++) await new Promise(setImmediate); };
  p.play();
  assert.equal(p.playing, true);
  await until();
  assert.equal(p.playing, false);
  assert.equal(p.t, 4);
  const seen = [];
  p.onchange = () => seen.push(p.t);
  p.play();
  await until();
  assert.deepEqual(seen.filter((t, i) => t !== seen[i - 1]), [4, -1, 0, 1, 2, 3, 4]);
});

test("engine source: steps, seeks, and never skips the question", async () => {
  const asked = [];
  const link = { request: async (type, f = {}) => { asked.push([type, f.t, f.full].filter((x) => x !== undefined).join(" ")); return { step: type === "reset" ? null : { t: f.t ?? 0 } }; } };
  const kept = [];
  let s = engineSource(link, st);
  await s.seek(0);
  await s.seek(5, (x) => kept.push(x.t));
  await s.seek(2);
  await s.seek(-1);
  assert.deepEqual(asked, ["step", "seek 4", "step", "seek 2", "reset"]);
  assert.deepEqual(kept, [4]);
  asked.length = 0;
  s = engineSource(link, st, true);
  await s.seek(2);
  await s.seek(1);
  assert.deepEqual(asked, ["step true", "step true", "step true", "seek 1 true"]);
});

test("fetching: progress, web pages and missing files", async () => {
  const answer = (body, headers, status = 200) => async () => new Response(body, { status, statusText: status === 404 ? "Not Found" : "OK", headers });
  const seen = [];
  const r = await fetchBytes("x.wasm", "application/wasm", (d, t) => seen.push([d, t]), answer("hello", { "content-length": "5" }));
  assert.equal(await r.text(), "hello");
  assert.equal(r.headers.get("content-type"), "application/wasm");
  assert.deepEqual(seen.at(-1), [5, 5]);
  const packed = [];
  await (await fetchBytes("x", "t", (d, t) => packed.push(t), answer("hello", { "content-length": "3", "content-encoding": "gzip" }))).text();
  assert.equal(packed[0], 0);
  await assert.rejects(fetchBytes("x.wasm", "application/wasm", () => {}, answer("", {}, 404)), { message: "x.wasm: the server answered 404 Not Found" });
  await assert.rejects(fetchBytes("x.wasm", "application/wasm", () => {}, answer("<html>", { "content-type": "text/html" })), { message: "x.wasm: got a web page (text/html), want application/wasm" });
});
