// What somebody else may send the page: lessons, Markdown, links, messages. Each
// target has a check that throws where the page would do what it must not.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { deserialize } from "node:v8";
import { checkChoices, fields, plainAddress, readAddress, readFragment, readQuery, split, writeAddress, writeQuery } from "../js/address.js";
import { readMessage, serveEmbed } from "../js/embed-api.js";
import { parseLesson } from "../js/lesson.js";
import { Link } from "../js/link.js";
import { parse } from "../js/markdown.js";
import { defaults } from "../js/store.js";

const here = new URL("../testdata/fuzz/", import.meta.url);

// corpus is what is kept for a target: [name, input]. Texts are files as they
// are, messages are structured clones.
export function corpus(target) {
  const folder = new URL(`${target.name}/`, here);
  let names = [];
  try {
    names = readdirSync(folder).sort();
  } catch (e) {
    if (e.code !== "ENOENT") throw e;
  }
  return names.map((name) => {
    const data = readFileSync(new URL(name, folder));
    return [name, target.messages ? deserialize(data) : data.toString("utf8")];
  });
}

const line = (text, most = 600) => {
  assert.equal(typeof text, "string");
  assert.ok(text.length > 0 && text.length <= most, `a line of ${text.length} characters, want 1 to ${most}: ${text.slice(0, 100)}`);
  assert.doesNotMatch(text, /[\n\r]/, "want one line");
};

// unpolluted: nothing may hang on to what every object has.
const natives = Object.getOwnPropertyNames(Object.prototype).sort().join();
export function unpolluted() {
  assert.equal(Object.getOwnPropertyNames(Object.prototype).sort().join(), natives, "Object.prototype was changed");
}

const elements = new Set(["p", "pre", "code", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "strong", "em", "a"]);
const attributes = { a: ["href", "rel", "target"], ol: ["start"], pre: ["tabindex"], th: ["class"], td: ["class"] };

// tree checks what Markdown became: text and the elements above, links that lead to
// the web or to places of this site, and no deeper than a browser can lay out.
export function tree(nodes, depth = 0) {
  assert.ok(depth < 100, "elements in more than 100 others");
  for (const node of nodes) {
    if (typeof node === "string") continue;
    const [name, own, ...children] = node;
    assert.ok(elements.has(name), `the element ${name}`);
    for (const [k, v] of Object.entries(own)) {
      assert.ok(attributes[name]?.includes(k) && typeof v === "string", `<${name} ${k}=${v}>`);
      if (k !== "href") continue;
      let url;
      try {
        url = new URL(v, "https://here.invalid/site/");
      } catch {
        continue; // a browser follows no such link
      }
      assert.match(url.protocol, /^https?:$/, `a link to ${v}`);
      if (!/^https?:/i.test(v)) assert.equal(url.host, "here.invalid", `a link to ${v} leaves the site without saying so`);
      else assert.equal(own.rel, "noopener noreferrer");
    }
    tree(children, depth + 1);
  }
}

const choices = (values) => {
  for (const [k, v] of Object.entries(values)) {
    assert.ok(Object.hasOwn(fields, k), `the choice ${k}`);
    assert.doesNotThrow(() => fields[k].check(v, (part) => { throw new Error(`${k}.${part} is left`); }), `${k} is ${JSON.stringify(v)}`);
  }
};

const left = (dropped) => {
  assert.ok(dropped.length < 100, `${dropped.length} things are named`);
  for (const d of dropped) line(d);
};

// page is a page around an embedded one, and the window of the latter.
function embedded() {
  const posted = [];
  const heard = [];
  const parent = { postMessage: (m, to) => { structuredClone(m); posted.push([m, to]); } };
  serveEmbed({ parent, addEventListener: (_, f) => heard.push(f) }, { load: () => {}, step: () => {}, visible: () => {}, state: () => ({}) });
  return { posted, hear: (e) => { for (const f of heard) f(e); }, parent };
}

