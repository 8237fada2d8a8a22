// One instance: its state, waits, timeline, queued work, sub-orchestrations and actions. A running instance is redrawn after
// each turn, and its open waits grow every second.

import { ask, change, part } from "./ask.js";
import { content, h, refresh, runs, span, state, table, time, to } from "./dom.js";
import { watch } from "./live.js";
import { timeline } from "./timeline.js";

const SECTIONS = ["head", "acts", "waits", "bars", "queued", "executions", "values", "family", "events"];

export async function instance(turn, id, parameters, about) {
  const execution = parameters.get("execution");
  const skip = Number(parameters.get("skip") || 0);
  const path = `instances/${part(id)}`;
  const place = Object.fromEntries(SECTIONS.map((name) => [name, h("div", {})]));
  let detail, history, readAt;
  const ticking = () => {
    const now = detail.now + performance.now() - readAt;
    refresh(place.waits, waits(detail, now));
    const running = runs(detail) && history.execution === detail.execution;
    refresh(place.bars, h("h3", {}, `Timeline of execution ${history.execution}`), timeline(history.bars, running && detail.activities, now));
  };
  const draw = async () => {
    [detail, history] = await Promise.all([ask(path), ask(`${path}/history`, { execution, skip })]);
    readAt = performance.now();
    refresh(place.head, h("h2", {}, detail.id), facts(detail));
    if (about.actions) refresh(place.acts, actions(turn, detail, path));
    ticking();
    refresh(place.queued, queued(detail));
    refresh(place.executions, executions(detail, history));
    refresh(place.values, values(detail));
    refresh(place.events, events(history, detail, skip));
    ask(`${path}/tree`).then((tree) => tree.children.length && refresh(place.family, family(tree))).catch((error) => turn.say(error.message, true));
    return detail.updatedAt;
  };
  try {
    await draw();
  } catch (error) {
    if (error.status !== 404) throw error;
    turn.put(h("h2", {}, id), h("p", {}, error.message), h("p", {}, h("a", { href: `#/instances?text=${part(id)}` }, "Search for this id")));
    // A queued start becomes an instance at its first turn.
    if (error.message.includes("does not exist yet")) setTimeout(() => turn.again(""), 2000);
    return;
  }
  turn.put(Object.values(place));
  turn.say("");
  if (!runs(detail)) return;
  watch(turn, id, detail.updatedAt, draw);
  turn.every(1000, async () => { if (runs(detail)) ticking(); });
}

function facts(detail) {
  const fact = (name, ...value) => [h("dt", {}, name), h("dd", {}, ...value)];
  const lasted = (detail.completedAt || detail.now) - detail.createdAt;
  return h("dl", {},
    fact("Orchestration", detail.orchestration, detail.version ? ` ${detail.version}` : ""),
    fact("State", state(detail.state), detail.customStatus && ` ${detail.customStatus}`),
    detail.parent && fact("Parent", h("a", { href: to(detail.parent) }, detail.parent)),
    fact("Created", time(detail.createdAt)), fact("Last turn", time(detail.updatedAt)),
    fact(detail.completedAt ? "Completed" : "Runs for", detail.completedAt ? [time(detail.completedAt), `, after ${span(lasted)}`] : span(lasted)),
    detail.lockedUntil && fact("Lock", `for ${span(detail.lockedUntil - detail.now)}`),
    fact("Slot", String(detail.slot)),
    detail.requestUnits && fact("Charge", `${detail.requestUnits} RU, without the last commit`),
    detail.paused && fact("Paused", [`by ${detail.paused.by}, `, time(detail.paused.at)]),
    detail.held && fact("Held", [`${detail.held.cause}${detail.held.event ? ` at event ${detail.held.event}` : ""}, by ${detail.held.by}, since `, time(detail.held.since), content(detail.held.reason)]),
    detail.origin && fact("Origin", recorded(detail.origin)),
    detail.executions.filter((past) => past.rewound).map((past) => fact(`Execution ${past.execution}`, recorded(past.rewound))),
    detail.attributes && fact("Attributes", Object.entries(detail.attributes).map(([name, value]) => `${name} = ${JSON.stringify(value)}`).join(", ")),
    detail.input && fact("Input", content(detail.input)),
    detail.output && fact(detail.status === "Failed" ? "Error" : "Output", content(detail.output)));
}

