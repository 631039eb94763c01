// Marks over the timeline: where the model believes something wrong.
import { score } from "./beliefs.js";
import { svg } from "./dom.js";

// marks returns show(moment), which draws into an SVG element that lies over
// the run of the slider's thumb.
export function marks(root) {
  let shown = "";
  return ({ words, steps }) => {
    const { wrong } = score(steps, steps.length - 1);
    const key = `${words.length} ${wrong}`;
    if (key === shown) return;
    shown = key;
    root.setAttribute("viewBox", `0 0 ${Math.max(words.length, 1)} 1`);
    root.replaceChildren(...wrong.map((t) => svg("line", { x1: t + 1, x2: t + 1, y1: 0, y2: 1 })));
  };
}
