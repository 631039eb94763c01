// Tests of what the page says of devices, of sleep and of requests that wait.
import assert from "node:assert/strict";
import test from "node:test";
import { addressHolds } from "../js/address.js";
import { onWake } from "../js/awake.js";
import { keep, kept } from "../js/keep.js";
import { Link } from "../js/link.js";
import { defaults } from "../js/store.js";
import { blame, fault, plain } from "../js/trust.js";

test("a refused GPU in a few words and in a line", () => {
  const kernel = { adapter: "ada", error: "check: browser ada: kernel matvec[W_KIND=1] (in, token 0) is off by 0.2, want at most 0.0001: the device computes wrong numbers", kernel: "matvec[W_KIND=1]", shape: "in, token 0", worst: 0.2, bound: 1e-4 };
  assert.equal(fault(kernel.error), "wrong numbers");
  assert.equal(blame(kernel), "The GPU (ada) is refused: its kernel matvec[W_KIND=1] is off by 0.2, want at most 1.0e-4");
  assert.match(blame({ ...kernel, worst: null }), /is off by not a number,/);
  assert.equal(fault("webgpu: step: play 4 read back the stamp of play 3: read-back carries an earlier step's data"), "stale data");
  assert.equal(fault("lost 3 times within 2m0s: webgpu: device lost (unknown): gone: GPU device lost"), "lost");
  assert.equal(fault("something new"), "failed");
  assert.equal(blame({ error: "webgpu: running x: webgpu: out of GPU memory" }), "The GPU is refused: running x: webgpu: out of GPU memory");
  assert.equal(plain("running x: webgpu: device lost (unknown): gone: GPU device lost"), "unknown: gone");
  assert.match(plain("lost 3 times within 2m0s: webgpu: device lost (unknown): gone: GPU device lost"), /^lost 3 times/);
  assert.equal(plain("webgpu: device lost (destroyed): Device was destroyed.: GPU device lost"), "destroyed: Device was destroyed");
});

test("a sleep is noticed once somebody looks", () => {
  const doc = { hidden: false, addEventListener: (_, f) => { doc.look = f; } };
  let now = 0;
  let tick;
  const slept = [];
  onWake((ms) => slept.push(ms), doc, { Date: { now: () => now }, setInterval: (f) => { tick = f; } });
  for (const step of [5e3, 60e3, 5e3]) {
    now += step;
    tick();
  }
  assert.deepEqual(slept, []);
  now += 3600e3;
  tick();
  now += 5e3;
  tick();
  assert.deepEqual(slept, [3600e3]);
  doc.hidden = true;
  now += 7200e3;
  tick();
  now += 5e3;
  tick();
  assert.deepEqual(slept, [3600e3]);
  doc.hidden = false;
  doc.look();
  assert.deepEqual(slept, [3600e3, 7200e3]);
});

test("a request that waits is told, one after the other", async () => {
  const posted = [];
  const frame = { postMessage: (m) => posted.push(m) };
  let receive;
  const link = new Link({ origin: "here", addEventListener: (_, f) => { receive = f; }, removeEventListener() {} }, () => frame);
  const answer = (id) => receive({ origin: "here", source: frame, data: { sg: 1, re: id, ok: true } });
  const told = [];
  link.onbusy = (type) => told.push(type);
  const pause = (ms) => new Promise((r) => { setTimeout(r, ms); });
  link.request("step");
  await pause(100);
  answer(1);
  await pause(450);
  assert.deepEqual(told, [], "one that is answered soon");
  link.request("curve").catch(() => {});
  await pause(450);
  assert.deepEqual(told, [], "one that says itself how far it is");
  link.request("load");
  link.request("step");
  await pause(500);
  assert.deepEqual(told, ["load"]);
  answer(3);
  await pause(50);
  assert.deepEqual(told, ["load", "", "step"], "the next has waited as long");
  answer(4);
  assert.deepEqual(told, ["load", "", "step", ""]);
  link.close();
});

test("what was typed is kept where there is storage", () => {
  assert.equal(kept(), null, "none at all");
  keep("x");
  const items = new Map();
  globalThis.sessionStorage = { getItem: (k) => items.get(k) ?? null, setItem: (k, v) => items.set(k, v), removeItem: (k) => items.delete(k) };
  keep("a=1");
  assert.equal(kept(), "a=1");
  keep(null);
  assert.equal(kept(), null);
  globalThis.sessionStorage = { setItem() { throw new Error("full"); }, getItem() { throw new Error("forbidden"); } };
  keep("a=1");
  assert.equal(kept(), null);
  delete globalThis.sessionStorage;
});

test("an address holds what is short enough to be read again", () => {
  const location = { pathname: "/", search: "", href: "http://x.invalid/" };
  const all = { ...defaults, model: "st-constructed" };
  assert.ok(addressHolds(location, all));
  assert.ok(addressHolds(location, { ...all, draft: "a".repeat(1 << 15) }));
  assert.ok(!addressHolds(location, { ...all, draft: "a".repeat(1 + (1 << 15)) }));
  assert.ok(!addressHolds(location, { ...all, program: "\n".repeat(1 << 15) }));
});
