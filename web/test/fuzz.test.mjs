// What a fuzz test once found stays found, and length alone takes no time.
import assert from "node:assert/strict";
import test from "node:test";
import { corpus, lengths, run, targets, tree, unpolluted } from "./targets.mjs";

for (const target of targets) {
  test(`hostile input: ${target.name}`, async () => {
    for (const seed of target.seeds()) await run(target, seed);
    for (const [name, input] of [...corpus(target), ...lengths(target)]) {
      try {
        await run(target, input);
      } catch (e) {
        throw new Error(`${name}: ${e.message}`, { cause: e });
      }
    }
  });
}

test("what must not be is seen", async () => {
  await assert.rejects(run({ check: () => { for (const from = process.cpuUsage(); process.cpuUsage(from).user < 200e3;); } }, "", 0.1), /it took/);
  for (const node of [["script", {}], ["p", { onclick: "x" }], ["a", { href: "javascript:x" }], ["a", { href: " java\nscript:x" }], ["a", { href: "data:text/html,x" }], ["a", { href: "//there/" }], ["a", { href: "https://there/" }], ["p", {}, ["img", { src: "x" }]]]) {
    assert.throws(() => tree([node]), assert.AssertionError, JSON.stringify(node));
  }
  let deep = ["p", {}];
  for (let i = 0; i < 200; i++) deep = ["blockquote", {}, deep];
  assert.throws(() => tree([deep]), /more than 100/);
  Object.prototype.polluted = 1;
  try {
    assert.throws(unpolluted, /Object.prototype/);
  } finally {
    delete Object.prototype.polluted;
  }
  unpolluted();
});
