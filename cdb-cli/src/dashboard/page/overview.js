// The container in numbers: instances by state and over time, due work, runtimes, newest failures.

import { ask } from "./ask.js";
import { clock, count, h, refresh, span, svg, table, time, to } from "./dom.js";
import { busy, members } from "./queues.js";

// The spans of time of the chart, and the milliseconds between two counts: a longer span has longer bars, whose counts cost more.
const WINDOWS = { hour: 15000, day: 120000, week: 600000 };

export async function overview(turn, parameters) {
  const window = WINDOWS[parameters.get("window")] ? parameters.get("window") : "hour";
  const place = { tiles: h("div", { class: "tiles" }), chart: h("div", {}), runtimes: h("div", {}), failures: h("div", {}) };
  turn.put(h("h2", {}, "Overview"), place.tiles, place.chart, place.failures, place.runtimes);
  const [states, queued] = [tile("running"), tile("messages due")];
  refresh(place.tiles, states, queued);
  await turn.every(WINDOWS[window], async () => {
    const known = {};
    const tiles = () => refresh(place.tiles, known.states || states, known.queued || queued);
    // Counting large queues takes a while, so each answer is shown when it arrives.
    await Promise.all([
      ask("overview", { window }).then((numbers) => {
        known.states = stateTiles(numbers);
        tiles();
        refresh(place.chart, ended(numbers, window));
        turn.say(`as of ${clock(numbers.now, false)}, every ${span(WINDOWS[window])}`);
      }),
      ask("queues").then((work) => {
        known.queued = queueTiles(work.queues);
        tiles();
        refresh(place.runtimes, busy(work), members(work.members));
      }),
      ask("instances", { status: "Failed", roots: true, limit: 5 }).then((page) => refresh(place.failures, failures(page))),
    ]);
  });
}

function tile(name, number, more, href) {
  const words = [h("b", {}, number === undefined ? "…" : number.toLocaleString("en")), name, more && [" ", more]];
  return href ? h("a", { class: "tile", href }, words) : h("div", { class: "tile" }, words);
}

const stateTiles = (numbers) => ["Running", "Completed", "Failed"].map((state) =>
  tile(h("span", { class: `state ${state}` }, state.toLowerCase()), numbers[state.toLowerCase()], null, `#/instances?status=${state}&children=1`));

function queueTiles(queues) {
  const age = (millis) => millis !== undefined && h("span", { class: millis > 60000 ? "late" : "note" }, `oldest ${span(millis)}`);
  return [tile("messages due", queues.messages.count, age(queues.messages.oldestMs), "#/queues"),
    tile("activities due", queues.activities.count, age(queues.activities.oldestMs), "#/queues")];
}

function ended(numbers, window) {
  const total = (name) => numbers.ended.reduce((sum, bucket) => sum + bucket[name], 0);
  const words = `${count(total("completed"), "instance")} completed and ${total("failed").toLocaleString("en")} failed in the last ${window}`;
  const link = (name) => (name === window ? h("b", {}, name) : h("a", { href: `#/overview?window=${name}` }, name));
  return [h("h3", {}, "Ended instances"), h("p", { class: "choice" }, `${words}. `, "Show the last ", Object.keys(WINDOWS).map((name, number) => [number ? " · " : "", link(name)])),
    bars(numbers, words),
    h("p", { class: "axis" }, h("span", {}, time(numbers.ended[0].from)), h("span", {}, `a bar is ${span(numbers.bucketMs)}`), h("span", {}, "now"))];
}

// Draws a bar for each span of time: failed instances on top of completed ones. The text is beside the drawing, which stretches.
function bars(numbers, words) {
  const [width, height] = [10, 100];
  const most = Math.max(1, ...numbers.ended.map((bucket) => bucket.completed + bucket.failed));
  const tall = (number) => (number && Math.max(2, (number / most) * (height - 2)));
  const drawn = numbers.ended.map((bucket, at) => {
    const [completed, failed] = [tall(bucket.completed), tall(bucket.failed)];
    const part = (name, y, tallness) => svg("rect", { class: name, x: at * width + 1, width: width - 2, y, height: tallness });
    return svg("g", {}, svg("title", {}, `${clock(bucket.from, false)}: ${bucket.completed} completed, ${bucket.failed} failed`),
      part("hit", 0, height), part("completed", height - completed, completed), part("failed", height - completed - failed, failed));
  });
  return h("div", { class: "chart" }, h("span", { class: "most" }, most.toLocaleString("en")),
    svg("svg", { viewBox: `0 0 ${numbers.ended.length * width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": words }, drawn));
}

function failures(page) {
  const head = h("h3", {}, "Newest failures");
  if (!page.instances.length) return [head, h("p", {}, "No orchestration has failed.")];
  const row = (instance) => h("tr", {}, h("td", { class: "text" }, h("a", { href: to(instance.id) }, instance.id)), h("td", { class: "text" }, instance.orchestration),
    h("td", { class: "text" }, h("div", { class: "cut", title: instance.error }, instance.error)),
    h("td", {}, time(instance.createdAt)), h("td", { class: "nowrap" }, instance.completedAt && span(instance.completedAt - instance.createdAt)));
  return [head, table("Without sub-orchestrations, by creation.", ["Instance", "Orchestration", "Error", "Created", "Lasted"], page.instances.map(row)),
    page.next && h("div", { class: "pages" }, h("a", { href: "#/instances?status=Failed" }, "All failures"))];
}
