// A program as a file that python3 runs.
import { lines } from "./trace.js";

const whole = /^(bits=\[( [01],)* \]|a,b,c,d,e=(range\(5\)|( \d+,){5})|([a-e]),([a-e])=\6,\5|[a-e]= \d+|assert .*== \d+)$/;

// python writes the words of a program, a statement to a line. An assert that
// waits for its answer prints it instead, and a program that asks nothing
// prints its variables; what is left unfinished at the end is a comment.
export function python(words) {
  const out = lines(words).split("\n").map((l) => l.trim()).filter(Boolean);
  const last = out.at(-1) ?? "";
  const open = /^assert (.+)==$/.exec(last);
  if (open) out[out.length - 1] = `print(${open[1]})`;
  else {
    if (last && !whole.test(last)) out[out.length - 1] = `# unfinished: ${last}`;
    if (/^assert .*== /.test(last)) out.push('print("every assert holds")');
    else {
      const names = out.some((l) => l.startsWith("a,b,c,d,e=")) ? "a, b, c, d, e" : out.map((l) => /^([a-e])= /.exec(l)?.[1]).filter(Boolean).join(", ");
      if (names) out.push(`print(${names})`);
    }
  }
  return `${out.join("\n")}\n`;
}
