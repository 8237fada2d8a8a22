// Pages of instances. The address holds the filters, the order and the start of the page.

import { ask, part } from "./ask.js";
import { attributes, count, h, label, runs, span, standing, table, time, to } from "./dom.js";
import { selection } from "./selection.js";

const STATES = ["", "Running", "Completed", "Failed"];
const FILTERS = ["status", "text", "where", "orchestration", "version", "customStatus", "parent", "after", "before", "oldestFirst", "children"];
const RARE = FILTERS.slice(3, 9);
const UNINDEXED = ["text", "orchestration", "version", "customStatus"];
const COLUMNS = [
  ["Instance", (row) => row.id], ["Orchestration", (row) => row.orchestration], ["State", (row) => row.state],
  ["Created", (row) => row.createdAt], ["Lasted", (row, now) => (row.completedAt || now) - row.createdAt], ["Last turn", (row) => row.updatedAt],
];

export async function list(turn, parameters, about) {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, parameters.get(name) || ""]));
  const from = parameters.get("from");
  const started = performance.now();
  // A search is for all instances, and so is a list of the children of an instance.
  const roots = !filters.children && !filters.parent && !filters.text && !filters.where;
  let page;
  try {
    page = await ask("instances", { ...filters, children: "", roots, from });
  } catch (error) {
    if (error.status !== 400) throw error;
    turn.put(h("h2", {}, "Instances"), form(filters, error.message), earlier());
    turn.say("");
    return;
  }
  const bulk = about.actions && selection(turn, "instance", actions);
  turn.put(h("h2", {}, "Instances"), form(filters), h("div", { class: "list" }, bulk && bulk.bar,
    page.instances.length ? rows(page, filters, roots, bulk, turn) : nothing(page, filters, from), pages(page, filters, from)));
  turn.say(`${count(page.instances.length, "instance")} in ${Math.round(performance.now() - started)} ms · / to search · arrows to move`);
}

const path = (what) => (row) => `instances/${part(row.id)}/${what}`;
const running = (rows) => {
  const number = rows.filter(runs).length;
  return number ? `, ${number} of them running` : "";
};
const actions = [
  { name: "Cancel", path: path("cancel"), body: () => ({ reason: "cancelled in the dashboard" }), able: runs, grave: true },
  { name: "Pause", path: path("pause"), body: () => ({}), able: (row) => runs(row) && !row.paused },
  { name: "Resume", path: path("resume"), body: () => ({}), able: (row) => runs(row) && row.paused },
  { name: "Rewind", path: path("rewind"), body: () => ({}), able: (row) => row.status === "Failed" && !row.parent },
  { name: "Restart", path: path("restart"), body: () => ({}), able: (row) => !runs(row) },
  { name: "Delete", path: path("delete"), body: (row) => ({ force: runs(row) }), note: running, grave: true },
];

// The list that is shown, for a filter that the server rejects. Its rows can no longer be selected.
function earlier() {
  const shown = document.querySelector("main .list");
  for (const control of shown?.querySelectorAll(".box input, th input, .selection, .earlier") || []) control.remove();
  if (shown) shown.prepend(h("p", { class: "earlier note" }, "The list of the previous search:"));
  return shown;
}

function address(filters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filters)) if (value) query.set(name, value);
  return `#/instances?${query}`;
}

// The value of a `datetime-local` input, which has no zone, for a time in the address.
function local(millis) {
  if (!millis) return "";
  const at = new Date(Number(millis));
  return new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 16);
}

// The form, with the reason why the server rejects its filters.
function form(filters, rejected) {
  const option = (value, text, chosen) => h("option", { value, selected: value === chosen }, text);
  const now = (event) => event.target.form.requestSubmit();
  const input = (name, text, more = {}) => h("label", {}, text, h("input", { name, value: filters[name], ...more }));
  const submit = (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.target));
    for (const name of ["after", "before"]) values[name] = values[name] && String(new Date(values[name]).getTime());
    location.hash = address(values);
  };
  return h("form", { onsubmit: submit },
    h("label", {}, "State", h("select", { name: "status", onchange: now }, STATES.map((name) => option(name, name || "any", filters.status)))),
    input("text", "Id or orchestration contains", { type: "search" }),
    input("where", "Attributes", { "aria-invalid": rejected && filters.where && "true", "aria-describedby": rejected && "rejected", placeholder: "customer=ada total>100", title: "Conditions on search attributes, separated by spaces: = != < <= > >=; a string with spaces in quotation marks" }),
    h("label", {}, "Order", h("select", { name: "oldestFirst", onchange: now }, option("", "newest first", filters.oldestFirst), option("true", "oldest first", filters.oldestFirst))),
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "children", value: "1", checked: filters.children === "1", onchange: now }), "Sub-orchestrations too"),
    h("button", {}, "Search"),
    rejected && h("p", { class: "rejected", role: "alert", id: "rejected" }, rejected),
    h("details", { class: "more", open: RARE.some((name) => filters[name]) }, h("summary", {}, "More filters"), h("div", { class: "fields" },
      input("orchestration", "Orchestration"), input("version", "Version"), input("customStatus", "Custom status contains"), input("parent", "Started by the instance"),
      input("after", "Created after", { type: "datetime-local", value: local(filters.after) }),
      input("before", "Created before", { type: "datetime-local", value: local(filters.before) }))));
}

