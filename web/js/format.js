// Numbers for people.

// number prints like the stage: three decimals, or three digits where that says nothing.
export function number(x) {
  if (typeof x !== "number" || Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "+Inf" : "-Inf";
  const a = Math.abs(x);
  if (a === 0) return "0";
  if (a < 0.0005 || a >= 10000) return x.toExponential(1);
  return String(Number(x.toFixed(a >= 100 ? 1 : 3)));
}

// short has two decimals and a true minus sign.
export function short(x) {
  if (typeof x !== "number" || !Number.isFinite(x)) return number(x);
  const s = x.toFixed(2);
  return (s === "-0.00" ? "0.00" : s).replace("-", "\u2212");
}

export function percent(p) {
  const f = p * 100;
  if (Number.isNaN(f)) return "NaN";
  if (f > 0 && f < 0.1) return "<0.1%";
  if (f > 99.9 && f < 100) return ">99.9%";
  return f.toFixed(1) + "%";
}

export function bytes(n) {
  if (n < 1e3) return `${n} B`;
  if (n < 1e6) return `${(n / 1e3).toFixed(0)} kB`;
  if (n < 1e9) return `${(n / 1e6).toFixed(1)} MB`;
  return `${(n / 1e9).toFixed(2)} GB`;
}

// stop ends a sentence with one full stop: what it quotes may have one already.
export const stop = (text) => `${text.replace(/[.\s]+$/, "")}.`;

// progress says how far a download is.
export const progress = (what, done, total) =>
  total > 0 ? `${what}: ${bytes(done)} of ${bytes(total)}` : `${what}: ${bytes(done)}`;
