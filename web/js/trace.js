// Reading traces, and what a step says in words. The format is the one that
// `shellgame trace` prints.

// readTrace checks what the views rely on and returns the trace.
export function readTrace(t) {
  const fail = (what) => { throw new Error(`trace: ${what}`); };
  if (t === null || typeof t !== "object") fail("got no object");
  if (t.version !== 1) fail(`got version ${t.version}, want 1`);
  if (!Array.isArray(t.steps) || t.steps.length === 0) fail("got no steps");
  if (!Array.isArray(t.model?.layers)) fail("got no model.layers");
  t.steps.forEach((s, i) => {
    if (s.t !== i) fail(`step ${i}: got t = ${s.t}, want ${i}`);
    if (typeof s.word !== "string") fail(`step ${i}: got no word`);
  });
  return t;
}

// wordsOf returns the program's words as {word, statement} of a trace's steps.
// A trace has no statements, so they are told apart by their words.
export const wordsOf = (steps) => markStatements(steps.map((s) => ({ word: s.word })));

// markStatements numbers the statements of a list of {word}; words that have a
// number keep it.
export function markStatements(words) {
  let n = -1;
  let inList = false;
  let after = "";
  return words.map((w) => {
    if (w.statement !== undefined) return w;
    const s = w.word;
    const more = inList || after === "assert" || /(==|[a-e]=)$/.test(after) && /^\d/.test(s);
    if (s !== "<bos>" && !more) n++;
    if (s === "bits=[" || s === "a,b,c,d,e=") inList = true;
    else if (inList && !/^\d+,$/.test(s)) {
      if (s !== "]") n++; // five pointers end without a mark
      inList = false;
    }
    after = s;
    return { ...w, statement: n };
  });
}

// lines is the program as text, a statement to a line.
export function lines(words) {
  const out = [];
  for (const w of markStatements(words)) {
    if (w.word === "<bos>") continue;
    (out[w.statement] ??= []).push(w.word);
  }
  return out.filter(Boolean).map((l) => l.join(" ")).join("\n");
}

const whole = /^(bits=\[( [01],)* \]|a,b,c,d,e=(range\(5\)|( \d+,){5})|([a-e]),([a-e])=\6,\5|[a-e]= \d+|assert .*== \d+)$/;

// finished tells whether a statement, its words with spaces between, is whole.
export const finished = (statement) => whole.test(statement);

// question is the index of the last word that asks (it ends in ==), or -1.
export const question = (words) => words.findLastIndex((w) => w.word.endsWith("=="));

// The word to which "End" goes: the question, else the last word.
export function endOf(words) {
  const q = question(words);
  return q >= 0 ? q : words.length - 1;
}

// alike says whether the likeliest words all have the same probability: then the
// first of them is no answer.
export const alike = (top) => top.length > 1 && top[0].p - top.at(-1).p < 1e-6;

// noAnswer says whether a word is one that no program has: the first of all words
// where none is preferred.
export const noAnswer = (word) => word === "<pad>" || word === "<bos>";

const undecided = (top) => noAnswer(top[0].word) || alike(top);

// answerAt returns what the model answered at the last question at or before
// t, as {word, p, truth, right}, or null; none is true where it prefers no word.
// steps may have holes.
export function answerAt(steps, t) {
  for (let i = t; i >= 0; i--) {
    const s = steps[i];
    const truth = s?.truth?.answer;
    if (truth === undefined || truth === null) continue;
    const top = s.top?.[0];
    if (!top) return null;
    if (undecided(s.top)) return { word: "no preference", p: top.p, truth: String(truth), right: false, none: true };
    return { word: top.word, p: top.p, truth: String(truth), right: top.word === String(truth) };
  }
  return null;
}

// spoken says a step in one sentence, for a screen reader.
export function spoken(words, step, t) {
  if (t < 0 || !step) return `nothing read yet, ${words.length - 1} words to come`;
  const top = step.top?.[0];
  let s = `step ${t} of ${words.length - 1}: ${step.word}`;
  const truth = step.truth?.answer;
  if (top && undecided(step.top)) {
    s += "; no preference";
    if (truth !== undefined && truth !== null) s += `; the truth is ${truth}`;
  } else if (top) {
    s += `; the model says ${top.word}, ${Math.round(top.p * 100)} percent`;
    if (truth !== undefined && truth !== null) s += top.word === String(truth) ? "; that is right" : `; the truth is ${truth}`;
  }
  return s;
}

// rowNames says what the rows of a layer's state stand for, where that is
// known: the constructed state tracker keeps a row for each variable.
export function rowNames(model, layer) {
  return model?.name === "st-constructed" && layer.k === 5 ? ["a", "b", "c", "d", "e"] : null;
}
