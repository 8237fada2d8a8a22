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

export function table(caption, head, rows, kind) {
  const column = (name) => h("th", { scope: "col", class: name.startsWith("#") && "number" }, name.replace("#", ""));
  return h("div", { class: "scroll" }, h("table", { class: kind }, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, head.map(column))), h("tbody", {}, rows)));
}

export function time(millis) {
  return millis === undefined ? "" : new Date(millis).toISOString().replace("T", " ").replace("Z", "");
}

export function span(millis) {
  if (millis === undefined || millis === null) return "";
  const units = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]];
  const unit = units.find(([, length]) => millis >= length);
  return unit ? `${(millis / unit[1]).toFixed(millis >= 10 * unit[1] ? 0 : 1)} ${unit[0]}` : `${Math.round(millis)} ms`;
}

// A stored text. JSON is folded, formatted, and can be copied.
export function content(text) {
  const formatted = json(text);
  if (formatted === undefined) return h("span", { class: "content" }, text);
  const copy = h("button", { type: "button", onclick: () => navigator.clipboard.writeText(text) }, "Copy");
  return h("details", { open: formatted.length < 400 }, h("summary", {}, text.length > 80 ? `${text.slice(0, 79)}…` : text), h("pre", {}, formatted), copy);
}

function json(text) {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return undefined; }
}

export const state = (text) => h("span", { class: `state ${/^\w+$/.test(text) ? text : ""}` }, text);

export const to = (id) => `#/instances/${encodeURIComponent(id)}`;
