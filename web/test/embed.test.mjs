// What a page around this one may say.
import assert from "node:assert/strict";
import test from "node:test";
import { readMessage, serveEmbed } from "../js/embed-api.js";

test("only documented messages are requests", () => {
  const m = (fields) => readMessage({ shellgame: 1, id: 1, ...fields });
  assert.deepEqual(m({ type: "load", choices: { task: "sbr", n: 16, t: 3 } }), { id: 1, type: "load", choices: { task: "sbr", n: 16, t: 3 } });
  assert.deepEqual(m({ type: "step" }), { id: 1, type: "step", count: 1 });
  assert.deepEqual(m({ type: "step", count: -3, extra: 1 }), { id: 1, type: "step", count: -3 });
  assert.deepEqual(m({ type: "step", t: -1 }), { id: 1, type: "step", t: -1 });
  assert.deepEqual(m({ type: "state" }), { id: 1, type: "state" });
  assert.deepEqual(m({ type: "visible", visible: false }), { id: 1, type: "visible", visible: false });
  for (const data of [null, undefined, 7, "x", [], {}, { shellgame: 2, id: 1, type: "state" }, { sg: 1, type: "run" }]) assert.equal(readMessage(data), null);
  for (const [fields, message] of [
    [{ type: "eval" }, "type: got eval, want load, step, state or visible"],
    [{ id: "1", type: "state" }, "id: want a whole number"],
    [{ type: "load" }, "load: want choices, an object"],
    [{ type: "load", choices: { embed: false } }, "load: got embed, want of "],
    [{ type: "load", choices: JSON.parse('{"__proto__": 1}') }, "load: got __proto__, want of "],
    [{ type: "load", choices: { n: "many" } }, "load: n=many (want a whole number from 1 to 512)"],
    [{ type: "load", choices: { model: "javascript:/x" } }, "load: model="],
    [{ type: "load", choices: { n: "9" } }, 'load: n="9" (want a whole number from 1 to 512)'],
    [{ type: "step", count: 1.5 }, "step: count=1.5 (want a whole number from -9999 to 9999)"],
    [{ type: "step", count: 1e6 }, "step: count=1000000 (want a whole number from -9999 to 9999)"],
    [{ type: "step", t: "end" }, "step: t=end (want a whole number from -1 to 9999)"],
    [{ type: "step", t: "3" }, 'step: t="3" (want a whole number from -1 to 9999)'],
    [{ type: "visible" }, "visible: want true or false"],
  ]) {
    const got = m(fields);
    assert.ok(got instanceof Error && got.message.startsWith(message), `${JSON.stringify(fields)}: ${got.message}`);
  }
});

test("requests of the parent alone are answered, loads and steps one after the other", async () => {
  const posted = [];
  let hear;
  const parent = { postMessage: (m, to) => posted.push([m, to]) };
  const window = { parent, addEventListener: (_, f) => { hear = f; } };
  const done = [];
  const tell = serveEmbed(window, {
    load: async () => { await new Promise((r) => setTimeout(r, 20)); done.push("load"); },
    step: async () => { done.push("step"); throw new Error("no more words"); },
    visible: (on) => done.push(on), state: () => ({ t: 5 }),
  });
  const say = (m, source = parent) => hear({ source, data: { shellgame: 1, ...m } });
  say({ id: 1, type: "load", choices: {} });
  say({ id: 2, type: "step" });
  say({ id: 3, type: "visible", visible: false });
  say({ id: 4, type: "state" }, {});
  await new Promise((r) => setTimeout(r, 60));
  assert.deepEqual(done, [false, "load", "step"]);
  assert.deepEqual(posted.map(([m]) => m), [
    { shellgame: 1, re: 3, ok: true, state: { t: 5 } }, { shellgame: 1, re: 1, ok: true, state: { t: 5 } }, { shellgame: 1, re: 2, ok: false, error: "no more words" },
  ]);
  tell("ready", { state: {} });
  assert.deepEqual(posted.at(-1), [{ shellgame: 1, event: "ready", state: {} }, "*"]);
  assert.doesNotThrow(() => serveEmbed({ ...window, get parent() { return this; } }, {})("step", {}));
});
