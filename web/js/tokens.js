// Tokens is the tokenizer of a checkpoint that is not of the zoo: byte-level
// BPE, or words. It lives in a worker, whose wasm is fetched when the first one
// is opened. Every method rejects with an error of one line.
import { asset } from "./asset.js";

export class Tokens {
  static patience = 60_000; // ms that a chat template may run

  #worker;
  #waiting = new Map();
  #next = 1;
  #gone = "";

  // open reads the bytes of a tokenizer.json (a Uint8Array, which is given away).
  // progress(done, total) counts the bytes of the wasm; total is 0 while unknown.
  static async open(data, progress = () => {}) {
    const t = new Tokens(progress);
    try {
      t.n = (await t.#ask("open", [data], [data.buffer])).n; // one more than the largest token
    } catch (e) {
      t.close();
      throw e;
    }
    return t;
  }

  constructor(progress) {
    this.#worker = new Worker(asset("js/tokens-worker.js"), { type: "module" });
    this.#worker.onmessage = ({ data: { id, progress: p, error, ...answer } }) => {
      if (p) {
        progress(p.done, p.total);
        return;
      }
      const w = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error) w?.reject(new Error(error));
      else w?.resolve(answer);
    };
    this.#worker.onerror = (e) => this.#drop(`the tokenizer's worker failed: ${e.message || "it did not load"}`);
  }

  #drop(why) {
    this.#gone = why;
    for (const w of this.#waiting.values()) w.reject(new Error(why));
    this.#waiting.clear();
  }

  #ask(type, args, give = []) {
    if (this.#gone) return Promise.reject(new Error(this.#gone));
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, type, args }, give);
    });
  }

  // #run asks for what runs a chat template: a program from somebody else, which may not end.
  async #run(type, ...args) {
    const late = setTimeout(() => {
      this.#worker.terminate();
      this.#drop(`the chat template ran for ${Tokens.patience / 1000} s without an end: load the checkpoint again without it`);
    }, Tokens.patience);
    try {
      return await this.#ask(type, args);
    } finally {
      clearTimeout(late);
    }
  }

  // encode resolves with the tokens of a text, an Int32Array; those that go
  // before every text are included.
  async encode(text) { return (await this.#ask("encode", [text])).ids; }

  // decode resolves with the text of tokens, special ones included.
  async decode(ids) { return (await this.#ask("decode", [ids])).text; }

  // pieces resolves with how tokenizer.json writes each token, Ġ for a space; ""
  // is a token that it lacks.
  async pieces(ids) { return (await this.#ask("pieces", [ids])).pieces; }

  // chat takes the texts of tokenizer_config.json and chat_template.jinja, null
  // where there is none, and resolves with {chat, eos}: whether they hold a chat
  // template, and the token that ends an answer or -1. A template that cannot be
  // run is an error.
  async chat(config, jinja) {
    const { chat, eos } = await this.#run("chat", config, jinja);
    return { chat, eos };
  }

  // conversation resolves with the tokens of messages, [{role, content}], by the
  // chat template, up to where the answer begins.
  async conversation(messages) { return (await this.#run("conversation", messages)).ids; }

  // stream resolves with a text that is decoded as its tokens come: next(ids)
  // resolves with {text, unknown}, the characters that are whole now and how many
  // tokens the tokenizer lacks; end() with what was held back.
  async stream() {
    const { stream } = await this.#ask("begin", []);
    return {
      next: (ids) => this.#ask("next", [stream, ids]),
      end: async () => (await this.#ask("end", [stream])).text,
    };
  }

  close() {
    this.#worker.terminate();
    this.#drop("the tokenizer is closed");
  }
}
