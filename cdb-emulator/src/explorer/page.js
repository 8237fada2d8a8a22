// Content from the server is shown as text and never as markup, so a document cannot inject anything.

/// The most columns of rows that are not documents. The whole row unfolds below.
const MOST_COLUMNS = 8;

const EVERY_DOCUMENT = "SELECT * FROM c";

const byId = (id) => document.getElementById(id);

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// The current container, the current page, and the tokens of this page and the pages before it.
const state = { containers: new Map(), container: null, asked: null, tokens: [], page: 0, run: 0, rows: [] };

async function request(path, body, method = "POST") {
  const options = body && {
    method,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  };
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("The emulator does not respond. Check that it is running.");
  }
  const answer = await response.json();
  if (!response.ok) {
    const refused = refusals(answer.message);
    const text = refused.map((one) => one.message).join(" ") || answer.message;
    throw Object.assign(new Error(`${response.status} ${answer.code}: ${text}`), { refused });
  }
  return answer;
}

/// Returns the faults of a query with their places, which the service writes as JSON into the text of an error.
function refusals(message) {
  try {
    return JSON.parse(/^Message: (\{.*\})/s.exec(message)[1]).errors;
  } catch {
    return [];
  }
}

function fail(error) {
  const places = (error.refused || []).filter((one) => one.location).map((one) => marked(state.asked.query, one));
  byId("error").replaceChildren(error.message, ...places);
  byId("error").hidden = false;
}

/// Returns the place of a fault: its line, with the fault marked below it. The service counts UTF-16 units, as strings here do.
function marked(query, { code, location }) {
  const before = query.slice(0, location.start).split("\n");
  const [line, column] = [query.split("\n")[before.length - 1], before.at(-1).length];
  const length = Math.max(1, Math.min(location.end - location.start, line.length - column));
  // A tab before the fault has the same width in both lines.
  const mark = line.slice(0, column).replace(/[^\t]/g, " ").padEnd(column) + "^".repeat(length);
  return element("div", {}, element("p", { textContent: `Line ${before.length}, column ${column + 1} (${code}):` }),
    element("pre", { textContent: `${line}\n${mark}` }));
}

function forgive() {
  byId("error").hidden = true;
}

async function loadTree() {
  forgive();
  const tree = await request("api/tree");
  state.containers.clear();
  byId("account").textContent = `${tree.endpoint} – cdb-emulator ${tree.version}`;
  const nodes = tree.databases.flatMap((database) => [
    element("h2", { textContent: database.id }),
    database.containers.length
      ? element("ul", {}, ...database.containers.map((container) => containerItem(database, container)))
      : element("p", { textContent: "no containers" }),
  ]);
  byId("tree").replaceChildren(...(nodes.length ? nodes : [element("p", { textContent: "no databases" })]));
  showAddress();
}

function containerItem(database, container) {
  const place = [database.id, container.id].map(encodeURIComponent).join("/");
  const button = element("button", { type: "button", textContent: container.id });
  button.dataset.place = place;
  button.addEventListener("click", () => visit(`#${place}${byId("system").checked ? "?system" : ""}`));
  state.containers.set(place, { ...container, database: database.id, button });
  return element("li", {}, button);
}

/// Shows an address as a new entry of the history, or again.
function visit(hash) {
  if (location.hash === hash) {
    showAddress();
  } else {
    location.hash = hash;
  }
}

/// Visits the address of the form: container, query, scope and the switch for system documents.
function visitForm() {
  const parts = [];
  const query = byId("sql").value;
  if (query !== EVERY_DOCUMENT) {
    parts.push(`query=${encodeURIComponent(query)}`);
  }
  if (byId("scope").value !== state.container.scope) {
    parts.push(`scope=${encodeURIComponent(byId("scope").value)}`);
  }
  if (byId("scope").value === "key") {
    parts.push(`key=${encodeURIComponent(byId("key").value)}`);
  }
  if (byId("system").checked) {
    parts.push("system");
  }
  visit(`#${state.container.button.dataset.place}${parts.length ? `?${parts.join("&")}` : ""}`);
}

