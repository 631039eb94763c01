// Tests of the panels' pure functions: node --test web/test/
import assert from "node:assert/strict";
import test from "node:test";
import { asked, beliefAt, bitsOf, ends, guesses, score, swapOf, used } from "../js/beliefs.js";
import { pictureOf, explain } from "../js/panels/anatomy.js";
import { columnsOf, statementName } from "../js/panels/belief.js";
import { placesAt, sceneAt } from "../js/panels/cups.js";
import { block, plan } from "../js/panels/maps.js";
import { brief, largest, latest, vector } from "../js/picture.js";
import { markStatements } from "../js/trace.js";

const words = (text) => markStatements(text.split(" ").map((word) => ({ word })));
const st = words("<bos> a,b,c,d,e=range(5) a,c=c,a b,c=c,b assert c== 1 assert a==");
const sbr = words("<bos> bits=[ 0, 1, ] a,b,c,d,e= 1, 0, 1, 0, 1, a,b=b,a assert bits[a]== 0");
const recall = words("<bos> bits=[ 0, 1, 1, ] b= 2 assert bits[b]==");

test("programs are read for what the panels draw", () => {
  assert.deepEqual(bitsOf(sbr), [0, 1]);
  assert.deepEqual(bitsOf(sbr, 2), [0]);
  assert.deepEqual(bitsOf(st), []);
  assert.deepEqual(used(recall), ["b"]);
  assert.deepEqual(used(st), ["a", "b", "c", "d", "e"]);
  assert.deepEqual(swapOf("a,c=c,a"), ["a", "c"]);
  for (const w of ["a,c=a,c", "a,f=f,a", "a,b,c,d,e=", undefined]) assert.equal(swapOf(w), null);
  assert.deepEqual(asked("bits[d]=="), { name: "d", bit: true });
  assert.deepEqual(asked("d=="), { name: "d", bit: false });
  assert.equal(asked("d="), null);
  assert.deepEqual(ends(st), [1, 2, 3, 6, 8]);
  assert.deepEqual(columnsOf(st), [1, 2, 3, 6]); // the question is not over
  assert.deepEqual(columnsOf(sbr), [10, 11, 14]);
  assert.deepEqual(columnsOf(recall), [7]);
  assert.deepEqual(columnsOf([]), []);
  assert.deepEqual([[st, 1], [st, 2], [st, 6], [recall, 7], [sbr, 14]].map(([w, t]) => statementName(w, t)), ["start", "a\u2194c", "c?", "b=2", "a?"]);
});

test("cups change places with the swaps read so far", () => {
  const names = used(st);
  assert.deepEqual(placesAt(st, names, 1), [0, 1, 2, 3, 4]);
  assert.deepEqual(placesAt(st, names, 2), [2, 1, 0, 3, 4]);
  assert.deepEqual(placesAt(st, names, 3), [2, 0, 1, 3, 4]);
  assert.deepEqual(placesAt(st, names, -1), [0, 1, 2, 3, 4]);
});

const believed = { vars: { a: { word: "0", p: 0.9, right: true }, b: { word: "0", p: 0.4, right: false } }, bits: { a: { word: "1", p: 0.6, right: false } } };

test("a scene holds truth, bits and the last belief", () => {
  const steps = [];
  steps[11] = { t: 11, truth: { vars: { a: 0, b: 1, c: 1, d: 0, e: 1 } }, belief: believed };
  steps[13] = { t: 13, truth: { vars: { a: 0, b: 1, c: 1, d: 0, e: 1 } } };
  const s = sceneAt({ words: sbr, steps, t: 13, step: steps[13] });
  assert.equal(s.believedAt, 11);
  assert.deepEqual(s.places[0], { name: "a", cup: 1, value: 0, bit: 0, asked: true, belief: { name: "a", bit: false, word: "0", p: 0.9, right: true }, bitBelief: { name: "a", bit: true, word: "1", p: 0.6, right: false } });
  assert.deepEqual([s.places[1].value, s.places[1].bit, s.places[1].asked, s.places[1].belief.right], [1, 1, false, false]);
  const before = sceneAt({ words: sbr, steps, t: -1, step: null });
  assert.deepEqual([before.places[2].value, before.places[2].belief, before.bits, before.believedAt], [null, null, [], -1]);
});

test("beliefs are counted, and the first wrong one is found", () => {
  const steps = [{ t: 0 }, { t: 1, belief: { vars: { a: { word: "0", p: 1, right: true } } } }, undefined, { t: 3, belief: believed }, { t: 4 }];
  assert.deepEqual(score(steps, 4), { right: 2, all: 4, wrong: [3] });
  assert.deepEqual(score(steps, 2), { right: 1, all: 1, wrong: [] });
  assert.equal(beliefAt(steps, 4).t, 3);
  assert.equal(beliefAt(steps, 0), null);
  assert.deepEqual(guesses(believed).map((g) => [g.name, g.bit]), [["a", false], ["b", false], ["a", true]]);
  assert.deepEqual(guesses(undefined), []);
});

