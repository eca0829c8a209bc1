// What is set, beside what is not: every option with its value, its default and who set it.

import { h } from "./dom.js";
import { ask } from "./api.js";
import { whole } from "./format.js";

const ORIGINS = { default: "default", cluster: "cluster", job: "job" };

export function configurationView(context) {
  return { title: "Configuration", content: [h("h1", { key: "title" }, "Configuration"), settingsCard(context, undefined)] };
}

export function settingsCard({ kept, render }, job) {
  const name = `settings-${job || "cluster"}`;
  const state = (kept[name] ||= { text: "", isSetOnly: true, rows: null, error: "" });
  if (!state.requested) {
    state.requested = true;
    ask("GET", job ? `web/settings?job=${job}` : "web/settings").then(
      (rows) => {
        state.rows = rows;
        render();
      },
      (error) => {
        state.error = error.message;
        render();
      },
    );
  }
  if (state.error) return h("p", { key: "error", class: "note bad" }, state.error);
  if (state.rows === null) return h("p", { key: "wait", class: "muted" }, "Asking the JobManager …");
  const text = state.text.toLowerCase();
  const found = state.rows.filter((row) => (!state.isSetOnly || row.origin !== "default") && (row.key.includes(text) || row.value.toLowerCase().includes(text) || row.doc.toLowerCase().includes(text)));
  return h(
    "section",
    { key: name, class: "card", "aria-labelledby": "settings-title" },
    h(
      "header",
      {},
      h("h2", { id: "settings-title" }, job ? "Configuration of the job" : "Configuration of the cluster"),
      h(
        "div",
        { class: "filters" },
        h("label", { class: "check" }, h("input", { type: "checkbox", checked: state.isSetOnly, onchange: (event) => ((state.isSetOnly = event.target.checked), render()) }), "Only what is set"),
        h("input", { type: "search", "aria-label": "Find an option", placeholder: "Find an option", value: state.text, oninput: (event) => ((state.text = event.target.value), render()) }),
      ),
    ),
    h("p", { class: "hidden-text", role: "status" }, `${whole(found.length)} options`),
    found.length === 0
      ? h("p", { class: "empty" }, state.isSetOnly && !text ? "Nothing is set: every option has its default." : "No option is like that.")
      : h(
          "div",
          { class: "scroll", tabindex: 0, role: "region", "aria-label": "Options" },
          h(
            "table",
            { class: "settings" },
            h("thead", {}, h("tr", {}, ["Option", "Value", "Default", "Set by"].map((column) => h("th", { scope: "col" }, column)))),
            h(
              "tbody",
              {},
              found.map((row) =>
                h(
                  "tr",
                  { key: row.key },
                  h("th", { scope: "row" }, h("code", {}, row.key), h("div", { class: "muted small" }, row.doc)),
                  h("td", {}, h("code", {}, row.value || "not set")),
                  h("td", { class: "muted" }, h("code", {}, row.default || "not set")),
                  h("td", {}, row.origin === "default" ? h("span", { class: "muted" }, "default") : h("span", { class: "badge done plain" }, ORIGINS[row.origin])),
                ),
              ),
            ),
          ),
        ),
  );
}
