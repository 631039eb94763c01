import { spawnSync } from "node:child_process";
import test from "node:test";
import assert from "node:assert/strict";
import { clean, describe, flipHead, flipLayer } from "../js/changes.js";
import { decades, spread, steps } from "../js/chart.js";
import { cost, preset } from "../js/panels/curve.js";
import { boundaries } from "../js/beliefs.js";
import { python } from "../js/python.js";
import { markStatements } from "../js/trace.js";

test("switches: what is as trained, or not there, is left out", () => {
  const layers = [{ heads: 4 }, { heads: 2 }];
  assert.deepEqual(clean({ beta: "", decay: true, conv: undefined, layers: [], heads: [], store: "" }), {});
  assert.deepEqual(clean({ beta: "clamp", gate: false, layers: [5, 1, 1], heads: [[1, 0], [0, 3], [0, 9], [7, 0]], store: "f16" }, layers),
    { beta: "clamp", gate: false, layers: [1], heads: [[0, 3]], store: "f16" });
  assert.deepEqual(clean({ layers: [5] }), { layers: [5] });
});

test("switches: a layer or a head goes off and on again", () => {
  const off = flipHead(flipHead({}, 1, 2), 0, 3);
  assert.deepEqual(off, { heads: [[0, 3], [1, 2]] });
  assert.deepEqual(flipHead(flipHead(off, 1, 2), 0, 3), {});
  assert.deepEqual(flipLayer(off, 1), { layers: [1], heads: [[0, 3]] });
  assert.deepEqual(flipLayer(flipLayer(off, 1), 1), { heads: [[0, 3]] });
});

test("switches: what is changed, in words", () => {
  assert.deepEqual(describe({}), []);
  assert.deepEqual(describe({ beta: "clamp", conv: false, layers: [2], heads: [[0, 1], [0, 2], [1, 3]], store: "bf16" },
    [{ t: 4, from: "zero" }, { t: 5, layer: 1, from: "model", model: "st-gdn-pos" }, { t: 6, layer: 1, head: 2, from: "program", program: "x", at: 3 }]),
  ["beta clamped at 1", "short convolution off", "layer 2 off", "heads 1, 2 of layer 0 off", "head 3 of layer 1 off", "state stored as bf16",
    "state set to zero after word 4", "state of layer 1 taken from st-gdn-pos after word 5", "state of layer 1 head 2 taken from another program, word 3 after word 6"]);
});

test("charts: labels move apart, keep their order and stay inside", () => {
  assert.deepEqual(spread([10, 100, 50], 15, 0, 200), [10, 100, 50]);
  const ys = spread([20, 20, 22, 90], 15, 10, 100);
  const sorted = ys.slice().sort((a, b) => a - b);
  assert.ok(sorted.every((y, i) => i === 0 || y - sorted[i - 1] >= 15 - 1e-9), `${ys}`);
  assert.ok(ys[0] < ys[1] && ys[1] < ys[2] && ys[2] < ys[3]);
  assert.deepEqual(spread([99, 98, 97], 15, 0, 100), [100, 85, 70]);
});

test("charts: decades and round steps", () => {
  assert.deepEqual(decades([0, NaN, 3e-4, 0.2]), [-4, 0]);
  assert.deepEqual(decades([1e-3]), [-3, -2]);
  assert.deepEqual(decades([0]), [-6, 0]);
  assert.deepEqual(steps(12, 6), [0, 2, 4, 6, 8, 10, 12]);
  assert.deepEqual(steps(515, 8), [0, 100, 200, 300, 400, 500]);
  assert.deepEqual(steps(3, 8), [0, 1, 2, 3]);
});

test("python: a program that python3 runs, however it ends", () => {
  const words = (s) => s.split(" ").map((word) => ({ word }));
  for (const [program, out] of [
    ["<bos> bits=[ 0, 1, 1, 0, ] a,b,c,d,e= 3, 0, 2, 1, 3, a,c=c,a assert bits[a]==", "1"],
    ["<bos> bits=[ 0, 1, ] a= 1 assert bits[a]== 1", "every assert holds"],
    ["<bos> a,b,c,d,e=range(5) a,c=c,a assert", "2 1 0 3 4"],
    ["<bos> a,b,c,d,e=range(5) a,c=c,a assert a== 2 a,b=b,a", "1 2 0 3 4"],
    ["<bos> bits=[ 0, ] b= 0 a=", "0"],
    ["<bos> a,b,c,d,e=range(5) a,c=c,a assert a== 1", "a is 2"],
    ["<bos> a,b,c,d,e=range(5) assert a== 1 a,c=c,a assert a== 2 assert b==", "a is 0\n1"],
    ["<bos> a,b,c,d,e=range(5) assert a== 1 a,c=c,a", "a is 0\n2 1 0 3 4"],
    ["<bos> a,b,c,d,e=range(5) assert b== 1 a,c=c,a assert a== 2", "every assert holds"],
    ["<bos> bits=[ 0, 1, 1, ] a= 2 assert bits[a]== 0", "bits[a] is 1"],
    ["<bos> bits=[ 0, 1, 1, 0, ] a,b,c,d,e= 3, 0, 2, 1, 3, a,c=c,a assert bits[a]== 0 assert bits[c]== 0", "bits[a] is 1"],
    ["<bos> bits=[ 0, 1,", ""],
    ["<bos>", ""],
  ]) {
    const run = spawnSync("python3", ["-c", python(words(program))], { encoding: "utf8" });
    assert.equal(run.status, 0, `${program}: ${run.stderr}`);
    assert.equal(run.stdout.trim(), out, program);
  }
});

test("compare: beliefs are asked where statements end, once there is a variable", () => {
  const words = (s) => markStatements(s.split(" ").map((word) => ({ word })));
  for (const [program, t, at] of [
    ["<bos> a,b,c,d,e=range(5) a,c=c,a a,b=b,a assert a==", 4, [1, 2, 3]],
    ["<bos> a,b,c,d,e=range(5) a,c=c,a assert a== 2", 5, [1, 2, 5]],
    ["<bos> a,b,c,d,e=range(5) a,c=c,a assert a== 2", 2, [1, 2]],
    ["<bos> bits=[ 0, 1, ] a= 1 assert bits[a]==", 8, [6]],
    ["<bos> bits=[ 0, 1, ] a=", 5, []],
    ["<bos>", 0, []],
  ]) assert.deepEqual(boundaries(words(program), t), at, program);
});

test("accuracy: a slow device measures five models in one to two minutes", () => {
  for (const task of ["st", "recall", "sbr"]) {
    for (const rate of [10, 20, 35, 60]) {
      const { levels, samples } = preset(task, 5, rate);
      const seconds = cost(task, 5, levels, samples) / rate;
      assert.ok(samples >= 2 && seconds > 45 && seconds < 120, `${task} at ${rate} words a second: ${samples} programs, ${seconds} s`);
    }
  }
});
