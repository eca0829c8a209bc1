// One job: what it is, what can be done to it, and its tabs.

import { h } from "./dom.js";
import { duration, moment, plural, whole } from "./format.js";
import { isOver, jobBadge, waitingFor } from "./states.js";
import { cancelJob, stopJob, makeFault, rescaleJob, takeCheckpoint, takeSavepoint } from "./actions.js";
import { explanation, isKeptFrom, may, maySee } from "./session.js";
import { graphTab, verticesTab } from "./vertices.js";
import { checkpointsTab } from "./checkpoints.js";
import { travelTab } from "./travel.js";
import { flamesTab } from "./flames.js";
import { plotsTab } from "./plots.js";
import { exceptionsTab } from "./exceptions.js";
import { stateTab } from "./statebrowser.js";
import { settingsCard } from "./configuration.js";

export const isJob = (id) => /^[0-9a-f]{32}$/i.test(id);

export function jobView(context) {
  const { data, where, nowMs } = context;
  if (data.gone || !isJob(where.job)) {
    return { title: "No such job", content: [h("h1", { key: "title" }, "No such job"), h("p", { key: "text" }, `The JobManager does not know ${where.job}. `, h("a", { href: "#/" }, "Back to the cluster"))] };
  }
  const { job, checkpoints, exceptions } = data;
  if (!job || job.id !== where.job) return { title: "Job", content: h("p", { key: "wait", class: "muted" }, "Asking the JobManager …") };
  return {
    title: job.name,
    content: [heading(job, data, nowMs), isOver(job.state) ? endNote(job) : trouble(job, nowMs, data.rates), tabs(job, where, checkpoints, exceptions), h("div", { key: `tab-${where.tab}-${where.item ?? ""}-${where.part ?? ""}`, class: "stack" }, tab(context))],
  };
}

function tab(context) {
  const { where } = context;
  if (isKeptFrom(where.tab)) return explanation(where.tab);
  if (where.tab === "checkpoints") return where.item === undefined ? checkpointsTab(context) : travelTab(context);
  if (where.tab === "flames") return flamesTab(context);
  if (where.tab === "plots") return plotsTab(context);
  if (where.tab === "state") return stateTab(context);
  if (where.tab === "exceptions") return exceptionsTab(context);
  if (where.tab === "configuration") return settingsCard(context, where.job);
  return where.tab === "vertices" ? verticesTab(context) : graphTab(context);
}

function heading(job, data, nowMs) {
  const button = (text, act, kind) => h("button", { type: "button", class: kind || "", onclick: () => act(job), disabled: isOver(job.state) || job.state === "CANCELLING" }, text);
  const mayCancel = !data.hello || data.hello.may_cancel;
  return h(
    "div",
    { key: "heading", class: "head" },
    h(
      "div",
      { class: "title" },
      h("div", { class: "line" }, h("h1", {}, job.name), jobBadge(job)),
      h(
        "p",
        { class: "line muted small" },
        h("span", { class: "mono" }, job.id),
        h("span", {}, `started ${moment(job.start_ms)}`),
        h("span", {}, `${isOver(job.state) ? "ran" : "for"} ${duration((job.end_ms ?? nowMs) - job.start_ms)}`),
        h("span", {}, plural(job.restarts, "restart")),
        job.times_ms?.RECONCILING && h("span", { title: "The JobManager before this one was lost. Subtasks that were still there went on." }, `taken over ${moment(job.times_ms.RECONCILING)}`),
      ),
    ),
    !isOver(job.state) &&
      may("operate") && h("div", { class: "actions", role: "group", "aria-label": "Actions" }, button("Checkpoint", takeCheckpoint), button("Savepoint", takeSavepoint), button("Stop …", stopJob), button("Rescale …", rescaleJob), data.hello?.may_fault && button("Fault …", makeFault, "danger"), mayCancel && button("Cancel …", cancelJob, "danger")),
  );
}

function endNote(job) {
  if (job.state !== "FAILED" || !job.failure) return null;
  return h("p", { key: "note", class: "note bad" }, h("strong", {}, "It failed: "), job.failure.split("\n")[0], " ", h("a", { href: `#/jobs/${job.id}/exceptions` }, "Details"));
}

function trouble(job, nowMs, rates = {}) {
  if (job.waiting_for) return h("p", { key: "note", class: "note warn" }, `It waits for ${waitingFor(job, nowMs)}.${job.starting_since_ms ? "" : " Free some, or start another TaskManager."}`);
  if (job.state === "RESTARTING" && job.failure) return h("p", { key: "note", class: "note warn" }, h("strong", {}, "Restarting after: "), job.failure.split("\n")[0]);
  const failing = job.vertices.filter((vertex) => rates[vertex.id]?.failing_commits_ms);
  if (failing.length) {
    const longest = Math.max(...failing.map((vertex) => rates[vertex.id].failing_commits_ms));
    return h("p", { key: "note", class: "note warn" }, h("strong", {}, "Commits do not succeed: "), `readers of ${failing.map((vertex) => vertex.name).join(", ")} have seen nothing new for ${duration(longest)}. Checkpoints go on, and what they hold is committed once the system answers; the TaskManager's log has the error.`);
  }
  return null;
}

function tabs(job, where, checkpoints, exceptions) {
  const failures = exceptions ? exceptions.entries.length : 0;
  const taken = checkpoints ? checkpoints.counts.completed : 0;
  const items = [
    ["graph", "", "Graph", 0],
    ["vertices", "/vertices", "Vertices", job.vertices.length],
    ["checkpoints", "/checkpoints", "Checkpoints", taken],
    ["plots", "/plots", "Plots", 0],
    ["flames", "/flames", "Flames", 0],
    ["state", "/state", "State", 0],
    ["exceptions", "/exceptions", "Exceptions", failures],
    ["configuration", "/configuration", "Configuration", 0],
  ];
  return h(
    "nav",
    { key: "tabs", class: "tabs", "aria-label": "Parts of the job" },
    items.filter(([name]) => maySee(name)).map(([name, path, text, count]) => h("a", { href: `#/jobs/${job.id}${path}`, "aria-current": where.tab === name && "page" }, text, count > 0 && h("span", { class: "count" }, whole(count)))),
  );
}