/// Shows the container of the address, and runs its query.
function showAddress() {
  const [wanted, ...rest] = location.hash.slice(1).split("?");
  const parameters = new URLSearchParams(rest.join("?"));
  const found = [...state.containers].find(([place]) => decoded(place) === decoded(wanted))?.[1];
  for (const { button } of state.containers.values()) {
    button.toggleAttribute("aria-current", false);
  }
  found?.button.setAttribute("aria-current", "true");
  document.title = [found && `${found.database} / ${found.id}`, "Explorer – cdb-emulator"].filter(Boolean).join(" – ");
  byId("hint").hidden = Boolean(found);
  byId("work").hidden = !found;
  state.run += 1; // A query that still runs is of another address.
  forgive();
  if (found) {
    choose(found, parameters);
  } else if (wanted) {
    fail(new Error(`The account has no container ${decoded(wanted)}. Choose one of the list.`));
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function choose(container, parameters) {
  // A single physical partition also answers queries that the gateway rejects.
  const scope = container.ranges.length === 1 ? `range:${container.ranges[0]}` : "everything";
  state.container = { ...container, scope };
  byId("name").textContent = `${container.database} / ${container.id}`;
  byId("definition").textContent = JSON.stringify(container.definition, null, 2);
  const ranges = container.ranges.map((id) =>
    element("option", { value: `range:${id}`, textContent: `physical partition ${id}` }),
  );
  byId("scope").replaceChildren(
    element("option", { value: "everything", textContent: "all partitions, by the gateway" }),
    ...ranges,
    element("option", { value: "key", textContent: `one partition key (${container.partitionKey.join(", ")})` }),
  );
  const samples = container.samples.map((sample, at) => element("option", { value: at, textContent: sample.title }));
  byId("samples").replaceChildren(element("option", { value: "", textContent: "choose…" }), ...samples);
  byId("scope").value = parameters.get("scope") ?? scope;
  if (!byId("scope").value) {
    byId("scope").value = scope;
  }
  byId("key").value = parameters.get("key") ?? "";
  byId("sql").value = parameters.get("query") ?? EVERY_DOCUMENT;
  byId("system").checked = parameters.has("system");
  showKeyField();
  start();
}

/// Runs a sample of the container, in the scope that answers it.
function runSample() {
  const sample = state.container.samples[byId("samples").value];
  if (!sample) {
    return;
  }
  byId("sql").value = sample.query;
  if (sample.scope === "partitionKey") {
    byId("scope").value = "key";
    // The key of a document that is shown; the user chooses another.
    const shown = state.rows.find(isDocument);
    byId("key").value ||= shown ? JSON.stringify(keyOf(shown)) : "";
  } else if (sample.scope === "range" && byId("scope").value === "everything") {
    byId("scope").value = `range:${state.container.ranges[0]}`;
  }
  showKeyField();
  byId("form").requestSubmit();
}

function showKeyField() {
  const needed = byId("scope").value === "key";
  byId("key-field").hidden = !needed;
  byId("key").required = needed;
}

function scope() {
  const chosen = byId("scope").value;
  if (chosen === "everything") {
    return "everything";
  }
  if (chosen !== "key") {
    return { range: chosen.slice("range:".length) };
  }
  let key;
  try {
    key = JSON.parse(byId("key").value);
  } catch {
    // Most keys are strings, and users often omit the quotation marks.
    key = byId("key").value;
  }
  return { partitionKey: Array.isArray(key) ? key : [key] };
}

/// Runs the query of the form from its first page.
function start() {
  state.asked = {
    database: state.container.database,
    container: state.container.id,
    query: byId("sql").value,
    scope: scope(),
    pageSize: Number(byId("size").value) || 50,
    hideSystem: !byId("system").checked,
  };
  state.tokens = [null];
  return show(0);
}

async function show(page) {
  const run = ++state.run;
  forgive();
  byId("status").textContent = "running…";
  try {
    const found = await request("api/query", { ...state.asked, continuation: state.tokens[page] });
    if (run !== state.run) {
      return; // A newer query was started.
    }
    state.page = page;
    state.tokens[page + 1] = found.continuation;
    showStatus(found);
    showPlan(found);
    showRows(found.rows);
  } catch (error) {
    if (run === state.run) {
      byId("status").textContent = "";
      byId("plan").hidden = true;
      byId("result").hidden = true;
      fail(error);
    }
  }
}

function showStatus(found) {
  const rows = found.rows.length === 1 ? "1 row" : `${found.rows.length} rows`;
  const page = state.page || found.continuation ? ` on page ${state.page + 1}` : "";
  byId("status").replaceChildren(
    `${rows}${page} for `,
    element("strong", { textContent: `${found.charge.toFixed(2)} RU` }),
    ` in ${found.milliseconds.toFixed(1)} ms`,
    found.hidden ? ` – system documents hidden: ${found.hidden}` : "",
  );
}

/// A definition list; terms with empty lists are omitted.
function showPlan(found) {
  const plan = found.plan;
  const loaded = found.metrics.retrievedDocumentCount;
  const list = [
    ["Answered by an index", plan.served, "good"],
    ["Evaluated on loaded documents", plan.left, "bad"],
    ["Sort", plan.sort, ""],
    ["Indexes used", plan.used, "good"],
    ["Missing indexes", plan.missing, "bad"],
    ["Documents loaded", loaded === undefined ? [] : [`${loaded} for ${found.rows.length} returned`], ""],
  ];
  const parts = list
    .filter(([, lines]) => lines.length)
    .flatMap(([term, lines, mark]) => [
      element("dt", { textContent: term }),
      element("dd", {}, element("ul", {}, ...lines.map((line) => element("li", { className: mark, textContent: line })))),
    ]);
  byId("plan-list").replaceChildren(...parts);
  byId("plan").hidden = parts.length === 0;
}

function showRows(rows) {
  state.rows = rows;
  const columns = columnsOf(rows);
  const head = columns.map(([name]) => element("th", { scope: "col", textContent: name }));
  byId("head").replaceChildren(...head);
  byId("rows").replaceChildren(...rows.flatMap((row) => rowParts(row, columns, rows.length === 1)));
  byId("expand").hidden = rows.length === 0;
  nameExpand();
  byId("previous").disabled = state.page === 0;
  byId("next").disabled = !state.tokens[state.page + 1];
  byId("result").hidden = false;
}

/// Returns the columns of a table, with the function that reads each: id, type and partition key of documents, the members
/// of other objects, or the value.
function columnsOf(rows) {
  const objects = rows.length > 0 && rows.every((row) => row !== null && typeof row === "object" && !Array.isArray(row));
  if (!objects) {
    return [["Value", (row) => row]];
  }
  if (rows.every(isDocument)) {
    const keys = state.container.partitionKey.filter((path) => path !== "/id" && path !== "/type");
    const type = rows.some((row) => row.type !== undefined) ? [["Type", (row) => row.type]] : [];
    return [["Id", (row) => row.id], ...type, ...keys.map((path) => [`Key ${path}`, (row) => valueAt(row, path)])];
  }
  const names = [...new Set(rows.flatMap(Object.keys))].slice(0, MOST_COLUMNS);
  return names.length ? names.map((name) => [name, (row) => row[name]]) : [["Value", (row) => row]];
}

/// Returns the cells of a row, and below it the row that unfolds.
function rowParts(row, columns, open) {
  const texts = columns.map(([, value]) => shortText(value(row)));
  const button = element("button", { type: "button", className: "fold", textContent: texts[0] || "–" });
  const cells = texts.slice(1).map((text) => element("td", { textContent: text }));
  const content = element("td", { colSpan: columns.length });
  const below = element("tr", { className: "content" }, content);
  const fold = (unfolded) => {
    button.setAttribute("aria-expanded", String(unfolded));
    below.hidden = !unfolded;
    if (unfolded && !content.firstChild) {
      content.append(element("pre", { tabIndex: 0, textContent: JSON.stringify(row, null, 2) }));
      // A projection is not the whole document, so it must not replace the document.
      if (isDocument(row) && /^\s*select\s+\*\s/i.test(state.asked.query)) {
        content.append(actions(row));
      }
    }
  };
  button.addEventListener("click", () => {
    fold(below.hidden);
    nameExpand();
  });
  fold(open);
  return [element("tr", { className: "row-head" }, element("td", {}, button), ...cells), below];
}

/// Unfolds all rows, or folds them if all are unfolded.
function expandAll() {
  const folded = byId("rows").querySelectorAll('.fold[aria-expanded="false"]');
  for (const button of folded.length ? folded : byId("rows").querySelectorAll(".fold")) {
    button.click();
  }
}

function nameExpand() {
  byId("expand").textContent = byId("rows").querySelector('.fold[aria-expanded="false"]') ? "Expand all" : "Collapse all";
}

function shortText(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  return text.length > 160 ? `${text.slice(0, 160)}…` : text;
}

function isDocument(row) {
  return row !== null && typeof row === "object" && [row.id, row._rid, row._etag].every((it) => typeof it === "string");
}

/// Returns the partition key of a document; `{}` stands for a level that it lacks.
function keyOf(row) {
  return state.container.partitionKey.map((path) => valueAt(row, path) ?? (valueAt(row, path) === null ? null : {}));
}

function valueAt(row, path) {
  return path.slice(1).split("/").reduce((inner, name) => inner?.[name], row);
}

/// The buttons that change a document.
function actions(row) {
  const edit = element("button", { type: "button", textContent: "Edit" });
  const remove = element("button", { type: "button", textContent: "Delete" });
  const bar = element("div", { className: "row" }, edit, remove);
  edit.addEventListener("click", () => openEditor(row, bar));
  remove.addEventListener("click", () => change(row, "DELETE", undefined, "Delete"));
  return bar;
}

function openEditor(row, bar) {
  forgive();
  const system = ["_rid", "_self", "_etag", "_attachments", "_ts"];
  const content = Object.fromEntries(Object.entries(row).filter(([name]) => !system.includes(name)));
  const text = element("textarea", { value: JSON.stringify(content, null, 2), spellcheck: false });
  text.setAttribute("aria-label", `content of ${row.id}`);
  const save = element("button", { type: "button", textContent: "Save" });
  const cancel = element("button", { type: "button", textContent: "Cancel" });
  const editor = element("div", {}, text, element("div", { className: "row" }, save, cancel));
  save.addEventListener("click", () => {
    let document;
    try {
      document = JSON.parse(text.value);
    } catch (error) {
      fail(new Error(`The text is not JSON: ${error.message}`));
      return;
    }
    change(row, "PUT", document, "Replace");
  });
  cancel.addEventListener("click", () => editor.replaceWith(bar));
  bar.replaceWith(editor);
  text.focus();
}

/// Changes a document after a confirmation, if it is still the version that the page shows.
async function change(row, method, document, verb) {
  const { database, id: container } = state.container;
  if (!(await confirmed(`${verb} the document ${title(row)} in ${database} / ${container}?`, verb))) {
    return;
  }
  forgive();
  try {
    const about = { database, container, partitionKey: keyOf(row), id: row.id, etag: row._etag };
    await request("api/document", { ...about, document }, method);
    await show(state.page);
  } catch (error) {
    fail(error);
  }
}

/// Asks the user. Escape and Cancel answer `false`.
function confirmed(question, verb) {
  const dialog = byId("confirm");
  byId("confirm-text").textContent = question;
  byId("confirm-yes").textContent = verb;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/// Returns the title of a row: partition key and id of a document, the text of other values.
function title(row) {
  const text = JSON.stringify(row);
  const short = text.length > 160 ? `${text.slice(0, 160)}…` : text;
  if (row === null || typeof row !== "object" || typeof row.id !== "string") {
    return short;
  }
  const key = state.container.partitionKey.map((path) => {
    const value = valueAt(row, path);
    return value === undefined ? "–" : JSON.stringify(value);
  });
  return `${row.id}  ·  ${key.join(", ")}`;
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  visitForm();
});
byId("sql").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    byId("form").requestSubmit();
  }
});
byId("scope").addEventListener("change", showKeyField);
byId("samples").addEventListener("change", runSample);
byId("system").addEventListener("change", () => byId("form").requestSubmit());
byId("confirm-no").addEventListener("click", () => byId("confirm").close(""));
byId("confirm-yes").addEventListener("click", () => byId("confirm").close("yes"));
byId("previous").addEventListener("click", () => show(state.page - 1));
byId("next").addEventListener("click", () => show(state.page + 1));
byId("expand").addEventListener("click", expandAll);
addEventListener("hashchange", showAddress);
// The address holds the container, so the link to the query must not change it.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("main").focus();
});
byId("reload").addEventListener("click", () => loadTree().catch(fail));
loadTree().catch(fail);
