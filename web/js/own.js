// Checkpoints of one's own: files or a folder, dropped on the page or chosen,
// or an address. The files are read where they lie, and go nowhere.
import { decodeName, folderOf } from "./address.js";
import { el, style } from "./dom.js";
import { bytes } from "./format.js";
import { keptClear, keptSize } from "./kept.js";

const most = 5000; // files of a folder that are looked at

const folder = (path) => path.slice(0, Math.max(path.lastIndexOf("/"), 0));
const base = (path) => path.slice(path.lastIndexOf("/") + 1);

// pick takes from files with their paths, [{path, file}], those of one
// checkpoint: {name, files: [{name, file}]}. The error is one line.
export function pick(all) {
  const configs = all.filter((f) => base(f.path) === "config.json").map((f) => folder(f.path));
  const depth = (path) => (path ? path.split("/").length : 0);
  const least = Math.min(...configs.map(depth));
  const top = configs.filter((c) => depth(c) === least);
  if (top.length === 0) {
    const got = all.length === 1 ? base(all[0].path) : `${all.length} files`;
    throw new Error(`found no config.json in ${got}, want it with the weights and tokenizer.json: drop the whole folder`);
  }
  if (top.length > 1) throw new Error(`found ${top.length} folders with a config.json (${top.slice(0, 3).map(base).join(", ")}), want one: drop that alone`);
  const files = all.filter((f) => folder(f.path) === top[0]).map((f) => ({ name: base(f.path), file: f.file }));
  return { name: base(top[0]) || "chosen files", files };
}

// dropped lists the files of a drop, a list of files and entries, with those in its folders.
export async function dropped(entries) {
  const all = [];
  const add = (path, file) => {
    if (all.length === most) throw new Error(`got more than ${most} files, want the folder of one checkpoint`);
    all.push({ path, file });
  };
  const walk = async (entry, path, depth) => {
    if (entry === null) return;
    if (entry instanceof File) add(entry.name, entry);
    else if (entry.isFile) add(path + entry.name, await new Promise((yes, no) => entry.file(yes, no)));
    else if (depth < 4) {
      const reader = entry.createReader();
      for (;;) {
        const some = await new Promise((yes, no) => reader.readEntries(yes, no));
        if (some.length === 0) break;
        for (const e of some) await walk(e, `${path}${entry.name}/`, depth + 1);
      }
    }
  };
  for (const e of entries) await walk(e, "", 0);
  return all;
}

// chosen lists the files of an input element.
export const chosen = (input) => [...input.files].map((file) => ({ path: file.webkitRelativePath || file.name, file }));

