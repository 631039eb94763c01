import assert from "node:assert/strict";
import test from "node:test";
import { beyond, fitModel, fitSwitches, fitZoo, unknown } from "../js/fit.js";
import { stop } from "../js/format.js";
import { defaults } from "../js/store.js";

const layers = [{ heads: 4 }, { heads: 4 }, { heads: 2 }];

test("a model that is not there, or is of another task, is left out and named", () => {
  const zoo = [{ name: "st-gdn-neg", task: "st" }, { name: "recall-hybrid-neg", task: "recall" }];
  assert.deepEqual(fitZoo({ ...defaults, task: "recall", model: "st-gdn-neg" }, { task: "recall", model: "st-gdn-neg" }, zoo),
    { fit: { model: "" }, left: ["model=st-gdn-neg (a model of state tracking, not of recall)"] });
  assert.deepEqual(fitZoo({ ...defaults, other: "nope", show: "b", otherSwitches: { beta: "clamp" } }, {}, zoo),
    { fit: { other: "", otherSwitches: {}, show: "a" }, left: ["other=nope (not in the zoo)"] });
  for (const [choices, asked] of [[{ model: "st-gdn-neg" }, {}], [{ model: "st-gdn-neg" }, { task: "st" }], [{ model: "st-gdn-neg" }, { task: "recall" }], [{ other: "models/mine/" }, {}], [{ other: "st-gdn-neg" }, { task: "recall" }]]) {
    assert.deepEqual(fitZoo({ ...defaults, ...choices }, asked, zoo), { fit: {}, left: [] });
  }
  assert.deepEqual(fitZoo({ ...defaults, other: "nope" }, {}, []), { fit: {}, left: [] }, "the zoo could not be read");
});

test("layers and heads that a model lacks are left out and named", () => {
  const fits = (choices) => fitModel({ ...defaults, ...choices }, layers);
  assert.deepEqual(fits({}), { fit: { switches: {} }, left: [] });
  assert.deepEqual(fits({ layer: 2, head: 1, switches: { layers: [0], heads: [[1, 3]] } }), { fit: { switches: { layers: [0], heads: [[1, 3]] } }, left: [] });
  assert.deepEqual(fits({ layer: 77, head: 9 }), { fit: { switches: {}, layer: -1, head: 0 }, left: ["layer=77 (want 0 to 2)", "head=9 (want 0 to 3)"] });
  assert.deepEqual(fits({ layer: 2, head: 3 }), { fit: { switches: {}, head: 0 }, left: ["head=3 (want 0 to 1)"] });
  assert.deepEqual(fits({ layer: -1, head: 3 }), { fit: { switches: {} }, left: [] });
  assert.deepEqual(fits({ switches: { layers: [9, 1], heads: [[0, 4], [0, 1]], conv: false } }),
    { fit: { switches: { layers: [1], heads: [[0, 1]], conv: false } }, left: ["switches.layers=9 (want 0 to 2)", "switches.heads: layer 0 head 4 (no such head)"] });
  assert.deepEqual(fitSwitches({ layers: [3] }, layers, "otherSwitches"), { fit: {}, left: ["otherSwitches.layers=3 (want 0 to 2)"] });
});

test("words and models that there are not, and sentences that quote one", () => {
  assert.deepEqual([beyond(8, 9), beyond(-1, 9), beyond(undefined, 9), beyond(null, 9), beyond(9, 9)], ["", "", "", "", "t=9 (want -1 to 8, the program's words)"]);
  const zoo = [{ name: "a" }, { name: "your-files/1/x" }];
  for (const name of ["", undefined, "a", "models/b", "your-files/1/x"]) assert.equal(unknown(name, zoo), "");
  for (const name of ["b", "your-files/2/x"]) assert.match(unknown(name, zoo), /^model=.* \(want /);
  assert.deepEqual(["no", "no.", "no.. "].map(stop), ["no.", "no.", "no."]);
});
