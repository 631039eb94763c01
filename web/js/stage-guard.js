// Keeps ebiten from taking the frame's document over. It must run before the
// wasm: listeners in the capture phase at the window come before ebiten's own
// on its canvas. A classic script, so that it runs before anything else.
"use strict";
(() => {
  const tell = (event, fields) => {
    if (parent !== window) parent.postMessage({ sg: 1, event, ...fields }, origin === "null" ? "*" : origin);
  };

  const query = new URLSearchParams(location.search);
  if (query.get("theme")) document.documentElement.dataset.theme = query.get("theme");
  addEventListener("message", (e) => {
    if (e.source !== parent || e.origin !== origin || e.data?.sg !== 1) return;
    if (e.data.type === "theme" || e.data.type === "init") document.documentElement.dataset.theme = e.data.theme;
  });

  // Without WebGL 2 ebiten cannot draw; the page then draws by itself. Where it
  // computes on the CPU the stage draws less often.
  const webgl = () => {
    try {
      const gl = document.createElement("canvas").getContext("webgl2");
      if (!gl) return null;
      const info = gl.getExtension("WEBGL_debug_renderer_info");
      const name = String(gl.getParameter(info ? info.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
      gl.getExtension("WEBGL_lose_context")?.loseContext();
      return name;
    } catch {
      return null;
    }
  };
  const renderer = webgl();
  globalThis.shellgameNoStage = query.get("stage") === "no" || renderer === null;
  tell("guard", { noStage: globalThis.shellgameNoStage });
  globalThis.shellgameSlowWebGL = /swiftshader|llvmpipe|software|basic render/i.test(renderer ?? "");

  // True while the wheel scrolls something inside the stage; set by the stage.
  globalThis.shellgameWheel = false;

  const keep = (type, also) =>
    window.addEventListener(type, (e) => { e.stopImmediatePropagation(); also?.(e); }, { capture: true, passive: false });

  // Keys stay with the browser and the page; the page gets those that it knows.
  const steps = new Set(["ArrowLeft", "ArrowRight", "Home", "End", " ", "?", "[", "]", "n", "b", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
  keep("keydown", (e) => {
    if (!steps.has(e.key) || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    tell("key", { key: e.key });
  });
  keep("keyup");
  keep("keypress");

  // Touches pan the page; a tap still arrives as a mouse click.
  for (const type of ["touchstart", "touchmove", "touchend", "touchcancel"]) keep(type);
  keep("contextmenu");

  // A file dropped here must not replace the frame; the page takes it.
  window.addEventListener("dragenter", (e) => { if (e.dataTransfer?.types.includes("Files")) tell("drag"); }, { capture: true });
  keep("dragover", (e) => e.preventDefault());
  keep("drop", (e) => e.preventDefault());

  window.addEventListener("wheel", (e) => {
    if (!globalThis.shellgameWheel || e.ctrlKey) e.stopImmediatePropagation();
  }, { capture: true, passive: false });

  // ebiten would reload the document, and the engine's session with it.
  keep("webglcontextlost", (e) => {
    e.preventDefault();
    globalThis.shellgameNoStage = true;
    tell("stage-lost", { error: "the browser took the drawing context (WebGL) away" });
  });

  // ebiten makes its canvas the first stop of the Tab key.
  new MutationObserver((changes) => {
    for (const c of changes) for (const n of c.addedNodes) {
      if (n.nodeName !== "CANVAS") continue;
      n.setAttribute("aria-hidden", "true"); // the page says the same in words
      queueMicrotask(() => n.setAttribute("tabindex", "-1"));
    }
  }).observe(document.documentElement, { childList: true, subtree: true });
})();
