// Content from the server is shown as text and never as markup, so a document cannot inject anything.

const byId = (id) => document.getElementById(id);

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// The current container, the current page, and the tokens of this page and the pages before it.
const state = { container: null, asked: null, tokens: [], page: 0, run: 0 };

async function request(path, body) {
  const options = body && {
    method: "POST",
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
  const wanted = location.hash.slice(1);
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
    history.replaceState(null, "", `#${place}`);
    choose(database.id, container);
  });
  return element("li", {}, button);
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
  // A single physical partition also answers queries that the gateway rejects.
  byId("scope").value = ranges.length === 1 ? ranges[0].value : "everything";
  showKeyField();
  byId("sql").value = "SELECT * FROM c";
  start();
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
  byId("rows").replaceChildren(
    ...rows.map((row) =>
      element(
        "li",
        {},
        element(
          "details",
          { open: rows.length === 1 },
          element("summary", { className: "row-title", textContent: title(row) }),
          element("pre", { tabIndex: 0, textContent: JSON.stringify(row, null, 2) }),
        ),
      ),
    ),
  );
  byId("previous").disabled = state.page === 0;
  byId("next").disabled = !state.tokens[state.page + 1];
  byId("result").hidden = false;
}

/// Returns the title of a row: partition key and id of a document, the text of other values.
function title(row) {
  const text = JSON.stringify(row);
  const short = text.length > 160 ? `${text.slice(0, 160)}…` : text;
  if (row === null || typeof row !== "object" || typeof row.id !== "string") {
    return short;
  }
  const key = state.container.partitionKey.map((path) => {
    const value = path.slice(1).split("/").reduce((inner, name) => inner?.[name], row);
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
byId("previous").addEventListener("click", () => show(state.page - 1));
byId("next").addEventListener("click", () => show(state.page + 1));
byId("reload").addEventListener("click", () => loadTree().catch(fail));
loadTree().catch(fail);
