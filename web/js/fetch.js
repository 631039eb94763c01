// fetchBytes fetches a file and returns a Response that counts what passes
// through it. progress(done, total) is called at most every 50 ms and at the
// end; total is 0 while unknown (a compressed transfer hides it).
export async function fetchBytes(url, type, progress, fetcher = fetch) {
  const r = await fetcher(url);
  // An answer is final, a connection that breaks is not.
  const final = (text) => Object.assign(new Error(text), { final: true });
  if (!r.ok) throw final(`${url}: the server answered ${r.status} ${r.statusText}`.trim());
  const got = r.headers.get("content-type") ?? "";
  if (/^text\/html/.test(got)) throw final(`${url}: got a web page (${got}), want ${type}`);
  const total = r.headers.get("content-encoding") ? 0 : Number(r.headers.get("content-length")) || 0;
  let done = 0;
  let last = -Infinity;
  const count = new TransformStream({
    transform(chunk, out) {
      done += chunk.byteLength;
      const now = performance.now();
      if (now - last >= 50) {
        last = now;
        progress(done, total);
      }
      out.enqueue(chunk);
    },
    flush() { progress(done, done); },
  });
  return new Response(r.body.pipeThrough(count), { headers: { "content-type": type } });
}
