// Rows that can be selected, and actions on the selected rows.

import { change } from "./ask.js";
import { count, h } from "./dom.js";

// Returns the bar of actions, a checkbox for all rows, and a maker of the checkbox of a row. An action is
// `{ name, path, body, note, grave, able }`: `path`, `body` and `able` take the row, `note` takes the rows and
// returns what the question adds. `changed` is called after rows were removed.
export function selection(turn, noun, actions) {
  const boxes = new Map();
  // Removed rows are not selected any more.
  const shown = () => {
    for (const box of boxes.keys()) if (!box.isConnected) boxes.delete(box);
    return [...boxes];
  };
  const chosen = (action) => shown().filter(([box, row]) => box.checked && (!action.able || action.able(row))).map(([, row]) => row);
  const buttons = actions.map((action) => [action, h("button", { type: "button", class: action.grave && "grave",
    onclick: () => apply(turn, noun, action, chosen(action)) }, action.name)]);
  const words = h("span", {});
  const bar = h("div", { class: "selection", hidden: true }, words, buttons.map(([, button]) => button));
  const changed = () => {
    const number = shown().filter(([box]) => box.checked).length;
    bar.hidden = !number;
    words.textContent = `${number} selected`;
    for (const [action, button] of buttons) button.disabled = !chosen(action).length;
  };
  const all = h("input", { type: "checkbox", "aria-label": `Select all ${noun}s of the page`, onchange: () => {
    for (const [box] of shown()) box.checked = all.checked;
    changed();
  } });
  const box = (row, name) => {
    const made = h("input", { type: "checkbox", "aria-label": `Select ${name}`, onchange: changed });
    boxes.set(made, row);
    return made;
  };
  return { bar, all, box, changed };
}

// Applies an action to the rows one by one. A failed row does not stop the others.
async function apply(turn, noun, action, rows) {
  const note = action.note ? action.note(rows) : "";
  if (!confirm(`${action.name} ${count(rows.length, noun)}${note}?`)) return;
  const failures = [];
  let done = 0;
  for (const row of rows) {
    turn.say(`${action.name}: ${done + failures.length} of ${rows.length}`);
    try { await change(action.path(row), action.body?.(row)); done += 1; } catch (error) { failures.push(error.message); }
  }
  const failed = failures.length ? `, ${failures.length} failed: ${failures[0]}` : "";
  await turn.again(`${action.name}: ${count(done, noun)} done${failed}`, failures.length > 0);
}