export const targets = [
  {
    name: "lesson",
    seeds: () => ["by-hand", "chunks", "hybrid", "precision", "recall"].map((n) => readFileSync(new URL(`../lessons/${n}.md`, import.meta.url), "utf8")),
    long: [" ", "\t", "a: b ", "  a\n", "- ", "---page---\n---\n", "a:\n ", "\n", "-", "["],
    words: ["---\n", "---page---\n", "title: ", "predict:\n", "  options:\n    - a\n", "  options: [a, b]\n", "  answer: a\n", "after:\n", "t: end\n", "switches:\n", "  heads: [[0, 1]]\n", "highlight: [panel]\n",
      "__proto__: 1\n", "constructor: 1\n", "explain: |\n", "\t", "\"", "{\"a\":", "[1,", "<img src=x onerror=alert(1)>", "\u2028", "\ufeff", "expect: right\n", "model: javascript:/x\n", "n: 1e309\n", "program: |\n"],
    check(text) {
      let lesson;
      try {
        lesson = parseLesson(text);
      } catch (e) {
        assert.ok(e.constructor === Error, `${e.stack}`);
        assert.match(e.message, /^line \d+: /);
        line(e.message, 1200);
        return;
      }
      for (const p of lesson.pages) {
        choices(p.choices);
        if (p.predict?.then) choices(p.predict.then.choices);
        tree(parse(p.text));
        if (p.predict) tree(parse(p.predict.explain));
      }
    },
  },
  {
    name: "markdown",
    seeds: () => ["# A\n\n- *b* **c** `d`\n- [e](f)\n\n> g\n\n| h | i |\n|---|--:|\n| 1 | 2 |\n\n```\nj\n```\n1. k\n", readFileSync(new URL("../lessons/hybrid.md", import.meta.url), "utf8")],
    long: ["[", "[a](", "[a] ", "*", "**", "*a ", "**a ", "a**", "_", "_a ", "*_ ", "`", "` `` ", "`a``", "> ", ">", "> > a\n", "- ", "- a\n", "1. ", "|", "|-", "-", "# ", "#", " ", "\\", "https://", "http://,", "h", "!", "![", "[[a](b)", "a_", "*a **b ", "|a|\n|-|\n", "\u2028", "- \u2028", "a`b`"],
    words: ["[", "](", ")", "[a](javascript:alert(1))", "[a](JaVaScRiPt:x)", "[a](data:text/html,x)", "[a](//there)", "[a](\\\\there)", "[a](/\\there)", "[a](&#106;avascript:x)", "![a](x)", "<svg onload=alert(1)>", "<script>", "https://a.b/c", "*", "**", "_", "`", "``", "```\n",
      "> ", ">", "\n", "\n\n", "- ", "1. ", "999999999. ", "|", "|-|", "---", "\\", "# ", "\u0000", "\u2028", "[a](\tjavascript:x)", "[a](ja\u0000vascript:x)", "[a](http:\\x)"],
    check: (text) => tree(parse(text)),
  },
  {
    name: "query",
    seeds: () => ["?task=st&model=st-gdn-neg&n=16&seed=3&gen=1&device=cpu&theme=dark&embed=1&stage=no&lesson=recall", "?model=https://there/m&lesson=https://there/l.md", "?model=models/a%2520b/"],
    words: ["&", "=", "%00", "%0a", "%ff", "%25", "model=", "lesson=", "embed=", "embed=constructor", "embed=__proto__", "n=", "1e3", "999999999999999999", "javascript:", "data:,/", "//there", "../", "\u2028", "<img src=x onerror=alert(1)>", "__proto__="],
    check(search) {
      const { values, dropped, noStage } = readQuery(search);
      choices(values);
      left(dropped);
      assert.equal(typeof noStage, "boolean");
      const given = Object.fromEntries(Object.entries(values).filter(([, v]) => v !== "" && v !== false));
      assert.deepEqual(readQuery(writeQuery(search, values)).values, given, "what was read is written and read otherwise");
    },
  },
  {
    name: "fragment",
    seeds: () => [JSON.stringify({ program: "a,b,c,d,e=range(5)\na,c = c,a\nassert a==", draft: "x", t: 3, panel: "maps", layer: 2, head: 1, switches: { beta: "clamp", decay: false, layers: [1], heads: [[0, 2]], store: "f16" }, patches: [{ t: 4, from: "model", model: "st-gdn-pos", layer: 0 }, { t: 1, from: "program", program: "a= 1", at: 2 }], other: "st-gdn-neg", otherSwitches: { gate: false }, show: "diff", page: 1, projector: true, speed: 0, accuracy: { task: "recall", models: ["gdn-neg", "constructed"], sizes: [4, 512], samples: 7, paper: false } })],
    words: ["\"__proto__\":{\"x\":1},", "\"constructor\":{\"prototype\":{\"x\":1}},", "{", "}", "[", "]", ",", "\"", "null", "1e999", "-0", "\"t\":", "\"switches\":", "\"\\u0000\"", "\"heads\":[[0,1,2]],", "{\"a\":".repeat(50), "\"x\":1,", "\"n\":3,", "true"],
    async check(text) {
      for (const hash of [text, `#v=1&j=${encodeURIComponent(text.toWellFormed?.() ?? text)}`, `#v=1&z=${text}`]) {
        const { values, dropped } = await readFragment(hash);
        choices(values);
        left(dropped);
        unpolluted();
        const all = { ...defaults, ...values };
        const location = { pathname: "/", search: "" };
        for (const address of [await writeAddress(location, all), plainAddress(location, all)]) {
          const at = address.indexOf("#");
          const again = await readAddress({ search: address.slice(address.indexOf("?"), at < 0 ? undefined : at), hash: at < 0 ? "" : address.slice(at) });
          const { query, fragment } = split(all);
          if (address.length < 1 << 16) assert.deepEqual(again.dropped, [], `of its own address ${address.slice(0, 200)}`);
          for (const [k, v] of Object.entries(fragment)) if (address.length < 1 << 16) assert.deepEqual(again.values[k], v);
          assert.equal(typeof query, "object");
        }
      }
    },
  },
  {
    name: "message",
    messages: true,
    seeds: () => [{ shellgame: 1, id: 1, type: "load", choices: { task: "sbr", n: 16, t: 3, switches: { beta: "clamp" }, patches: [{ t: 1, from: "zero" }] } }, { shellgame: 1, id: 2, type: "step", count: 1 }, { shellgame: 1, id: 3, type: "step", t: 4 }, { shellgame: 1, id: 4, type: "state" }, { shellgame: 1, id: 5, type: "visible", visible: false }],
    async check(data) {
      const m = readMessage(data);
      if (m instanceof Error) {
        line(m.message);
      } else if (m !== null) {
        const known = { load: ["choices", "id", "type"], step: ["count", "id", "t", "type"], state: ["id", "type"], visible: ["id", "type", "visible"] }[m.type];
        assert.ok(Object.keys(m).every((k) => known.includes(k)), `the request ${JSON.stringify(m)}`);
        if (m.type === "load") choices(m.choices);
      }
      const { posted, hear, parent } = embedded();
      hear({ source: {}, data });
      hear({ source: parent, data });
      await new Promise((r) => setImmediate(r));
      assert.equal(posted.length, m === null ? 0 : 1, "each request has one answer");
      for (const [answer] of posted) {
        assert.equal(answer.ok, !(m instanceof Error));
        if (!answer.ok) line(answer.error);
      }
      unpolluted();
    },
  },
  {
    name: "choices",
    messages: true,
    seeds: () => [{ task: "st", model: "st-gdn-neg", n: 4, seed: 1, program: "a= 1", t: null, switches: { heads: [[0, 1]], layers: [0] }, patches: [{ t: 0, from: "program", program: "x", at: 1, layer: 1, head: 2 }], page: 1, show: "b" }],
    check(raw) {
      if (raw === null || typeof raw !== "object") return;
      const { values, dropped } = checkChoices(raw);
      choices(values);
      left(dropped);
      unpolluted();
    },
  },
  {
    name: "stage",
    messages: true,
    seeds: () => [{ sg: 1, re: 1, ok: true, step: null }, { sg: 1, re: 1, ok: false, error: "no", line: 1, col: 2 }, { sg: 1, event: "progress", what: "engine", done: 1, total: 2 }],
    async check(data) {
      let hear;
      const frame = { postMessage() {} };
      const link = new Link({ origin: "https://here", addEventListener: (_, f) => { hear = f; }, removeEventListener() {} }, () => frame);
      let settled = 0;
      link.request("state").then(() => settled++, (e) => { settled++; assert.ok(e instanceof Error); });
      hear({ origin: "https://there", source: frame, data });
      hear({ origin: "https://here", source: {}, data });
      await null;
      assert.equal(settled, 0, "a message from elsewhere is an answer");
      hear({ origin: "https://here", source: frame, data });
      await new Promise((r) => setImmediate(r));
      if (data?.sg === 1 && typeof data.event !== "string" && data.re === 1) assert.equal(settled, 1, "an answer that settles nothing");
      link.close();
      unpolluted();
    },
  },
];

// lengths are what takes long where something is done again for every character: a
// word as often as it fits into the longest text.
export const lengths = (target) => (target.long ?? []).flatMap((word) => ["", "x", "\n"].map((end) => [`${JSON.stringify(word)} many times`, frame(target, word.repeat(Math.floor(65000 / word.length)) + end)]));

const frame = (target, text) => (target.name === "lesson" ? `---\ntitle: T\nsummary: ${text}\n---\n---page---\ntitle: |\n  ${text}\n---\n${text}\n` : text);

// run checks one input, which must not take long: slow is CPU time in seconds.
export async function run(target, input, slow = 1) {
  const before = process.cpuUsage();
  await target.check(input);
  const took = process.cpuUsage(before).user / 1e6;
  if (took > slow) throw new Error(`it took ${took.toFixed(1)} s`);
}
