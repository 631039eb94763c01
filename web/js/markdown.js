// Markdown for lessons and model cards: headings, paragraphs, lists, quotes,
// tables, fenced code, and in a line **bold**, *italic*, `code` and [links](to).
// HTML, images and everything else stay text, so that nothing in a file that
// somebody else wrote becomes part of the page.
import { el } from "./dom.js";

// How deep quotes, and marks in a line, may stand in one another; the rest stays text.
const deepest = 8;

// parse returns blocks, each [name, attributes, ...children], where children are
// strings or elements of the same form. It takes time in proportion to the text.
export function parse(text, depth = 0) {
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  const out = [];
  let i = 0;
  const take = (test, change = (l) => l) => {
    const from = i;
    while (i < lines.length && test(lines[i], i - from)) i++;
    return lines.slice(from, i).map(change);
  };
  while (i < lines.length) {
    const line = lines[i];
    let m;
    if (!line.trim()) {
      i++;
    } else if ((m = /^(`{3,})/.exec(line))) {
      i++;
      const body = take((l) => !l.startsWith(m[1]));
      i++;
      out.push(["pre", { tabindex: "0" }, ["code", {}, body.join("\n")]]);
    } else if ((m = /^(#{1,6}) +([^]*)$/.exec(line))) {
      i++;
      let end = m[2].length;
      while (end > 0 && " #".includes(m[2][end - 1])) end--;
      out.push([`h${m[1].length}`, {}, ...inline(m[2].slice(0, end))]);
    } else if (/^> ?/.test(line) && depth < deepest) {
      out.push(["blockquote", {}, ...parse(take((l) => /^>/.test(l), (l) => l.replace(/^> ?/, "")).join("\n"), depth + 1)]);
    } else if (item(line)) {
      out.push(listAt(take((l, k) => k === 0 || item(l) || /^ {2,}\S/.test(l))));
    } else if (line.includes("|") && rule(lines[i + 1] ?? "")) {
      out.push(table(take((l) => l.includes("|"))));
    } else {
      out.push(["p", {}, ...inline(take((l, k) => l.trim() && (k === 0 || !/^(#{1,6} |>|```)/.test(l) && !item(l))).map((l) => l.trim()).join(" "))]);
    }
  }
  return out;
}

// rule is the line below a table's head.
const rule = (line) => /^[ |:-]+$/.test(line) && line.includes("-") && line.includes("|");

const item = (line) => /^(?:[-*+]|(\d{1,9})[.)]) +(\S[^]*|$)/.exec(line);

// listAt is one list; a line that is indented belongs to the item before it.
function listAt(lines) {
  const first = item(lines[0]);
  const items = [];
  for (const l of lines) {
    const m = item(l);
    if (m) items.push(m[2]);
    else items[items.length - 1] += " " + l.trim();
  }
  const attributes = first[1] && first[1] !== "1" ? { start: first[1] } : {};
  return [first[1] ? "ol" : "ul", attributes, ...items.map((t) => ["li", {}, ...inline(t)])];
}

function table(lines) {
  const cells = (l) => l.trim().replace(/^\||\|$/g, "").split("|").map((c) => c.trim());
  const right = cells(lines[1]).map((c) => /^-+:$/.test(c));
  const row = (name, l) => ["tr", {}, ...cells(l).map((c, k) => [c === "" ? "td" : name, right[k] ? { class: "number" } : {}, ...inline(c)])];
  return ["table", {}, ["thead", {}, row("th", lines[0])], ["tbody", {}, ...lines.slice(2).map((l) => row("td", l))]];
}

// marks are what may stand around words in a line, by their first character.
const marks = {
  "\\": { find: /\\([\\`*_[\]()#|>-])/y, node: (m) => m[1] },
  "`": { find: /(`+)(?!`)([^]*?[^`])\1(?!`)/y, node: (m) => ["code", {}, m[2].replace(/^ (?=`)|(?<=`) $/g, "")] },
  "**": { find: /\*\*(?=\S)([^]*?\S)\*\*/y, node: (m, depth) => ["strong", {}, ...inline(m[1], depth)] },
  "*": { find: /\*(?=[^\s*])([^]*?[^\s*])\*(?!\*)/y, node: (m, depth) => ["em", {}, ...inline(m[1], depth)] },
  _: { find: /_(?=[^\s_])([^]*?[^\s_])_(?![A-Za-z0-9])/y, node: (m, depth) => ["em", {}, ...inline(m[1], depth)] },
  "[": { find: /\[([^\]]+)\]\(([^()\s]+)\)/y, node: (m, depth) => (safe(m[2]) ? ["a", link(m[2]), ...inline(m[1], depth)] : null) },
  h: { find: /https?:\/\/[^\s<>()"'`]*[^\s<>()"'`.,;:!?]/y, node: (m) => ["a", link(m[0]), m[0]] },
};

// inline returns the strings and elements of a line.
export function inline(text, depth = 0) {
  const out = [];
  let from = 0; // of what is not yet in out
  let i = 0;
  const missing = new Map(); // by mark: up to where it has no end
  const add = (node) => {
    if (typeof node === "string" && typeof out.at(-1) === "string") out[out.length - 1] += node;
    else if (node !== "") out.push(node);
  };
  // at takes the mark of that name that begins here; end is up to where there is none if not.
  const at = (name, end, key = name) => {
    if (i < (missing.get(key) ?? 0)) return false;
    const { find, node } = marks[name];
    find.lastIndex = i;
    const m = find.exec(text);
    const made = m && node(m, depth + 1);
    if (!made) {
      missing.set(key, end);
      return false;
    }
    add(text.slice(from, i));
    add(made);
    from = i += m[0].length;
    return true;
  };
  const is = (class_, k) => k >= 0 && k < text.length && class_.test(text[k]);
  const all = text.length;
  while (i < all) {
    const c = text[i];
    let length = 1;
    let done = false;
    if (depth >= deepest) {
      i = all;
      break;
    } else if (c === "\\" || c === "h") {
      done = at(c, 0);
    } else if (c === "`") {
      while (text[i + length] === "`") length++;
      done = at(c, all, "`".repeat(length));
    } else if (c === "[" && text[i - 1] !== "!") {
      done = at(c, text.indexOf("]", i) + 1 || all);
    } else if (c === "*" && text[i + 1] === "*") {
      length = 2;
      done = is(/\S/, i + 2) && at("**", all);
    } else if (c === "*") {
      done = is(/[^\s*]/, i + 1) && at(c, all);
    } else if (c === "_" && !is(/[A-Za-z0-9]/, i - 1)) {
      done = is(/[^\s_]/, i + 1) && at(c, all);
    }
    if (!done) i += length;
  }
  add(text.slice(from));
  return out;
}

// safe addresses are those of the web, of places on the page and relative ones.
const safe = (href) => /^https?:\/\//i.test(href) || !/^[^/?#]*:/.test(href) && !href.startsWith("//") && !/[\0-\x20\\]/.test(href);
const link = (href) => (/^https?:/i.test(href) ? { href, rel: "noopener noreferrer", target: "_blank" } : { href });

const build = (node) => (typeof node === "string" ? node : el(node[0], node[1], ...node.slice(2).map(build)));

// render returns the elements of a text.
export const render = (text) => parse(text).map(build);

// renderInline returns what stands in one line.
export const renderInline = (text) => inline(text).map(build);
