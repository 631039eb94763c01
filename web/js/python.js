// A program as a file that python3 runs.
import { finished, lines } from "./trace.js";

// told returns what assert statements ask of: a function of a statement that
// keeps the values and returns what is true where an assert is not, else null.
function told() {
  const vars = {};
  let bits = [];
  return (line) => {
    const list = /^(bits=\[|a,b,c,d,e=)(.*)$/.exec(line);
    const swap = /^([a-e]),([a-e])=/.exec(line);
    const set = /^([a-e])= (\d+)$/.exec(line);
    const claim = /^assert (?:bits\[([a-e])\]|([a-e]))== (\d+)$/.exec(line);
    if (list?.[1] === "bits=[") bits = list[2].match(/\d+/g) ?? [];
    else if (list) (list[2] === "range(5)" ? ["0", "1", "2", "3", "4"] : list[2].match(/\d+/g)).forEach((x, i) => { vars["abcde"[i]] = x; });
    else if (swap) [vars[swap[1]], vars[swap[2]]] = [vars[swap[2]], vars[swap[1]]];
    else if (set) vars[set[1]] = set[2];
    else if (claim) {
      const truth = claim[1] ? bits[vars[claim[1]]] : vars[claim[2]];
      return truth === claim[3] ? null : truth;
    }
    return null;
  };
}

// python writes the words of a program, a statement to a line. An assert that
// waits for its answer prints it instead, one that is not true becomes a comment
// and a line that prints what is, and a program that asks nothing prints its
// variables; what is left unfinished at the end is a comment.
export function python(words) {
  const source = lines(words).split("\n").map((l) => l.trim()).filter(Boolean);
  const last = source.at(-1) ?? "";
  const open = /^assert (.+)==$/.exec(last);
  if (open) source.pop();
  const untrue = told();
  let wrong = 0;
  const out = source.flatMap((l, i) => {
    if (i === source.length - 1 && !finished(l)) return [`# unfinished: ${l}`];
    const truth = untrue(l);
    if (truth === null) return [l];
    wrong++;
    const asked = l.slice("assert ".length, l.indexOf("=="));
    return [`# not true: ${l}`, `print("${asked} is", ${asked})`];
  });
  if (open) out.push(`print(${open[1]})`);
  else if (/^assert .*== /.test(last)) {
    if (!wrong) out.push('print("every assert holds")');
  } else {
    const names = out.some((l) => l.startsWith("a,b,c,d,e=")) ? "a, b, c, d, e" : out.map((l) => /^([a-e])= /.exec(l)?.[1]).filter(Boolean).join(", ");
    if (names) out.push(`print(${names})`);
  }
  return `${out.join("\n")}\n`;
}
