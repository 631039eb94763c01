// What a page around this one may ask and hears: docs/embedding.md. Anybody may
// embed the playground, so anybody may ask; there is nothing here to protect but
// the page itself, which does no more than its own controls.
import { brief, checkChoices, literal } from "./address.js";

// loadable are the choices that a message may set.
const loadable = ["task", "model", "n", "seed", "program", "t", "panel", "layer", "head", "switches", "patches", "other", "otherSwitches", "show", "lesson", "page", "theme"];

// readMessage returns a request that is one of the documented ones, or an Error
// that says what is wrong, or null for what is not meant for this page.
export function readMessage(m) {
  if (m === null || typeof m !== "object" || m.shellgame !== 1) return null;
  const { id, type } = m;
  const bad = (what) => Object.assign(new Error(what), { id });
  if (!Number.isSafeInteger(id) || id < 0) return bad("id: want a whole number");
  switch (type) {
    case "load": {
      if (m.choices === null || typeof m.choices !== "object" || Array.isArray(m.choices)) return bad("load: want choices, an object");
      const other = Object.keys(m.choices).find((k) => !loadable.includes(k));
      if (other !== undefined) return bad(`load: got ${brief(other)}, want of ${loadable.join(", ")}`);
      const { values, dropped } = checkChoices(m.choices, m.choices.task);
      return dropped.length ? bad(`load: ${dropped[0]}`) : { id, type, choices: values };
    }
    case "step": {
      if (m.t !== undefined) return Number.isSafeInteger(m.t) && m.t >= -1 && m.t <= 9999 ? { id, type, t: m.t } : bad(`step: t=${literal(m.t)} (want a whole number from -1 to 9999)`);
      const count = m.count ?? 1;
      return Number.isSafeInteger(count) && Math.abs(count) <= 9999 ? { id, type, count } : bad(`step: count=${literal(count)} (want a whole number from -9999 to 9999)`);
    }
    case "visible":
      return typeof m.visible === "boolean" ? { id, type, visible: m.visible } : bad("visible: want true or false");
    case "state":
      return { id, type };
    default:
      return bad(`type: got ${brief(type)}, want load, step, state or visible`);
  }
}

// serveEmbed answers the page around this window. page has load(choices),
// step({count, t}), visible(on) and state(); it returns tell(event, fields).
export function serveEmbed(window, page) {
  const { parent } = window;
  if (parent === window) return () => {};
  // What is told is what the page shows, so any origin may hear it.
  const post = (m) => parent.postMessage({ shellgame: 1, ...m }, "*");
  let before = Promise.resolve(); // the loads and steps that were asked for, one after the other
  const answer = async (m, work) => {
    try {
      await work();
      post({ re: m.id, ok: true, state: page.state() });
    } catch (e) {
      post({ re: m.id, ok: false, error: e.message });
    }
  };
  window.addEventListener("message", (e) => {
    if (e.source !== parent) return;
    const m = readMessage(e.data);
    if (m === null) return;
    if (m instanceof Error) post({ re: m.id ?? null, ok: false, error: m.message });
    else if (m.type === "visible") answer(m, () => page.visible(m.visible));
    else if (m.type === "state") answer(m, () => {});
    else before = before.then(() => answer(m, () => (m.type === "load" ? page.load(m.choices) : page.step(m))));
  });
  return (event, fields) => post({ event, ...fields });
}
