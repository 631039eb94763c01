#!/usr/bin/env -S node --stack-size=8192
// Runs a Go program built for js/wasm under Node with Dawn, Chrome's own WebGPU:
//
//   npm install --prefix build/node webgpu
//   GOOS=js GOARCH=wasm go test -exec "$PWD/scripts/node-dawn.mjs" ./shaders/
//   GOOS=js GOARCH=wasm go build -o shellgame.wasm ./cmd/shellgame
//   node scripts/node-dawn.mjs shellgame.wasm check --json
//
// The program has the real file system and its arguments, and its exit code is Node's. Of the
// environment it gets what `passed` lists, since Go's wasm has room for 8 KiB. Environment:
//
//   NODE_WEBGPU      the npm package webgpu (a folder), or its dawn.node (a file) alone;
//                    default build/node/node_modules/webgpu of this checkout
//   SHELLGAME_DAWN   options for Dawn, separated by commas, such as
//                    backend=vulkan,adapter=llvmpipe,enable-dawn-features=allow_unsafe_apis;
//                    "off" runs without navigator.gpu
//   WASM_EXEC        Go's wasm_exec.js; default the one beside the wasm file, else GOROOT's
//   VK_ICD_FILENAMES the Vulkan driver, read by the Vulkan loader: on a CPU Chromium's
//                    vk_swiftshader_icd.json (Dawn refuses Mesa 22's lavapipe)
import { execFileSync } from "node:child_process";
import crypto from "node:crypto";
import fs from "node:fs";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);
const here = path.dirname(fileURLToPath(import.meta.url));

function fail(code, text) {
  process.stderr.write(`node-dawn: ${text}\n`);
  process.exit(code);
}

const [wasm, ...args] = process.argv.slice(2);
if (wasm === undefined) fail(2, "got no arguments, want a wasm file and its arguments");
if (!fs.existsSync(wasm)) fail(2, `${wasm}: no such file`);

function wasmExec() {
  if (process.env.WASM_EXEC) return process.env.WASM_EXEC;
  const beside = path.join(path.dirname(wasm), "wasm_exec.js");
  if (fs.existsSync(beside)) return beside;
  let root;
  try {
    root = execFileSync("go", ["env", "GOROOT"], { encoding: "utf8" }).trim();
  } catch (error) {
    fail(2, `wasm_exec.js: not beside ${wasm}, and go env GOROOT: ${error.message.split("\n")[0]}: name it in WASM_EXEC`);
  }
  return path.join(root, "lib", "wasm", "wasm_exec.js");
}

// The binary of Dawn that belongs to a path: that file, or the one of this system in the package.
function dawnFile(where) {
  if (!fs.existsSync(where)) {
    fail(3, `${where}: no such file or folder, want the npm package webgpu or its dawn.node: npm install --prefix build/node webgpu, or name it in NODE_WEBGPU`);
  }
  if (fs.statSync(where).isFile()) return where;
  const system = process.platform === "darwin" ? "darwin-universal" : `${process.platform}-${process.arch}`;
  const file = path.join(where, "dist", system, "dawn.node");
  if (!fs.existsSync(file)) fail(3, `${file}: no such file: the package webgpu has no Dawn for ${system}`);
  return file;
}

const options = (process.env.SHELLGAME_DAWN ?? "").split(",").filter(Boolean);
let gpu;
if (!options.includes("off")) {
  const file = dawnFile(path.resolve(process.env.NODE_WEBGPU || path.join(here, "..", "build", "node", "node_modules", "webgpu")));
  try {
    const { create, globals } = require(file);
    Object.assign(globalThis, globals);
    gpu = create(options);
  } catch (error) {
    fail(3, `${file}: ${error.message}`);
  }
}
// Newer Nodes have a navigator of their own, which cannot be assigned to.
Object.defineProperty(globalThis, "navigator", { value: gpu ? { gpu } : {}, configurable: true, writable: true });

globalThis.crypto ??= crypto.webcrypto; // Node 18 has it under a flag
globalThis.require = require;
globalThis.fs = fs;
globalThis.path = path;
require(path.resolve(wasmExec()));

const passed = /^(REQUIRE_DEVICES|SHELLGAME_.*|GO.*|VK_.*|HOME|PWD|TMPDIR|TZ|LANG|LC_.*|TERM|NO_COLOR)$/;
const go = new globalThis.Go();
go.argv = [wasm, ...args];
go.env = { TMPDIR: os.tmpdir(), ...Object.fromEntries(Object.entries(process.env).filter(([name]) => passed.test(name))) };
go.exit = process.exit;
process.on("exit", (code) => {
  if (code === 0 && !go.exited) {
    // Nothing is left that could wake the program: let Go report its deadlock.
    go._pendingEvent = { id: 0 };
    go._resume();
  }
});

try {
  const { instance } = await WebAssembly.instantiate(fs.readFileSync(wasm), go.importObject);
  await go.run(instance);
} catch (error) {
  fail(1, error.stack ?? String(error));
}
