// The colour scales, with the stops of stage/colour.go.

const stops = {
  light: {
    signed: [0x08408a, 0x2f7fc8, 0x9cc7ea, 0xf5f5f2, 0xf7c08a, 0xde7a1f, 0x963c00],
    chance: [0xf3f5f2, 0xbfe0d2, 0x67b79c, 0x1b7f66, 0x05392e],
    none: 0xffffff,
  },
  dark: {
    signed: [0x9bd3ff, 0x3f94e0, 0x1f4d7c, 0x20262e, 0x7d4312, 0xdd7d26, 0xffc98f],
    chance: [0x20262e, 0x1d4f48, 0x22856f, 0x5bc4a3, 0xd2fbe8],
    none: 0x161b21,
  },
};

// notANumber marks NaN and infinities; no scale comes near it.
export const notANumber = [0xff, 0x00, 0xd4];

const split = (c) => [c >> 16, (c >> 8) & 255, c & 255];

function ramp(list, u) {
  u = Math.min(Math.max(u, 0), 1) * (list.length - 1);
  const i = Math.min(Math.floor(u), list.length - 2);
  const a = split(list[i]);
  const b = split(list[i + 1]);
  return a.map((v, k) => Math.round(v + (b[k] - v) * (u - i)));
}

const tables = {};
for (const theme of ["light", "dark"]) {
  tables[theme] = { none: split(stops[theme].none) };
  for (const kind of ["signed", "chance"]) {
    tables[theme][kind] = Array.from({ length: 255 }, (_, i) => ramp(stops[theme][kind], i / 254));
  }
}

// color returns [r, g, b] of x on a scale: "signed" from -limit to limit,
// "chance" from 0 to limit, both by the square root of the magnitude.
export function color(theme, kind, x, limit) {
  if (typeof x !== "number" || !Number.isFinite(x)) return notANumber;
  let u = Math.sign(x) * Math.sqrt(Math.abs(x) / limit);
  if (kind === "signed") u = (u + 1) / 2;
  return tables[theme][kind][Math.round(Math.min(Math.max(u, 0), 1) * 254)];
}

export const table = (theme, kind) => tables[theme][kind];
export const nothing = (theme) => tables[theme].none;
export const css = (c) => `rgb(${c[0]} ${c[1]} ${c[2]})`;
export const inkOn = (c) => (299 * c[0] + 587 * c[1] + 114 * c[2] > 128000 ? "#10151b" : "#ffffff");

// reach is how far a scale for the numbers x must go: to the largest magnitude
// where there are few; among many to what 98 of 100 stay below, to an eighth.
export function reach(x) {
  const f = Float32Array.from(x);
  const bits = new Uint32Array(f.buffer);
  const bins = new Uint32Array(2048); // eight to an octave
  let n = 0;
  let most = 0;
  for (let i = 0; i < f.length; i++) {
    const b = bits[i] & 0x7fffffff;
    if (b >= 0x7f800000) continue;
    bins[b >>> 20]++;
    n++;
    most = Math.max(most, Math.abs(f[i]));
  }
  if (f.length <= 128) return most;
  let left = n - Math.floor(n / 50);
  for (let b = 0; b < 2048; b++) {
    left -= bins[b];
    if (left > 0) continue;
    const edge = new Float32Array(Uint32Array.of((b + 1) << 20).buffer)[0];
    return Math.min(Math.max(edge, most / 8), most);
  }
  return most;
}

// niceLimit is the smallest of 1, 2, 5 times a power of ten that is at least x.
export function niceLimit(x) {
  if (!(x > 0) || !Number.isFinite(x)) return 1;
  const e = 10 ** Math.floor(Math.log10(x));
  for (const m of [1, 2, 5, 10]) if (x <= m * e * 1.001) return m * e;
  return 10 * e;
}
