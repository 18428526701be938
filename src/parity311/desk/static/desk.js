// Our own module: single-key shortcuts that can be switched off, and a live count of the queue.
// Every act is a form that works without it.
const status = document.querySelector("#status");
const rows = [...document.querySelectorAll("tr[data-case]")];
const switchBox = document.querySelector("#keys-on");
let at = -1;

const keysAreOn = () => localStorage.getItem("keys") !== "off";
if (switchBox) {
  switchBox.checked = keysAreOn();
  switchBox.addEventListener("change", () => localStorage.setItem("keys", switchBox.checked ? "on" : "off"));
}

function say(text) {
  const line = document.createElement("p");
  line.className = "said";
  line.textContent = text;
  status.replaceChildren(line);
}

function move(by) {
  if (!rows.length) return;
  rows[at]?.classList.remove("current");
  at = Math.min(Math.max(at + by, 0), rows.length - 1);
  rows[at].classList.add("current");
  rows[at].querySelector("a").focus();
}

async function acceptRow(row) {
  const id = row.dataset.case;
  const answer = await fetch(`/case/${encodeURIComponent(id)}/accept`, {
    method: "POST", headers: { Accept: "application/json" },
  });
  const told = await answer.json().catch(() => ({}));
  if (answer.ok) {
    row.classList.add("done");
    row.querySelectorAll("input").forEach((box) => box.remove());
    say(`${id}: ${told.said} Press u to take it back.`);
    lastAccepted = id;
  } else {
    say(told.error?.message ?? "The desk does not answer; nothing was changed.");
  }
}
let lastAccepted = "";

async function takeBack(id) {
  const answer = await fetch(`/case/${encodeURIComponent(id)}/undo`, {
    method: "POST", headers: { Accept: "application/json" },
  });
  const told = await answer.json().catch(() => ({}));
  say(answer.ok ? `${id}: ${told.said}` : (told.error?.message ?? "The desk does not answer."));
}

const press = (selector) => document.querySelector(selector)?.click();
const focusOn = (selector) => document.querySelector(selector)?.focus();

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=checkbox]), select, textarea");
  if (!keysAreOn() || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const acts = {
    j: () => move(1),
    k: () => move(-1),
    x: () => rows[at]?.querySelector("input[type=checkbox]")?.click(),
    a: () => (rows.length ? rows[at] && acceptRow(rows[at]) : press("#accept")),
    o: () => (rows.length ? rows[at]?.querySelector("a").click() : focusOn("#other-action")),
    u: () => (rows.length ? lastAccepted && takeBack(lastAccepted) : press("#undo")),
    m: () => focusOn("#merge-into"),
    n: () => press("#next"),
    "/": () => focusOn("#search"),
    "?": () => { document.querySelector(".tour")?.setAttribute("open", ""); focusOn(".tour summary"); },
  };
  if (acts[event.key]) {
    event.preventDefault();
    acts[event.key]();
  }
});
document.addEventListener("focusin", (event) => {
  const row = event.target.closest("tr[data-case]");
  if (row && rows.indexOf(row) !== at) {
    rows[at]?.classList.remove("current");
    at = rows.indexOf(row);
    row.classList.add("current");
  }
});

// Not announced: a screen reader that hears every new case cannot work.
const live = document.querySelector("[data-live]");
if (live) {
  const openNow = document.querySelector("#open-now");
  const changes = new EventSource(live.dataset.live);
  let before = null;
  changes.addEventListener("message", (event) => {
    before ??= event.data;
    openNow.textContent = event.data === before ? "" : ` (${event.data} open now; reload to see them)`;
  });
  window.addEventListener("pagehide", () => changes.close());
}
