// What a link asks for. Unknown keys are ignored; values that make no sense
// are dropped, so that a mistyped link still opens the page.

const tasks = ["st", "recall", "sbr"];

export const maxSize = (task) => (task === "st" ? 512 : 128);

// readQuery reads a link. A model is a name of the zoo or, where it has a slash,
// the address of a folder, which is resolved against base.
export function readQuery(search, base) {
  const q = new URLSearchParams(search);
  const out = {};
  const device = q.get("device");
  if (device === "cpu" || device === "webgpu") out.device = device;
  if (tasks.includes(q.get("task"))) out.task = q.get("task");
  const model = q.get("model");
  if (model && /^[A-Za-z0-9._-]+$/.test(model) && !/^\.+$/.test(model)) out.model = model;
  else if (model?.includes("/")) {
    const folder = folderOf(model, base);
    if (folder) Object.assign(out, { model, folder });
  }
  const n = whole(q.get("n"));
  if (n !== undefined && n >= 1 && n <= maxSize(out.task ?? "st")) out.n = n;
  const seed = whole(q.get("seed"));
  if (seed !== undefined) out.seed = seed;
  if (q.get("theme") === "light" || q.get("theme") === "dark") out.theme = q.get("theme");
  if (q.get("stage") === "no") out.noStage = true;
  return out;
}

// writeQuery sets what the controls say in a link and keeps everything else.
export function writeQuery(search, fields) {
  const q = new URLSearchParams(search);
  for (const [k, v] of Object.entries(fields)) {
    if (v === undefined || v === null || v === "") q.delete(k);
    else q.set(k, String(v));
  }
  const s = q.toString();
  return s ? "?" + s : "";
}

// folderOf is the address of a folder of http or https, or undefined.
function folderOf(text, base) {
  try {
    const u = new URL(text, base);
    u.search = u.hash = "";
    if (!/^https?:$/.test(u.protocol) || u.username || u.password) return undefined;
    return u.href.replace(/\/*$/, "");
  } catch {
    return undefined;
  }
}

function whole(s) {
  if (s === null || !/^\d{1,16}$/.test(s)) return undefined;
  const n = Number(s);
  return Number.isSafeInteger(n) ? n : undefined;
}