// The filters that no index serves make the server read instances that it does not show.
const read = (page, filters) => (UNINDEXED.some((name) => filters[name]) ? ` ${count(page.examined, "instance")} read, because no index serves this filter.` : "");

function nothing(page, filters, from) {
  const filtered = FILTERS.some((name) => filters[name]);
  if (page.next) return h("p", {}, `No instance matches so far.${read(page, filters)} Search on below.`);
  if (filtered || from) return h("p", {}, `No ${from ? "further " : ""}instance matches.${read(page, filters)} `, h("a", { href: "#/instances" }, "Show all instances"));
  return h("p", {}, "No instances yet. Start one from a program with ", h("code", {}, "Client::start_orchestration"), ", or with ", h("code", {}, "cdb instances start"), ".");
}

function rows(page, filters, roots, bulk, turn) {
  const names = [...(bulk ? ["Select"] : []), ...COLUMNS.map(([name]) => name)];
  const groups = page.instances.map((instance) => ({ instance, rows: [] }));
  const fold = (group) => folded(group, page, bulk, names, turn);
  for (const group of groups) group.rows.push(drawn(group.instance, page.now, bulk, fold(group)));
  const order = { by: null, down: false };
  const head = COLUMNS.map(([name, value]) => h("button", { type: "button", class: "sort", title: "Sorts the rows of this page", onclick: (event) => {
    Object.assign(order, { by: name, down: order.by === name && !order.down });
    sort(groups, (group) => value(group.instance, page.now), order.down);
    for (const cell of body.parentNode.querySelectorAll("th")) cell.removeAttribute("aria-sort");
    event.target.parentNode.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    body.replaceChildren(...groups.flatMap((group) => group.rows));
  } }, name));
  const caption = `${filters.oldestFirst ? "Oldest" : "Newest"} first${roots ? ", sub-orchestrations folded under their roots" : ""}.${read(page, filters)} Local times; UTC on hover.`;
  const made = table(caption, [...(bulk ? [bulk.all] : []), ...head], groups.map((group) => group.rows[0]));
  const body = made.querySelector("tbody");
  for (const row of body.children) label(row, names);
  return made;
}

function sort(groups, value, down) {
  const compare = (a, b) => (typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b);
  groups.sort((a, b) => compare(value(a), value(b)) * (down ? -1 : 1));
}

function drawn(instance, now, bulk, before, depth = 0) {
  const lasted = (instance.completedAt || now) - instance.createdAt;
  return h("tr", { class: depth && `child depth-${Math.min(depth, 4)}` },
    bulk && h("td", { class: "box" }, bulk.box(instance, instance.id)),
    h("td", { class: "text name" }, before, h("a", { href: to(instance.id) }, instance.id), instance.customStatus && h("span", { class: "note" }, ` ${instance.customStatus}`),
      instance.attributes && h("div", { class: "note" }, attributes(instance.attributes))),
    h("td", { class: "text" }, instance.orchestration, instance.version && h("span", { class: "note" }, ` ${instance.version}`)),
    h("td", { class: "text" }, standing(instance, now), instance.execution > 1 ? ` #${instance.execution}` : ""),
    h("td", {}, time(instance.createdAt)), h("td", {}, span(lasted)), h("td", {}, time(instance.updatedAt)));
}

// The button that unfolds the sub-orchestrations of an instance, in natural order.
function folded(group, page, bulk, names, turn) {
  const { id } = group.instance;
  const number = page.children && page.children[id];
  if (page.children && !number) return null;
  const words = number || "…";
  const button = h("button", { type: "button", class: "fold", "aria-expanded": "false", "aria-label": `Sub-orchestrations of ${id}: ${words}`, onclick: async () => {
    const open = button.getAttribute("aria-expanded") === "true";
    for (const row of group.rows.splice(1)) row.remove();
    if (bulk) bulk.changed();
    if (!open) {
      try {
        const tree = await ask(`instances/${part(id)}/tree`);
        const below = (one, depth) => one.children.flatMap((child) => [drawn(child, page.now, bulk, null, depth), ...below(child, depth + 1)]);
        group.rows.push(...below(tree, 1).map((row) => label(row, names)));
        group.rows[0].after(...group.rows.slice(1));
        if (tree.cut) turn.say("the tree has more instances than are shown");
      } catch (error) { turn.say(error.message, true); return; }
    }
    button.setAttribute("aria-expanded", String(!open));
    button.textContent = `${open ? "▸" : "▾"} ${words}`;
  } }, `▸ ${words}`);
  return button;
}

function pages(page, filters, from) {
  return h("div", { class: "pages" },
    from && h("a", { href: address(filters) }, "First page"),
    page.next && h("a", { href: address({ ...filters, from: page.next }), rel: "next" }, filters.oldestFirst ? "Newer" : "Older"));
}
