// The page's address: what is written is read again, and nothing that somebody
// else writes gets through unchecked.
import assert from "node:assert/strict";
import test from "node:test";
import { Keeper, checkChoices, decodeName, fields, folderOf, readAddress, readFragment, readQuery, split, writeAddress, writeFragment, writePlain, writeQuery } from "../js/address.js";
import { Store, defaults } from "../js/store.js";

const values = (search) => readQuery(search).values;

test("queries of old links are read", () => {
  assert.deepEqual(values("?device=cpu&task=sbr&model=sbr-hybrid-neg&n=128&seed=7"), { task: "sbr", model: "sbr-hybrid-neg", n: 128, seed: 7, device: "cpu" });
  assert.deepEqual(readQuery("?stage=no&theme=dark&n=12"), { values: { n: 12, theme: "dark" }, dropped: [], noStage: true });
  assert.deepEqual(values("?task=st&n=512"), { task: "st", n: 512 });
  assert.deepEqual(values("?model=models/mine/"), { model: "models/mine/" });
});

test("what makes no sense is left out and named, what is not ours is left alone", () => {
  for (const [search, kept, dropped] of [
    ["?task=zzz", {}, "task=zzz (want st, recall or sbr)"],
    ["?task=sbr&n=129", { task: "sbr" }, "n=129 (want at most 128 for this task)"],
    ["?n=0", {}, "n=0 (want a whole number from 1 to 512)"],
    ["?n=1e3", {}, "n=1e3 (want a whole number from 1 to 512)"],
    ["?seed=-1", {}, "seed=-1 (want a whole number from 0 to 9007199254740991)"],
    ["?device=toaster", {}, "device=toaster (want auto, cpu or webgpu)"],
    ["?model=a%20b", {}, "model=a b (want a name of the zoo or the address of a folder)"],
    ["?model=..", {}, "model=.. (want a name of the zoo or the address of a folder)"],
    ["?stage=yes", {}, "stage=yes (want no)"],
    ["?gen=2", {}, "gen=2 (this page has version 1 of the programs: the same seed may give another one)"],
    ["?embed=perhaps", {}, "embed=perhaps (want true or false)"],
    ["?lesson=No%20such", {}, "lesson=No such (want the name of a lesson or the address of a file)"],
  ]) {
    const got = readQuery(search);
    assert.deepEqual(got.values, kept, search);
    assert.deepEqual(got.dropped, [dropped], search);
  }
  for (const model of ["javascript:/alert(1)", "data:text/html,/", "file:///etc", "https://a:b@there/m", "https://"]) {
    assert.deepEqual(values(`?model=${encodeURIComponent(model)}`), {}, model);
    assert.deepEqual(values(`?lesson=${encodeURIComponent(model)}`), {}, model);
  }
  assert.deepEqual(readQuery("?utm_source=x&gen=1"), { values: {}, dropped: [], noStage: false });
});

test("addresses of folders", () => {
  for (const [model, folder] of [["models/mine/", "https://here/site/models/mine"], ["./mine", "https://here/site/mine"], ["https://there/a%20b/?x#y", "https://there/a%20b"], ["//there/m", "https://there/m"]]) {
    assert.equal(folderOf(model, "https://here/site/"), folder);
  }
  assert.equal(folderOf("file:///etc", "https://here/"), undefined);
  assert.equal(decodeName("https://there/a%20b"), "a b");
  assert.equal(decodeName("https://there/%zz"), "%zz");
});

test("a query keeps what is not ours", () => {
  assert.equal(writeQuery("?course=7&n=4", { n: 8, model: "", seed: 3 }), "?course=7&n=8&seed=3");
  assert.equal(writeQuery("?device=cpu", { device: null }), "");
  assert.equal(writeQuery("", { embed: true, model: "models/a/" }), "?embed=1&model=models/a/");
});

const full = {
  ...defaults, task: "sbr", model: "https://there/m", n: 16, seed: 9, device: "cpu", theme: "dark", embed: true, lesson: "swaps", page: 3,
  program: "a,b,c,d,e=range(5)\na,c=c,a # \u00e9\u{1f600}\nassert a==", draft: "x", t: 3, panel: "anatomy", layer: 2, head: 3,
  switches: { beta: "clamp", decay: false, layers: [1, 2], heads: [[0, 2]], store: "bf16" }, patches: [{ t: 4, from: "zero", layer: 1, head: 0 }, { t: 2, from: "program", program: "a,b,c,d,e=range(5)", at: 1 }, { t: 1, from: "model", model: "st-gdn-pos" }], other: "sbr-gdn-neg", otherSwitches: { gate: false }, show: "diff", projector: true, speed: 0, accuracy: { task: "recall", models: ["gdn-neg", "constructed"], sizes: [4, 512], samples: 7, paper: false },
};

test("an address says every choice", async () => {
  assert.deepEqual(Object.keys(fields).sort(), Object.keys(defaults).sort());
  for (const choices of [full, { ...defaults, model: "st-constructed" }, { ...defaults, model: "st-gdn-neg", n: 512, seed: 0, t: -1 }]) {
    const address = new URL(await writeAddress({ pathname: "/sub/", search: "?course=7" }, choices), "https://here");
    assert.equal(address.searchParams.get("course"), "7");
    const { values, dropped } = await readAddress(address);
    assert.deepEqual(dropped, []);
    assert.deepEqual({ ...defaults, ...values }, { ...choices, n: choices.program === null ? choices.n : values.n ?? choices.n, seed: choices.program === null ? choices.seed : values.seed ?? choices.seed });
  }
  assert.equal(await writeFragment({}), "");
  const { fragment } = split(full);
  assert.deepEqual((await readFragment(writePlain(fragment))).values, fragment);
  assert.deepEqual((await readFragment(await writeFragment(fragment))).values, fragment);
});

