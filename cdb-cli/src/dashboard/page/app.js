// Routing: the fragment of the address selects the view, so that history and bookmarks work.

import { ask } from "./ask.js";
import { list } from "./instances.js";
import { instance } from "./instance.js";
import { letter, letters } from "./deadletters.js";
import { outbox, queues } from "./queues.js";

const main = document.getElementById("main");
const status = document.getElementById("status");
let about = { actions: false };
let shown = 0;
// The message that a view leaves for the next view.
let pending = "";

export function say(text, error = false) {
  status.textContent = text;
  status.classList.toggle("error", error);
}

function view() {
  const [path, query] = location.hash.slice(1).split("?");
  const [, name, id] = path.split("/");
  const parameters = new URLSearchParams(query);
  if (name === "queues") return ["queues", (turn) => queues(turn)];
  if (name === "outbox") return ["outbox", (turn) => outbox(turn, parameters)];
  if (name === "deadletters" && id) return ["deadletters", (turn) => letter(turn, decodeURIComponent(id), about)];
  if (name === "deadletters") return ["deadletters", (turn) => letters(turn, parameters, about)];
  if (id) return ["instances", (turn) => instance(turn, decodeURIComponent(id), parameters, about)];
  return ["instances", (turn) => list(turn, parameters)];
}

async function show() {
  const number = ++shown;
  const [name, draw] = view();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  // The page as a view sees it. Calls of a view that is no longer shown have no effect.
  const turn = {
    current: () => number === shown,
    put: (...nodes) => { if (number === shown) main.replaceChildren(...nodes.flat(Infinity).filter(Boolean)); },
    say: (text, error) => { if (number === shown) say(text, error); },
    again: async (text) => { if (number === shown) { await show(); say(text); } },
    leave: (hash, text) => { if (number === shown) { pending = text; location.hash = hash; } },
  };
  try {
    await draw(turn);
  } catch (error) {
    turn.say(error.message, true);
  }
}

addEventListener("hashchange", () => { say(""); scrollTo(0, 0); show().then(arrived); });

function arrived() {
  main.focus({ preventScroll: true });
  if (pending) say(pending);
  pending = "";
}

addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
  if (event.key === "/" && !typing) {
    const search = document.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); search.select(); }
  } else if (event.key === "Escape" && /^#\/(instances|deadletters)\/./.test(location.hash)) {
    location.hash = location.hash.split("/", 2).join("/");
  } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !typing) {
    const links = [...main.querySelectorAll("tbody a")].filter((link) => link.checkVisibility());
    const next = links.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    if (links.length) { event.preventDefault(); links[Math.max(0, Math.min(next, links.length - 1))].focus(); }
  }
});

show();
ask("about").then((answer) => {
  about = answer;
  document.title = `${about.container} – cdb`;
  document.getElementById("where").textContent = `${about.database} / ${about.container}`;
  document.getElementById("mode").textContent = about.actions ? "actions allowed" : "read-only";
  if (about.actions && /^#\/(instances\/|deadletters)/.test(location.hash)) show();
}).catch((error) => say(error.message, true));
