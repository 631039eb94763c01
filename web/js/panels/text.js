// Text: any prompt for a model with a tokenizer of its own, what the model
// writes after it, and the state of a layer and head after that.
import { color } from "../colors.js";
import { el, style } from "../dom.js";
import { number } from "../format.js";
import { shared, sharing, tokenizer } from "../prompt.js";

// chatOf opens the model's chat template, if it has one: {chat, eos, ends}, with
// {error} where it cannot be run. eos ends an answer by the template, ends any
// text, beside the tokens of config.json.
async function chatOf(t, { own, folder, files, programs }) {
  if (programs) return { chat: false, ends: [] };
  const text = async (name) => {
    if (own) return await files.find((f) => f.name === name)?.file.text() ?? null;
    const r = await fetch(`${folder}/${name}`);
    return r.ok && !/^text\/html/.test(r.headers.get("content-type") ?? "") ? r.text() : null; // some servers have a page for what is not there
  };
  const ends = endsOf(await text("generation_config.json") ?? "{}");
  try {
    return { ...await t.chat(await text("tokenizer_config.json"), await text("chat_template.jinja")), ends };
  } catch (e) {
    return { error: e.message, ends };
  }
}

function endsOf(json) {
  try {
    const ends = [JSON.parse(json).eos_token_id ?? []].flat();
    if (!ends.every(Number.isInteger)) throw new Error("eos_token_id: want a token or a list of them");
    return ends;
  } catch (e) {
    throw new Error(`generation_config.json: ${e.message}`);
  }
}

const drawn = 320; // CSS pixels of a state's picture at most
const between = 30; // milliseconds from one drawing of the text to the next

