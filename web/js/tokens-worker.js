// Runs the tokenizers of published checkpoints beside the page: tokens.js asks,
// the wasm answers. The build puts the wasm's name here.
import "../wasm_exec.js";
import { fetchBytes } from "./fetch.js";

const address = new URL("../tokens.wasm", import.meta.url).href;

async function start() {
  const go = new Go();
  const wasm = await fetchBytes(address, "application/wasm", (done, total) => postMessage({ progress: { done, total } }));
  const { instance } = await WebAssembly.instantiateStreaming(wasm, go.importObject);
  const ready = new Promise((resolve) => { globalThis.shellgameTokensReady = resolve; });
  const ended = go.run(instance).then(() => { throw new Error("the tokenizer's module ended"); });
  ended.catch(() => {});
  await Promise.race([ready, ended]);
  return globalThis.shellgameTokens;
}

const started = start();
started.catch(() => {}); // each request says so

onmessage = async ({ data: { id, type, args } }) => {
  try {
    const api = await started;
    postMessage({ id, ...api[type](...args) });
  } catch (e) {
    postMessage({ id, error: String(e?.message ?? e) });
  }
};
