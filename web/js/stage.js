// Fetches and runs the engine inside the frame, and tells the page how far it
// got. Everything after "ready" is between the page and the engine.
import { fetchBytes } from "./fetch.js";
import { keptFetch } from "./kept.js";

const tell = (event, fields) => {
  if (parent !== window) parent.postMessage({ sg: 1, event, ...fields }, origin === "null" ? "*" : origin);
};

// What Go prints to stderr, kept to explain a crash.
const tail = [];
const write = globalThis.fs?.writeSync;
if (write) {
  const decoder = new TextDecoder();
  globalThis.fs.writeSync = (fd, buf) => {
    if (fd === 2) {
      tail.push(decoder.decode(buf));
      if (tail.length > 50) tail.shift();
    }
    return write(fd, buf);
  };
}

// The line that says why Go stopped: that of the panic, else the last.
const reason = () => {
  const lines = tail.join("").split("\n").filter((l) => l.trim());
  return lines.find((l) => /^(panic|fatal error):/.test(l)) ?? lines.at(-1) ?? "";
};

globalThis.shellgameFetch = (url, options) => keptFetch(url, options);

// load fetches the module, and again where the connection breaks on the way.
async function load(go) {
  for (let left = 2; ; left--) {
    const what = left === 2 ? "engine" : "engine, asked for again";
    tell("progress", { what, done: 0, total: 0 });
    try {
      const wasm = await fetchBytes(document.querySelector("meta[name=wasm]").content, "application/wasm",
        (done, total) => tell("progress", { what, done, total }), left === 2 ? fetch : (url) => fetch(url, { cache: "reload" }));
      return (await WebAssembly.instantiateStreaming(wasm, go.importObject)).instance;
    } catch (e) {
      if (left === 0 || e.final) throw e.final ? e : new Error(`its code (${document.querySelector("meta[name=wasm]").content}) could not be loaded whole: ${e.message}`);
      await new Promise((resolve) => { setTimeout(resolve, 500); });
    }
  }
}

async function main() {
  if (typeof WebAssembly !== "object") throw new Error("this browser has no WebAssembly");
  if (typeof Go !== "function") throw new Error("wasm_exec.js is missing beside stage.html");
  const go = new Go();
  const instance = await load(go);
  let code = 0;
  go.exit = (c) => { code = c; };
  await go.run(instance);
  throw new Error(reason() || `the engine ended with code ${code}`);
}

main().catch((e) => tell("fatal", { error: reason() || String(e?.message ?? e) }));
