// What is wrong with how the job works: a sentence with its evidence, and what to do. The JobManager decides it.

import { h } from "./dom.js";
import { maySee } from "./session.js";

const KINDS = { slow: "slow", skewed: "skewed", growing: "state grows" };

// Of the job, or of the vertex that is looked at.
export function findings({ job, findings: found = [] }, chosen) {
  const rows = (found || []).filter((each) => !chosen || each.vertex === chosen.id);
  if (rows.length === 0) return null;
  return h(
    "section",
    { key: "findings", class: "card", "aria-labelledby": "findings-title" },
    h("header", {}, h("h2", { id: "findings-title" }, "Findings"), h("span", { class: "muted small" }, "rates of the last minute, state of the last 15 minutes")),
    h("ul", { class: "findings" }, rows.map((each) => one(job, each, chosen))),
  );
}

function one(job, { kind, vertex, subtask, sentence, advice }, chosen) {
  return h(
    "li",
    { key: `${kind}-${vertex}` },
    h("span", { class: "badge warn" }, KINDS[kind]),
    h("div", {}, h("p", {}, sentence), h("p", { class: "muted small" }, advice)),
    h(
      "div",
      { class: "actions small" },
      !chosen && h("a", { href: `#/jobs/${job.id}/vertices/${vertex}` }, "Subtasks"),
      kind === "slow" && maySee("flames") && h("a", { href: `#/jobs/${job.id}/flames/${vertex}` }, "Flames"),
      kind === "growing" && maySee("state") && h("a", { href: `#/jobs/${job.id}/state` }, "State"),
      h("a", { href: `#/jobs/${job.id}/plots/${vertex}${subtask === null ? "" : `/${subtask}`}` }, "Plots"),
    ),
  );
}
