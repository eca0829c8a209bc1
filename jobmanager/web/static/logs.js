// Log files of the JobManager and of TaskManagers, by the same paths that Flink's dashboard uses.

import { h } from "./dom.js";
import { ask, save } from "./api.js";
import { bytes, moment } from "./format.js";
import { chosen, entries, joined } from "./loglines.js";

const SHOWN_BYTES = 400000;
const FOLLOWED_BYTES = 8000000; // a file is read as a whole; one that is larger is not read again and again
const AGAIN_MS = 2000;
const LEVEL_NAMES = { "": "All levels", INFO: "INFO and above", WARN: "WARN and above", ERROR: "ERROR" };

export function logsView({ data, where, kept, render }) {
  const machine = where.item;
  const base = machine ? `taskmanagers/${encodeURIComponent(machine)}` : "jobmanager";
  const name = `logs-${base}`;
  const state = (kept[name] ||= { files: null, error: "", file: null, text: "", note: "", filter: "", level: "", isFollowed: false });
  if (!state.requested) {
    state.requested = true;
    list(state, base, render);
  }
  const machines = data.cluster ? data.cluster.task_managers : [];
  return {
    title: "Logs",
    content: [
      h("h1", { key: "title" }, "Logs"),
      h(
        "nav",
        { key: "who", class: "tabs", "aria-label": "Processes" },
        h("a", { href: "#/logs", "aria-current": !machine && "page" }, "JobManager"),
        machines.map((each) => h("a", { key: each.id, href: `#/logs/${encodeURIComponent(each.id)}`, "aria-current": machine === each.id && "page" }, each.id)),
      ),
      state.error ? h("p", { key: "error", class: "note" }, state.error) : files(state, base, render),
      state.file && file(state, base, render),
    ],
  };
}

async function list(state, base, render) {
  try {
    const { logs } = await ask("GET", `${base}/logs`);
    state.files = [...logs].sort((a, b) => b.mtime - a.mtime);
    const newestOf = (name) => state.files.find((file) => file.name.includes(name) && file.name.endsWith(".log"));
    const first = newestOf(base === "jobmanager" ? base : "taskmanager") || newestOf("") || state.files[0]; // what the process logs, before what it prints
    if (first) await open(state, base, first.name, render);
  } catch (error) {
    state.error = error.message;
  }
  render();
}

async function open(state, base, name, render) {
  state.file = name;
  state.text = "";
  render();
  try {
    const text = await ask("GET", `${base}/logs/${encodeURIComponent(name)}`);
    if (name !== state.file) return; // another one was chosen meanwhile
    state.note = text.length > SHOWN_BYTES ? "the end of a longer file" : "";
    state.text = text.slice(-SHOWN_BYTES);
  } catch (error) {
    if (name === state.file) state.note = error.message;
  }
  render();
  requestAnimationFrame(() => requestAnimationFrame(toTheEnd)); // where the newest lines are
}

// Reads the file again while it is followed and looked at. Who has scrolled up stays there.
async function follow(state, base, render) {
  const here = location.hash;
  const mine = (state.follower = {}); // one who follows it anew replaces this
  const goesOn = () => state.isFollowed && state.follower === mine && location.hash === here;
  while (goesOn()) {
    await new Promise((done) => setTimeout(done, AGAIN_MS));
    if (document.hidden || !goesOn()) continue;
    const name = state.file;
    try {
      const text = await ask("GET", `${base}/logs/${encodeURIComponent(name)}`);
      if (name !== state.file || !goesOn()) continue;
      const shown = document.querySelector("pre.log");
      const isAtEnd = shown && shown.scrollHeight - shown.scrollTop - shown.clientHeight < 40;
      state.text = text.slice(-SHOWN_BYTES);
      if (text.length > FOLLOWED_BYTES) {
        state.isFollowed = false;
        state.note = "too large to be followed";
      }
      render();
      if (isAtEnd) requestAnimationFrame(() => requestAnimationFrame(toTheEnd));
    } catch (error) {
      if (state.follower !== mine) return;
      state.note = error.message;
      state.isFollowed = false;
      render();
    }
  }
  if (state.follower === mine) state.isFollowed = false;
}

function toTheEnd() {
  const shown = document.querySelector("pre.log");
  if (shown) shown.scrollTop = shown.scrollHeight;
}

function files(state, base, render) {
  if (state.files === null) return h("p", { key: "wait", class: "muted" }, "Asking the JobManager …");
  if (state.files.length === 0) return h("section", { key: "none", class: "card" }, h("p", { class: "empty" }, "This process logs to its terminal. Give it --log-file, and its log is shown here."));
  return h(
    "section",
    { key: "files", class: "card", "aria-labelledby": "files-title" },
    h("header", {}, h("h2", { id: "files-title" }, "Files")),
    h(
      "div",
      { class: "scroll" },
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "File"), h("th", { scope: "col", class: "num" }, "Size"), h("th", { scope: "col" }, "Changed"))),
        h(
          "tbody",
          {},
          state.files.map((each) =>
            h(
              "tr",
              { key: each.name, class: each.name === state.file ? "chosen" : "" },
              h("th", { scope: "row" }, h("button", { type: "button", class: "link", "aria-pressed": each.name === state.file ? "true" : "false", onclick: () => open(state, base, each.name, render) }, each.name)),
              h("td", { class: "num" }, bytes(each.size)),
              h("td", { class: "nowrap" }, moment(each.mtime)),
            ),
          ),
        ),
      ),
    ),
  );
}

function file(state, base, render) {
  const whole = `${base}/logs/${encodeURIComponent(state.file)}`;
  const parts = joined(chosen(entries(state.text), state.level, state.filter));
  return h(
    "section",
    { key: "file", class: "card", "aria-labelledby": "file-title" },
    h(
      "header",
      {},
      h("h2", { id: "file-title" }, state.file, state.note && h("span", { class: "muted small" }, ` ${state.note}`)),
      h(
        "div",
        { class: "filters" },
        h("input", { type: "search", "aria-label": "Only lines with", placeholder: "Only lines with …", value: state.filter, oninput: (event) => ((state.filter = event.target.value), render()) }),
        h("select", { "aria-label": "Levels", class: "levels", value: state.level || "all", onchange: (event) => ((state.level = event.target.value === "all" ? "" : event.target.value), render()) }, Object.entries(LEVEL_NAMES).map(([level, name]) => h("option", { value: level || "all" }, name))),
        h("label", { class: "check" }, h("input", { type: "checkbox", checked: state.isFollowed, onchange: (event) => ((state.isFollowed = event.target.checked), state.isFollowed && follow(state, base, render), render()) }), "Follow"),
        h("button", { type: "button", onclick: () => open(state, base, state.file, render) }, "Read again"),
        h("a", { class: "button", href: whole, target: "_blank", rel: "noreferrer", onclick: (event) => save(event, whole, state.file).catch((error) => ((state.note = error.message), render())) }, "Whole file"),
      ),
    ),
    h("pre", { class: "log", tabindex: 0, "aria-label": `Content of ${state.file}` }, state.text && parts.length ? parts.map((part) => h("span", { class: part.level ? `entry ${part.level.toLowerCase()}` : "entry" }, `${part.text}\n`)) : "Nothing here."),
  );
}
