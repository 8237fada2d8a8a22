// Content from the server is shown as text and never as markup, so a document cannot inject anything.

const byId = (id) => document.getElementById(id);

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// The current container, the current page, and the tokens of this page and the pages before it.
const state = { container: null, asked: null, tokens: [], page: 0, run: 0, rows: [] };

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
    throw new Error(`${response.status} ${answer.code}: ${answer.message}`);
  }
  return answer;
}

function fail(error) {
  byId("error").textContent = error.message;
  byId("error").hidden = false;
}

function forgive() {
  byId("error").hidden = true;
}

async function loadTree() {
  forgive();
  const tree = await request("api/tree");
  byId("account").textContent = `${tree.endpoint} – cdb-emulator ${tree.version}`;
  const nodes = tree.databases.flatMap((database) => [
    element("h2", { textContent: database.id }),
    database.containers.length
      ? element("ul", {}, ...database.containers.map((container) => containerItem(database, container)))
      : element("p", { textContent: "no containers" }),
  ]);
  byId("tree").replaceChildren(...(nodes.length ? nodes : [element("p", { textContent: "no databases" })]));
  const [wanted, switches] = location.hash.slice(1).split("?");
  byId("system").checked = switches === "system";
  const button = [...byId("tree").querySelectorAll("button")].find((found) => found.dataset.place === wanted);
  button?.click();
}

function containerItem(database, container) {
  const place = [database.id, container.id].map(encodeURIComponent).join("/");
  const button = element("button", { type: "button", textContent: container.id });
  button.dataset.place = place;
  button.addEventListener("click", () => {
    for (const other of byId("tree").querySelectorAll("button")) {
      other.removeAttribute("aria-current");
    }
    button.setAttribute("aria-current", "true");
    choose(database.id, container);
    keepAddress();
  });
  return element("li", {}, button);
}

/// Writes the container and the switch for system documents into the address.
function keepAddress() {
  const place = [state.container.database, state.container.id].map(encodeURIComponent).join("/");
  history.replaceState(null, "", `#${place}${byId("system").checked ? "?system" : ""}`);
}

function choose(database, container) {
  state.container = { database, ...container };
  byId("hint").hidden = true;
  byId("work").hidden = false;
  byId("name").textContent = `${database} / ${container.id}`;
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
  // A single physical partition also answers queries that the gateway rejects.
  byId("scope").value = ranges.length === 1 ? ranges[0].value : "everything";
  showKeyField();
  byId("sql").value = "SELECT * FROM c";
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
  byId("rows").replaceChildren(...rows.map((row) => element("li", {}, details(row, rows.length === 1))));
  byId("previous").disabled = state.page === 0;
  byId("next").disabled = !state.tokens[state.page + 1];
  byId("result").hidden = false;
}

function details(row, open) {
  const parts = [
    element("summary", { className: "row-title", textContent: title(row) }),
    element("pre", { tabIndex: 0, textContent: JSON.stringify(row, null, 2) }),
  ];
  // A projection is not the whole document, so it must not replace the document.
  if (isDocument(row) && /^\s*select\s+\*\s/i.test(state.asked.query)) {
    parts.push(actions(row));
  }
  return element("details", { open }, ...parts);
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
  start();
});
byId("sql").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    byId("form").requestSubmit();
  }
});
byId("scope").addEventListener("change", showKeyField);
byId("samples").addEventListener("change", runSample);
byId("system").addEventListener("change", () => {
  keepAddress();
  start();
});
byId("confirm-no").addEventListener("click", () => byId("confirm").close(""));
byId("confirm-yes").addEventListener("click", () => byId("confirm").close("yes"));
byId("previous").addEventListener("click", () => show(state.page - 1));
byId("next").addEventListener("click", () => show(state.page + 1));
byId("reload").addEventListener("click", () => loadTree().catch(fail));
loadTree().catch(fail);