test("without CompressionStream the fragment is plain", async () => {
  const kept = globalThis.CompressionStream;
  delete globalThis.CompressionStream;
  try {
    const hash = await writeFragment({ t: 4 });
    assert.equal(hash, "#v=1&j=%7B%22t%22%3A4%7D");
    assert.deepEqual(await readFragment(hash), { values: { t: 4 }, dropped: [] });
  } finally {
    globalThis.CompressionStream = kept;
  }
});

test("fragments that are broken, too new or too large are refused in a phrase", async () => {
  const bomb = await writeFragment({ program: "a".repeat(1 << 20) });
  assert.ok(bomb.length < 5000);
  for (const [hash, why] of [
    ["#v=2&z=AAAA", "version 2, want 1"], ["#v=1&z=%%%", "z is not base64url"], ["#v=1&z=AAAA", "cannot be read"], ["#v=1&j={", "cannot be read"],
    ["#v=1&j=[1]", "got no object"], ["#v=1&j=null", "got no object"], ["#v=1&j=" + "x".repeat(70000), "70007 characters"], [bomb, "more than 131072 bytes"],
  ]) {
    const { values, dropped } = await readFragment(hash);
    assert.deepEqual(values, {}, hash.slice(0, 40));
    assert.equal(dropped.length, 1);
    assert.ok(dropped[0].startsWith("the part after # (") && dropped[0].includes(why), dropped[0]);
  }
  for (const hash of ["", "#", "#picture", "#v=1"]) assert.deepEqual(await readFragment(hash), { values: {}, dropped: [] }, hash);
});

test("a switch that does not exist is dropped alone", () => {
  const { values, dropped } = checkChoices({ switches: { beta: "clamp", decay: true, layers: [-1], heads: [[1]], gate: false, warp: 9 } });
  assert.deepEqual(values, { switches: { beta: "clamp", gate: false } });
  assert.deepEqual(dropped.map((d) => d.replace(/=.*/, "")), ["switches.decay", "switches.layers", "switches.heads", "switches.warp"]);
});

test("whatever is read is a choice that would be read again", () => {
  let seed = 12345;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  const leaf = () => [null, true, false, 0, -1, 1.5, 1e300, NaN, "", "a", "st", "sbr", "clamp", "anatomy", "\u0000", "https://x/", "x".repeat(40000), [], [[0, 1]], [[0, 1, 2]], [{ t: 1, from: "zero" }], [{ t: 1, from: "model" }], {}, { beta: "sigmoid" }, { __proto__: null, store: "f16" }, JSON.parse('{"__proto__": {"a": 1}}')][random(26)];
  const keys = [...Object.keys(fields), "__proto__", "constructor", "toString", "zzz"];
  for (let i = 0; i < 20000; i++) {
    const raw = Object.fromEntries(Array.from({ length: random(6) }, () => [keys[random(keys.length)], leaf()]));
    const { values, dropped } = checkChoices(raw);
    assert.ok(Object.keys(values).every((k) => Object.hasOwn(fields, k)));
    assert.deepEqual(checkChoices(values), { values, dropped: [] });
    for (const d of dropped) assert.ok(d.length < 300 && !d.includes("\n") && /\(want /.test(d), d);
    new Store(values);
  }
});

test("the browser's history: larger choices are steps back, words are not", async () => {
  const done = [];
  const write = (how) => (_, __, address) => done.push([how, address]);
  const listeners = {};
  const window = { location: { pathname: "/", search: "" }, history: { pushState: write("push"), replaceState: write("replace") }, addEventListener: (type, f) => { listeners[type] = f; } };
  const store = new Store({ model: "m" });
  const keeper = new Keeper(store, window);
  const settle = () => new Promise((r) => setTimeout(r, 900));
  const read = async (address) => (await readAddress(new URL(address, "https://here"))).values;
  keeper.start();
  store.set({ t: 1 });
  store.set({ t: 2 });
  await settle();
  assert.deepEqual(done.map(([how]) => how), ["replace"]);
  assert.equal((await read(done[0][1])).t, 2);
  store.set({ t: 5 });
  store.set({ panel: "maps" });
  await settle();
  assert.deepEqual(done.slice(1).map(([how]) => how), ["replace", "push"]);
  assert.deepEqual([(await read(done[1][1])).t, (await read(done[1][1])).panel, (await read(done[2][1])).panel], [5, undefined, "maps"]);
  keeper.quietly(() => store.set({ panel: "" }));
  await settle();
  assert.equal(done.at(-1)[0], "replace");
  store.set({ t: 7 });
  listeners.pagehide();
  assert.equal((await read(done.at(-1)[1])).t, 7);
  const before = done.length;
  await settle();
  assert.equal(done.length, before);
  store.set({ embed: true, panel: "maps" });
  await settle();
  assert.equal(done.at(-1)[0], "replace", "a frame adds no steps to its page");
});
