// The attempts of a vertex's subtasks over the life of the job: who ran when, and how each ended.

import { h } from "./dom.js";
import { clock, duration, plural, whole } from "./format.js";
import { colour } from "./states.js";

const SHOWN = 12;

export function attempts(job, vertex, rows, nowMs) {
  const again = rows.filter((row) => row.earlier.length > 0);
  if (again.length === 0) return null;
  const endMs = job.end_ms ?? nowMs;
  const spanMs = Math.max(1, endMs - job.start_ms);
  return h(
    "section",
    { key: `attempts-${vertex.id}`, class: "card", "aria-labelledby": "attempts-title" },
    h("header", {}, h("h2", { id: "attempts-title" }, "Attempts over time"), h("span", { class: "muted small" }, `${clock(job.start_ms)} to ${clock(endMs)}`)),
    h(
      "div",
      { class: "lanes" },
      h("ul", {}, again.slice(0, SHOWN).map((row) => lane(row, job.start_ms, spanMs, nowMs))),
      again.length > SHOWN && h("p", { class: "small muted" }, `${whole(again.length - SHOWN)} more subtasks were started more than once`),
    ),
  );
}

function lane(row, startMs, spanMs, nowMs) {
  const all = [...row.earlier, [row.attempt, row.state, row.start_ms, row.end_ms, row.host]].filter(([, , from]) => from !== null);
  const bars = all.map(([number, state, from, to, host]) => ({ number, state, from, to: to ?? nowMs, host }));
  const words = bars.map((bar) => `attempt ${bar.number + 1} ${bar.state.toLowerCase()} after ${duration(bar.to - bar.from)}${bar.host ? ` on ${bar.host}` : ""}`).join(", ");
  const name = `Subtask ${row.index + 1}`;
  return h(
    "li",
    { key: row.index, class: "lane counted" },
    h("span", { class: "label" }, name),
    h("span", { class: "run", role: "img", "aria-label": `${name}: ${words}`, title: words.replaceAll(", ", "\n") }, bars.map((bar) => h("i", { key: bar.number, class: "attempt", style: { left: `${(100 * (bar.from - startMs)) / spanMs}%`, width: `${(100 * (bar.to - bar.from)) / spanMs}%`, background: colour(bar.state) } }))),
    h("span", { class: "at" }, plural(bars.length, "attempt")),
  );
}
