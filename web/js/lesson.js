// The file of a lesson, as docs/lessons.md describes it. parseLesson throws an
// Error of one line that names the line at fault.
import { checkChoices } from "./address.js";

export const longest = 1 << 18; // characters of a file
const longestPage = 1 << 16;
const mostPages = 100;

// places are what a page may point at, and where on the page that is.
export const places = {
  answer: "#answer", timeline: "#timeline", playback: ".transport", picture: "#picture", panel: "#panels", views: "#panels .tabs",
  device: "#device", setup: "#setup", task: "#tasks", model: "#model", size: "#n", seed: "#seed", program: "#program", changes: "#changes",
};

const choices = ["task", "model", "other", "program", "n", "seed", "t", "panel", "layer", "head", "switches", "otherSwitches", "patches", "show"];
const known = {
  lesson: ["title", "summary", ...choices],
  page: ["title", "highlight", "predict", "after", "live", "expect", "expectOther", ...choices],
  predict: ["question", "options", "answer", "explain"],
  after: ["t", "panel", "layer", "head", "switches", "otherSwitches", "patches", "show", "highlight"],
};

// parseLesson returns {title, summary, pages: [{title, text, choices, end,
// highlight, predict, live, expect, expectOther}]}. choices are what the page
// sets of the store, end says that it stands at the question; predict is null
// or {question, options, answer, explain, then}, and then, {choices, end,
// highlight}, is for after the reader's guess.
export function parseLesson(source) {
  if (source.length > longest) fail(1, `the file has ${source.length} characters, want at most ${longest}`);
  const lines = source.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n").split("\n");
  if (lines[0].trim() !== "---") fail(1, "want a line --- and the lesson's settings");
  let at = 1;
  const until = (mark, otherwise) => {
    const from = at;
    while (at < lines.length && lines[at].trim() !== mark) at++;
    if (at === lines.length && otherwise) fail(from + 1, otherwise);
    return { from, lines: lines.slice(from, at++) };
  };
  const front = () => {
    const part = until("---", "these settings do not end: want a line ---");
    return readSettings(part.lines, part.from + 1);
  };
  const head = front();
  only(head, "lesson");
  const title = string(head, "title", true);
  const summary = string(head, "summary") ?? "";
  const between = until("---page---", "want a line ---page--- before each page");
  if (between.lines.some((l) => l.trim())) fail(between.from + 1, "want a line ---page--- before this text");
  const pages = [];
  while (at <= lines.length) {
    const line = at + 1;
    const own = front();
    const text = until("---page---").lines.join("\n").trim();
    if (text.length > longestPage) fail(line, `this page has ${text.length} characters, want at most ${longestPage}`);
    if (pages.length === mostPages) fail(line, `want at most ${mostPages} pages`);
    pages.push(page(head, own, text, line));
    if (at > lines.length) break;
  }
  return { title, summary, pages };
}

function fail(line, what) { throw new Error(`line ${line}: ${what}`); }

function page(head, own, text, line) {
  only(own, "page");
  const expect = string(own, "expect");
  const expectOther = string(own, "expectOther");
  const live = string(own, "live") ?? "";
  if (!["", "check"].includes(live)) fail(own.live.line, `live: got ${live}, want check`);
  let predict = null;
  if (own.predict) {
    const p = map(own.predict, "predict");
    only(p, "predict");
    const options = list(p.options ?? fail(own.predict.line, "predict: want options"), "options").map(String);
    const answer = string(p, "answer", true, own.predict.line);
    if (options.length < 2 || options.length > 8) fail(p.options.line, `options: got ${options.length}, want 2 to 8`);
    if (!options.includes(answer)) fail(p.answer.line, `answer: got ${answer}, want one of the options ${options.join(", ")}`);
    const after = own.after ? map(own.after, "after") : {};
    only(after, "after");
    predict = {
      question: string(p, "question", true, own.predict.line), options, answer, explain: string(p, "explain") ?? "",
      then: own.after ? settings([after]) : null,
    };
  } else if (own.after) {
    fail(own.after.line, "after: want predict, which it comes after");
  }
  return { title: string(own, "title", true, line), text, predict, live, expect, expectOther, ...settings([head, own]) };
}

