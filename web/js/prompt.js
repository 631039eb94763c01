// What the views of a model with words of its own share: its tokenizer, the
// prompt, and the tokens that were read and written last.
import { fetchBytes } from "./fetch.js";
import { Tokens } from "./tokens.js";

const first = "The cup with the ball";

// shared is {prompt, typed, model, ids}: whether somebody typed the prompt; ids
// are the tokens of the last text that model wrote, with its prompt; empty where
// there is none.
export const shared = { prompt: first, typed: false, model: null, ids: [] };

// sharing keeps a textarea and the shared prompt the same: it returns what takes
// over a prompt from another view. A model that reads programs begins with the
// page's up to its last question, until something is typed.
export function sharing(area, app) {
  let was = area.value = shared.prompt;
  area.addEventListener("input", () => {
    shared.prompt = was = area.value;
    shared.typed = true;
  });
  return () => {
    if (!shared.typed) shared.prompt = (app.loaded().programs && app.moment().program?.replace(/==[^=]*$/, "==")) || first;
    if (shared.prompt !== was) area.value = was = shared.prompt;
  };
}

// data is the bytes of a model's tokenizer.json.
async function data({ own, folder, files, programs }) {
  const file = own && files.find((f) => f.name === "tokenizer.json")?.file;
  if (own && !file && !programs) throw new Error("found no tokenizer.json among your files, want it with the weights");
  const r = file || await fetchBytes(programs ? "zoo/tokenizer.json" : `${folder}/tokenizer.json`, "application/json", () => {});
  return new Uint8Array(await r.arrayBuffer());
}

let model = null; // the name that tokens is for
let tokens = null; // a promise

// tokenizer is that of the model that is loaded, a promise of Tokens; say gets a
// line while it is fetched.
export function tokenizer(app, say) {
  const { name, ...m } = app.loaded();
  if (name !== model) {
    tokens?.then((t) => t.close(), () => {});
    model = name;
    tokens = data(m).then((bytes) => Tokens.open(bytes, (done, total) => say(total === 0 ? "Fetching the tokenizer\u2026" : done < total ? `Fetching the tokenizer: ${Math.floor((100 * done) / total)} %` : "Starting the tokenizer\u2026")));
    const mine = tokens;
    mine.catch(() => { if (tokens === mine) model = null; });
  }
  return tokens;
}

// Byte-level tokenizers write a byte that is no plain letter as one of 256 on.
const plain = (b) => (b >= 33 && b <= 126) || (b >= 161 && b !== 173 && b <= 255);
const byteOf = new Map();
for (let b = 0, n = 256; b < 256; b++) byteOf.set(String.fromCharCode(plain(b) ? b : n++), b);

// readable is a token for people: the text that byte-level letters stand for,
// where it is whole, with its white space to be seen.
export function readable(piece) {
  let text = piece;
  const letters = [...piece].map((c) => byteOf.get(c));
  if (letters.every((b) => b !== undefined)) {
    try {
      text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(letters));
    } catch { /* a part of a letter */ }
  }
  return text.replace(/ /g, "\u00b7").replace(/\r?\n/g, "\u21b5").replace(/\t/g, "\u21e5").replace(/[\p{C}\p{Z}]/gu, "\ufffd") || "\u2205";
}
