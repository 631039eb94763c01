// Keeps the files of checkpoints that come from other addresses in the
// browser's cache, so that a second load reads the disk. A file is kept only
// once its last byte has arrived, and given out only while its server says, by
// size and ETag or Last-Modified, that it is the same, or cannot be asked.
// Where storage is full or forbidden everything works as without it.
const name = "shellgame-weights"; // no "shellgame …": sw.js drops those of other builds

async function open(scope) {
  try {
    return await scope.caches.open(name);
  } catch {
    return null; // no secure origin, a private window, a sandbox
  }
}

// sizeOf is how long the whole file is by a response's headers, or 0.
function sizeOf(r) {
  const whole = /^bytes \d+-\d+\/(\d+)$/.exec(r.headers.get("content-range") ?? "");
  if (r.status === 206) return whole ? Number(whole[1]) : 0;
  return r.headers.get("content-encoding") ? 0 : Number(r.headers.get("content-length")) || 0;
}

const facts = (r) => ({ "x-size": String(sizeOf(r)), "x-etag": r.headers.get("etag") ?? "", "x-modified": r.headers.get("last-modified") ?? "" });

// same asks the server whether what is kept is what it has; null is that it has none.
async function same(kept, url, signal, scope) {
  let now;
  try {
    now = await scope.fetch(url, { headers: { Range: "bytes=0-0" }, cache: "no-cache", signal });
  } catch (e) {
    if (signal?.aborted) throw e;
    return true; // no network
  }
  now.body?.cancel().catch(() => {});
  if (now.status === 404 || now.status === 410) return null;
  if (now.status !== 200 && now.status !== 206) return false;
  const f = facts(now);
  const was = (k) => kept.headers.get(k) ?? "";
  if (f["x-size"] !== was("x-size")) return false;
  const tags = ["x-etag", "x-modified"].filter((k) => f[k] && was(k));
  return tags.length > 0 && tags.every((k) => f[k] === was(k));
}

// from skips the first bytes of a stream.
function skip(body, from) {
  return from === 0 ? body : body.pipeThrough(new TransformStream({
    transform(chunk, out) {
      if (from >= chunk.length) {
        from -= chunk.length;
        return;
      }
      out.enqueue(from ? chunk.subarray(from) : chunk);
      from = 0;
    },
  }));
}

// room says whether the browser has space for so many bytes.
async function room(size, scope) {
  try {
    const { quota, usage } = await scope.navigator.storage.estimate();
    return quota - usage > size + 1e7;
  } catch {
    return true; // putting it will tell
  }
}

// keptFetch is fetch, for the whole of a file or what follows a byte of it.
export async function keptFetch(url, options = {}, scope = globalThis) {
  const m = /^bytes=(\d+)-$/.exec(options.headers?.Range ?? "bytes=0-");
  const cache = m ? await open(scope) : null;
  if (!cache) return scope.fetch(url, options);
  const from = Number(m[1]);
  const { signal } = options;
  const kept = await cache.match(url).catch(() => undefined);
  if (kept) {
    const ok = await same(kept, url, signal, scope);
    if (ok) {
      const size = Number(kept.headers.get("x-size"));
      if (from >= size) return new Response(null, { status: 416, headers: { "content-range": `bytes */${size}` } });
      return new Response(skip(kept.body, from), { status: 206, headers: { "content-range": `bytes ${from}-${size - 1}/${size}`, "content-length": String(size - from) } });
    }
    await cache.delete(url).catch(() => {});
  }
  const r = await scope.fetch(url, options);
  const size = sizeOf(r);
  if (from > 0 || !r.body || size === 0 || (r.status !== 200 && r.status !== 206) || !await room(size, scope)) return r;
  return new Response(both(r, size, signal, (copy) => cache.put(url, copy)), { status: r.status, headers: r.headers });
}

// both gives out a response's bytes and has put store them on the way. The copy
// is ended by an error unless all have come, and then nothing is stored.
function both(r, size, signal, put) {
  const { readable, writable } = new TransformStream();
  const writer = writable.getWriter();
  let storing = true;
  const stop = (e) => {
    if (!storing) return;
    storing = false;
    writer.abort(e).catch(() => {});
  };
  writer.closed.catch(() => { storing = false; });
  put(new Response(readable, { headers: facts(r) })).catch(stop); // a full disk, for one
  signal?.addEventListener("abort", () => stop(new Error("cancelled")));
  const reader = r.body.getReader();
  let count = 0;
  return new ReadableStream({
    async pull(out) {
      try {
        const { done, value } = await reader.read();
        if (done) {
          if (count !== size) stop(new Error("cut short"));
          if (storing) await writer.close().catch(() => {});
          out.close();
          return;
        }
        count += value.length;
        if (storing) await writer.write(value).catch(() => { storing = false; });
        out.enqueue(value);
      } catch (e) {
        stop(e);
        throw e;
      }
    },
    cancel(why) {
      stop(new Error("not read to its end"));
      return reader.cancel(why);
    },
  }, { highWaterMark: 0 });
}

// keptSize is {files, bytes} of what is kept, or null where nothing can be.
export async function keptSize(scope = globalThis) {
  const cache = await open(scope);
  if (!cache) return null;
  let files = 0;
  let bytes = 0;
  for (const request of await cache.keys()) {
    const r = await cache.match(request);
    if (!r) continue;
    files++;
    bytes += Number(r.headers.get("x-size"));
  }
  return { files, bytes };
}

// keptClear drops all of it.
export const keptClear = (scope = globalThis) => scope.caches.delete(name);