// settings are the choices that maps name, a later one before an earlier one.
function settings(maps) {
  const raw = {};
  let end = false;
  let highlight = [];
  let line = 1;
  for (const m of maps) {
    for (const [k, { value, line: at }] of Object.entries(m)) {
      if (k === "highlight") {
        highlight = list(m[k], k).map((name) => (Object.hasOwn(places, name) ? name : fail(at, `highlight: got ${name}, want of ${Object.keys(places).join(", ")}`)));
      }
      if (!choices.includes(k)) continue;
      if (k === "t" && ["start", "end"].includes(value)) {
        end = value === "end";
        raw.t = end ? null : -1;
        continue;
      }
      if (k === "t") end = false;
      const plain = { [k]: (k === "model" || k === "other" || k === "program" || k === "panel") && value !== null ? String(value) : strip(value) };
      const { values, dropped } = checkChoices({ task: raw.task ?? "st", ...plain });
      if (dropped.length) fail(at, dropped[0]);
      raw[k] = values[k];
      line = at;
    }
  }
  const { values, dropped } = checkChoices(raw);
  if (dropped.length) fail(line, dropped[0]);
  return { choices: values, end, highlight };
}

function only(m, kind) {
  for (const [k, { line }] of Object.entries(m)) if (!known[kind].includes(k)) fail(line, `there is no setting ${k} here, want of ${known[kind].join(", ")}`);
}

function string(m, key, needed = false, line = 1) {
  if (!m[key]) return needed ? fail(line, `want ${key}`) : undefined;
  const { value, line: at } = m[key];
  return typeof value === "object" ? fail(at, `${key}: want text`) : String(value);
}

const list = ({ value, line }, key) => (Array.isArray(value) ? value.map((v) => (typeof v === "object" ? fail(line, `${key}: want words`) : v)) : fail(line, `${key}: want a list`));
const map = ({ value, line }, key) => (value !== null && typeof value === "object" && !Array.isArray(value) ? value : fail(line, `${key}: want settings, indented below it`));

// strip is a value without its lines.
const strip = (value) => (value === null || typeof value !== "object" ? value : Array.isArray(value) ? value.map(strip) : Object.fromEntries(Object.entries(value).map(([k, v]) => [k, v !== null && typeof v === "object" && "line" in v ? strip(v.value) : strip(v)])));

// readSettings reads the part of YAML that docs/lessons.md names, as
// {key: {value, line}}: text, numbers, true and false, lists in brackets or
// with dashes, settings and texts (after |) indented below their key.
export function readSettings(lines, first) {
  const out = {};
  let i = 0;
  const indented = () => {
    const from = i;
    while (i < lines.length && (/^\s+\S/.test(lines[i]) || !lines[i].trim())) i++;
    const block = lines.slice(from, i);
    while (block.length && !block.at(-1).trim()) block.pop();
    const depth = block.reduce((least, l) => (l.trim() ? Math.min(least, /^ */.exec(l)[0].length) : least), Infinity);
    if (block.some((l) => /^ *\t/.test(l))) fail(first + from, "indent with spaces, not with tabs");
    return { block: block.map((l) => l.slice(depth)), line: first + from };
  };
  while (i < lines.length) {
    const line = first + i;
    const text = lines[i++];
    if (!text.trim() || text.trim().startsWith("#")) continue;
    const m = /^([A-Za-z]+):(\s[^]*)?$/.exec(text.trimEnd());
    if (!m) fail(line, `got ${JSON.stringify(text.trim().slice(0, 40))}, want key: value`);
    const key = m[1];
    const inline = m[2]?.trim() ?? "";
    if (Object.hasOwn(out, key)) fail(line, `${key} is there twice`);
    if (inline === "|") {
      out[key] = { value: indented().block.join("\n"), line };
    } else if (inline && !inline.startsWith("#")) {
      out[key] = { value: scalar(inline, line), line };
    } else {
      const { block, line: at } = indented();
      if (block.length === 0) fail(line, `${key}: want a value`);
      const items = block[0].startsWith("- ");
      out[key] = { value: items ? block.map((l, k) => (l.startsWith("- ") ? scalar(l.slice(2).trim(), at + k) : fail(at + k, "want - and an item"))) : readSettings(block, at), line };
    }
  }
  return out;
}

function scalar(text, line) {
  if (/^(true|false|null|-?(0|[1-9]\d{0,14})(\.\d+)?)$/.test(text)) return JSON.parse(text);
  if (!/^["[{]/.test(text)) return text;
  try {
    return JSON.parse(text);
  } catch {
    const words = /^\[([^[\]{}"]*)\]$/.exec(text);
    if (words) return words[1].split(",").map((w) => scalar(w.trim(), line));
    return fail(line, `${text.slice(0, 40)} cannot be read: want text in "quotes", or a list in [brackets]`);
  }
}
