// The timeline of an execution: one bar per turn, activity, timer, sub-orchestration and awaited event. The table of events
// holds the same data as text.

import { clock, h, span, svg, to } from "./dom.js";

const NAMES = { turn: "turn", activity: "activity", timer: "timer", subOrchestration: "sub-orchestration", event: "event" };
const [LEFT, WIDTH, ROW] = [190, 1000, 20];
const MOST = 200;

// Draws the bars. An open bar of a running execution ends `now`; of an ended execution, with its last event. `queued` has the
// activities of a running execution. An activity without a lock waits for a worker. The start of one with a lock is not stored.
export function timeline(bars, queued, now) {
  const running = Boolean(queued);
  const waiting = new Set((queued || []).filter((activity) => !activity.lockedUntil).map((activity) => activity.event));
  const came = (bar) => (bar.lane === "activity" && bar.to === undefined && waiting.has(bar.event) ? "waiting" : outcome(bar, running));
  if (!bars || !bars.length) return h("p", {}, "No events yet. A runtime writes them at the first turn.");
  const turns = bars.filter((bar) => bar.lane === "turn");
  const lanes = bars.filter((bar) => bar.lane !== "turn");
  const from = Math.min(...bars.map((bar) => bar.from));
  const latest = Math.max(...bars.map((bar) => bar.to ?? bar.from));
  const until = Math.max(running ? now : latest, latest, from + 1);
  const shown = lanes.slice(0, MOST);
  const height = (shown.length + 1) * ROW + 34;
  const x = (at) => LEFT + ((Math.min(at, until) - from) / (until - from)) * (WIDTH - LEFT - 10);
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "timeline", role: "group", "aria-label": `${turns.length} turns and ${lanes.length} other bars` },
    svg("defs", {}, svg("pattern", { id: "stripes", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("rect", { class: "stripe", width: 2.5, height: 6 }))));
  for (let step = 0; step <= 4; step += 1) {
    const at = from + ((until - from) * step) / 4;
    drawing.append(svg("line", { class: "grid", x1: x(at), x2: x(at), y1: 18, y2: height }));
    drawing.append(svg("text", { class: "faint", x: x(at), y: 12, "text-anchor": step === 4 ? "end" : "middle" }, `+${span(at - from)}`));
  }
  drawing.append(svg("text", { x: 0, y: 34 }, "turns"));
  for (const turn of turns) drawing.append(drawn(turn, x, 22, until, came(turn)));
  shown.forEach((bar, number) => {
    const y = 22 + (number + 1) * ROW;
    // The event id distinguishes activities with the same name.
    const name = `${bar.name.length > 20 ? `${bar.name.slice(0, 19)}…` : bar.name} #${bar.event}`;
    drawing.append(svg("text", { x: 0, y: y + 12 }, name), drawn(bar, x, y, until, came(bar)));
  });
  const rest = lanes.length - shown.length;
  return [h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Timeline" }, drawing),
    h("p", { class: "note" }, legend(shown, came), rest > 0 && ` ${rest} more bars are in the events below.`)];
}

// What happened to the work of a bar: it goes on, arrived, failed, or was not waited for any longer.
function outcome(bar, running) {
  if (bar.cancelled) return "abandoned";
  if (bar.failed) return "failed";
  if (bar.to !== undefined) return "done";
  return running ? "open" : "abandoned";
}

function legend(bars, came) {
  const kinds = [...new Set(bars.map((bar) => bar.lane))];
  return [kinds.map((kind) => h("span", { class: "key" }, h("i", { class: kind }), NAMES[kind])),
    bars.some((bar) => bar.failed) && h("span", { class: "key" }, h("i", { class: "failed" }), "failed"),
    bars.some((bar) => came(bar) === "waiting") && "Dotted: waits for a worker. ",
    "Outlined: open until now. Striped: no longer awaited, for example after a timeout.",
    bars.some((bar) => bar.lane === "activity") && " The bar of an activity begins when it is scheduled, because its start is not stored."];
}

function drawn(bar, x, y, until, came) {
  const end = bar.to ?? until;
  const width = Math.max(x(end) - x(bar.from), 3);
  const words = { open: bar.lane === "activity" ? "runs" : "not ended", waiting: "waits for a worker", abandoned: `${bar.to === undefined ? "never ended" : `after ${span(bar.to - bar.from)}`}, no longer awaited`, failed: `${span(bar.to - bar.from)}, failed`, done: span(bar.to - bar.from) };
  const label = `${NAMES[bar.lane]} ${bar.name}${bar.lane === "turn" ? "" : ` #${bar.event}`}: from ${clock(bar.from)}, ${words[came]}`;
  const shape = { x: x(bar.from), y: y + 2, width, height: 13, rx: 2 };
  const parts = [svg("title", {}, label), svg("rect", { class: `bar ${bar.lane} ${came}`, ...shape }), came === "abandoned" && svg("rect", { fill: "url(#stripes)", ...shape })];
  if (bar.instance) return svg("a", { href: to(bar.instance), "aria-label": label }, parts);
  return svg("g", { tabindex: bar.lane === "turn" ? undefined : 0, role: "img", "aria-label": label }, parts);
}
