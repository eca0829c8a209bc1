// Submit a job: a Python file, or a zip of several, with its arguments. Its plan can be looked at before.

import { h } from "./dom.js";
import { ask } from "./api.js";
import { say } from "./actions.js";
import { plural } from "./format.js";
import { graph } from "./graph.js";
import { isLarge, newView, zoomed, zoomTools } from "./graphtools.js";

const CLAIMS = [
  ["NO_CLAIM", "The job takes a full checkpoint of its own; the files stay yours"],
  ["CLAIM", "The job owns the files, and removes them when it needs them no more"],
];

export function submitView({ kept, render }) {
  const state = (kept.submit ||= { isAllowed: null, isBusy: false, error: "", plan: null });
  if (!state.requested) {
    state.requested = true;
    ask("GET", "config").then(
      (config) => {
        state.isAllowed = config.features["web-submit"];
        render();
      },
      (error) => {
        state.error = error.message;
        render();
      },
    );
  }
  return { title: "Submit a job", content: [h("h1", { key: "title" }, "Submit a job"), state.error && h("p", { key: "error", class: "note bad", role: "alert" }, state.error), body(state, render), state.plan && preview(state.plan, state.view, render)] };
}

function body(state, render) {
  if (state.isAllowed === null) return state.error ? null : h("p", { key: "wait", class: "muted" }, "Asking the JobManager …");
  if (!state.isAllowed) return h("p", { key: "off", class: "note" }, "Submission over the web is switched off here (web.submit.enable). Use ", h("code", {}, "tidegate run job.py"), ".");
  const field = (label, hint, props) => h("label", {}, label, hint && h("small", {}, hint), h("input", { autocomplete: "off", ...props }));
  return h(
    "section",
    { key: "form", class: "card" },
    h(
      "form",
      { class: "form body", style: { "padding-top": "18px" }, onsubmit: (event) => (event.preventDefault(), submit(event.target, state, render)) },
      field("Job file", "A .py file, or a .zip with several.", { name: "file", type: "file", accept: ".py,.zip", required: true }),
      field("Entry point", "Only for a zip: the module or file to run.", { name: "entry", type: "text" }),
      field("Arguments", "As on a command line.", { name: "arguments", type: "text", placeholder: "--input file:///data" }),
      h("div", { class: "two" }, field("Parallelism", "Empty: as the job says.", { name: "parallelism", type: "number", min: 1 }), field("Start from", "Path of a savepoint or checkpoint.", { name: "savepoint", type: "text" })),
      h("label", {}, "Claim mode", h("small", {}, "Who owns what the job starts from."), h("select", { name: "claim" }, CLAIMS.map(([name, text]) => h("option", { key: name, value: name }, `${name}: ${text}`)))),
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "loose" }), "Leave out state that no operator of the job takes"),
      h(
        "div",
        { class: "actions" },
        h("button", { type: "submit", class: "primary", disabled: state.isBusy }, state.isBusy ? "Working …" : "Submit"),
        h("button", { type: "button", disabled: state.isBusy, onclick: (event) => event.target.form.reportValidity() && look(event.target.form, state, render) }, "Show the plan"),
      ),
    ),
  );
}

// What would run, without running it: the program is executed up to its job.
function preview({ name, nodes }, view, render) {
  const vertices = nodes.toReversed().map((node) => ({ id: node.id, name: text_of(node.description), parallelism: node.parallelism }));
  const edges = nodes.flatMap((node) => (node.inputs || []).map((input) => ({ source: input.id, target: node.id, partitioner: input.ship_strategy })));
  const job = { name, vertices, edges };
  const inside = (vertex) => [h("span", { class: "name" }, vertex.name), h("span", { class: "sub" }, h("span", {}, plural(vertex.parallelism, "subtask")))];
  const drawn = graph({ job, ...(isLarge(job) ? {} : { height: 94 }), label: `Graph of ${name}`, inside, ...zoomed(job, view, render) });
  return h(
    "section",
    { key: "plan", class: "card", "aria-labelledby": "plan-title" },
    h("header", {}, h("h2", { id: "plan-title" }, `Plan of ${name}`), h("span", { class: "muted small" }, "Nothing runs yet."), isLarge(job) && zoomTools(view, render)),
    drawn,
  );
}

// Descriptions are HTML in Flink's answers.
function text_of(description) {
  return new DOMParser().parseFromString(description.replaceAll("<br/>", " "), "text/html").body.textContent.trim();
}

const submit = (form, state, render) =>
  attempt(form, state, render, async (id, request) => {
    const { jobid } = await ask("POST", `jars/${id}/run`, request);
    say("The job is submitted.");
    location.hash = `#/jobs/${jobid}`;
  });

const look = (form, state, render) =>
  attempt(form, state, render, async (id, request) => {
    const { plan } = await ask("POST", `jars/${id}/plan`, request);
    Object.assign(state, { plan, view: newView() });
  });

// Uploads the file, unless it is the one before, and goes on with its id and what the form says.
async function attempt(form, state, render, goOn) {
  const values = new FormData(form);
  Object.assign(state, { isBusy: true, error: "", plan: null });
  render();
  try {
    const file = values.get("file");
    if (state.file !== file.name || state.changedMs !== file.lastModified || state.bytes !== file.size) {
      const upload = new FormData();
      upload.append("jarfile", file);
      const { filename } = await ask("POST", "jars/upload", upload);
      Object.assign(state, { file: file.name, changedMs: file.lastModified, bytes: file.size, id: filename.split("/").pop() });
    }
    const request = { programArgsList: words(values.get("arguments")), allowNonRestoredState: values.get("loose") !== null };
    if (values.get("entry").trim()) request.entryClass = values.get("entry").trim();
    if (values.get("parallelism")) request.parallelism = Number(values.get("parallelism"));
    if (values.get("savepoint").trim()) Object.assign(request, { savepointPath: values.get("savepoint").trim(), claimMode: values.get("claim") });
    await goOn(encodeURIComponent(state.id), request);
  } catch (error) {
    state.error = error.message;
    state.file = null; // it may be gone
  }
  state.isBusy = false;
  render();
}

// Words as a shell would see them: quotes keep spaces.
export function words(text) {
  return [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((found) => found[1] ?? found[2] ?? found[3]);
}
