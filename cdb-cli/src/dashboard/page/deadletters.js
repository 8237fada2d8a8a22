// Dead letters, with their contents and actions.

import { ask, change, part } from "./ask.js";
import { content, h, span, table, time, to } from "./dom.js";
import { selection } from "./selection.js";

const SOURCES = { instances: "between instances", partitions: "between partitions", work: "of ordered work" };
const FAILED = { delivery: "not delivered", handling: "not handled" };
const open = (name) => `#/deadletters/${part(name)}`;
const party = (letter, id) => (letter.source === "instances" ? h("a", { href: to(id) }, id) : id);
const path = (action) => (letter) => `messages/${part(letter.name)}/${action}`;
const ACTIONS = [{ name: "Redrive", path: path("redrive") }, { name: "Discard", path: path("discard"), grave: true }];

export async function letters(turn, parameters, about) {
  const page = await ask("messages", { state: "dead", from: parameters.get("from") });
  const title = h("h2", {}, "Dead letters");
  turn.say("");
  if (!page.messages.length) {
    turn.put(title, h("p", {}, "No dead letters. A message becomes one when its delivery fails again and again; it then waits here for a redrive."));
    return;
  }
  const bulk = about.actions && selection(turn, "dead letter", ACTIONS);
  const row = (letter) => h("tr", {}, bulk && h("td", { class: "box" }, bulk.box(letter, letter.name)),
    h("td", { class: "text" }, h("a", { href: open(letter.name) }, letter.what)), h("td", { class: "text" }, party(letter, letter.from)), h("td", { class: "text" }, party(letter, letter.to)),
    h("td", { class: "text" }, letter.reason), h("td", { class: "nowrap" }, span(page.now - letter.deadSince)),
    bulk && h("td", { class: "nowrap" }, h("button", { type: "button", onclick: () => apply(turn, letter, "redrive", true) }, "Redrive")));
  const head = [...(bulk ? [bulk.all] : []), "What", "From", "To", "Why", "Age", ...(bulk ? [""] : [])];
  turn.put(title, bulk && bulk.bar, table("Dead letters between instances, then between partitions.", head, page.messages.map(row)),
    page.next && h("div", { class: "pages" }, h("a", { href: `#/deadletters?from=${part(page.next)}`, rel: "next" }, "More")));
}

export async function letter(turn, name, about) {
  const found = await ask(`messages/${part(name)}`);
  const fact = (name, ...value) => [h("dt", {}, name), h("dd", {}, ...value)];
  turn.put(h("h2", {}, found.what), h("dl", {},
    fact("Dead since", time(found.deadSince), `, ${SOURCES[found.source]}, ${FAILED[found.failed]}`), fact("Why", content(found.reason)), fact("From", party(found, found.from)), fact("To", party(found, found.to)),
    found.sentAt && fact("Sent", time(found.sentAt)), fact("Attempts", String(found.attempts)), fact("Name", h("span", { class: "mono" }, found.name))),
    about.actions && h("form", { class: "acts", onsubmit: (event) => event.preventDefault() },
      h("button", { type: "button", onclick: () => apply(turn, found, "redrive") }, "Redrive"),
      h("button", { type: "button", class: "grave", onclick: () => apply(turn, found, "discard") }, "Discard")),
    h("h3", {}, "Contents"), found.contents.map((text) => h("pre", {}, text)),
    found.history.length ? [h("h3", {}, "Attempts"), table("The newest failed attempts, oldest first.", ["At", "Why"],
      found.history.map((attempt) => h("tr", {}, h("td", {}, time(attempt.at, true)), h("td", { class: "text" }, attempt.reason))))] : null);
  turn.say("");
}

async function apply(turn, letter, action, stay = false) {
  const question = action === "redrive" ? `Send ${letter.what} to ${letter.to} again?` : `Delete ${letter.what} to ${letter.to}? It is never delivered.`;
  if (!confirm(question)) return;
  try {
    const { done } = await change(path(action)(letter));
    if (stay) await turn.again(done); else turn.leave("#/deadletters", done);
  } catch (error) { turn.say(error.message, true); }
}
