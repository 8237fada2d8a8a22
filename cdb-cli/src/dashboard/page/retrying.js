// What fails and is retried: messages between partitions, messages of ordered work, parts of change feeds.

import { ask, part } from "./ask.js";
import { clock, h, refresh, span, table } from "./dom.js";

const EVERY = 5000;
const until = (at, now) => (at === undefined ? "" : at <= now ? "now" : `in ${span(at - now)}`);
const cell = (...value) => h("td", { class: "text" }, ...value);
const number = (value) => h("td", { class: "number" }, value === undefined ? "" : String(value));

// Shows a list that is read again while it is shown. `wanted` are the path of the request and its filter.
async function list(turn, title, view, wanted, parameters, draw) {
  const [path, filter] = wanted;
  const place = h("div", {}, h("p", {}, "Reading…"));
  turn.put(h("h2", {}, title), place);
  await turn.every(EVERY, async () => {
    const page = await ask(path, { ...filter, from: parameters.get("from") });
    refresh(place, draw(page), page.next && h("div", { class: "pages" }, h("a", { href: `#/${view}?from=${part(page.next)}`, rel: "next" }, "More")));
    turn.say(`as of ${clock(page.now, false)}, every ${EVERY / 1000} s`);
  });
}

export function messages(now, rows, caption) {
  const row = (message) => h("tr", {}, cell(message.what), cell(message.from), cell(message.to), number(message.attempts), cell(message.reason),
    h("td", { class: "nowrap" }, until(message.nextAttemptAt, now)), h("td", { class: now - message.sentAt > 60000 && "late" }, span(now - message.sentAt)));
  return table(caption, ["What", "From", "To", "#Attempts", "Why", "Next attempt", "Age"], rows.map(row));
}

export const inbox = (turn, parameters) => list(turn, "Inbox", "inbox", ["messages", { source: "partitions", failed: "handling" }], parameters, (page) => (page.messages.length
  ? messages(page.now, page.messages, "Messages whose handler fails, the next attempt first. Each blocks its stream.")
  : h("p", {}, "No message is retried. A message is here from its first failed attempt until it succeeds or becomes a dead letter.")));

export const work = (turn, parameters) => list(turn, "Work", "work", ["messages", { source: "work" }], parameters, (page) => {
  const next = (message) => (message.deadSince ? h("span", { class: "late" }, `dead for ${span(page.now - message.deadSince)}`) : until(message.nextAttemptAt, page.now));
  const row = (message) => h("tr", {}, cell(message.to), cell(message.lane), cell(message.id), cell(message.what), number(message.attempts), cell(message.reason),
    h("td", { class: "nowrap" }, next(message)));
  return page.messages.length
    ? table("Failed messages of ordered work: dead ones, then those retried. Each blocks its stream.", ["Stream", "Lane", "Message", "What", "#Attempts", "Why", "Next attempt"], page.messages.map(row))
    : h("p", {}, "No message of ordered work has failed.");
});

export const changeFeed = (turn, parameters) => list(turn, "Change feed", "change-feed", ["change-feed", {}], parameters, (page) => {
  const row = (one) => h("tr", {}, cell(one.processor), cell(one.part), cell(one.source || "unknown"), h("td", { class: one.reader ? "text" : "silent" }, one.reader || "none"),
    h("td", { class: one.lagMs > 60000 && "late" }, one.lagMs === undefined ? "unknown" : span(one.lagMs)), number(one.failure?.attempts), cell(one.failure?.reason || ""),
    h("td", { class: "nowrap" }, until(one.failure?.nextAttemptAt, page.now)));
  return page.parts.length
    ? table("The parts of each processor's feed.", ["Processor", "Part", "Source", "Reader", "Lag", "#Attempts", "Why", "Next attempt"], page.parts.map(row))
    : h("p", {}, "No change feed was started.");
});
