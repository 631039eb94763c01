// Chat templates: a conversation as the prompt that a checkpoint was trained on.
// The same cases hold for the terminal's (testdata/chat.json).

const line = (e) => String(e?.message ?? e).split(/\s+/).join(" ").slice(0, 300);

// chatTemplate reads the texts of a tokenizer_config.json and of the
// chat_template.jinja beside it, which comes first; null where there is none. It
// resolves with null, or with {eos, render(messages)}: the token that ends a text
// ("" is none), and the prompt of messages, [{role, content}], with the beginning
// of the answer. What cannot be run is an error of one line.
export async function chatTemplate(config, jinja) {
  let c = {};
  try {
    if (config !== null) c = JSON.parse(config);
  } catch (e) {
    throw new Error(`chat template: tokenizer_config.json: ${line(e)}`);
  }
  const source = jinja ?? pick(c.chat_template ?? null);
  if (!source) return null;
  const token = (t) => (typeof t === "string" ? t : t?.content ?? "");
  const { Environment, Interpreter, Template } = await import("./vendor/jinja.js");
  let template;
  let raised;
  const render = (messages) => {
    raised = undefined;
    try {
      const env = new Environment();
      const known = {
        true: true, false: false, none: null, True: true, False: false, None: null, range,
        messages, add_generation_prompt: true, bos_token: token(c.bos_token), eos_token: token(c.eos_token),
        raise_exception: (why) => { throw new Error(raised = line(why)); },
      };
      for (const [name, value] of Object.entries(known)) env.set(name, value);
      return new Interpreter(env).run(template.parsed).value;
    } catch (e) {
      throw new Error(raised === undefined ? `chat template: not supported: ${line(e)}` : `chat template: ${raised}`);
    }
  };
  try {
    template = new Template(source);
  } catch (e) {
    throw new Error(`chat template: not supported: ${line(e)}`);
  }
  try {
    render([{ role: "user", content: "?" }]); // unknown filters and methods show when they are called
  } catch (e) {
    if (raised === undefined) throw e;
  }
  return { eos: token(c.eos_token), render };
}

function range(from, to, step = 1) {
  if (to === undefined) [from, to] = [0, from];
  const n = Math.max(0, Math.ceil((to - from) / step));
  if (!(n <= 1e6)) throw new Error(`range: got ${n} numbers, want at most a million`);
  return Array.from({ length: n }, (_, i) => from + i * step);
}

// pick is the template, of several the one called default.
function pick(template) {
  if (template === null || typeof template === "string") return template;
  if (!Array.isArray(template)) throw new Error(`chat template: got ${line(JSON.stringify(template)).slice(0, 40)}, want a text, or a list of names and templates`);
  const one = template.find((t) => t?.name === "default");
  if (!one) throw new Error(`chat template: got the templates ${template.map((t) => t?.name).join(", ")}, want one called default: not supported`);
  return one.template;
}