const recorded = (action) => [`${action.what} by ${action.by}, `, time(action.at)];

function actions(turn, detail, path) {
  const act = async (what, body) => {
    try {
      const { done, instance: made } = await change(`${path}/${what}`, body);
      if (what === "delete") turn.leave("#/instances", done); else if (made) turn.leave(to(made), done); else await turn.again(done);
    } catch (error) { turn.say(error.message, true); }
  };
  const ended = !runs(detail);
  const raise = (event) => { event.preventDefault(); act("raise", Object.fromEntries(new FormData(event.target))); };
  const restart = () => { const as = prompt("Id of the new instance, which starts with the same input", `${detail.id}-restart`); if (as) act("restart", { as }); };
  const awaited = detail.waits.find((wait) => wait.kind === "event");
  const sure = (text, then) => { if (confirm(text)) then(); };
  return [h("h3", {}, "Actions"), h("form", { onsubmit: raise },
    !ended && h("button", { type: "button", class: "grave", onclick: () => sure(`Cancel ${detail.id}?`,
      () => act("cancel", { reason: "cancelled in the dashboard" })) }, "Cancel"),
    !ended && (detail.paused ? h("button", { type: "button", onclick: () => act("resume", {}) }, "Resume")
      : h("button", { type: "button", onclick: () => act("pause", {}) }, "Pause")),
    detail.status === "Failed" && !detail.parent && h("button", { type: "button", onclick: () => act("rewind", {}) }, "Rewind"),
    ended && h("button", { type: "button", onclick: restart }, "Restart"),
    h("button", { type: "button", class: "grave", onclick: () => sure(`Delete ${detail.id} and its sub-orchestrations?`,
      () => act("delete", { force: !ended })) }, "Delete"),
    !ended && [h("label", {}, "Event", h("input", { name: "event", required: true, value: awaited && awaited.name })), h("label", {}, "Data", h("input", { name: "data" })),
      h("button", {}, "Raise")])];
}

function waits(detail, now) {
  if (!detail.waits.length) return null;
  const kinds = { activity: "activity", timer: "timer", subOrchestration: "sub-orchestration", event: "event" };
  const what = (wait) => (wait.dueAt ? ["fires at ", time(wait.dueAt), wait.dueAt > now ? `, in ${span(wait.dueAt - now)}` : ""] : [wait.name, wait.instance && [" ", h("a", { href: to(wait.instance) }, wait.instance)]]);
  const queuedAt = (wait) => wait.kind === "activity" && detail.activities.find((activity) => activity.event === wait.event);
  const started = (activity) => (activity.lockedUntil ? " runs" : h("span", { class: now - activity.dueAt > 60000 && "late" }, activity.limits ? ` waits for the limit ${activity.limits.map((limit) => `${limit.key}: ${limit.limit}`).join("; ")}` : " waits for a worker"));
  const row = (wait) => h("tr", {}, h("td", {}, wait.queue ? "queue" : kinds[wait.kind]), h("td", { class: "text" }, what(wait), queuedAt(wait) && started(queuedAt(wait))), h("td", {}, span(now - wait.since)));
  return [h("h3", {}, "Waits for"), table("What ends the current wait of the orchestration.", ["Kind", "What", "For"], detail.waits.map(row))];
}

