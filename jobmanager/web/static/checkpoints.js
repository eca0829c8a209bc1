// The history of checkpoints: durations as a strip, and a table.

import { h } from "./dom.js";
import { bytes, clock, duration, moment, whole } from "./format.js";
import { badge } from "./states.js";

export const kindOf = (item) => ({ CHECKPOINT: "checkpoint", SAVEPOINT: "savepoint", SUSPEND: "savepoint of a stop", TERMINATE: "savepoint of a drain" })[item.type] || item.type;
const isSavepoint = (item) => item.type !== "CHECKPOINT";

export function took(item, nowMs) {
  return (item.end_ms ?? nowMs) - item.trigger_ms;
}

export function checkpointsTab({ data, nowMs }) {
  const { checkpoints, job } = data;
  if (!checkpoints) return h("p", { key: "wait", class: "muted" }, "Asking the JobManager …");
  const { counts, history } = checkpoints;
  const done = history.filter((item) => item.status === "COMPLETED").map((item) => took(item, nowMs)).sort((a, b) => a - b);
  const fact = (name, value, small) => h("div", {}, h("dt", {}, name), h("dd", {}, value, small && h("small", {}, ` ${small}`)));
  return [
    h(
      "dl",
      { key: "facts", class: "facts" },
      fact("Completed", whole(counts.completed)),
      fact("Failed", whole(counts.failed)),
      fact("In progress", whole(counts.in_progress)),
      fact("Restored", whole(counts.restored)),
      fact("Interval", checkpoints.interval_ms === null ? "off" : duration(checkpoints.interval_ms)),
      fact("Median duration", done.length ? duration(done[Math.floor((done.length - 1) / 2)]) : "–", done.length ? `of the last ${done.length}` : ""),
    ),
    history.length === 0
      ? h("section", { key: "none", class: "card" }, h("p", { class: "empty" }, checkpoints.interval_ms === null ? "This job takes no periodic checkpoints (execution.checkpointing.interval is not set). You can still take one, or a savepoint." : "No checkpoint yet."))
      : [strip(job, history, nowMs), table(job, history, nowMs), beyond(job, checkpoints, nowMs), places(checkpoints)],
  ];
}

function strip(job, history, nowMs) {
  const longest = Math.max(...history.map((item) => took(item, nowMs)), 1);
  return h(
    "section",
    { key: "strip", class: "card", "aria-labelledby": "strip-title" },
    h("header", {}, h("h2", { id: "strip-title" }, "Durations"), h("span", { class: "muted small" }, `the tallest is ${duration(longest)}`)),
    h(
      "ol",
      { class: "strip", "aria-label": "Durations of the last checkpoints, oldest first" },
      [...history].reverse().map((item) =>
        h(
          "li",
          { key: item.id, style: { display: "contents" } },
          h(
            "a",
            { class: `${item.status}${isSavepoint(item) ? " savepoint" : ""}`, href: `#/jobs/${job.id}/checkpoints/${item.id}`, "aria-label": `${kindOf(item)} ${item.id}: ${item.status.toLowerCase().replace("_", " ")}, ${duration(took(item, nowMs))}`, title: `${kindOf(item)} ${item.id}` },
            h("span", {}, duration(took(item, nowMs))),
            h("span", { class: "stick eased", style: { height: `${Math.max(3, (took(item, nowMs) / longest) * 74)}px` } }),
            h("span", { class: "id" }, String(item.id)),
          ),
        ),
      ),
    ),
  );
}

// What outlives the history: a failure or a slow one of an hour ago.
function beyond(job, { beyond: rows }, nowMs) {
  return rows && rows.length > 0 && table(job, rows, nowMs, "beyond", "The slowest and the failed before these");
}

function table(job, history, nowMs, key = "history", title = "History") {
  const columns = ["Duration", "State size", "Acknowledged"];
  return h(
    "section",
    { key, class: "card", "aria-labelledby": `${key}-title` },
    h("header", {}, h("h2", { id: `${key}-title` }, title)),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": key === "history" ? "History of checkpoints" : "Table of checkpoints before these" },
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, ["Checkpoint", "Status", "Triggered"].map((name) => h("th", { scope: "col" }, name)), columns.map((name) => h("th", { scope: "col", class: "num" }, name)), h("th", { scope: "col" }, "Remark"))),
        h(
          "tbody",
          {},
          history.map((item) =>
            h(
              "tr",
              { key: item.id },
              h("th", { scope: "row" }, h("a", { href: `#/jobs/${job.id}/checkpoints/${item.id}` }, `${item.id}`), isSavepoint(item) && h("span", { class: "muted" }, ` ${kindOf(item)}`)),
              h("td", {}, badge(item.status)),
              h("td", { class: "nowrap" }, clock(item.trigger_ms)),
              h("td", { class: "num" }, duration(took(item, nowMs))),
              h("td", { class: "num" }, bytes(item.size_bytes)),
              h("td", { class: "num" }, `${item.acknowledged} of ${item.expected}`),
              h("td", { class: "small" }, remark(item)),
            ),
          ),
        ),
      ),
    ),
  );
}

export function remark(item) {
  if (item.failure) return item.failure;
  const words = [item.restored && "restored from", item.discarded && "discarded", !item.is_periodic && !isSavepoint(item) && "asked for"];
  return words.filter(Boolean).join(", ");
}

function places({ latest }) {
  const rows = [latest.savepoint && ["Last savepoint", latest.savepoint], latest.restored && ["Restored from", `${latest.restored[0]} at ${moment(latest.restored[1])}`]].filter(Boolean);
  if (rows.length === 0) return null;
  return h("section", { key: "places", class: "card" }, h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, rows.map(([name, place]) => h("tr", { key: name }, h("th", { scope: "row" }, name), h("td", {}, h("code", {}, place))))))));
}
