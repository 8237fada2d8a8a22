// The timeline of an execution: one bar per turn, activity, timer, sub-orchestration and awaited event. The table of events
// holds the same data as text.

import { h, span, svg, time, to } from "./dom.js";

const NAMES = { turn: "turn", activity: "activity", timer: "timer", subOrchestration: "sub-orchestration", event: "event" };
const [LEFT, WIDTH, ROW] = [190, 1000, 20];
const MOST = 200;

export function timeline(bars, now) {
  if (!bars || !bars.length) return h("p", {}, "No events yet.");
  const turns = bars.filter((bar) => bar.lane === "turn");
  const lanes = bars.filter((bar) => bar.lane !== "turn");
  const from = Math.min(...bars.map((bar) => bar.from));
  const ends = bars.map((bar) => bar.to ?? bar.from);
  const open = bars.some((bar) => bar.to === undefined);
  const latest = Math.max(...ends);
  // An open bar ends a little after the last event, not now: an old execution would be squeezed.
  const until = Math.max(open ? Math.min(now, latest + (latest - from || 1000) * 0.2) : latest, from + 1);
  const shown = lanes.slice(0, MOST);
  const height = (shown.length + 1) * ROW + 34;
  const x = (at) => LEFT + ((Math.min(at, until) - from) / (until - from)) * (WIDTH - LEFT - 10);
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${height}`, class: "timeline", role: "group", "aria-label": `${turns.length} turns and ${lanes.length} other bars, over ${span(until - from)}` });
  for (let step = 0; step <= 4; step += 1) {
    const at = from + ((until - from) * step) / 4;
    drawing.append(svg("line", { class: "grid", x1: x(at), x2: x(at), y1: 18, y2: height }));
    drawing.append(svg("text", { class: "faint", x: x(at), y: 12, "text-anchor": step === 4 ? "end" : "middle" }, `+${span(at - from)}`));
  }
  drawing.append(svg("text", { x: 0, y: 34 }, "turns"));
  for (const turn of turns) drawing.append(drawn(turn, x, 22, until));
  shown.forEach((bar, number) => {
    const y = 22 + (number + 1) * ROW;
    // The event id distinguishes activities with the same name.
    const name = `${bar.name.length > 20 ? `${bar.name.slice(0, 19)}…` : bar.name} #${bar.event}`;
    drawing.append(svg("text", { x: 0, y: y + 12 }, name), drawn(bar, x, y, until));
  });
  const rest = lanes.length - shown.length;
  return h("div", { class: "scroll" }, drawing, rest > 0 && h("p", {}, `and ${rest} more, in the events below`));
}

function drawn(bar, x, y, until) {
  const end = bar.to ?? until;
  const width = Math.max(x(end) - x(bar.from), 3);
  const lasted = bar.to === undefined ? "not ended" : span(bar.to - bar.from);
  const label = `${NAMES[bar.lane]} ${bar.name}${bar.lane === "turn" ? "" : ` #${bar.event}`}: from ${time(bar.from)}, ${lasted}${bar.failed ? ", failed" : ""}`;
  const kind = `bar ${bar.lane}${bar.failed ? " failed" : ""}${bar.to === undefined ? " open" : ""}`;
  const rectangle = svg("rect", { class: kind, x: x(bar.from), y: y + 2, width, height: 13, rx: 2 });
  const title = svg("title", {}, label);
  if (bar.instance) return svg("a", { href: to(bar.instance), "aria-label": label }, title, rectangle);
  return svg("g", { tabindex: bar.lane === "turn" ? undefined : 0, role: "img", "aria-label": label }, title, rectangle);
}
