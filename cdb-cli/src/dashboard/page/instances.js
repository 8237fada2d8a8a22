// Pages of instances. The address holds the filters and the start of the page.

import { ask } from "./ask.js";
import { h, state, table, time, to } from "./dom.js";

const STATES = ["", "Running", "Completed", "Failed"];

export async function list(turn, parameters) {
  const filters = { status: parameters.get("status") || "", text: parameters.get("text") || "", parent: parameters.get("parent") || "" };
  const from = parameters.get("from");
  const started = performance.now();
  const page = await ask("instances", { ...filters, from });
  turn.put(h("h2", {}, "Instances"), form(filters), rows(page, from), pages(page, filters, from));
  turn.say(`${page.instances.length} instances in ${Math.round(performance.now() - started)} ms · / to search · arrows to move`);
}

function address(filters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filters)) if (value) query.set(name, value);
  return `#/instances?${query}`;
}

function form(filters) {
  const option = (name) => h("option", { value: name, selected: name === filters.status }, name || "any");
  const submit = (event) => {
    event.preventDefault();
    location.hash = address(Object.fromEntries(new FormData(event.target)));
  };
  return h("form", { onsubmit: submit },
    h("label", {}, "State", h("select", { name: "status", onchange: (event) => event.target.form.requestSubmit() }, STATES.map(option))),
    h("label", {}, "Id or orchestration contains", h("input", { type: "search", name: "text", value: filters.text })),
    h("label", {}, "Started by", h("input", { name: "parent", value: filters.parent })),
    h("button", {}, "Search"));
}

function rows(page, from) {
  const row = (instance) => h("tr", {},
    h("td", { class: "text" }, h("a", { href: to(instance.id) }, instance.id)),
    h("td", {}, instance.orchestration),
    h("td", {}, state(instance.status), instance.execution > 1 ? ` #${instance.execution}` : ""),
    h("td", { class: "mono" }, time(instance.createdAt)),
    h("td", { class: "mono" }, time(instance.updatedAt)));
  const caption = page.instances.length ? `Newest first${from ? ", further page" : ""}. Times in UTC.` : "No instances.";
  return table(caption, ["Instance", "Orchestration", "State", "Created", "Last turn"], page.instances.map(row), "instances");
}

function pages(page, filters, from) {
  return h("div", { class: "pages" },
    from && h("a", { href: address(filters) }, "Newest"),
    page.next && h("a", { href: address({ ...filters, from: page.next }), rel: "next" }, "Older"));
}
