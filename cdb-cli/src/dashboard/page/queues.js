// Live queues, slots and members; pages of the outbox.

import { ask } from "./ask.js";
import { clock, count, h, refresh, span, table, to } from "./dom.js";
import { messages } from "./retrying.js";

const EVERY = 3000;

export async function queues(turn) {
  const place = h("div", {}, h("p", {}, "Counting…"));
  turn.put(h("h2", {}, "Queues"), place);
  await turn.every(EVERY, async () => {
    const work = await ask("queues");
    refresh(place, tiles(work.queues), work.queues.busy && busy(work), limited(work.queues), work.queues.slots && slots(work.queues.slots), work.members && members(work.members));
    turn.say(`as of ${clock(work.now, false)}, every ${EVERY / 1000} s`);
  });
}

function tiles(of) {
  const tile = (name, count, oldest) => h("div", { class: "tile" }, h("b", {}, count.toLocaleString("en")), name, " ",
    oldest !== undefined && h("span", { class: oldest > 60000 && "late" }, `oldest ${span(oldest)}`));
  return [h("div", { class: "tiles" },
    of.messages && [tile("messages due", of.messages.count, of.messages.oldestMs), tile("timers", of.timers),
      tile("activities due", of.activities.count, of.activities.oldestMs), tile("activities running", of.running), tile("outbox", of.outbox.count, of.outbox.oldestMs)],
    of.messaging && [tile("outbox retrying", of.messaging.outboxRetrying), tile("inbox retrying", of.messaging.inboxRetrying)],
    of.work && [tile("work waiting", of.work.waiting.count, of.work.waiting.oldestMs), tile("work retrying", of.work.retrying), tile("work dead", of.work.dead), tile("streams blocked", of.work.blockedStreams)],
    of.changeFeed && [tile("change feed parts", of.changeFeed.parts, of.changeFeed.lagMs), tile("parts failing", of.changeFeed.failing)])];
}

// Describes what the workers run while due activities wait for them.
export function busy(work) {
  const line = (of) => h("p", { class: "late" }, `Activities running${of.runtime ? ` on ${of.runtime}` : ""}: ${of.activities}, the oldest ${of.longest.activity} of `,
    h("a", { href: to(of.longest.instance) }, of.longest.instance), `, scheduled ${span(work.members.now - of.longest.scheduledAt)} ago.`);
  return work.queues.busy.length ? [work.queues.busy.map(line), h("p", {}, "Due activities wait. If these are all workers, raise worker_concurrency or start more runtimes.")] : [];
}

// The limited keys with activities, while there are limits.
function limited({ limitedKeys: keys = [], limitedKeysLeftOut: more }) {
  if (!keys.length) return [];
  const row = (of) => h("tr", {}, h("td", { class: "text" }, of.key), h("td", { class: "number" }, (of.running ?? "").toLocaleString("en")),
    h("td", { class: "number" }, of.waiting.toLocaleString("en")), h("td", { class: "text" }, of.limit), h("td", { class: of.oldestMs > 60000 && "late" }, span(of.oldestMs)));
  const rest = more ? ` ${count(more, "more key")}.` : "";
  return [h("h3", {}, "Limits"), table(`Activities by limited key, those that wait longest first.${rest}`, ["Key", "#Running", "#Waiting", "Limit", "Oldest"], keys.map(row))];
}

function slots(due) {
  const late = due.filter((slot) => slot.oldestMs > 60000).length;
  const words = due.length ? `${due.length} of 256 slots have messages due, ${late} for longer than a minute` : "no slot has messages due";
  const by = new Map(due.map((slot) => [slot.slot, slot]));
  const cell = (_, number) => {
    const slot = by.get(number);
    return h("i", { class: slot && (slot.oldestMs > 60000 ? "late" : "due"), title: slot ? `slot ${number}: ${slot.due} due, oldest ${span(slot.oldestMs)}` : `slot ${number}` });
  };
  return [h("h3", {}, "Slots"), h("p", {}, `${words}.`), h("div", { class: "heat", role: "img", "aria-label": words }, Array.from({ length: 256 }, cell))];
}

export function members(group) {
  const head = h("h3", {}, "Runtimes");
  if (!group.members.length) return [head, h("p", {}, "No membership: each runtime serves all slots. Runtimes that share slots are listed here.")];
  const row = (member) => h("tr", {}, h("td", { class: "text" }, member.name), h("td", { class: member.silent ? "silent" : "alive" }, member.silent ? "silent" : "alive"),
    h("td", { class: "number" }, String(member.slots)), h("td", {}, member.seenAt ? `${span(group.now - member.seenAt)} ago` : "never"));
  return [head, table(`Members of the group ${group.group}, and the dispatch slots that each serves.`, ["Runtime", "State", "#Slots", "Heartbeat"], group.members.map(row))];
}

export async function outbox(turn, parameters) {
  const page = await ask("messages", { failed: "delivery", from: parameters.get("from") });
  const intents = page.messages.filter((message) => message.source === "instances");
  const between = page.messages.filter((message) => message.source === "partitions");
  const row = (intent) => h("tr", {}, h("td", { class: "text" }, h("a", { href: to(intent.from) }, intent.from)),
    h("td", { class: "text" }, h("a", { href: to(intent.to) }, intent.to)), h("td", { class: "text" }, intent.what),
    h("td", { class: "number" }, String(intent.attempts)), h("td", { class: "text" }, intent.reason), h("td", { class: page.now - intent.sentAt > 60000 && "late" }, span(page.now - intent.sentAt)));
  const found = intents.length ? table("Undelivered messages, oldest first.", ["From", "To", "What", "#Attempts", "Why", "Age"], intents.map(row))
    : h("p", {}, "No undelivered messages. A message between instances is here until a runtime has delivered it, one between partitions while its delivery is retried.");
  const retried = between.length > 0 && messages(page.now, between, "Messages between partitions whose delivery is retried.");
  turn.put(h("h2", {}, "Outbox"), (intents.length || !retried) && found, retried,
    page.next && h("div", { class: "pages" }, h("a", { href: `#/outbox?from=${encodeURIComponent(page.next)}` }, "Newer")));
  turn.say("");
}
