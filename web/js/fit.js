// Choices against what there is: a link names models, layers, heads and words
// that the zoo, the model or the program may not have.
import { clean } from "./changes.js";
import { defaults } from "./store.js";

const titles = { st: "state tracking", recall: "recall", sbr: "both" };
const none = { other: defaults.other, otherSwitches: defaults.otherSwitches, show: defaults.show };

// fitZoo compares choices with the zoo, a list that is empty where it could not
// be read: {fit, left}, the choices that change and a phrase for each that is
// left out. asked holds the choices that were named.
export function fitZoo(choices, asked, zoo) {
  const fit = {};
  const left = [];
  if (!zoo.length) return { fit, left };
  const model = zoo.find((m) => m.name === choices.model);
  if (model?.task && asked.model && asked.task && asked.task !== model.task) {
    left.push(`model=${choices.model} (a model of ${titles[model.task]}, not of ${titles[asked.task]})`);
    fit.model = defaults.model;
  }
  if (choices.other && !choices.other.includes("/") && !zoo.some((m) => m.name === choices.other)) {
    left.push(`other=${choices.other} (not in the zoo)`);
    Object.assign(fit, none);
  }
  return { fit, left };
}

// unknown says that a model is neither of the zoo nor an address, and beyond that
// a program of so many words has no word t: "" where all is well.
export const unknown = (model, zoo) => (!model || zoo.some((m) => m.name === model) || model.includes("/") && !model.startsWith("your-files/") ? ""
  : `model=${model} (want a model of the zoo or the address of a folder)`);
export const beyond = (t, words) => (t >= words ? `t=${t} (want -1 to ${words - 1}, the program's words)` : "");

// fitSwitches leaves out of switches the layers and heads that a model, a list
// of layers in the trace's form, does not have, and names them.
export function fitSwitches(switches, layers, name) {
  const fit = clean(switches, layers);
  const off = (switches.layers ?? []).filter((l) => !(l < layers.length));
  const heads = (switches.heads ?? []).filter(([l, h]) => !(h < (layers[l]?.heads ?? 0)));
  const left = [];
  if (off.length) left.push(`${name}.layers=${off.join(",")} (want 0 to ${layers.length - 1})`);
  if (heads.length) left.push(`${name}.heads: ${heads.map(([l, h]) => `layer ${l} head ${h}`).join(", ")} (no such head)`);
  return { fit, left };
}

// fitModel compares choices with a model.
export function fitModel(choices, layers) {
  const { fit: switches, left } = fitSwitches(choices.switches, layers, "switches");
  const fit = { switches };
  const { layer, head } = choices;
  if (layer >= layers.length) {
    left.push(`layer=${layer} (want 0 to ${layers.length - 1})`);
    fit.layer = defaults.layer;
  }
  const heads = Math.max(...(layers[layer] ? [layers[layer]] : layers).map((l) => l.heads));
  if (head >= heads) {
    left.push(`head=${head} (want 0 to ${heads - 1})`);
    fit.head = defaults.head;
  }
  return { fit, left };
}