// Own is the dialog, and what takes files that are dropped anywhere on the page.
export class Own {
  #app;
  #box;
  #error = el("p", { class: "error", role: "alert" });
  #kept = el("span", { class: "hint" });
  #clear = el("button", { type: "button", class: "small", onclick: async () => {
    await keptClear().catch(() => {});
    this.#size();
  } }, "Clear");
  #sheet = el("div", { id: "drop", ondragleave: () => this.#sheet.remove() }, el("p", {}, "Drop a checkpoint: its folder, or its files together"));
  #taken = 0;
  #weights;
  #measure = el("input", { type: "checkbox" });

  constructor(app) {
    this.#app = app;
    style("own.css");
    const url = el("input", { id: "own-url", type: "url", inputmode: "url", autocomplete: "off", spellcheck: "false", placeholder: "https://huggingface.co/NAME/MODEL/resolve/main" });
    const picker = (label, folder) => {
      const input = el("input", { type: "file", multiple: true, webkitdirectory: folder, hidden: true, "aria-label": label, onchange: () => {
        const files = chosen(input);
        input.value = ""; // the same files can be chosen again
        this.#take(() => files);
      } });
      return [el("button", { type: "button", onclick: () => input.click() }, label), input];
    };
    this.#weights = el("select", { id: "own-weights" }, ...[["", "as stored"], ["f16", "f16"], ["int8", "int8, a scale a row"], ["int4", "int4, a scale for 32"]].map(([value, text]) => el("option", { value }, text)));
    this.#weights.value = app.store.get("weights"); // of the link
    this.#box = el("dialog", { id: "own-box", "aria-labelledby": "own-title", onclick: (e) => { if (e.target === this.#box) this.#box.close(); } },
      el("form", { method: "dialog" }, el("button", { "aria-label": "Close" }, "\u00d7")),
      el("h2", { id: "own-title" }, "A model of your own"),
      el("p", {}, "A folder with config.json, model.safetensors (or shards with their index) and tokenizer.json. Drop it anywhere on the page, or choose it. Your files are read where they lie and go nowhere."),
      el("p", { class: "row actions" }, ...picker("Choose a folder", true), ...picker("Choose files", false)),
      el("form", { class: "field", novalidate: true, onsubmit: (e) => {
        e.preventDefault();
        this.#fetch(url.value.trim());
      } }, el("label", { for: "own-url" }, "Or the address of such a folder"), el("div", { class: "row" }, url, el("button", {}, "Load"))),
      el("div", { class: "row own-weights" }, el("label", { for: "own-weights" }, "Weights"), this.#weights,
        el("label", {}, this.#measure, " measure what that changes")),
      this.#error,
      el("div", { class: "row kept" }, this.#kept, this.#clear));
    document.body.append(this.#box);
  }

  open() {
    this.#say("");
    this.#size();
    if (this.#box.open) return;
    this.#weights.value = this.#app.store.get("weights");
    this.#box.showModal();
  }

  // cover lays a sheet over the page while files are dragged over it: the frame
  // would get them otherwise.
  cover() { document.body.append(this.#sheet); }

  // drop takes what is dropped on the page.
  drop(entries) {
    this.#sheet.remove();
    return this.#take(() => dropped(entries));
  }

  async #take(list) {
    try {
      const { name, files } = pick(await list());
      const address = `your-files/${++this.#taken}/${encodeURIComponent(name)}`;
      const names = files.map((f) => f.name);
      const before = this.#app.zoo().filter((m) => m.own && m.called === name).length;
      this.#use({ name: address, folder: address, own: true, called: name, title: before ? `${name} ${before + 1}` : name, files: files.map((f) => ({ ...f, bytes: f.file.size })),
        description: `Files of yours: ${names.slice(0, 6).join(", ")}${names.length > 6 ? ", \u2026" : ""}.` });
    } catch (e) {
      this.open();
      this.#say(e.message);
    }
  }

  #fetch(text) {
    const folder = text.includes("/") && folderOf(text.replace(/\/(config\.json|model\.safetensors)$/, ""), document.baseURI);
    if (folder) this.#use({ name: folder, folder, given: true, title: decodeName(folder), description: `A folder at ${folder}.` });
    else this.#say(`got ${text || "no address"}, want that of a folder, such as https://example.org/models/mine`);
  }

  #use(model) {
    if (this.#app.moment().live) {
      this.#box.close();
      this.#app.store.set({ weights: this.#weights.value });
      this.#app.use({ task: "", measure: this.#measure.checked, ...model });
    } else {
      this.open();
      this.#say("the engine is not there yet: try again in a moment");
    }
  }

  #say(text) {
    this.#error.textContent = text;
    this.#error.hidden = !text;
  }

  async #size() {
    const kept = await keptSize().catch(() => null);
    this.#clear.disabled = !kept?.files;
    this.#kept.textContent = kept === null ? "This browser keeps no files for this page: weights from an address are fetched each time."
      : kept.files === 0 ? "Files from an address are kept in this browser for the next time; now there are none."
        : `Kept in this browser from addresses: ${kept.files} ${kept.files === 1 ? "file" : "files"}, ${bytes(kept.bytes)}.`;
  }
}
