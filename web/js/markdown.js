// Markdown for lessons and model cards: headings, paragraphs, lists, quotes,
// tables, fenced code, and in a line **bold**, *italic*, `code` and [links](to).
// HTML, images and everything else stay text, so that nothing in a file that
// somebody else wrote becomes part of the page.
import { el } from "./dom.js";

// parse returns blocks, each [name, attributes, ...children], where children are
// strings or elements of the same form.
export function parse(text) {
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
    } else if ((m = /^(#{1,6}) +(.*?)[ #]*$/.exec(line))) {
      i++;
      out.push([`h${m[1].length}`, {}, ...inline(m[2])]);
    } else if (/^> ?/.test(line)) {
      out.push(["blockquote", {}, ...parse(take((l) => /^>/.test(l), (l) => l.replace(/^> ?/, "")).join("\n"))]);
    } else if (item(line)) {
      out.push(listAt(take((l, k) => k === 0 || item(l) || /^ {2,}\S/.test(l))));
    } else if (line.includes("|") && /^[ |:-]*-[ |:-]*$/.test(lines[i + 1] ?? "") && lines[i + 1].includes("|")) {
      out.push(table(take((l) => l.includes("|"))));
    } else {
      out.push(["p", {}, ...inline(take((l, k) => l.trim() && (k === 0 || !/^(#{1,6} |>|```)/.test(l) && !item(l))).map((l) => l.trim()).join(" "))]);
    }
  }
  return out;
}

const item = (line) => /^(?:[-*+]|(\d{1,9})[.)]) +(.*)$/.exec(line);

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
  const row = (name, l) => ["tr", {}, ...cells(l).map((c, k) => [name, right[k] ? { class: "number" } : {}, ...inline(c)])];
  return ["table", {}, ["thead", {}, row("th", lines[0])], ["tbody", {}, ...lines.slice(2).map((l) => row("td", l))]];
}

// inline returns the strings and elements of a line.
export function inline(text) {
  const out = [];
  let plain = "";
  const put = (node) => {
    if (plain) out.push(plain);
    plain = "";
    if (node) out.push(node);
  };
  for (let i = 0; i < text.length;) {
    const rest = text.slice(i);
    let m;
    if ((m = /^\\([\\`*_[\]()#|>-])/.exec(rest))) plain += m[1];
    else if ((m = /^(`+)(.*?[^`])\1(?!`)/.exec(rest))) put(["code", {}, m[2].replace(/^ (?=`)|(?<=`) $/g, "")]);
    else if ((m = /^\*\*(?=\S)(.*?\S)\*\*/.exec(rest))) put(["strong", {}, ...inline(m[1])]);
    else if ((m = /^\*(?=[^\s*])(.*?[^\s*])\*(?!\*)/.exec(rest) ?? /^_(?=[^\s_])(.*?[^\s_])_(?![A-Za-z0-9])/.exec(/[A-Za-z0-9]$/.test(plain) ? "" : rest))) put(["em", {}, ...inline(m[1])]);
    else if ((m = /^(?<!!)\[([^\]]+)\]\(([^()\s]+)\)/.exec(rest)) && !plain.endsWith("!") && safe(m[2])) put(["a", link(m[2]), ...inline(m[1])]);
    else if ((m = /^https?:\/\/[^\s<>()"'`]*[^\s<>()"'`.,;:!?]/.exec(rest))) put(["a", link(m[0]), m[0]]);
    else {
      m = [text[i]];
      plain += text[i];
    }
    i += m[0].length;
  }
  put(null);
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
