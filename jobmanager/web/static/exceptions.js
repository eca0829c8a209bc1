// What went wrong, newest first.

import { say } from "./actions.js";
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
    entry.replay && replay(entry.replay),
    h("pre", { tabindex: 0, "aria-label": "Stack trace" }, entry.stacktrace),
  );
}

// The command that runs a kept failure again. It runs where it is typed, so that there the page can do no more than to hand it over.
function replay(command) {
  return h(
    "p",
    { class: "replay" },
    h("span", {}, "Run it again with the same records, on a machine that has this failure:"),
    h("code", { tabindex: 0 }, command),
    h("button", { type: "button", onclick: (event) => copy(command, event.target.previousElementSibling) }, "Copy"),
  );
}

async function copy(text, node) {
  try {
    await navigator.clipboard.writeText(text); // a browser has no clipboard for pages without TLS that are not of its own machine
    say("The command was copied.");
  } catch {
    getSelection().selectAllChildren(node);
    say("The command is selected; copy it with the keyboard.");
  }
}
