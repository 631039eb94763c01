// Elements in a line of code.
import { asset } from "./asset.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(e, attributes, children) {
  for (const [k, v] of Object.entries(attributes)) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v !== undefined && v !== null && v !== false) e.setAttribute(k, v === true ? "" : v);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}

// el makes an element of HTML: el("p", {class: "x", onclick: f}, "text", child).
export const el = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);

// svg makes an element of SVG in the same way.
export const svg = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

// style adds a stylesheet of the build and resolves once it is there, or failed.
export const style = (file) => new Promise((done) => {
  document.head.append(el("link", { rel: "stylesheet", href: asset(file), onload: done, onerror: done }));
});
