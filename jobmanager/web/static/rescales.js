// When and why the job took its parallelism, newest first.

import { h } from "./dom.js";
import { duration, moment } from "./format.js";

export function rescales({ data, nowMs }) {
  const rows = data.job.rescales;
  if (!rows || rows.length === 0) return null;
  return h(
    "section",
    { key: "rescales", class: "card", "aria-labelledby": "rescales-title" },
    h("header", {}, h("h2", { id: "rescales-title" }, "Changes of the parallelism"), h("span", { class: "muted small" }, "newest first")),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of changes of the parallelism" },
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Began"), h("th", { scope: "col" }, "Cause"), h("th", { scope: "col" }, "Subtasks"), h("th", { scope: "col", class: "num" }, "Took"), h("th", { scope: "col" }, "Outcome"))),
        h("tbody", {}, rows.map((row) => one(row, nowMs))),
      ),
    ),
  );
}

function one(row, nowMs) {
  return h(
    "tr",
    { key: row.id },
    h("th", { scope: "row", class: "nowrap" }, moment(row.start_ms)),
    h("td", {}, row.trigger),
    h("td", {}, shapes(row.vertices)),
    h("td", { class: "num" }, duration((row.end_ms ?? nowMs) - row.start_ms)),
    h("td", {}, h("span", { class: `badge plain ${row.outcome === "FAILED" ? "bad" : row.outcome === null ? "warn" : ""}` }, row.outcome === null ? "under way" : row.outcome.toLowerCase()), " ", h("span", { class: "muted" }, row.reason ?? row.states.at(-1)?.toLowerCase())),
  );
}

// Vertices that change alike are one line.
function shapes(vertices) {
  const texts = vertices.map(change);
  if (texts.every((text) => text === texts[0])) return texts[0];
  return h("ul", { class: "plain" }, texts.map((text, at) => h("li", { key: at }, `${vertices[at].name}: ${text}`))); // two may have one name
}

function change({ before, after, upper }) {
  const wanted = after !== null && after !== upper ? ` of ${upper} wanted` : "";
  const now = after ?? upper;
  return `${before === null || before === now ? "" : `${before} → `}${now}${wanted}`;
}
