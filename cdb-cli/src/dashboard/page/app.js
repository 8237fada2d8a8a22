// Routing: the fragment of the address selects the view, so that history and bookmarks work.

import { ask } from "./ask.js";
import { h } from "./dom.js";
import { list } from "./instances.js";
import { instance } from "./instance.js";
import { letter, letters } from "./deadletters.js";
import { overview } from "./overview.js";
import { outbox, queues } from "./queues.js";
import { changeFeed, inbox, work } from "./retrying.js";

const main = document.getElementById("main");
const status = document.getElementById("status");
let about = { actions: false, views: ["overview"] };
let shown = 0;
// What ends with the shown view: timers and streams.
let ends = [];
// The message that a view leaves for the next view.
let pending = "";
// The address of the list that was shown last, with its filters and its page.
let listed;

function say(text, error = false) {
  status.textContent = text;
  status.classList.toggle("error", error);
}

// The parts of the address.
function address(hash = location.hash) {
  const [path, query] = hash.slice(1).split("?");
  const [, wanted, id] = path.split("/");
  return { path, query, wanted, id };
}

function view() {
  const { query, wanted, id } = address();
  const name = about.views.includes(wanted) ? wanted : about.views[0];
  const parameters = new URLSearchParams(query);
  if (name === "queues") return ["queues", (turn) => queues(turn)];
  if (name === "outbox") return ["outbox", (turn) => outbox(turn, parameters)];
  if (name === "inbox") return ["inbox", (turn) => inbox(turn, parameters)];
  if (name === "work") return ["work", (turn) => work(turn, parameters)];
  if (name === "change-feed") return ["change-feed", (turn) => changeFeed(turn, parameters)];
  if (name === "deadletters" && id) return ["deadletters", (turn) => letter(turn, decodeURIComponent(id), about)];
  if (name === "deadletters") return ["deadletters", (turn) => letters(turn, parameters, about)];
  if (name === "instances" && id) return ["instances", (turn) => instance(turn, decodeURIComponent(id), parameters, about)];
  if (name === "instances") return ["instances", (turn) => list(turn, parameters, about)];
  return ["overview", (turn) => overview(turn, parameters)];
}

// The page as a view sees it. Calls of a view that is no longer shown have no effect.
function turnOf(number) {
  const current = () => number === shown;
  return {
    current,
    put: (...nodes) => { if (current()) { main.replaceChildren(...nodes.flat(Infinity).filter(Boolean)); entitle(main.querySelector("h2")); } },
    say: (text, error) => { if (current()) say(text, error); },
    again: async (text, error) => { if (current()) { await show(); say(text, error); } },
    leave: (hash, text) => { if (current()) { pending = text; location.hash = hash; } },
    end: (what) => { if (current()) ends.push(what); else what(); },
    // Calls `draw` now and then every `millis`, unless the window is hidden.
    every: async (millis, draw) => {
      const attempt = async () => { try { await draw(); } catch (error) { if (current()) say(error.message, true); } };
      await attempt();
      const later = async () => {
        while (current()) {
          await new Promise((resolve) => setTimeout(resolve, millis));
          if (current() && !document.hidden) await attempt();
        }
      };
      later();
    },
  };
}

// Names the view in the title of the window, which tells tabs and the entries of the history apart.
function entitle(heading) {
  document.title = [heading?.textContent, about.container, "cdb"].filter(Boolean).join(" – ");
}

async function show() {
  const number = ++shown;
  ends.splice(0).forEach((end) => end());
  const [name, draw] = view();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  entitle(document.querySelector("nav a[aria-current]"));
  if (!address().id) listed = location.hash;
  const turn = turnOf(number);
  try {
    await draw(turn);
  } catch (error) {
    turn.put(h("h2", {}, "This view cannot be shown"), h("p", { role: "alert" }, error.message), h("p", {}, h("a", { href: `#/${name}` }, "Back to the list")));
    turn.say("");
  }
}

addEventListener("hashchange", (event) => {
  // The link to the content is no view.
  if (location.hash === "#main") { history.replaceState(null, "", "#/overview"); main.focus(); return; }
  say(""); scrollTo(0, 0); show().then(() => arrived(new URL(event.oldURL).hash));
});

// Moves the focus to the content, or to the row of the instance or dead letter that was left.
function arrived(left) {
  const row = address(left).id && [...main.querySelectorAll("tbody a")].find((link) => link.hash === `#${address(left).path}`);
  if (row) row.focus(); else main.focus({ preventScroll: true });
  if (pending) say(pending);
  pending = "";
}

addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName) && document.activeElement.type !== "checkbox";
  if (event.key === "/" && !typing) {
    const search = document.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); search.select(); }
  } else if (event.key === "Escape" && !typing && address().id) {
    location.hash = listed || `#/${address().wanted}`;
  } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !typing) {
    const links = [...main.querySelectorAll("tbody a")].filter((link) => link.checkVisibility());
    const next = links.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
    if (links.length) { event.preventDefault(); links[Math.max(0, Math.min(next, links.length - 1))].focus(); }
  }
});

try {
  about = await ask("about");
  document.getElementById("where").textContent = `${about.database} / ${about.container}`;
  for (const link of document.querySelectorAll("nav a")) link.hidden = !about.views.includes(link.dataset.view);
  document.querySelector("h1 a").href = `#/${about.views[0]}`;
  document.getElementById("mode").textContent = about.actions ? "actions allowed" : "read-only";
} catch (error) { say(error.message, true); }
show();