test("what a step of the delta rule did, in words", () => {
  const e0 = [1, 0];
  const says = (alpha, beta, v = [0], k = e0) => explain({ alpha, beta, k, v });
  assert.match(says(1, 2), /^β 2.00: a mirror\. The parts along k change their sign\. v is 0/);
  assert.match(says(1, 1.5, [1]), /^β 1.50: a weak mirror.* shrink to 50%, and β·v is added/);
  assert.match(says(1, 1, [1]), /^β 1.00: an overwrite.* erased and replaced by v\.$/);
  assert.match(says(1, 0.4, [1]), /partial overwrite\. 40% of what stood along k is replaced by v\.$/);
  assert.match(says(1, 0), /^β 0: nothing is written and nothing fades/);
  assert.match(says(0.8, 0), /^β 0: nothing is written\. α 0\.80: everything fades to 80%\.$/);
  assert.match(says(0.8, 2), /^α 0\.80: everything fades to 80%\. β 2\.00: a mirror/);
  assert.match(says(0, 1, [1]), /^α 0: all that was there before is forgotten\. β 1\.00: v is written along k\.$/);
  assert.match(says(1, 2, [1], [0, 0]), /^k is zero/);
});

test("the stages of a step say what their cells are made of", () => {
  // One mirror by hand: K 2, V 1, k = e0, alpha 0.5, beta 2, S = (4, 6).
  const a = { K: 2, V: 1, alpha: 0.5, beta: 2, k: [1, 0], q: [0, 1], v: [1], before: [[4], [6]], decayed: [[2], [3]], read: [2], erase: [[-4], [0]], erased: [[-2], [3]], write: [[2], [0]], written: [[0], [3]], out: [3] };
  const p = [0, 1, 2, 3, 4].map((n) => pictureOf(a, n));
  assert.deepEqual(p.map((x) => x.state.flat()), [[2, 3], [2, 3], [-2, 3], [0, 3], [0, 3]]);
  assert.deepEqual(p.map((x) => x.term.flat()), [[4, 6], [2, 0], [-4, 0], [2, 0], [0, 3]]);
  assert.equal(p[0].formula, "S ← α·S = 0.50·S");
  assert.equal(p[2].formula, "S ← S − β·k (kᵀS) = S − 2.00 · (1.00, 0.00) ⊗ (2.00)");
  assert.equal(p[0].tellState(0, 0), "α·S = 0.50 · 4");
  assert.equal(p[1].row.tell(0), "the column's sum, 1.00·2.00");
  assert.equal(p[2].tellState(0, 0), "decayed 2 − 4");
  assert.equal(p[2].tellTerm(0, 0), "−β·k·(kᵀS) = −2.00 · 1.00 · 2");
  assert.equal(p[3].tellState(0, 0), "erased -2 + 2");
  assert.equal(p[4].row.name, "qᵀS");
});

test("maps: room, and several words in a cell", () => {
  assert.deepEqual(plan(10, 460), { pool: 1, cells: 10, cell: 26 });
  assert.deepEqual(plan(100, 460), { pool: 1, cells: 100, cell: 4 });
  assert.deepEqual(plan(517, 500), { pool: 2, cells: 259, cell: 1.75 });
  const rows = [[1], [0.2, -0.9], [0.1, 0.3, 0.2]];
  assert.equal(block(rows, 0, 0, 2, 2), 1);
  assert.equal(block(rows, 1, 0, 2, 2), 0.3);
  assert.equal(block(rows, 1, 0, 2, 1), undefined); // not read yet
  assert.equal(block(rows, 0, 1, 2, 2), undefined); // the future
  assert.equal(block(rows, 1, 1, 1, 2), -0.9);
});

test("numbers of the drawings", () => {
  assert.deepEqual([-0.001, -1.5, NaN].map(brief), ["0.00", "\u22121.50", "NaN"]);
  assert.equal(vector([1, 0, -1]), "(1.00, 0.00, \u22121.00)");
  assert.equal(vector([1, 2, 3, 4, 5, 6]), "(1.00, 2.00, 3.00, 4.00, \u2026)");
  assert.equal(largest(undefined, 0), 0);
  assert.equal(largest(0.5, -2), -2);
  assert.equal(largest(-2, 0.5), -2);
  assert.ok(Number.isNaN(largest(1, NaN)));
});

test("of several questions only the last is asked", async () => {
  const seen = [];
  let release;
  const ask = latest(async (x, stale) => {
    await new Promise((r) => { release = r; });
    seen.push([x, stale()]);
  });
  ask(1);
  await null; // it has begun
  ask(2);
  const done = ask(3);
  release();
  await new Promise(setImmediate);
  release();
  await done;
  assert.deepEqual(seen, [[1, true], [3, false]]);
});
