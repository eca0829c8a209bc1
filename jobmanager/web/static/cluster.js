// The cluster: slots as squares with who uses them, TaskManagers, and the jobs that run or are over.

import { h } from "./dom.js";
import { bytes, duration, moment, plural, whole } from "./format.js";
import { may } from "./session.js";
import { isOver, jobBadge, taskCounts, waitingFor } from "./states.js";

const HUES = ["#0b7285", "#5f3dc4", "#a6401b", "#2b7a3d", "#9c2b6b", "#1864ab", "#7a5c00", "#495057"];
const SILENT_MS = 45000;
const TASKS_NAMED = 12;
const MIB = 1048576;

export function clusterView({ data, nowMs, kept, render }) {
  const { cluster, jobs } = data;
  if (!cluster || !jobs) return { title: "Cluster", content: h("p", { key: "wait", class: "muted" }, "Asking the JobManager …") };
  const running = jobs.filter((job) => !isOver(job.state));
  const over = jobs.filter((job) => isOver(job.state));
  return {
    title: "Cluster",
    content: [
      h("h1", { key: "title" }, "Cluster"),
      facts(cluster, running, over, data.hello, nowMs),
      jobTable("running", "Running jobs", running, nowMs, may("deploy") ? "No job is running. Submit one here, or with tidegate run job.py." : "No job is running."),
      machines(cluster, kept, render, nowMs),
      over.length > 0 && jobTable("over", "Jobs that are over", over, nowMs, ""),
    ],
  };
}

function facts(cluster, running, over, hello, nowMs) {
  const failed = over.filter((job) => job.state === "FAILED").length;
  const fact = (name, value, small) => h("div", {}, h("dt", {}, name), h("dd", {}, value, small && h("small", {}, ` ${small}`)));
  return h(
    "dl",
    { key: "facts", class: "facts" },
    fact("TaskManagers", whole(cluster.task_managers.length)),
    fact("Slots in use", whole(cluster.slots_total - cluster.slots_free), `of ${whole(cluster.slots_total)}`),
    fact("Jobs running", whole(running.length)),
    fact("Jobs over", whole(over.length), failed ? `${failed} failed` : ""),
    fact("JobManager up", hello ? duration(nowMs - hello.start_ms) : "–"),
  );
}

function jobTable(key, title, jobs, nowMs, empty) {
  return h(
    "section",
    { key, class: "card", "aria-labelledby": `${key}-title` },
    h("header", {}, h("h2", { id: `${key}-title` }, title)),
    jobs.length === 0
      ? h("p", { class: "empty" }, empty)
      : h(
          "div",
          { class: "scroll", tabindex: 0, role: "region", "aria-label": `Table: ${title}` },
          h(
            "table",
            {},
            h("thead", {}, h("tr", {}, ["Job", "State", "Tasks"].map((name) => h("th", { scope: "col" }, name)), ["Checkpoints", "Restarts", "Duration"].map((name) => h("th", { scope: "col", class: "num" }, name)), h("th", { scope: "col" }, "Started"))),
            h("tbody", {}, jobs.map((job) => jobRow(job, nowMs))),
          ),
        ),
  );
}

function jobRow(job, nowMs) {
  const [completed, failed] = job.checkpoints || [null, 0];
  return h(
    "tr",
    { key: job.id },
    h("th", { scope: "row" }, h("a", { href: `#/jobs/${job.id}` }, job.name)),
    h("td", {}, jobBadge(job), job.waiting_for && h("span", { class: "muted small" }, ` waits for ${waitingFor(job, nowMs)}`)),
    h("td", { class: "small nowrap" }, taskCounts(job.tasks)),
    h("td", { class: "num" }, completed === null ? "–" : whole(completed), failed > 0 && h("span", { class: "muted" }, ` · ${failed} failed`)),
    h("td", { class: "num" }, job.restarts === null ? "–" : whole(job.restarts)),
    h("td", { class: "num" }, duration((job.end_ms ?? nowMs) - job.start_ms)),
    h("td", { class: "nowrap" }, moment(job.start_ms)),
  );
}

function machines(cluster, kept, render, nowMs) {
  return h(
    "section",
    { key: "machines", class: "card", "aria-labelledby": "machines-title" },
    h("header", {}, h("h2", { id: "machines-title" }, "TaskManagers"), h("span", { class: "muted small" }, "A square is a slot, its colour the job, its number how many subtasks use it. Point at one to see which.")),
    cluster.task_managers.length + cluster.workers.length === 0
      ? h("p", { class: "empty" }, "No TaskManager is registered. Start one with tidegate taskmanager.")
      : h(
          "ul",
          { class: "machines" },
          cluster.task_managers.map((machine) => machineCard(machine, cluster, kept, render, nowMs)),
          cluster.workers.filter((worker) => !cluster.task_managers.some((machine) => machine.id === worker.id)).map((worker) => workerCard(worker, nowMs)),
        ),
  );
}

