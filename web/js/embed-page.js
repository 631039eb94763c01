// The page of embed.html: asks the first element, and writes down what both tell.
const one = document.getElementById("one");
const log = document.getElementById("log");

function write(who, what) {
  log.textContent += `${who}: ${JSON.stringify(what)}\n`;
  log.scrollTop = log.scrollHeight;
}

for (const element of document.querySelectorAll("shell-game")) {
  for (const name of ["ready", "step", "answer"]) element.addEventListener(name, (e) => write(`${element.id} ${name}`, e.detail));
}
const ask = (id, f) => document.getElementById(id).addEventListener("click", async () => {
  try {
    write("one", await f());
  } catch (e) {
    write("one", { error: e.message });
  }
});
ask("step", () => one.step());
ask("end", () => one.seek(10));
ask("harder", () => one.load({ model: "st-gdn-pos", n: 16, t: 0 }));
ask("state", () => one.state());
one.addEventListener("ready", () => { for (const b of document.querySelectorAll("button")) b.disabled = false; });
