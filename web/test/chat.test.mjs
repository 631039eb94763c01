// Chat templates in the page: node --test web/test/
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { chatTemplate } from "../js/chat.js";

const { conversations, templates } = JSON.parse(readFileSync(new URL("../../testdata/chat.json", import.meta.url)));
const config = (chat_template) => JSON.stringify({ chat_template, bos_token: "<bos>", eos_token: { content: "<eos>" } });

test("templates give what Python's Jinja gives", async () => {
  assert.ok(templates.length >= 4);
  for (const { name, template, prompts } of templates) {
    const source = template.join("\n");
    for (const t of [await chatTemplate(config(source), null), await chatTemplate(config("another"), source),
      await chatTemplate(config([{ name: "tool_use", template: "{% x" }, { name: "default", template: source }]), null)]) {
      assert.equal(t.eos, "<eos>");
      conversations.forEach((m, i) => assert.equal(t.render(m), prompts[i], name));
    }
  }
});

test("range", async () => {
  const t = await chatTemplate(null, "{% for i in range(3) %}{{ i }}{% endfor %}|{% for i in range(2, 9, 3) %}{{ i }}{% endfor %}|{% for i in range(3, 0, -1) %}{{ i }}{% endfor %}|{{ strftime_now is defined }}");
  assert.equal(t.render(conversations[0]), "012|258|321|false");
});

test("no template is none", async () => {
  for (const c of [null, "{}", '{"chat_template": null}']) assert.equal(await chatTemplate(c, null), null);
});

test("what cannot be run is named", async () => {
  for (const [template, want] of [
    ["{% for i in range(1000000000) %}{% endfor %}", /^chat template: not supported: range: got 1000000000 numbers, /],
    ["{{ messages | nonsense }}", /^chat template: not supported: .*nonsense/],
    ["{{ nonsense(1) }}", /^chat template: not supported: /],
    ["{% for m in messages %}", /^chat template: not supported: /],
    ["{% include '/etc/passwd' %}", /^chat template: not supported: .*include/],
    [{ a: 1 }, /^chat template: got {"a":1}, want a text, or a list of names and templates$/],
    [[{ name: "rag", template: "x" }], /^chat template: got the templates rag, want one called default: not supported$/],
  ]) {
    await assert.rejects(chatTemplate(config(template), null), (e) => want.test(e.message) && !e.message.includes("\n") || assert.fail(`${JSON.stringify(template)}: ${e.message}`));
  }
  await assert.rejects(chatTemplate("<html>", null), /^Error: chat template: tokenizer_config.json: /);
  const turns = await chatTemplate(config(templates.find((t) => t.name === "turns").template.join("\n")), null);
  assert.throws(() => turns.render([{ role: "assistant", content: "x" }]), /^Error: chat template: roles must take turns$/);
});
