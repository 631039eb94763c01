// Runs the tokenizers of published checkpoints, and their chat templates, beside
// the page: tokens.js asks, the wasm answers. The build puts the wasm's name here.
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

let template = null;

// What a chat template needs beside the wasm.
const chats = {
  async chat(api, config, jinja) {
    const { chatTemplate } = await import("./chat.js");
    template = await chatTemplate(config, jinja);
    return { chat: template !== null, eos: template?.eos ? api.id(template.eos).id : -1 };
  },
  conversation(api, messages) {
    if (!template) throw new Error("chat template: there is none, want a prompt");
    // A template writes the first token itself.
    const { ids, error } = api.encode(template.render(messages));
    return error ? { error } : { ids: ids.slice(api.encode("").ids.length) };
  },
};

onmessage = async ({ data: { id, type, args } }) => {
  try {
    const api = await started;
    postMessage({ id, ...await (chats[type] ? chats[type](api, ...args) : api[type](...args)) });
  } catch (e) {
    postMessage({ id, error: String(e?.message ?? e) });
  }
};
