// Drawings and numbers as files: SVG, PNG and CSV.
import { el } from "./dom.js";

// save offers a Blob as a file.
export function save(blob, name) {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(blob);
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}

// csv writes {columns, rows} as RFC 4180 says.
export function csv({ columns, rows }) {
  const cell = (x) => {
    const s = x === null || x === undefined ? "" : String(x);
    return /[",\r\n]/.test(s) ? `"${s.replaceAll('"', '""')}"` : s;
  };
  return [columns, ...rows].map((r) => r.map(cell).join(",")).join("\r\n") + "\r\n";
}

export const saveCSV = (table, name) => save(new Blob([csv(table)], { type: "text/csv;charset=utf-8" }), `${name}.csv`);

// standalone is an SVG element as a document of its own, with the looks that it
// has on the page as attributes: a strict policy refuses styles.
export function standalone(svg) {
  const copy = svg.cloneNode(true);
  const from = [svg, ...svg.querySelectorAll("*")];
  const to = [copy, ...copy.querySelectorAll("*")];
  const kept = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "fill-opacity", "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "image-rendering", "paint-order", "visibility", "display"];
  from.forEach((e, i) => {
    if (!e.isConnected) return;
    const s = getComputedStyle(e);
    for (const k of kept) to[i].setAttribute(k, s.getPropertyValue(k));
    to[i].removeAttribute("class");
  });
  const margin = 14;
  const box = svg.viewBox.baseVal;
  const x = (box?.x ?? 0) - margin;
  const y = (box?.y ?? 0) - margin;
  const width = (box?.width || svg.clientWidth) + 2 * margin;
  const height = (box?.height || svg.clientHeight) + 2 * margin;
  const back = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  const set = (e, attributes) => { for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v); };
  set(copy, { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `${x} ${y} ${width} ${height}` });
  set(back, { x, y, width, height, fill: getComputedStyle(document.documentElement).getPropertyValue("--panel").trim() || "#ffffff" });
  copy.prepend(back);
  return { text: new XMLSerializer().serializeToString(copy), width, height };
}

export const saveSVG = (svg, name) => save(new Blob([standalone(svg).text], { type: "image/svg+xml" }), `${name}.svg`);

// png draws an SVG element at scale pixels a point.
export async function png(svg, scale = 2) {
  const { text, width, height } = standalone(svg);
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(width * scale);
  canvas.height = Math.ceil(height * scale);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => canvas.toBlob((b) => (b ? resolve(b) : reject(new Error("the browser made no picture"))), "image/png"));
}

export const savePNG = async (svg, name) => save(await png(svg), `${name}.png`);

const mostRows = 2000; // in the page; a file has all

// tableElement shows {caption, columns, rows} as a table.
export const tableElement = ({ caption, columns, rows }) => el("table", { class: "data" },
  el("caption", {}, rows.length > mostRows ? `${caption} (the first ${mostRows} of ${rows.length} rows; the CSV has all)` : caption),
  el("thead", {}, el("tr", {}, ...columns.map((c) => (c === "" ? el("td") : el("th", { scope: "col" }, String(c)))))),
  el("tbody", {}, ...rows.slice(0, mostRows).map((r) => el("tr", {}, ...r.map((x, i) => (i === 0 && String(x ?? "") !== "" ? el("th", { scope: "row" }, String(x)) : el("td", {}, String(x ?? ""))))))));
