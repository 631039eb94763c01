// Tests of the view Inspect's pure functions: node --test web/test/
import assert from "node:assert/strict";
import test from "node:test";
import { bars, columns, parted, rows, three, together, windowOf } from "../js/panels/inspect.js";
import { readable } from "../js/prompt.js";

const borders = [0, 0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.6, 1.8, 2];

test("a beta of 1 is not beyond 1", () => {
  const beta = [1, 0, 0, 0, 2, 4, 0, 0, 0, 3];
  assert.deepEqual(parted(beta, borders, 0.5), { below: [1, 0, 0, 0, 2, 2, 0, 0, 0, 0], above: [0, 0, 0, 0, 0, 2, 0, 0, 0, 3] });
  assert.deepEqual(parted(beta, borders, 0.3).above, [0, 0, 0, 0, 0, 0, 0, 0, 0, 3]);
  assert.deepEqual(parted([0, 0, 0, 0, 0, 5, 0, 0, 0, 0], borders, 0), { below: [0, 0, 0, 0, 0, 5, 0, 0, 0, 0], above: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0] });
  const third = parted([0, 0, 0, 0, 0, 0, 1, 0, 0, 2], borders, Math.fround(1)); // shares are float32
  assert.deepEqual(third.above, [0, 0, 0, 0, 0, 0, 1, 0, 0, 2]);
});

test("a layer is what its heads are together", () => {
  const gdn = { kind: "gdn", heads: [{ norm: 2, alpha: [1, 2], beta: [3, 0], negative: 0.5, wrote: 0.1, read: 0.9 }, { norm: 0.5, alpha: [0, 3], beta: [1, 2], negative: 0, wrote: 0.3, read: 0.2 }] };
  assert.deepEqual(together(gdn), { least: 0.5, norm: 2, alpha: [1, 5], beta: [4, 2], negative: 0.25, wrote: 0.3, read: 0.9 });
  assert.equal(together({ kind: "attention", heads: [{ head: 0, weight: 0.2 }, { head: 1, weight: 0.7 }, { head: 2, weight: 0.7 }] }).head, 1);
});

test("bars stand on each other, and what is rare is seen", () => {
  assert.equal(bars([0, 4], 4, 10, 20, 20, 16), "M20.5 20.0V4.0h9.0V20.0z");
  assert.equal(bars([2, 0], 4, 0, 20, 20, 16, [2, 4]), "M0.5 12.0V4.0h9.0V12.0z");
  assert.match(bars([1, 0], 1000, 0, 20, 20, 16), /V18\.5/);
  assert.equal(bars([0, 0], 0, 0, 20, 20, 16), "");
  assert.doesNotMatch(bars([NaN, undefined, 1], 0, 0, 20, 20, 16), /NaN/);
});

test("the strip stays while the chosen word is in it", () => {
  assert.deepEqual(windowOf(0, 5, 0, 10), [0, 5]);
  assert.deepEqual(windowOf(9, 100, 0, 10), [0, 10]);
  assert.deepEqual(windowOf(10, 100, 0, 10), [5, 15]);
  assert.deepEqual(windowOf(99, 100, 5, 10), [90, 100]);
  assert.deepEqual(windowOf(3, 100, 90, 10), [0, 10]);
});

test("norms have three digits", () => {
  assert.deepEqual([38.512, 3.37, 0.0421, 999.6, 0, 1234.5, 1e-5, NaN].map(three), ["38.5", "3.37", "0.0421", "999.6", "0", "1234.5", "1.0e-5", "NaN"]);
});

test("columns fit at every width", () => {
  for (let w = 280; w <= 1400; w += 7) {
    const { roomy, width, ...parts } = columns(w);
    let x = 0;
    for (const [name, p] of Object.entries(parts)) {
      assert.ok(p.x > x && p.w >= 30, `${w}: ${name} at ${p.x} of ${p.w} after ${x}`);
      x = p.x + p.w;
    }
    assert.ok(width <= w && x <= width && roomy === (w >= 620), `${w}: ${width}, ${x}`);
  }
});

test("a table has every head, or those of some layers", () => {
  const report = { layers: [{ layer: 0, kind: "gdn", heads: [{ head: 0, norm: 1, negative: 0.5, wrote: 0.1, read: 0.2 }] }, { layer: 1, kind: "attention", heads: [{ head: 0, token: 3, weight: 0.9, entropy: 0.4 }, { head: 1, token: 0, weight: 1, entropy: 0 }] }] };
  assert.deepEqual(rows(report), [[0, 0, "gdn", 1, 0.5, 0.1, 0.2, undefined, undefined, undefined], [1, 0, "attention", undefined, undefined, undefined, undefined, 3, 0.9, 0.4], [1, 1, "attention", undefined, undefined, undefined, undefined, 0, 1, 0]]);
  assert.equal(rows(report, new Set([0])).length, 1);
});

test("tokens are written for people", () => {
  for (const [piece, text] of [["\u0120The", "\u00b7The"], ["\u010a\u010a", "\u21b5\u21b5"], ["a,c=c,a", "a,c=c,a"], ["<bos>", "<bos>"], ["\u00e6\u00bc\u00a2", "\u6f22"], ["\u00e6\u00bc", "\u00e6\u00bc"], ["\u6f22", "\u6f22"], ["\u00e9", "\u00e9"], ["", "\u2205"], ["a\u0000b", "a\ufffdb"], ["\u0109x", "\u21e5x"]]) assert.equal(readable(piece), text, JSON.stringify(piece));
});