function queued(detail) {
  const due = (at) => (at > detail.now ? `in ${span(at - detail.now)}` : h("span", { class: detail.now - at > 60000 && "late" }, `for ${span(detail.now - at)}`));
  const row = (kind, what, when, attempts) => h("tr", {}, h("td", {}, kind), h("td", { class: "text" }, what), h("td", {}, when), h("td", { class: "number" }, String(attempts)));
  const target = (outgoing) => [`${outgoing.messages} to `, h("a", { href: to(outgoing.target) }, outgoing.target)];
  const dead = (outgoing) => h("a", { href: `#/deadletters/${part(outgoing.deadLetter)}` }, "dead letter");
  const rows = [
    ...detail.messages.map((message) => row("message", message.what, due(message.dueAt), message.attempts)),
    ...detail.activities.map((activity) => row("activity", `${activity.what} #${activity.event}`,
      activity.lockedUntil ? `running, locked for ${span(activity.lockedUntil - detail.now)}` : due(activity.dueAt), activity.attempts)),
    ...detail.outgoing.map((outgoing) => row("outgoing", target(outgoing), outgoing.deadLetter ? dead(outgoing) : due(outgoing.createdAt), outgoing.attempts)),
  ];
  return rows.length ? [h("h3", {}, "Queued work"), table("Queued messages, activities and outgoing messages.", ["Kind", "What", "Due", "#Attempts"], rows)] : null;
}

function executions(detail, history) {
  if (!detail.executions.length) return null;
  const link = (execution) => (execution === history.execution ? String(execution) : h("a", { href: `${to(detail.id)}?execution=${execution}` }, String(execution)));
  const row = (execution, status, from, until) => h("tr", {}, h("td", {}, link(execution)), h("td", {}, state(status)), h("td", {}, time(from)), h("td", {}, time(until)));
  const rows = [row(detail.execution, detail.state, undefined, detail.completedAt),
    ...detail.executions.map((one) => row(one.execution, one.status, one.startedAt, one.completedAt))];
  const drawn = table("Continued as new, newest first.", ["Execution", "State", "Started", "Ended"], rows);
  // A long list is collapsed, because it would hide the events below it.
  const few = rows.length <= 10 || history.execution !== detail.execution;
  return [h("h3", {}, "Executions"), few ? drawn : h("details", {}, h("summary", {}, `${rows.length} executions`), drawn)];
}

function values(detail) {
  if (!detail.values.length) return null;
  const rows = detail.values.map((value) => h("tr", {}, h("td", { class: "text" }, value.key), h("td", { class: "text" }, content(value.value))));
  return [h("h3", {}, "Key-value store"), table("Values as the running execution sees them.", ["Key", "Value"], rows)];
}

function family(tree) {
  const branch = (one) => h("li", {}, h("a", { href: to(one.id) }, one.id), ` ${one.orchestration} `, state(one.state),
    one.children.length ? h("ul", {}, one.children.map(branch)) : null);
  return [h("h3", {}, "Sub-orchestrations"), h("ul", { class: "tree" }, branch(tree)), tree.cut && h("p", {}, "The tree has more instances than are shown.")];
}

// The text of an event. The id of the instance that it starts is a link.
function linked(event) {
  const id = event.data?.instance;
  const [before, after] = id ? event.detail.split(`instance: ${id}`, 2) : [];
  return after === undefined ? event.detail || "" : [before, "instance: ", h("a", { href: to(id) }, id), after];
}

function events(history, detail, skip) {
  const row = (event) => h("tr", { id: `event-${event.id}` }, h("td", { class: "number" }, String(event.id)), h("td", {}, time(event.at, true)),
    h("td", {}, event.kind, event.of ? ` of #${event.of}` : "", event.name ? ` ${event.name}` : ""), h("td", { class: "text mono" }, linked(event)));
  const more = (text, at) => h("a", { href: `${to(detail.id)}?execution=${history.execution}&skip=${at}` }, text);
  const end = skip + history.events.length;
  return [h("h3", {}, "Events"), table(`${history.total} events${skip ? `, from ${skip + 1}` : ""}. Local times; UTC on hover.`, ["#Event", "At", "What", "With"], history.events.map(row)),
    h("div", { class: "pages" }, skip > 0 && more("Earlier", Math.max(0, skip - 1000)), end < history.total && more("Later", end))];
}
