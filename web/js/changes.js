// What a run changes in a model: switches and patches, as ../README.md has them.

export const betas = { "": "as trained", sigmoid: "sigmoid", clamp: "clamped at 1" };
export const stores = { "": "f32", bf16: "bf16", f16: "f16" };
export const parts = { decay: "decay", conv: "short convolution", gate: "output gate" };

// clean leaves out of switches what is as trained, and what the model does not
// have: layers is its list in the trace's form, or null where it is not known.
export function clean(switches, layers = null) {
  const out = {};
  if (switches.beta) out.beta = switches.beta;
  for (const k of Object.keys(parts)) if (switches[k] === false) out[k] = false;
  const off = [...new Set(switches.layers ?? [])].filter((l) => !layers || l < layers.length).sort((a, b) => a - b);
  if (off.length) out.layers = off;
  const heads = (switches.heads ?? []).filter(([l, h]) => !off.includes(l) && (!layers || h < (layers[l]?.heads ?? 0)))
    .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  if (heads.length) out.heads = heads;
  if (switches.store) out.store = switches.store;
  return out;
}

const flip = (list, x, same) => (list.some((y) => same(x, y)) ? list.filter((y) => !same(x, y)) : [...list, x]);

// flipLayer and flipHead turn one off, or on again.
export const flipLayer = (s, l) => clean({ ...s, layers: flip(s.layers ?? [], l, (a, b) => a === b), heads: (s.heads ?? []).filter((h) => h[0] !== l) });
export const flipHead = (s, l, h) => clean({ ...s, heads: flip(s.heads ?? [], [l, h], (a, b) => a[0] === b[0] && a[1] === b[1]) });

const plural = (n, one) => `${one}${n.length > 1 ? "s" : ""} ${n.join(", ")}`;

// describe says what is changed, in a few words for each change.
export function describe(switches = {}, patches = []) {
  const s = clean(switches);
  const out = [];
  if (s.beta) out.push(`beta ${betas[s.beta]}`);
  for (const [k, name] of Object.entries(parts)) if (s[k] === false) out.push(`${name} off`);
  if (s.layers) out.push(`${plural(s.layers, "layer")} off`);
  for (const layer of new Set((s.heads ?? []).map(([l]) => l))) out.push(`${plural(s.heads.filter(([l]) => l === layer).map(([, h]) => h), "head")} of layer ${layer} off`);
  if (s.store) out.push(`state stored as ${s.store}`);
  for (const p of patches) out.push(describePatch(p));
  return out;
}

// describePatch says what one patch does.
export function describePatch(p) {
  const where = p.layer === undefined ? "state" : p.head === undefined ? `state of layer ${p.layer}` : `state of layer ${p.layer} head ${p.head}`;
  const what = { zero: "set to zero", model: `taken from ${p.model}`, program: `taken from another program${p.at === undefined ? "" : `, word ${p.at}`}` }[p.from];
  return `${where} ${what} after word ${p.t}`;
}
