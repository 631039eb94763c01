// Tests of what models of one's own need: the choice of files, what a browser
// keeps of downloads, and how long they take.
import assert from "node:assert/strict";
import test from "node:test";
import { keptClear, keptFetch, keptSize } from "../js/kept.js";
import { Speed, duration } from "../js/loads.js";
import { pick } from "../js/own.js";

const at = (...paths) => paths.map((path) => ({ path, file: path }));

test("of dropped files those of one checkpoint are taken", () => {
  assert.deepEqual(pick(at("config.json", "model.safetensors")), { name: "chosen files", files: [{ name: "config.json", file: "config.json" }, { name: "model.safetensors", file: "model.safetensors" }] });
  const deep = pick(at("a/b/config.json", "a/b/model.safetensors", "a/README.md", "a/b/old/config.json", "a/b/old/model.safetensors"));
  assert.equal(deep.name, "b");
  assert.deepEqual(deep.files.map((f) => f.file), ["a/b/config.json", "a/b/model.safetensors"]);
  assert.throws(() => pick(at("model.safetensors")), /^Error: found no config.json in model.safetensors, want it with/);
  assert.throws(() => pick(at("a", "b")), /found no config.json in 2 files/);
  assert.throws(() => pick([]), /found no config.json in 0 files/);
  assert.throws(() => pick(at("z/one/config.json", "z/two/config.json")), /found 2 folders with a config.json \(one, two\), want one/);
});

test("speed and time left come after a second and follow the rate", () => {
  const s = new Speed();
  assert.equal(s.at(0, 100e6, 0), "");
  assert.equal(s.at(1e6, 100e6, 500), "");
  for (let t = 750; t <= 5000; t += 250) s.at(t * 2000, 100e6, t);
  assert.equal(s.at(11e6, 100e6, 5500), "2.0 MB/s, 45 s left");
  for (let t = 5750; t <= 30000; t += 250) s.at(11e6 + (t - 5500) * 1000, 100e6, t);
  assert.match(s.at(36e6, 100e6, 30500), /^1\.\d MB\/s, /);
  assert.equal(s.at(0, 100e6, 31000), "", "another file starts anew");
  assert.equal(duration(0.2), "1 s");
  assert.equal(duration(600), "10 min");
  assert.equal(duration(7200), "2.0 h");
});

// A browser with a cache in memory, whose server has one file.
function browser({ full = false, denied = false, quota = 1e9 } = {}) {
  const stored = new Map();
  const data = Uint8Array.from({ length: 1000 }, (_, i) => i % 251);
  const scope = {
    data, stored, tag: '"1"', asked: [], cutAt: Infinity, ranges: true, offline: false,
    navigator: { storage: { estimate: async () => ({ quota, usage: 0 }) } },
    caches: {
      async open() {
        if (denied) throw new DOMException("no", "SecurityError");
        return {
          match: async (k) => (stored.has(String(k)) ? new Response(stored.get(String(k)).bytes.slice(), { headers: stored.get(String(k)).headers }) : undefined),
          delete: async (k) => stored.delete(String(k)),
          keys: async () => [...stored.keys()],
          async put(k, r) {
            const headers = Object.fromEntries(r.headers);
            if (full) {
              await r.body.cancel();
              throw new DOMException("full", "QuotaExceededError");
            }
            stored.set(k, { bytes: new Uint8Array(await r.arrayBuffer()), headers });
          },
        };
      },
      delete: async () => stored.clear(),
    },
    async fetch(url, options = {}) {
      if (scope.offline) throw new TypeError("Failed to fetch");
      const range = options.headers?.Range ?? "";
      scope.asked.push(range);
      const m = scope.ranges && /^bytes=(\d+)-(\d*)$/.exec(range);
      const [from, to] = m ? [Number(m[1]), m[2] ? Number(m[2]) : data.length - 1] : [0, data.length - 1];
      let pos = from;
      const body = new ReadableStream({
        pull(c) {
          if (pos > scope.cutAt) c.error(new TypeError("network error"));
          else if (pos > to) c.close();
          else {
            c.enqueue(scope.data.slice(pos, Math.min(pos + 100, to + 1)));
            pos += 100;
          }
        },
      });
      const headers = { etag: scope.tag, "content-length": String(to + 1 - from), ...(m ? { "content-range": `bytes ${from}-${to}/${data.length}` } : {}) };
      return new Response(body, { status: m ? 206 : 200, headers });
    },
  };
  return scope;
}

const read = async (r) => new Uint8Array(await r.arrayBuffer());
const get = (scope, from = 0, signal) => keptFetch("https://x/w", { headers: { Range: `bytes=${from}-` }, signal }, scope);
const settle = () => new Promise((r) => setTimeout(r, 5));

test("a file is kept once, and given out by parts while the server has the same", async () => {
  for (const ranges of [true, false]) {
    const b = browser();
    b.ranges = ranges;
    assert.deepEqual(await read(await get(b)), b.data);
    await settle();
    assert.deepEqual(await keptSize(b), { files: 1, bytes: 1000 });
    b.asked.length = 0;
    const part = await get(b, 250);
    assert.equal(part.status, 206);
    assert.equal(part.headers.get("content-range"), "bytes 250-999/1000");
    assert.deepEqual(await read(part), b.data.slice(250));
    assert.deepEqual(b.asked, ["bytes=0-0"]);
    b.offline = true;
    assert.deepEqual(await read(await get(b)), b.data);
    b.offline = false;
    b.tag = '"2"';
    b.data = b.data.map((x) => 255 - x);
    assert.deepEqual(await read(await get(b)), b.data, "another file is fetched");
    await settle();
    b.asked.length = 0;
    assert.deepEqual(await read(await get(b)), b.data);
    assert.deepEqual(b.asked, ["bytes=0-0"]);
    await keptClear(b);
    assert.deepEqual(await keptSize(b), { files: 0, bytes: 0 });
  }
});

test("what was cut short, cancelled or read in part is not kept", async () => {
  let b = browser();
  b.cutAt = 600;
  await assert.rejects(read(await get(b)));
  await settle();
  assert.equal(b.stored.size, 0);

  b = browser();
  const abort = new AbortController();
  const reader = (await get(b, 0, abort.signal)).body.getReader();
  await reader.read();
  abort.abort();
  await settle();
  assert.equal(b.stored.size, 0);

  b = browser();
  await (await get(b)).body.cancel();
  await settle();
  assert.equal(b.stored.size, 0);

  b = browser();
  assert.deepEqual(await read(await get(b, 500)), b.data.slice(500));
  await settle();
  assert.equal(b.stored.size, 0);
});

test("a full or forbidden cache is as none", async () => {
  for (const o of [{ full: true }, { denied: true }, { quota: 100 }]) {
    const b = browser(o);
    assert.deepEqual(await read(await get(b)), b.data);
    await settle();
    assert.equal(b.stored.size, 0);
    assert.deepEqual(await keptSize(b), o.denied ? null : { files: 0, bytes: 0 });
  }
  const b = browser();
  delete b.caches;
  assert.deepEqual(await read(await get(b)), b.data);
});
