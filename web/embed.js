// <shell-game> puts the playground into a page of yours; docs/embedding.md says how.
"use strict";
(() => {
  const here = new URL(".", document.currentScript.src);
  const numbers = ["n", "seed", "t", "layer", "head", "page"];
  const choices = ["task", "model", "program", "panel", "lesson", "theme", "device", ...numbers];

  class ShellGame extends HTMLElement {
    static observedAttributes = [...choices, "height"];
    #frame = null;
    #next = 1;
    #waiting = new Map();
    #ready = false;
    #seen = true;
    #watch = new IntersectionObserver(([e]) => {
      this.#seen = e.isIntersecting;
      this.#visible();
    });

    connectedCallback() {
      if (this.#frame) return;
      if (!this.style.display) this.style.display = "block";
      const f = document.createElement("iframe");
      f.title = this.getAttribute("title") ?? "Shell Game: a small language model keeps track";
      f.allow = "clipboard-write; fullscreen";
      f.loading = "lazy";
      if (this.hasAttribute("sandbox")) f.setAttribute("sandbox", this.getAttribute("sandbox"));
      f.style.cssText = "display:block;width:100%;border:0";
      f.src = this.#address();
      this.#frame = f;
      this.#size();
      this.append(f);
      addEventListener("message", this.#receive);
      this.#watch.observe(this);
    }

    disconnectedCallback() {
      removeEventListener("message", this.#receive);
      this.#watch.disconnect();
      this.#frame?.remove();
      this.#frame = null;
      this.#ready = false;
      for (const w of this.#waiting.values()) w.reject(new Error("the frame was taken away"));
      this.#waiting.clear();
    }

    attributeChangedCallback(name, was, is) {
      if (!this.#frame || was === is) return;
      if (name === "height") this.#size();
      else if (this.#ready && name !== "device") {
        const { device, ...rest } = this.#choices();
        this.load(rest).catch((e) => console.warn(`shell-game: ${e.message}`));
      } else {
        this.#ready = false;
        this.#frame.src = this.#address();
      }
    }

    // load sets choices, as in a link; step moves by words (or to word t); state says where it is.
    load(choices) { return this.#request("load", { choices }); }
    step(count = 1) { return this.#request("step", { count }); }
    seek(t) { return this.#request("step", { t }); }
    state() { return this.#request("state"); }

    #choices() {
      const out = {};
      for (const k of choices) if (this.hasAttribute(k)) out[k] = numbers.includes(k) ? Number(this.getAttribute(k)) : this.getAttribute(k);
      return out;
    }

    #address() {
      const { task, model, n, seed, lesson, theme, device, ...rest } = this.#choices();
      const q = new URLSearchParams({ embed: "1" });
      for (const [k, v] of Object.entries({ task, model, n, seed, lesson, theme, device })) if (v !== undefined) q.set(k, v);
      return `${here.href}?${q}${Object.keys(rest).length ? `#v=1&j=${encodeURIComponent(JSON.stringify(rest))}` : ""}`;
    }

    #size() {
      const h = this.getAttribute("height") ?? "640";
      this.#frame.style.height = /^\d+$/.test(h) ? `${h}px` : h;
    }

    // A sandbox without allow-same-origin has no origin that a message could name.
    get #opaque() { return this.#frame.sandbox.length > 0 && !this.#frame.sandbox.contains("allow-same-origin") || this.getAttribute("sandbox") === ""; }

    #post(message) { this.#frame.contentWindow.postMessage({ shellgame: 1, ...message }, this.#opaque ? "*" : here.origin); }

    #request(type, fields = {}) {
      if (!this.#ready) return Promise.reject(new Error("the page is not ready: wait for the event ready"));
      const id = this.#next++;
      return new Promise((resolve, reject) => {
        this.#waiting.set(id, { resolve, reject });
        this.#post({ id, type, ...fields });
      });
    }

    #visible() { if (this.#ready) this.#request("visible", { visible: this.#seen }).catch(() => {}); }

    #receive = (e) => {
      if (e.source !== this.#frame?.contentWindow || e.origin !== (this.#opaque ? "null" : here.origin) || e.data?.shellgame !== 1) return;
      const { event, re, ok, error, shellgame, ...detail } = e.data;
      if (event) {
        if (event === "ready") this.#ready = true;
        this.dispatchEvent(new CustomEvent(event, { detail }));
        if (event === "ready" && !this.#seen) this.#visible();
        return;
      }
      const w = this.#waiting.get(re);
      this.#waiting.delete(re);
      if (ok) w?.resolve(detail);
      else w?.reject(new Error(error));
    };
  }

  if (!customElements.get("shell-game")) customElements.define("shell-game", ShellGame);
})();
