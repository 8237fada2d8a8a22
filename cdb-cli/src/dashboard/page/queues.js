// Live queues, slots, members and latency; pages of the outbox.

import { ask } from "./ask.js";
import { h, span, svg, table, time, to } from "./dom.js";

const EVERY = 3000;

export async function queues(turn) {
  const place = { work: h("div", {}, h("p", {}, "Counting…")), latency: h("div", {}, h("p", {}, "Measuring…")) };
  turn.put(h("h2", {}, "Queues"), place.work, h("h3", {}, "Latency and usage of this page"), place.latency);
  while (turn.current()) {
    // Counting large queues takes a while, so each answer is shown when it arrives.
    const counted = ask("queues").then((work) => {
      place.work.replaceChildren(...tiles(work.queues), ...slots(work.queues.slots), ...members(work.members));
      turn.say(`as of ${time(work.members.now)} UTC`);
    });
    const measured = ask("latency").then((samples) => place.latency.replaceChildren(...latency(samples)));
    try {
      await Promise.all([counted, measured]);
    } catch (error) {
      turn.say(error.message, true);
    }
    await new Promise((resolve) => setTimeout(resolve, EVERY));
  }
}

function tiles(of) {
  const tile = (name, count, oldest) => h("div", { class: "tile" }, h("b", {}, count.toLocaleString("en")), name, " ",
    oldest !== undefined && h("span", { class: oldest > 60000 && "late" }, `oldest ${span(oldest)}`));
  return [h("div", { class: "tiles" }, tile("messages due", of.messages.count, of.messages.oldestMs), tile("timers", of.timers),
    tile("activities due", of.activities.count, of.activities.oldestMs), tile("activities running", of.running),
    tile("outbox", of.outbox.count, of.outbox.oldestMs))];
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

function members(group) {
  if (!group.members.length) return [h("h3", {}, "Members"), h("p", {}, "The group has no members; each runtime serves all slots.")];
  const row = (member) => h("tr", {}, h("td", {}, member.name), h("td", { class: member.silent ? "silent" : "alive" }, member.silent ? "silent" : "alive"),
    h("td", { class: "number" }, String(member.slots)), h("td", {}, member.seenAt ? `${span(group.now - member.seenAt)} ago` : "never"));
  return [h("h3", {}, "Members"), table(`Members of the group ${group.group}.`, ["Member", "State", "#Slots", "Seen"], group.members.map(row))];
}

function latency(samples) {
  if (samples.length < 2) return [h("p", {}, "Measuring…")];
  const total = (name) => samples.reduce((sum, sample) => sum + sample[name], 0);
  const seconds = (samples.at(-1).at - samples[0].at) / 1000;
  return [chart(samples, "latencyMs", "latency of a point read, ms"), chart(samples, "charge", "request units of this page"),
    h("p", {}, `${total("requests")} requests, ${total("charge").toFixed(0)} RU, ${total("throttled")} throttled in ${span(seconds * 1000)}. Azure Monitor has the usage of the whole container.`)];
}

function chart(samples, name, label) {
  const [width, height] = [700, 90];
  const known = samples.filter((sample) => sample[name] !== null && sample[name] !== undefined);
  const most = Math.max(...known.map((sample) => sample[name]), 0.001);
  const [first, last] = [samples[0].at, Math.max(samples.at(-1).at, samples[0].at + 1)];
  const point = (sample) => [((sample.at - first) / (last - first)) * width, height - (sample[name] / most) * (height - 20)];
  const line = known.map((sample) => point(sample).map((number) => number.toFixed(1)).join(",")).join(" ");
  const words = `${label}: now ${known.length ? known.at(-1)[name].toFixed(1) : "unknown"}, at most ${most.toFixed(1)}`;
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, role: "img", "aria-label": words },
    svg("line", { class: "grid", x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }), svg("polyline", { class: "line", points: line }), svg("text", { x: 0, y: 12 }, words));
}

export async function outbox(turn, parameters) {
  const page = await ask("outbox", { from: parameters.get("from") });
  const row = (intent) => h("tr", {}, h("td", { class: "text" }, h("a", { href: to(intent.source) }, intent.source)),
    h("td", { class: "text" }, h("a", { href: to(intent.target) }, intent.target)), h("td", { class: "text" }, intent.messages.join(", ")),
    h("td", { class: "number" }, String(intent.attempts)), h("td", { class: page.now - intent.createdAt > 60000 && "late" }, span(page.now - intent.createdAt)));
  const caption = page.intents.length ? "Undelivered messages, oldest first." : "No undelivered messages.";
  turn.put(h("h2", {}, "Outbox"), table(caption, ["From", "To", "What", "#Attempts", "Age"], page.intents.map(row)),
    page.next && h("div", { class: "pages" }, h("a", { href: `#/outbox?from=${encodeURIComponent(page.next)}` }, "Newer")));
  turn.say("");
}
