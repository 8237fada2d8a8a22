// One instance: its state, timeline, queued work, sub-orchestrations and actions.

import { ask, change, part } from "./ask.js";
import { content, h, span, state, table, time, to } from "./dom.js";
import { timeline } from "./timeline.js";

export async function instance(turn, id, parameters, about) {
  const execution = parameters.get("execution");
  const skip = Number(parameters.get("skip") || 0);
  const path = `instances/${part(id)}`;
  const [detail, history] = await Promise.all([ask(path), ask(`${path}/history`, { execution, skip })]);
  const family = h("div", {});
  turn.put(h("h2", {}, detail.id), facts(detail), about.actions && actions(turn, detail, path),
    h("h3", {}, `Timeline of execution ${history.execution}`), timeline(history.bars, detail.now),
    waits(detail), queued(detail), executions(detail, history), values(detail), family, events(history, detail, skip));
  turn.say("");
  const tree = await ask(`${path}/tree`);
  if (tree.children.length && turn.current()) family.replaceChildren(h("h3", {}, "Sub-orchestrations"), h("ul", { class: "tree" }, branch(tree)));
}

function facts(detail) {
  const fact = (name, ...value) => [h("dt", {}, name), h("dd", {}, ...value)];
  return h("dl", {},
    fact("Orchestration", detail.orchestration, detail.version ? ` ${detail.version}` : ""),
    fact("State", state(detail.status)),
    detail.parent && fact("Parent", h("a", { href: to(detail.parent) }, detail.parent)),
    fact("Created", time(detail.createdAt)), fact("Last turn", time(detail.updatedAt)),
    detail.completedAt && fact("Completed", time(detail.completedAt)),
    fact("Lock", detail.lockedUntil ? `for ${span(detail.lockedUntil - detail.now)}` : "none"),
    fact("Slot", String(detail.slot)),
    detail.customStatus && fact("Custom status", detail.customStatus),
    detail.input && fact("Input", content(detail.input)),
    detail.output && fact(detail.status === "Failed" ? "Error" : "Output", content(detail.output)));
}

function actions(turn, detail, path) {
  const act = async (what, body) => {
    try {
      const { done } = await change(`${path}/${what}`, body);
      if (what === "delete") turn.leave("#/instances", done); else await turn.again(done);
    } catch (error) { turn.say(error.message, true); }
  };
  const ended = detail.status !== "Running";
  const raise = (event) => { event.preventDefault(); act("raise", Object.fromEntries(new FormData(event.target))); };
  const awaited = detail.waits.find((wait) => wait.kind === "event");
  const sure = (text, then) => { if (confirm(text)) then(); };
  return h("div", {}, h("h3", {}, "Actions"), h("form", { onsubmit: raise },
    h("button", { type: "button", class: "grave", disabled: ended, onclick: () => sure(`Cancel ${detail.id}?`,
      () => act("cancel", { reason: "cancelled in the dashboard" })) }, "Cancel"),
    h("button", { type: "button", class: "grave", onclick: () => sure(`Delete ${detail.id} and its sub-orchestrations?`,
      () => act("delete", { force: !ended })) }, "Delete"),
    h("label", {}, "Event", h("input", { name: "event", required: true, value: awaited && awaited.name })), h("label", {}, "Data", h("input", { name: "data" })),
    h("button", { disabled: ended }, "Raise")));
}

function waits(detail) {
  if (!detail.waits.length) return null;
  const kinds = { activity: "activity", timer: "timer", subOrchestration: "sub-orchestration", event: "event" };
  const what = (wait) => (wait.dueAt ? `fires at ${time(wait.dueAt)}` : [wait.name, wait.instance && [" ", h("a", { href: to(wait.instance) }, wait.instance)]]);
  const row = (wait) => h("tr", {}, h("td", {}, kinds[wait.kind]), h("td", { class: "text" }, what(wait)), h("td", {}, span(detail.now - wait.since)));
  return [h("h3", {}, "Waits for"), table("What ends the current wait of the orchestration.", ["Kind", "What", "For"], detail.waits.map(row))];
}

function queued(detail) {
  const due = (at) => (at > detail.now ? `in ${span(at - detail.now)}` : h("span", { class: detail.now - at > 60000 && "late" }, `for ${span(detail.now - at)}`));
  const row = (kind, what, when, attempts) => h("tr", {}, h("td", {}, kind), h("td", { class: "text" }, what), h("td", {}, when), h("td", { class: "number" }, String(attempts)));
  const rows = [
    ...detail.messages.map((message) => row("message", message.what, due(message.dueAt), message.attempts)),
    ...detail.activities.map((activity) => row("activity", `${activity.what} #${activity.event}`,
      activity.lockedUntil ? `running, locked for ${span(activity.lockedUntil - detail.now)}` : due(activity.dueAt), activity.attempts)),
    ...detail.outgoing.map((outgoing) => row("outgoing", `${outgoing.messages} to ${outgoing.target}`, due(outgoing.createdAt), outgoing.attempts)),
  ];
  return rows.length ? [h("h3", {}, "Queued work"), table("Queued messages, activities and outgoing messages.", ["Kind", "What", "Due", "#Attempts"], rows)] : null;
}

function executions(detail, history) {
  if (!detail.executions.length) return null;
  const link = (execution) => (execution === history.execution ? String(execution) : h("a", { href: `${to(detail.id)}?execution=${execution}` }, String(execution)));
  const row = (execution, status, from, until) => h("tr", {}, h("td", {}, link(execution)), h("td", {}, status), h("td", { class: "mono" }, time(from)), h("td", { class: "mono" }, time(until)));
  const rows = [row(detail.execution, detail.status, undefined, detail.completedAt),
    ...detail.executions.map((one) => row(one.execution, one.status, one.startedAt, one.completedAt))];
  const drawn = table("Continued as new, newest first.", ["Execution", "State", "Started", "Ended"], rows);
  // A long list is collapsed, because it would hide the events below it.
  const few = rows.length <= 10 || history.execution !== detail.execution;
  return [h("h3", {}, "Executions"), few ? drawn : h("details", {}, h("summary", {}, `${rows.length} executions`), drawn)];
}

function values(detail) {
  if (!detail.values.length) return null;
  const rows = detail.values.map((value) => h("tr", {}, h("td", { class: "text" }, value.key), h("td", { class: "text mono" }, value.value)));
  return [h("h3", {}, "Key-value store"), table("Values as the running execution sees them.", ["Key", "Value"], rows)];
}

function branch(tree) {
  return h("li", {}, h("a", { href: to(tree.id) }, tree.id), ` ${tree.orchestration} `, state(tree.status),
    tree.children.length ? h("ul", {}, tree.children.map(branch)) : null);
}

function events(history, detail, skip) {
  const row = (event) => h("tr", { id: `event-${event.id}` }, h("td", { class: "number" }, String(event.id)), h("td", { class: "mono" }, time(event.at)),
    h("td", {}, event.kind, event.of ? ` of #${event.of}` : "", event.name ? ` ${event.name}` : ""), h("td", { class: "text mono" }, event.detail || ""));
  const more = (text, at) => h("a", { href: `${to(detail.id)}?execution=${history.execution}&skip=${at}` }, text);
  const end = skip + history.events.length;
  return [h("h3", {}, "Events"), table(`${history.total} events${skip ? `, from ${skip + 1}` : ""}. Times in UTC.`, ["#Event", "At", "What", "With"], history.events.map(row)),
    h("div", { class: "pages" }, skip > 0 && more("Earlier", Math.max(0, skip - 1000)), end < history.total && more("Later", end))];
}
