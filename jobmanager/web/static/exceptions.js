// What went wrong, newest first.

import { h } from "./dom.js";
import { moment } from "./format.js";

export function exceptionsTab({ data }) {
  const { exceptions } = data;
  if (!exceptions) return h("p", { key: "wait", class: "muted" }, "Asking the JobManager …");
  return h(
    "section",
    { key: "exceptions", class: "card", "aria-labelledby": "exceptions-title" },
    h("header", {}, h("h2", { id: "exceptions-title" }, "Exceptions"), exceptions.truncated && h("span", { class: "muted small" }, "only the newest")),
    exceptions.entries.length === 0
      ? h("p", { class: "empty" }, "Nothing has failed.")
      : h("div", {}, exceptions.entries.map((entry, at) => one(entry, at === 0))),
  );
}

function one(entry, isFirst) {
  const [first] = entry.stacktrace.split("\n");
  return h(
    "details",
    { key: `${entry.timestamp}-${entry.taskName || ""}`, class: "trace", created: (node) => (node.open = isFirst) },
    h(
      "summary",
      {},
      h("strong", {}, first),
      h("br", {}),
      h("span", { class: "muted small" }, [moment(entry.timestamp), entry.taskName, entry.taskManagerId].filter(Boolean).join(" · ")),
    ),
    h("pre", { tabindex: 0, "aria-label": "Stack trace" }, entry.stacktrace),
  );
}
