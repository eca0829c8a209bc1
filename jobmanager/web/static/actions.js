// What changes something: each asks first, in a dialog of the browser's own, and says how it ended.

import { patch, h } from "./dom.js";
import { ask, operation } from "./api.js";
import { bytes, percent, plural } from "./format.js";

const SHOWN_MS = 12000;
const said = document.getElementById("said");

export function openDialog(title, content) {
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "dialog-title");
  const close = () => dialog.close();
  const update = () => patch(dialog, h("div", { class: "dialog" }, h("h2", { id: "dialog-title" }, title), content(close, update)));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && close());
  document.body.append(dialog);
  update();
  dialog.showModal();
  return dialog;
}

export function say(text, isBad = false) {
  const toast = document.createElement("div");
  toast.className = isBad ? "toast bad" : "toast";
  patch(toast, [h("span", {}, text), h("button", { type: "button", "aria-label": "Close this message", onclick: () => toast.remove() }, "×")]);
  said.append(toast);
  if (!isBad) setTimeout(() => toast.remove(), SHOWN_MS);
}

// A question with a form; `run` does it once the user agrees. While it runs the dialog is closed, and the end is told.
function confirm({ title, text, fields, agree, isDangerous, started, run }) {
  const state = {};
  openDialog(title, (close) => [
    h("p", {}, text),
    h(
      "form",
      {
        class: "stack",
        onsubmit: (event) => {
          event.preventDefault();
          close();
          if (started) say(started);
          run(state).then((message) => message && say(message), (error) => say(`${title}: ${error.message}`, true));
        },
      },
      fields ? fields(state) : [],
      h(
        "div",
        { class: "actions" },
        h("button", { type: "button", onclick: close }, "Back"),
        h("button", { type: "submit", class: isDangerous ? "primary danger" : "primary" }, agree),
      ),
    ),
  ]);
}

function directory(state, isThere) {
  return h(
    "label",
    {},
    "Directory",
    h("small", {}, isThere ? "Empty: the one of the configuration." : "No savepoint directory is configured, so one is needed."),
    h("input", { name: "directory", autocomplete: "off", required: !isThere, placeholder: "file:///… or s3://…", oninput: (event) => (state.directory = event.target.value.trim()) }),
  );
}

export function cancelJob(job) {
  confirm({
    title: "Cancel the job",
    text: `“${job.name}” stops at once. No savepoint is taken; what was not committed is lost, but checkpoints may be kept.`,
    agree: "Cancel the job",
    isDangerous: true,
    run: async () => {
      await ask("PATCH", `jobs/${job.id}?mode=cancel`);
      return "The job is being canceled.";
    },
  });
}

export function stopJob(job) {
  confirm({
    title: "Stop with a savepoint",
    text: `“${job.name}” takes a savepoint, commits everything up to it, and ends as FINISHED. It can be started again from there.`,
    fields: (state) => [
      directory(state, job.has_savepoint_directory),
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "drain", onchange: (event) => (state.drain = event.target.checked) }), "Drain: let event time run to its end first, so that all windows and timers fire"),
    ],
    agree: "Stop the job",
    started: "Stopping with a savepoint …",
    run: async (state) => {
      const body = { drain: Boolean(state.drain), targetDirectory: state.directory || null };
      const done = await operation(`jobs/${job.id}/stop`, body, `jobs/${job.id}/savepoints`);
      return `Stopped. The savepoint is ${done.location}`;
    },
  });
}

export function takeSavepoint(job) {
  confirm({
    title: "Take a savepoint",
    text: `“${job.name}” goes on. The savepoint is yours: nothing here removes it.`,
    fields: (state) => directory(state, job.has_savepoint_directory),
    agree: "Take the savepoint",
    started: "Taking a savepoint …",
    run: async (state) => {
      const done = await operation(`jobs/${job.id}/savepoints`, { "target-directory": state.directory || null }, `jobs/${job.id}/savepoints`);
      return `The savepoint is ${done.location}`;
    },
  });
}

export function takeCheckpoint(job) {
  confirm({
    title: "Take a checkpoint now",
    text: `“${job.name}” takes a checkpoint outside of its interval.`,
    fields: (state) => h("label", { class: "check" }, h("input", { type: "checkbox", name: "full", onchange: (event) => (state.full = event.target.checked) }), "Full: refer to nothing of earlier checkpoints"),
    agree: "Take the checkpoint",
    run: async (state) => {
      const done = await operation(`jobs/${job.id}/checkpoints`, { checkpointType: state.full ? "FULL" : "CONFIGURED" }, `jobs/${job.id}/checkpoints`);
      return `Checkpoint ${done.checkpointId} is complete.`;
    },
  });
}

const ALL = "all";

