// The page without a network. Optional: everything works without it. The files
// of one build are kept together and given out together, so that an old page
// never meets new code; models are kept once they were loaded.
"use strict";
const build = null; // {name, files}, filled when the site is built

const site = new URL("./", location.href);
const current = `shellgame ${build?.name}`;
const models = "shellgame zoo";
const at = (name) => new URL(name, site).href;

// install takes all files of the build, or none.
async function install() {
  if (!build) return;
  const cache = await caches.open(current);
  try {
    await cache.addAll(build.files.map((f) => new Request(at(f), { cache: f === "./" ? "no-cache" : "default" })));
    const page = await (await cache.match(at("./"))).text();
    if (!page.includes(`"${build.name}/`)) throw new Error(`the page is not of ${build.name}`); // published in between
  } catch (e) {
    await caches.delete(current);
    throw e;
  }
}

async function activate() {
  for (const name of await caches.keys()) if (name.startsWith("shellgame ") && name !== current && name !== models) await caches.delete(name);
  await clients.claim();
}

// keep takes files of models that were loaded before this worker was there.
async function keep(urls) {
  const cache = await caches.open(models);
  for (const url of urls) if (ofZoo(url) && !await cache.match(url)) await cache.add(url).catch(() => {});
}

const ofZoo = (url) => url.startsWith(at("zoo/"));
const ofBuild = (url) => url.startsWith(at("build-")) || /^[a-z_]+-[0-9a-f]{12}\.wasm$/.test(url.slice(site.href.length));

// Names that say their content never change: what is here is right.
async function built(request) {
  return await caches.match(request, { ignoreSearch: true }) ?? fetch(request);
}

// fresh asks the network first, whatever the browser's own cache has, and keeps what it says.
async function fresh(request, cacheName, key) {
  try {
    const r = await fetch(request.mode === "navigate" ? request.url : request, { cache: "no-cache" });
    if (cacheName && r.status === 200) await (await caches.open(cacheName)).put(key, r.clone()).catch(() => {}); // a full disk is no reason to fail
    return r;
  } catch (e) {
    const kept = await caches.match(key, { ignoreSearch: true });
    if (!kept) throw e;
    return part(kept, request.headers.get("range"));
  }
}

// part is the range of a response that was asked for.
async function part(response, range) {
  const m = /^bytes=(\d+)-(\d*)$/.exec(range ?? "");
  if (!m) return response;
  const all = await response.blob();
  const from = Number(m[1]);
  const to = Math.min(m[2] ? Number(m[2]) + 1 : all.size, all.size);
  if (from >= to) return new Response(null, { status: 416, headers: { "content-range": `bytes */${all.size}` } });
  return new Response(all.slice(from, to), { status: 206, headers: { "content-range": `bytes ${from}-${to - 1}/${all.size}`, "content-length": String(to - from) } });
}

addEventListener("install", (e) => e.waitUntil(install()));
addEventListener("activate", (e) => e.waitUntil(activate()));
addEventListener("message", (e) => { if (Array.isArray(e.data?.keep)) e.waitUntil(keep(e.data.keep.map(String))); });
addEventListener("fetch", (e) => {
  const { request } = e;
  const url = request.url.replace(/[?#].*/, "");
  if (!build || request.method !== "GET" || !url.startsWith(site.href)) return;
  if (ofBuild(url)) e.respondWith(built(request));
  else if (ofZoo(url)) e.respondWith(fresh(request, request.headers.has("range") ? "" : models, url));
  else if (url === site.href || url === at("index.html")) e.respondWith(fresh(request, "", site.href));
});
