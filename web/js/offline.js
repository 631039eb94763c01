// Keeps the page for later without a network, where the browser lets it.
import { asset } from "./asset.js";

// Offline.start registers the worker of a built site; keep names files of models
// that were loaded.
export class Offline {
  #keep = new Set();

  async start() {
    if (!/\/build-[0-9a-f]+\/$/.test(asset(""))) return; // not built: files change in place
    try {
      await navigator.serviceWorker.register(new URL("sw.js", document.baseURI), { updateViaCache: "none" });
      this.#send();
    } catch { /* no secure origin, or storage is not allowed: then not */ }
  }

  keep(urls) {
    for (const u of urls) this.#keep.add(new URL(u, document.baseURI).href);
    this.#send();
  }

  async #send() {
    try {
      const { active } = await navigator.serviceWorker.ready;
      active.postMessage({ keep: [...this.#keep] });
    } catch { /* as above */ }
  }
}
