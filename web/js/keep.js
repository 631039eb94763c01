// Keeps what was typed and not run where a page that dies leaves it: in the
// session storage of its tab. What ends in order writes the address instead.
const key = "shellgame typed";

const storage = (f) => {
  try {
    return f(sessionStorage);
  } catch {
    return null; // not allowed, or full: then not
  }
};

// keep notes a text, null where there is none.
export const keep = (text) => storage((s) => (text === null ? s.removeItem(key) : s.setItem(key, text)));

// kept is what a page that died in this tab left, else null.
export const kept = () => storage((s) => s.getItem(key));