// Asks what would change while the form is filled in; the JobManager decides again when it is sent.
export function rescaleJob(job, vertex) {
  const state = { vertex: vertex ? vertex.id : ALL, parallelism: vertex ? vertex.parallelism : Math.max(...job.vertices.map((each) => each.parallelism)), plan: null, error: "" };
  let wanted = 0; // how often what is wanted has changed
  let isAsking = false;
  let isOpen = true;
  const dialog = openDialog("Rescale the job", (close, update) => {
    // One question at a time: what is typed while it is answered is asked for afterwards, and only the last of it.
    const look = async () => {
      Object.assign(state, { plan: null, error: "" });
      wanted += 1;
      update();
      if (isAsking) return;
      isAsking = true;
      for (let asked = 0; asked !== wanted && isOpen; ) {
        asked = wanted;
        const found = state.parallelism >= 1 ? await planOf(job, state) : {};
        if (asked === wanted) Object.assign(state, found);
      }
      isAsking = false;
      update();
    };
    const isReady = state.plan !== null && !state.plan.refusal && state.plan.changes.length > 0;
    return [
      h("p", {}, `“${job.name}” takes a checkpoint and goes on from it with other numbers of subtasks, exactly once. All of its subtasks restart.`),
      h(
        "form",
        {
          class: "stack",
          onsubmit: (event) => {
            event.preventDefault();
            if (!isReady) return;
            close();
            ask("PUT", `jobs/${job.id}/resource-requirements`, state.plan.requirements).then(
              () => say("The job is being rescaled. The table below its vertices says how it goes."),
              (error) => say(`Rescale the job: ${error.message}`, true),
            );
          },
        },
        h("label", {}, "Vertex", h("select", { name: "vertex", value: state.vertex, onchange: (event) => ((state.vertex = event.target.value), look()) }, h("option", { value: ALL }, "all that can change"), job.vertices.map((each) => h("option", { value: each.id }, each.name)))),
        h("label", {}, "Subtasks", h("input", { name: "parallelism", type: "number", min: 1, max: Math.max(...job.vertices.map((each) => each.max_parallelism)), required: true, value: String(state.parallelism || ""), oninput: (event) => ((state.parallelism = Number(event.target.value)), look()) })),
        h("div", { role: "status", class: "moves" }, moves(state)),
        h("div", { class: "actions" }, h("button", { type: "button", onclick: close }, "Back"), h("button", { type: "submit", class: "primary", disabled: !isReady }, "Rescale the job")),
      ),
    ];
  });
  dialog.addEventListener("close", () => (isOpen = false));
}

async function planOf(job, { vertex, parallelism }) {
  try {
    return { plan: await ask("GET", `web/rescale?${new URLSearchParams({ job: job.id, parallelism, vertex: vertex === ALL ? "" : vertex })}`) };
  } catch (error) {
    return { error: error.message };
  }
}

function moves({ plan, error }) {
  if (error) return h("p", { class: "note bad" }, error);
  if (plan === null) return h("p", { class: "muted" }, "Choose how many subtasks there are to be.");
  if (plan.refusal) return h("p", { class: "note warn" }, plan.refusal);
  if (plan.changes.length === 0) return h("p", { class: "muted" }, "Nothing would change.");
  return h("ul", { class: "stack small" }, plan.changes.map((each) => h("li", { key: each.vertex }, h("strong", {}, each.name), `: ${each.before} → ${plural(each.after, "subtask")}${moved(each)}`)));
}

function moved(change) {
  const state = change.state_bytes === null ? "; no checkpoint is complete yet" : change.state_bytes > 0 ? `; ${bytes(change.state_bytes)} of state in the last checkpoint` : "; no state";
  if (!change.state_bytes || change.moved === null) return state;
  return `${state}, of which about ${percent(change.moved / change.key_groups)} goes to another subtask (${change.moved} of ${change.key_groups} key groups)`;
}

const FAULTS = [
  ["kill-subtask", "Kill a subtask"],
  ["kill-taskmanager", "Kill the TaskManager of a subtask"],
  ["kill-executor", "Kill the executor of Spark that a subtask runs in"],
  ["skew-clock", "Set the clock of its TaskManager's subtasks ahead"],
  ["delay-channels", "Let what its TaskManager's subtasks receive come later"],
  ["cut-channels", "Break the connections to its TaskManager's subtasks"],
  ["delay-messages", "Let its TaskManager's reports come later"],
  ["drop-acknowledgements", "Lose its TaskManager's next acknowledgements"],
  ["slow-state", "Make the checkpoint directory slow"],
  ["full-state", "Fill the checkpoint directory"],
];

// A fault on purpose. The exceptions of the job tell of it, and of what followed.
export function makeFault(job) {
  confirm({
    title: "Make a fault",
    text: `“${job.name}” should live through it. Its exceptions say what followed.`,
    fields: (state) => [
      h("label", {}, "Fault", h("select", { name: "kind", onchange: (event) => (state.kind = event.target.value) }, FAULTS.map(([kind, words]) => h("option", { value: kind }, words)))),
      h("label", {}, "Vertex", h("select", { name: "vertex", onchange: (event) => (state.vertex = event.target.value) }, job.vertices.map((vertex) => h("option", { value: vertex.id }, vertex.name)))),
      h("label", {}, "Subtask", h("small", {}, "Counted from 1."), h("input", { name: "subtask", type: "number", min: 1, value: "1", oninput: (event) => (state.subtask = Number(event.target.value) - 1) })),
      h("label", {}, "Delay", h("small", {}, "In milliseconds, where something comes later or a clock is ahead; a clock may be behind, by -200."), h("input", { name: "delay", type: "number", value: "200", oninput: (event) => (state.delay = Number(event.target.value)) })),
      h("label", {}, "For", h("small", {}, "So many seconds."), h("input", { name: "for", type: "number", min: 0, value: "10", oninput: (event) => (state.seconds = Number(event.target.value)) })),
    ],
    agree: "Make the fault",
    isDangerous: true,
    run: async ({ kind = FAULTS[0][0], vertex = job.vertices[0].id, subtask = 0, delay = 200, seconds = 10 }) => {
      const body = { kind, job: job.id, vertex, subtask, [kind === "skew-clock" ? "skew-ms" : "delay-ms"]: delay, "for-ms": Math.round(seconds * 1000) };
      const made = await ask("POST", "faults", body);
      return `Done ${made.text}.`;
    },
  });
}