const WORKER_WORDS = { STARTING: "starting", RECOVERED: "not back yet", REGISTERED: "lost", STOPPING: "stopping" };

// One that the JobManager started, or is about to, and that is not registered.
function workerCard(worker, nowMs) {
  return h(
    "li",
    { key: worker.id, class: "machine coming" },
    h("h3", { class: "id mono", title: worker.id }, worker.id),
    h("p", { class: "small" }, h("span", { class: "badge warn" }, WORKER_WORDS[worker.state]), ` for ${duration(nowMs - worker.since_ms)}`),
    h("p", { class: "muted small" }, `Started by the JobManager: ${worker.reason}`),
  );
}

function machineCard(machine, cluster, kept, render, nowMs) {
  const used = machine.slots.filter((slot) => slot.job >= 0).length;
  const chosen = kept.slot && kept.slot.machine === machine.id ? machine.slots.find((slot) => slot.index === kept.slot.index) : null;
  const look = (slot) => () => {
    kept.slot = { machine: machine.id, index: slot.index };
    render();
  };
  const worker = cluster.workers.find((each) => each.id === machine.id);
  const isSilent = nowMs - machine.heard_ms > SILENT_MS;
  return h(
    "li",
    { key: machine.id, class: "machine" },
    h(
      "div",
      {},
      h("h3", { class: "id mono", title: machine.id }, machine.id),
      h("p", { class: "muted small" }, `${machine.host || "host unknown"} · pid ${machine.pid} · up ${duration(nowMs - machine.registered_ms)}`, isSilent && ` · silent for ${duration(nowMs - machine.heard_ms)}`),
    ),
    h("p", { class: "small" }, `${used} of ${plural(machine.slots.length, "slot")} in use`, memory(machine)),
    h("ul", { class: "slots", "aria-label": `Slots of ${machine.id}` }, machine.slots.map((slot) => h("li", { key: slot.index }, slotSquare(slot, cluster, look(slot), slot === chosen)))),
    h("p", { class: "who", "aria-live": "polite" }, chosen && whoUses(chosen, cluster)),
    worker && h("p", { class: "muted small" }, worker.state === "STOPPING" ? "Is being stopped" : `Started by the JobManager: ${worker.reason}`),
    may("data") && h("p", { class: "small" }, h("a", { href: `#/logs/${encodeURIComponent(machine.id)}` }, "Log")),
  );
}

function memory(machine) {
  const used = Object.entries(machine.used_mib);
  const total = used.reduce((sum, [, mib]) => sum + mib * MIB, 0);
  if (used.length === 0) return machine.memory_bytes ? ` · ${bytes(machine.memory_bytes)} of memory` : "";
  const parts = used.map(([part, mib]) => `${part} ${bytes(mib * MIB)}`).join(", ");
  return h("span", { title: parts }, ` · ${bytes(total)}${machine.memory_bytes ? ` of ${bytes(machine.memory_bytes)}` : ""} of memory used`, h("span", { class: "hidden-text" }, ` (${parts})`));
}

function slotSquare(slot, cluster, look, isChosen) {
  const job = cluster.jobs[slot.job];
  if (!job) return h("span", { class: "slot", title: `Slot ${slot.index}: free` }, h("span", { class: "hidden-text" }, `Slot ${slot.index}: free`));
  return h(
    "a",
    {
      class: isChosen ? "slot used chosen" : "slot used",
      href: `#/jobs/${job.id}`,
      style: { "--hue": HUES[slot.job % HUES.length] },
      onmouseenter: look,
      onfocus: look,
      "aria-label": `Slot ${slot.index}: ${job.name}, ${plural(slot.tasks.length, "subtask")}`,
    },
    String(slot.tasks.length),
  );
}

function whoUses(slot, cluster) {
  const job = cluster.jobs[slot.job];
  if (!job) return `Slot ${slot.index} is free.`;
  const names = slot.tasks.slice(0, TASKS_NAMED).map(([vertex, subtask]) => {
    const [name, parallelism] = job.vertices[vertex];
    return `${name} (${subtask + 1}/${parallelism})`;
  });
  const more = slot.tasks.length - names.length;
  return `Slot ${slot.index}, ${job.name}: ${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