export function create(app, root) {
  style("own.css");
  let tokens = null; // a promise: the tokenizer that chat was opened with
  let opening = null; // a promise of tokens, once chat is there
  let chat = null; // its chat template, as chatOf says
  let writing = false;
  let stopped = () => {}; // ends what is written, before the engine was asked for it
  let talked = []; // messages of the conversation so far, where the model has a chat template

  const field = (label, attributes) => {
    const input = el("input", { type: "number", inputmode: "decimal", ...attributes });
    return { input, label: el("label", { class: "text-field" }, label, " ", input), get value() { return Number(input.value); } };
  };
  const prompt = el("textarea", { rows: "3", spellcheck: "false", "aria-label": "Prompt" });
  const follow = sharing(prompt, app);
  const most = field("tokens", { min: "1", max: "2048", step: "1", value: "64" });
  const temp = field("temperature", { min: "0", max: "10", step: "0.1", value: "0.7" });
  const topK = field("top-k", { min: "0", max: "1000", step: "1", value: "40" });
  const topP = field("top-p", { min: "0.01", max: "1", step: "0.01", value: "0.95" });
  const seed = field("seed", { min: "0", max: "9007199254740991", step: "1", value: "1" });
  const raw = el("input", { type: "checkbox" });
  const plain = el("label", { class: "text-field" }, raw, " without the chat template");
  plain.hidden = true;
  const go = el("button", { type: "button", class: "primary", onclick: () => (writing ? stopped() : write()) }, "Write");
  const anew = el("button", { type: "button", onclick: () => { forgetTalk(); out.replaceChildren(); prompt.focus(); } }, "New conversation");
  anew.hidden = true;
  const said = el("p", { class: "hint", role: "status" });
  const out = el("div", { class: "text-out", tabindex: "0", role: "region", "aria-label": "What the model writes" });
  const layer = el("select", { onchange: () => { heads(); state(); } });
  const head = el("select", { onchange: state });
  const canvas = el("canvas", { role: "img" });
  const norm = el("span", { class: "hint" });
  const look = el("div", { class: "text-state" },
    el("div", { class: "row" }, el("label", {}, "State of layer ", layer), el("label", {}, "head ", head), norm), canvas);
  look.hidden = true;
  root.append(prompt, el("div", { class: "text-fields" }, most.label, temp.label, topK.label, topP.label, seed.label, plain, go, anew), said, out, look);

  app.onMoment(() => { if (!writing) follow(); });

  // opened is the tokenizer of the model that is loaded, and chat its template.
  function opened() {
    const now = tokenizer(app, (text) => { if (writing) said.textContent = text; });
    if (now !== tokens) {
      tokens = now;
      forgetTalk();
      const { name, ...m } = app.loaded();
      opening = now.then(async (t) => {
        chat = await chatOf(t, m);
        plain.hidden = !chat.chat && !chat.error;
        return t;
      });
      opening.catch(() => { tokens = null; });
    }
    return opening;
  }

  const rate = (s) => `${s.tokens} ${s.tokens === 1 ? "token" : "tokens"}${s.seconds > 0 ? ` at ${(s.tokens / s.seconds).toFixed(s.tokens < 10 * s.seconds ? 1 : 0)} a second` : ""}`;

  function forgetTalk() {
    talked = [];
    anew.hidden = true;
  }

  async function write() {
    writing = true;
    anew.disabled = true;
    opened().catch(() => {}); // another model's conversation is forgotten
    if (raw.checked) forgetTalk();
    shared.prompt = prompt.value;
    shared.typed = true;
    go.textContent = "Stop";
    look.hidden = true;
    said.textContent = "Reading the prompt\u2026";
    const reading = app.on("progress", (m) => { if (m.what === "prompt") said.textContent = `Reading the prompt: ${m.done} of ${m.total} tokens`; });
    const turn = { role: "user", content: prompt.value };
    const given = el("span", { class: "dim" }, prompt.value);
    const text = document.createTextNode("");
    if (talked.length) out.append("\n\n", given, "\n", text);
    else out.replaceChildren(given, text);
    let forget = () => {};
    const stops = new Promise((_, no) => { stopped = () => no(new Error("cancelled")); });
    stops.catch(() => {});
    const first = (p) => Promise.race([p, stops]);
    try {
      const t = await first(opened());
      if (chat.error && !raw.checked) throw new Error(`${chat.error}; without it the prompt is taken as it is`);
      const talk = chat.chat && !raw.checked;
      if (talk && !talked.length) given.after("\n");
      const ids = talk ? await first(t.conversation([...talked, turn])) : await first(t.encode(prompt.value));
      const stream = await first(t.stream());
      stopped = () => app.request("cancel", { what: "write" }).catch(() => {});
      Object.assign(shared, { model: app.loaded().name, ids: [...ids] });
      // Tokens that come faster than a text is worth drawing are drawn together: each drawing lays out
      // all of it again, and Stop waits behind that.
      let coming = [];
      let newest = null;
      let flowing = null;
      async function flow() {
        while (coming.length) {
          const ids = coming;
          coming = [];
          const piece = await stream.next(ids);
          text.data += piece.text + "\ufffd".repeat(piece.unknown);
          said.textContent = `Writing: ${rate({ tokens: newest.done, seconds: newest.seconds })}`;
          out.scrollTop = out.scrollHeight;
          await new Promise((r) => setTimeout(r, between));
        }
        flowing = null;
      }
      forget = app.on("wrote", (m) => {
        if (m.lane) return;
        shared.ids.push(...m.ids);
        coming.push(...m.ids);
        newest = m;
        flowing ??= flow();
        flowing.catch(() => {}); // it is heard below
      });
      const r = await app.request("write", { ids: [...ids], most: most.value, temp: temp.value, topK: topK.value, topP: topP.value, seed: seed.value, ends: talk && chat.eos >= 0 ? [...chat.ends, chat.eos] : chat.ends });
      await flowing;
      text.data += await stream.end();
      said.textContent = `Read ${rate(r.prompt)}${talk ? ", with its chat template" : ""}; wrote ${rate(r.written)}${r.done ? ", and ended" : r.cancelled ? ", and was stopped" : ""}.`;
      if (talk) {
        talked.push(turn, { role: "assistant", content: text.data });
        prompt.value = "";
        prompt.dispatchEvent(new Event("input"));
      }
      choices();
      await state();
    } catch (e) {
      said.textContent = e.message === "cancelled" ? "Stopped." : e.message;
    } finally {
      forget();
      reading();
      writing = false;
      go.textContent = "Write";
      anew.disabled = false;
      anew.hidden = talked.length === 0;
    }
  }

  // choices lists the layers that have a state, the first chosen.
  function choices() {
    const layers = app.moment().model?.layers ?? [];
    const was = layer.value;
    layer.replaceChildren(...layers.flatMap((l, i) => (l.kind === "gdn" ? [el("option", { value: i }, `${i}`)] : [])));
    if ([...layer.options].some((o) => o.value === was)) layer.value = was;
    look.hidden = layer.options.length === 0;
    heads();
  }

  function heads() {
    const n = app.moment().model?.layers[layer.value]?.heads ?? 0;
    const was = Math.min(Number(head.value) || 0, Math.max(n - 1, 0));
    head.replaceChildren(...Array.from({ length: n }, (_, i) => el("option", { value: i }, `${i}`)));
    head.value = was;
  }

  async function state() {
    if (look.hidden) return;
    try {
      const { state: s } = await app.request("state", { layer: Number(layer.value), head: Number(head.value) });
      draw(s);
    } catch (e) {
      norm.textContent = e.message;
    }
  }

  function draw(s) {
    let sum = 0;
    let top = 0;
    for (const row of s) for (const x of row) {
      sum += x * x;
      top = Math.max(top, Math.abs(x));
    }
    const scale = Math.max(1, Math.floor(drawn / Math.max(s.length, s[0].length)));
    canvas.width = s[0].length;
    canvas.height = s.length;
    canvas.style.width = `${s[0].length * scale}px`;
    canvas.style.height = `${s.length * scale}px`;
    const g = canvas.getContext("2d");
    const img = g.createImageData(canvas.width, canvas.height);
    s.forEach((row, i) => row.forEach((x, j) => {
      const c = color(app.theme(), "signed", x, top || 1);
      img.data.set([c[0], c[1], c[2], 255], 4 * (i * canvas.width + j));
    }));
    g.putImageData(img, 0, 0);
    norm.textContent = `${s.length} by ${s[0].length}, norm ${number(Math.sqrt(sum))}, largest ${number(top)}`;
    canvas.setAttribute("aria-label", `State of layer ${layer.value}, head ${head.value}: ${norm.textContent}`);
  }

  return { show: follow, close() { if (writing) stopped(); } };
}
