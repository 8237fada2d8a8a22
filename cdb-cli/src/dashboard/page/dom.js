// Creates elements. Text becomes text nodes, so stored text is never parsed as markup.

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

// A table. Each cell carries the name of its column, which a narrow window shows beside it. A column whose name begins with
// `#` holds numbers. A head can be an element.
export function table(caption, head, rows) {
  const text = (name) => (typeof name === "string" ? name.replace("#", "") : name);
  const column = (name) => h("th", { scope: "col", class: typeof name === "string" && name.startsWith("#") && "number" }, text(name));
  const cells = h("thead", {}, h("tr", {}, head.map(column)));
  const names = [...cells.querySelectorAll("th")].map((cell) => cell.textContent);
  for (const row of rows) label(row, names);
  return h("div", { class: "scroll" }, h("table", {}, h("caption", {}, caption), cells, h("tbody", {}, rows)));
}

export function label(row, names) {
  [...row.children].forEach((cell, number) => cell.setAttribute("data-label", names[number]));
  return row;
}

const two = (number, width = 2) => String(number).padStart(width, "0");

// A time in the zone of the reader, as text.
export function clock(millis, exact = true) {
  const at = new Date(millis);
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}${exact ? `.${two(at.getMilliseconds(), 3)}` : ""}`;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time}`;
}

// A time in the zone of the reader. The title shows it in UTC.
export function time(millis, exact = false) {
  if (millis === undefined || millis === null) return "";
  const utc = new Date(millis).toISOString();
  return h("time", { datetime: utc, title: `${utc.replace("T", " ").replace("Z", "")} UTC` }, clock(millis, exact));
}

// A length of time. Its space does not break.
export function span(millis) {
  if (millis === undefined || millis === null) return "";
  const units = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]];
  const unit = units.find(([, length]) => millis >= length);
  return unit ? `${(millis / unit[1]).toFixed(millis >= 10 * unit[1] ? 0 : 1)}\u00a0${unit[0]}` : `${Math.round(millis)}\u00a0ms`;
}

export const count = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

// A stored text that can be copied. JSON is folded and formatted; line breaks are kept.
export function content(text) {
  const copy = h("button", { type: "button", class: "copy", onclick: (event) => copied(event.target, text) }, "Copy");
  const formatted = json(text);
  if (formatted === undefined) {
    return text.includes("\n") || text.length > 80 ? [h("pre", {}, text), copy] : h("span", {}, text, " ", copy);
  }
  return [h("details", { open: formatted.length < 400 }, h("summary", {}, text.length > 80 ? `${text.slice(0, 79)}…` : text), h("pre", {}, formatted)), copy];
}

async function copied(button, text) {
  try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } catch { button.textContent = "Not allowed"; }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

function json(text) {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return undefined; }
}

const KEYED = "a, button, summary, input, select, [tabindex]";
const key = (element) => [element.tagName, element.getAttribute("name"), element.getAttribute("href"), element.getAttribute("aria-label") || element.textContent].join();

// Replaces the content of a section if it has changed. Keeps what the reader has unfolded, entered and focused.
export function refresh(section, ...nodes) {
  const next = h("div", {}, nodes);
  const drawn = next.innerHTML;
  if (section.drawn === drawn) return;
  const folded = new Map([...section.querySelectorAll("details")].map((one) => [key(one.firstChild), one.open]));
  for (const one of next.querySelectorAll("details")) if (folded.has(key(one.firstChild))) one.open = folded.get(key(one.firstChild));
  for (const old of section.querySelectorAll("input")) {
    const input = old.name && next.querySelector(`input[name="${old.name}"]`);
    if (input && old.value !== old.defaultValue) input.value = old.value;
  }
  const focused = section.contains(document.activeElement) && key(document.activeElement);
  section.replaceChildren(...next.childNodes);
  section.drawn = drawn;
  if (focused) [...section.querySelectorAll(KEYED)].find((one) => key(one) === focused)?.focus({ preventScroll: true });
}

// A held instance, also a paused one, waits for other code.
export const state = (text, words = text) => h("span", { class: `state ${/held$/i.test(text) ? "late" : /^\w+$/.test(text) ? text : ""}` }, words);

// Between two executions, an instance is running.
export const runs = (instance) => instance.status === "Running" || instance.status === "ContinuedAsNew";

const WAITS = { busy: "busy", runtime: "waits for a runtime", worker: "waits for a worker:", limit: "waits for the limit", event: "event", queue: "queue", timer: "timer", activity: "activity", subOrchestration: "sub-orchestration" };

// The state of an instance in a list: of a running one, what it waits for; of a failed one, with its error.
export function standing(instance, now) {
  const { waitsFor, error } = instance;
  if (error) return [state(instance.state), h("div", { class: "cut", title: error }, error)];
  // The state says what an operator or other code must do.
  if (!waitsFor || waitsFor.kind === "paused" || waitsFor.kind === "held") return state(instance.state);
  const { kind, name, limit, dueAt, others } = waitsFor;
  const when = dueAt && (dueAt > now ? `in ${span(dueAt - now)}` : "due");
  const words = [WAITS[kind], limit && `${limit}:`, name, when, others && `+${others}`].filter(Boolean).join(" ");
  const unserved = kind === "runtime" || kind === "worker";
  return h("span", { class: `state ${unserved ? "late" : "Running"}`, title: others && `and ${count(others, "other wait")}` }, words);
}

// Search attributes as the filter takes them: a text that it would read as another type is in quotation marks.
const plain = (value) => (typeof value === "string" && /^(?!(true|false)$)[\p{L}_][\p{L}\w.:@/-]*$/u.test(value) ? value : JSON.stringify(value));
export const attributes = (values) => Object.entries(values).map(([name, value]) => `${name}=${plain(value)}`).join(" ");

export const to = (id) => `#/instances/${encodeURIComponent(id)}`;
