"use strict";
const rows = [...document.querySelectorAll("#points tbody tr")];
const marks = [...document.querySelectorAll("[data-mark]")];
const byId = (id) => document.getElementById(id);
const gap = byId("limit-gap"), visits = byId("limit-visits"), best = byId("only-best");
function choose(place) {
  for (const one of rows) one.classList.toggle("is-chosen", one.dataset.place === place);
  for (const one of marks) one.classList.toggle("is-chosen", one.dataset.mark === place);
  const row = byId("point-" + place), chosen = byId("chosen");
  const heads = [...document.querySelectorAll("#points thead th")].map((head) => head.textContent.trim());
  chosen.textContent = "";
  const title = document.createElement("h3");
  title.textContent = "Point " + place + (row.dataset.best === "1" ? ", beaten by nothing" : ", beaten by another");
  const list = document.createElement("dl");
  [...row.children].slice(1).forEach((cell, index) => {
    const name = document.createElement("dt"), value = document.createElement("dd");
    name.textContent = heads[index + 1];
    value.textContent = cell.textContent.trim();
    const both = document.createElement("div");
    both.append(name, value);
    list.append(both);
  });
  const words = document.createElement("p"), code = document.createElement("code");
  words.textContent = "Train this policy: ";
  code.textContent = row.dataset.command;
  words.append(code);
  chosen.append(title, list, words);
}
function limit() {
  const isAny = (input) => Number(input.value) >= Number(input.max) - 1e-6;
  byId("said-gap").textContent = isAny(gap) ? "any" : Number(gap.value).toFixed(3);
  byId("said-visits").textContent = isAny(visits) ? "any" : (100 * visits.value).toFixed(0) + " %";
  let shown = 0;
  for (const row of rows) {
    const fits = (isAny(gap) || Number(row.dataset.gap) <= Number(gap.value))
      && (isAny(visits) || Number(row.dataset.visits) <= Number(visits.value))
      && (!best.checked || row.dataset.best === "1");
    row.hidden = !fits;
    shown += fits ? 1 : 0;
    for (const mark of marks) if (mark.dataset.mark === row.dataset.place) mark.classList.toggle("is-out", !fits);
  }
  byId("n-shown").textContent = shown + " of " + rows.length + " shown";
}
function sortBy(button) {
  const head = button.closest("th"), column = Number(button.dataset.column);
  const isUp = head.getAttribute("aria-sort") !== "ascending";
  for (const other of head.parentElement.children) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
  const value = (row) => {
    const text = row.children[column].dataset.value;
    return text === undefined ? Infinity : Number(text);
  };
  rows.sort((a, b) => (isUp ? 1 : -1) * (value(a) - value(b)));
  byId("points").tBodies[0].append(...rows);
}
for (const one of [...rows, ...marks]) {
  const place = one.dataset.place || one.dataset.mark;
  one.addEventListener("click", (event) => { event.preventDefault(); choose(place); });
  one.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(place); }
  });
}
for (const button of document.querySelectorAll("#points thead button")) button.addEventListener("click", () => sortBy(button));
for (const input of [gap, visits, best]) input.addEventListener("input", limit);
limit();
choose(byId("points").dataset.first);
