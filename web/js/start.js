// Says so where a file of the page did not come: its modules cannot.
"use strict";
addEventListener("error", (e) => {
  const name = e.target?.nodeName === "SCRIPT" ? e.target.src : e.target?.rel === "stylesheet" ? e.target.href : "";
  if (!name || document.getElementById("notice-start")) return;
  const p = document.createElement("div");
  p.id = "notice-start";
  p.className = "notice bad";
  p.setAttribute("role", "alert");
  const text = document.createElement("span");
  text.textContent = `A file of the page could not be loaded whole (${name.replace(/.*\//, "")} or what it needs).`;
  const again = document.createElement("button");
  again.type = "button";
  again.textContent = "Try again";
  again.addEventListener("click", () => location.reload());
  p.append(text, again);
  const show = () => document.getElementById("notices").append(p);
  if (document.getElementById("notices")) show();
  else addEventListener("DOMContentLoaded", show);
}, true);
