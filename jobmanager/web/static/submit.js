// Submit a job: a Python file, or a zip of several, with its arguments.

import { h } from "./dom.js";
import { ask } from "./api.js";
import { say } from "./actions.js";

export function submitView({ kept, render }) {
  const state = (kept.submit ||= { isAllowed: null, isBusy: false, error: "" });
  if (!state.asked) {
    state.asked = true;
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
  return { title: "Submit a job", content: [h("h1", { key: "title" }, "Submit a job"), state.error && h("p", { key: "error", class: "note bad", role: "alert" }, state.error), body(state, render)] };
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
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "loose" }), "Leave out state that no operator of the job takes"),
      h("div", { class: "actions" }, h("button", { type: "submit", class: "primary", disabled: state.isBusy }, state.isBusy ? "Submitting …" : "Submit")),
    ),
  );
}

async function submit(form, state, render) {
  const values = new FormData(form);
  state.isBusy = true;
  state.error = "";
  render();
  try {
    const upload = new FormData();
    upload.append("jarfile", values.get("file"));
    const { filename } = await ask("POST", "jars/upload", upload);
    const id = filename.split("/").pop();
    const request = { programArgsList: words(values.get("arguments")), allowNonRestoredState: values.get("loose") !== null };
    if (values.get("entry").trim()) request.entryClass = values.get("entry").trim();
    if (values.get("parallelism")) request.parallelism = Number(values.get("parallelism"));
    if (values.get("savepoint").trim()) request.savepointPath = values.get("savepoint").trim();
    const { jobid } = await ask("POST", `jars/${encodeURIComponent(id)}/run`, request);
    say("The job is submitted.");
    location.hash = `#/jobs/${jobid}`;
  } catch (error) {
    state.error = error.message;
  }
  state.isBusy = false;
  render();
}

// Words as a shell would see them: quotes keep spaces.
export function words(text) {
  return [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((found) => found[1] ?? found[2] ?? found[3]);
}
