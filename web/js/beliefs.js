// What the model believes at the ends of statements, and how that compares with
// the truth. Beliefs come with the steps (docs/trace.md).
import { finished, lines, noAnswer } from "./trace.js";

export const names = ["a", "b", "c", "d", "e"];

// bitsOf is the list of bits that the first t + 1 words of a program say.
export function bitsOf(words, t = words.length - 1) {
  const at = words.findIndex((w) => w.word === "bits=[");
  if (at < 0) return [];
  const bits = [];
  for (let i = at + 1; i <= Math.min(t, words.length - 1) && /^[01],$/.test(words[i].word); i++) bits.push(Number(words[i].word[0]));
  return bits;
}

// used lists the variables of a program.
export function used(words) {
  const seen = new Set();
  for (const { word } of words) {
    if (/^a,b,c,d,e=/.test(word)) return names;
    const m = /^([a-e])=$/.exec(word);
    if (m) seen.add(m[1]);
  }
  return names.filter((n) => seen.has(n));
}

// swapOf is the two variables that a word exchanges, or null.
export function swapOf(word) {
  const m = /^([a-e]),([a-e])=\2,\1$/.exec(word ?? "");
  return m ? [m[1], m[2]] : null;
}

// asked is the variable that a word asks for: {name, bit}, or null.
export function asked(word) {
  const m = /^(?:bits\[([a-e])\]|([a-e]))==$/.exec(word ?? "");
  return m ? { name: m[1] ?? m[2], bit: !!m[1] } : null;
}

// ends lists the words at which statements end, <bos> left out.
export function ends(words) {
  const out = [];
  for (let t = 1; t < words.length; t++) if (words[t].statement !== words[t + 1]?.statement) out.push(t);
  return out;
}

// boundaries lists the words up to t after which a model is asked what it
// believes: ends of finished statements, once there is a variable.
export function boundaries(words, t) {
  const first = words.findIndex((w) => used([w]).length > 0);
  const all = ends(words).filter((i) => first >= 0 && i >= first && i <= t);
  if (all.at(-1) === words.length - 1 && !finished(lines(words).split("\n").at(-1))) all.pop();
  return all;
}

// beliefAt is the last belief at or before t: {t, belief}, or null.
export function beliefAt(steps, t) {
  for (let i = t; i >= 0; i--) if (steps[i]?.belief) return { t: i, belief: steps[i].belief };
  return null;
}

// guesses of a belief as {name, bit, word, p, right}, variables first.
export function guesses(belief) {
  const list = (of, bit) => Object.entries(of ?? {}).map(([name, g]) => ({ name, bit, ...g }));
  return [...list(belief?.vars, false), ...list(belief?.bits, true)];
}

// inShort is a word that a model said where a number was due, in a cell's room.
export const inShort = (word) => (noAnswer(word) ? "\u2013" : word.length > 4 ? "\u2026" : word);

// inWords is the same in a sentence or a table.
export const inWords = (word) => (noAnswer(word) ? "no preference" : word);

// score counts the beliefs up to t: {right, all, wrong: [t of each step with a wrong one]}.
export function score(steps, t) {
  const s = { right: 0, all: 0, wrong: [] };
  for (let i = 0; i <= t; i++) {
    const g = guesses(steps[i]?.belief);
    const right = g.filter((x) => x.right).length;
    s.right += right;
    s.all += g.length;
    if (right < g.length) s.wrong.push(i);
  }
  return s;
}
