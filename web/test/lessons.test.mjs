// Lessons as files, and the Markdown in them.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import test from "node:test";
import { parseLesson, places, readSettings } from "../js/lesson.js";
import { accuracies, addressOf, readLesson } from "../js/lessons.js";
import { inline, parse } from "../js/markdown.js";

const file = (f) => readFileSync(new URL(`../lessons/${f}`, import.meta.url), "utf8");

test("the shipped lessons and their list", () => {
  const index = JSON.parse(file("index.json"));
  assert.deepEqual(index.map((l) => `${l.name}.md`).sort(), readdirSync(new URL("../lessons/", import.meta.url)).filter((f) => f.endsWith(".md")).sort());
  for (const { name, title, summary, pages } of index) {
    const l = parseLesson(file(`${name}.md`));
    assert.deepEqual({ title: l.title, summary: l.summary, pages: l.pages.length }, { title, summary, pages });
    assert.ok(l.pages.some((p) => p.predict), `${name} asks for no prediction`);
    for (const p of l.pages) {
      assert.doesNotMatch(JSON.stringify(parse(p.text)), /<[a-z]|\*\*/, `${name}, ${p.title}`);
      for (const [, place] of p.text.matchAll(/\]\(#([^)]*)\)/g)) assert.ok(Object.hasOwn(places, place), `${name}, ${p.title}: #${place}`);
    }
  }
});

const lesson = (page, head = "title: T") => `---\n${head}\n---\n---page---\n${page}\n---\nText\n`;

test("a lesson's pages: what is not said comes from the lesson", () => {
  const l = parseLesson(`---
title: "A \\"lesson\\""
summary: Two pages
task: st
model: st-gdn-neg
n: 16
---

---page---
title: One   # not a comment
# a comment
t: end
panel: maps
layer: 2
switches:
  beta: clamp
  heads: [[0, 1]]
highlight: [panel, answer]
predict:
  question: Right?
  options:
    - yes
    - no
  answer: yes
  explain: |
    Because.

      - indented
after:
  t: 3
expect: right
---
First *text*
---page---
title: Two
program: |
  a,b,c,d,e=range(5)
  assert a==
t: start
---
`);
  assert.equal(l.title, 'A "lesson"');
  assert.deepEqual(l.pages[0], {
    title: "One   # not a comment", text: "First *text*", live: "", expect: "right", expectOther: undefined,
    predict: { question: "Right?", options: ["yes", "no"], answer: "yes", explain: "Because.\n\n  - indented", then: { choices: { t: 3 }, end: false, highlight: [] } },
    choices: { task: "st", model: "st-gdn-neg", n: 16, t: null, panel: "maps", layer: 2, switches: { beta: "clamp", heads: [[0, 1]] } }, end: true, highlight: ["panel", "answer"],
  });
  assert.deepEqual(l.pages[1].choices, { task: "st", model: "st-gdn-neg", n: 16, program: "a,b,c,d,e=range(5)\nassert a==", t: -1 });
  assert.deepEqual(l.pages[1].predict, null);
});

test("an error is one line with the number of the line", () => {
  for (const [text, message] of [
    ["Hello", "line 1: want a line --- and the lesson's settings"],
    ["---\ntitle: T\n", "line 2: these settings do not end: want a line ---"],
    ["---\ntitle: T\n---\n", "line 4: want a line ---page--- before each page"],
    ["---\ntitle: T\n---\nhello\n---page---\ntitle: A\n---\n", "line 4: want a line ---page--- before this text"],
    ["---\nsummary: T\n---\n---page---\ntitle: A\n---\n", "line 1: want title"],
    [lesson("t: 1"), "line 5: want title"],
    [lesson("title: A\ntitle: B"), "line 6: title is there twice"],
    [lesson("title: A\ncolour: red"), "line 6: there is no setting colour here, want of "],
    [lesson("title: A\nn 5"), 'line 6: got "n 5", want key: value'],
    [lesson("title: A\nn: lots"), "line 6: n=lots (want a whole number from 1 to 512)"],
    [lesson("title: A\ntask: sbr\nn: 200"), "line 7: n=200 (want at most 128 for this task)"],
    [lesson("title: A\nswitches:\n  beta: up"), "line 6: switches.beta=up (want sigmoid or clamp)"],
    [lesson("title: A\nswitches:\n\tbeta: up"), "line 7: indent with spaces, not with tabs"],
    [lesson("title: A\nhighlight: [moon]"), "line 6: highlight: got moon, want of "],
    [lesson("title: A\nhighlight: panel"), "line 6: highlight: want a list"],
    [lesson("title: A\nlive: bench"), "line 6: live: got bench, want check"],
    [lesson("title: A\npredict: yes"), "line 6: predict: want settings, indented below it"],
    [lesson("title: A\npredict:\n  question: Q\n  options: [a, b]\n  answer: c"), "line 9: answer: got c, want one of the options a, b"],
    [lesson("title: A\npredict:\n  question: Q\n  options: [a]\n  answer: a"), "line 8: options: got 1, want 2 to 8"],
    [lesson("title: A\nafter:\n  t: 1"), "line 6: after: want predict, which it comes after"],
    [lesson('title: "A'), 'line 5: "A cannot be read'],
    [lesson("title: A\nexpect:"), "line 6: expect: want a value"],
  ]) {
    assert.throws(() => parseLesson(text), (e) => e.message.startsWith(message) && !e.message.includes("\n") && e.message.length < 400, text + "\n" + message);
  }
});

test("settings: whatever lines there are, an answer or an error with a line", () => {
  let seed = 99;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  const bits = ["a: 1", "b:", "  - x", "  c: [1, 2]", "  d: |", "    text", "", "# no", "e: |", "  long", "f: {\"a\": [", "\tg: 1", "---", ": x", "h: \"q\"", "a: 2", "    - deep: 1"];
  for (let i = 0; i < 5000; i++) {
    const lines = Array.from({ length: random(8) }, () => bits[random(bits.length)]);
    try {
      readSettings(lines, 1);
    } catch (e) {
      assert.match(e.message, /^line \d+: [^\n]+$/, lines.join("\n"));
    }
  }
});

test("measured shares stand in for themselves", () => {
  const zoo = [{ name: "st-gdn-neg", accuracy: [{ n: 8, accuracy: 1 }, { n: 64, accuracy: 0.9990234 }, { n: 16, accuracy: 0.99951 }] }];
  assert.equal(accuracies("{accuracy st-gdn-neg 8}, {accuracy st-gdn-neg 64}, {accuracy st-gdn-neg 16}, {accuracy st-gdn-neg 9}", zoo), "100%, 99.9%, >99.9%, {accuracy st-gdn-neg 9}");
});

test("where a lesson is, and how much of it is read", async () => {
  assert.equal(addressOf("by-hand", "https://here/sub/?x"), new URL("../lessons/by-hand.md", import.meta.url).href);
  assert.equal(addressOf("https://there/l.md?raw=1", "https://here/"), "https://there/l.md?raw=1");
  assert.equal(addressOf("./mine.md", "https://here/sub/"), "https://here/sub/mine.md");
  assert.equal((await readLesson("x", async () => new Response(lesson("title: \u00e9")))).pages[0].title, "\u00e9");
  await assert.rejects(readLesson("x", async () => new Response("", { status: 404 })), /the server answered 404/);
  await assert.rejects(readLesson("x", async () => new Response(" ".repeat(1 << 19))), /more than 262144 characters/);
});

test("Markdown: what lessons and cards use", () => {
  assert.deepEqual(parse("# A *b*\n\nOne\ntwo **three** `x*y`\n\n- a\n  more\n- b\n\n1. c\n\n> q\n\n```\n<b>\n```\n\n| n | p |\n|--|--:|\n| 1 | `2` |"), [
    ["h1", {}, "A ", ["em", {}, "b"]],
    ["p", {}, "One two ", ["strong", {}, "three"], " ", ["code", {}, "x*y"]],
    ["ul", {}, ["li", {}, "a more"], ["li", {}, "b"]],
    ["ol", {}, ["li", {}, "c"]],
    ["blockquote", {}, ["p", {}, "q"]],
    ["pre", { tabindex: "0" }, ["code", {}, "<b>"]],
    ["table", {}, ["thead", {}, ["tr", {}, ["th", {}, "n"], ["th", { class: "number" }, "p"]]], ["tbody", {}, ["tr", {}, ["td", {}, "1"], ["td", { class: "number" }, ["code", {}, "2"]]]]],
  ]);
  assert.deepEqual(inline("snake_case_name and 2 * 3 * 4 and \\*x\\*"), ["snake_case_name and 2 * 3 * 4 and *x*"]);
  assert.deepEqual(inline("[a](#panel) [b](https://x/y)"), [["a", { href: "#panel" }, "a"], " ", ["a", { href: "https://x/y", rel: "noopener noreferrer", target: "_blank" }, "b"]]);
});

test("Markdown: what could harm stays text", () => {
  const tags = new Set(["p", "em", "strong", "code", "a", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "table", "thead", "tbody", "tr", "th", "td"]);
  const walk = (n) => {
    if (typeof n === "string") return;
    const [tag, attributes, ...children] = n;
    assert.ok(tags.has(tag), tag);
    for (const [k, v] of Object.entries(attributes)) {
      assert.ok(["href", "rel", "target", "class", "start", "tabindex"].includes(k), k);
      if (k === "href") assert.doesNotMatch(v, /^\s*(javascript|data|vbscript|file|blob):/i);
    }
    children.forEach(walk);
  };
  for (const text of [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[x](javascript:alert(1))", "[x](JaVaScRiPt:alert)", "[x](data:text/html,x)", "[x](java\u0001script:x)", "[x](\\\\evil)", "[x](//evil)",
    "![x](https://evil/pixel.png)", "`` ` ``", "**", "*", "[", "[]()", "| |\n|-|", "```", "> > > x", "-", "1.", "<a href='x'>", "https://x/<b>", "&lt;b&gt;", "[x](https://a/'onclick='x)", "__proto__",
  ]) {
    const tree = parse(text);
    tree.forEach(walk);
    const flat = JSON.stringify(tree);
    if (/javascript|data:|evil"|\/\/evil/i.test(text) && !text.startsWith("!")) assert.doesNotMatch(flat, /"href"/, text);
  }
  assert.doesNotMatch(JSON.stringify(parse("![x](https://evil/pixel.png)")), /"img"/);
  parse("*".repeat(3000));
  parse("[".repeat(3000));
  parse("> ".repeat(500) + "x");
});
