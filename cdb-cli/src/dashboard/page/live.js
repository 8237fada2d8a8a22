// Server-sent events: calls a view again after each change of an instance.

import { part, stream } from "./ask.js";

// Watches an instance until the view is left or the instance ends. `draw` reads the instance and returns its `updatedAt`.
// A hidden window watches nothing.
export function watch(turn, id, since, draw) {
  let source;
  let known = since;
  let drawing = false;
  let again = false;
  let lost = false;
  const redraw = async () => {
    if (drawing) { again = true; return; }
    drawing = true;
    try { known = await draw(); } catch (error) { turn.say(error.message, true); }
    drawing = false;
    if (again && turn.current()) { again = false; redraw(); }
  };
  const stop = () => { if (source) source.close(); source = undefined; };
  const start = () => {
    if (source || document.hidden) return;
    source = new EventSource(stream(`instances/${part(id)}/live`, { since: known }));
    source.addEventListener("changed", redraw);
    source.addEventListener("final", () => { end(); redraw(); });
    source.addEventListener("failed", (event) => turn.say(event.data, true));
    source.addEventListener("error", () => { lost = true; turn.say("the dashboard does not answer; trying again", true); });
    source.addEventListener("open", () => { if (lost) turn.say(""); lost = false; });
  };
  const seen = () => (document.hidden ? stop() : start());
  const end = () => { stop(); document.removeEventListener("visibilitychange", seen); };
  document.addEventListener("visibilitychange", seen);
  turn.end(end);
  start();
}
