// The page's side of the tokenizer's worker.
import assert from "node:assert/strict";
import test from "node:test";
import { Tokens } from "../js/tokens.js";

test("a chat template that does not end is ended", async () => {
  let ended = 0;
  const asked = [];
  globalThis.Worker = class {
    postMessage(m) {
      asked.push(m.type);
      if (m.type === "chat") setTimeout(() => this.onmessage({ data: { id: m.id, chat: true, eos: 7 } }));
    }
    terminate() { ended++; }
  };
  const was = Tokens.patience;
  Tokens.patience = 30;
  try {
    const t = new Tokens(() => {});
    assert.deepEqual(await t.chat("{}", null), { chat: true, eos: 7 });
    const beside = assert.rejects(t.encode("x"), /^Error: the chat template ran for 0.03 s without an end/);
    await assert.rejects(t.conversation([]), /^Error: the chat template ran for 0.03 s without an end/);
    await beside;
    assert.equal(ended, 1);
    await assert.rejects(t.decode([1]), /without an end/);
    assert.deepEqual(asked, ["chat", "encode", "conversation"]);
  } finally {
    Tokens.patience = was;
    delete globalThis.Worker;
  }
});
