// The last quarter of an hour: of the job, a vertex or a subtask, and whatever its functions measure.
//
//   #/jobs/<id>/plots[/<vertex>[/<subtask>]] ─▶ web/plots, every five seconds ─▶ one picture for each kind of figure

import { h } from "./dom.js";
import { ask } from "./api.js";
import { bytes, clock, duration, percent, perSecond, short, whole } from "./format.js";
import { isOver } from "./states.js";

const AGAIN_MS = 5000;
const SAMPLES = 180;
const [WIDTH, HEIGHT] = [600, 120];
const SHOWN_OF_FUNCTIONS = 12;
const USER = "user.";
const ALL = "all";
const COLOURS = { in_s: "var(--p-async)", out_s: "var(--good)", busy: "var(--busy)", backpressured: "var(--backpressured)", idle: "var(--p-ack)" };
const share = (value) => percent(value);
const KINDS = [
  { title: "Records per second", series: [["in_s", "in"], ["out_s", "out"]], show: perSecond },
  { title: "Share of time", series: [["busy", "busy"], ["backpressured", "backpressured"], ["idle", "idle"]], show: share, most: 1 },
  { title: "Watermark behind the clock", series: [["lag_ms", "behind"]], show: duration },
  { title: "Memory of the processes", series: [["memory_bytes", "resident"]], show: bytes },
  { title: "State in the last checkpoint", series: [["state_bytes", "size"]], show: bytes },
  { title: "Duration of the last checkpoint", series: [["checkpoint_ms", "duration"]], show: duration },
  { title: "Late records dropped", series: [["late", "dropped"]], show: short },
];

export function plotsTab(context) {
  const { data, where, kept, render, nowMs } = context;
  const { job } = data;
  const vertex = job.vertices.find((each) => each.id === where.item);
  const subtask = vertex && where.part !== undefined ? Number(where.part) : -1;
  const name = `plots-${job.id}-${vertex ? vertex.id : ""}-${subtask}`;
  const state = (kept[name] ||= { answer: null, error: "", requestedMs: 0, isAsked: false, filter: "", at: null });
  look(state, job, vertex, subtask, nowMs, render);
  return [
    h(
      "section",
      { key: "of", class: "card", "aria-labelledby": "plots-title" },
      h("header", {}, h("h2", { id: "plots-title" }, "The last 15 minutes"), chooser(job, vertex, subtask)),
      h("div", { class: "body" }, content(state, job, vertex, render)),
    ),
  ];
}

function look(state, job, vertex, subtask, nowMs, render) {
  if (state.isAsked || nowMs - state.requestedMs < AGAIN_MS || (state.answer !== null && isOver(job.state))) return;
  Object.assign(state, { requestedMs: nowMs, isAsked: true });
  const query = new URLSearchParams({ job: job.id, ...(vertex ? { vertex: vertex.id } : {}), ...(subtask >= 0 ? { subtask } : {}) });
  ask("GET", `web/plots?${query}`).then(
    (answer) => {
      Object.assign(state, { answer, error: "", isAsked: false });
      render();
    },
    (error) => {
      Object.assign(state, { error: error.message, isAsked: false });
      render();
    },
  );
}

function chooser(job, vertex, subtask) {
  const base = `#/jobs/${job.id}/plots`;
  const go = (hash) => (location.hash = hash);
  return h(
    "div",
    { class: "filters" },
    h(
      "select",
      { "aria-label": "What is plotted", value: vertex ? vertex.id : ALL, onchange: (event) => go(event.target.value === ALL ? base : `${base}/${event.target.value}`) },
      h("option", { value: ALL }, "The whole job"),
      job.vertices.map((each) => h("option", { key: each.id, value: each.id }, each.name)),
    ),
    vertex &&
      h(
        "select",
        { "aria-label": "Subtask", value: subtask < 0 ? ALL : String(subtask), onchange: (event) => go(event.target.value === ALL ? `${base}/${vertex.id}` : `${base}/${vertex.id}/${event.target.value}`) },
        h("option", { value: ALL }, "All subtasks"),
        Array.from({ length: vertex.parallelism }, (_, index) => h("option", { key: index, value: String(index) }, `Subtask ${index + 1}`)),
      ),
  );
}

function content(state, job, vertex, render) {
  if (state.error) return h("p", { class: "note bad" }, state.error);
  if (state.answer === null) return h("p", { class: "muted" }, "Asking the JobManager …");
  const { series } = state.answer;
  const shown = KINDS.filter((kind) => kind.series.some(([name]) => some(series[name])));
  if (shown.length === 0) return h("p", { class: "muted" }, isOver(job.state) ? "Nothing is kept of the time in which it ran." : "Nothing yet: figures are recorded every five seconds.");
  return [
    h("div", { key: "own", class: "plots" }, shown.map((kind) => plot(kind, state, render))),
    vertex && ofFunctions(state, render),
  ];
}

function ofFunctions(state, render) {
  const names = Object.keys(state.answer.series).filter((name) => name.startsWith(USER) && some(state.answer.series[name])).sort();
  if (names.length === 0) return null;
  const wanted = state.filter.toLowerCase();
  const found = names.filter((name) => name.toLowerCase().includes(wanted));
  return [
    h("div", { key: "which", class: "line between" }, h("h3", {}, "Metrics of operators and functions"), h("input", { type: "search", class: "find", "aria-label": "Find a metric", placeholder: "Find a metric", value: state.filter, oninput: (event) => ((state.filter = event.target.value), render()) })),
    h("div", { key: "functions", class: "plots" }, found.slice(0, SHOWN_OF_FUNCTIONS).map((name) => plot({ title: name.slice(USER.length), series: [[name, "value"]], show: short }, state, render))),
    h("p", { key: "more", class: "small muted", role: "status" }, found.length > SHOWN_OF_FUNCTIONS ? `${whole(found.length - SHOWN_OF_FUNCTIONS)} more: find them by name.` : found.length === 0 ? "No metric has such a name." : ""),
  ];
}

const some = (values) => Boolean(values) && values.some((value) => value !== null);

function plot({ title, series, show, most }, state, render) {
  const { answer } = state;
  const lines = series.filter(([name]) => some(answer.series[name])).map(([name, text]) => ({ name, text, values: answer.series[name], colour: COLOURS[name] || "var(--accent)" }));
  const count = Math.max(...lines.map((line) => line.values.length));
  const known = lines.flatMap((line) => line.values.filter((value) => value !== null));
  const top = most ?? Math.max(...known, 0);
  const low = Math.min(...known, 0);
  const x = (at) => WIDTH - ((count - 1 - at) * WIDTH) / (SAMPLES - 1);
  const y = (value) => HEIGHT - 2 - ((value - low) / (top - low || 1)) * (HEIGHT - 6);
  const at = state.at === null ? null : count - 1 - state.at;
  const point = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const back = Math.round((1 - (event.clientX - box.left) / box.width) * (SAMPLES - 1));
    const next = back >= 0 && back < count ? back : null;
    if (next !== state.at) {
      state.at = next;
      render();
    }
  };
  const whenMs = answer.end_ms - (state.at ?? 0) * answer.step_ms;
  const said = lines.map((line) => `${line.text}: last ${show(last(line.values))}, lowest ${show(Math.min(...line.values.filter((value) => value !== null)))}, highest ${show(Math.max(...line.values.filter((value) => value !== null)))}`).join("; ");
  return h(
    "figure",
    { key: title, class: "plot" },
    h("figcaption", {}, h("h3", {}, title), h("span", { class: "legend" }, lines.map((line) => h("span", { key: line.name }, h("i", { "aria-hidden": "true", style: { background: line.colour } }), lines.length > 1 && `${line.text} `, h("b", {}, shownAt(line.values, at, show)))))),
    h(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}. ${said}`, onpointermove: point, onpointerleave: () => ((state.at = null), render()) },
      h("path", { class: "base", d: `M0,${y(Math.max(low, 0))}H${WIDTH}` }),
      lines.map((line) => h("path", { key: line.name, class: "line-of", d: path(line.values, x, y), style: { stroke: line.colour } })),
      at !== null && h("path", { key: "at", class: "cursor", d: `M${x(at)},0V${HEIGHT}` }),
    ),
    h("p", { class: "scale", "aria-hidden": "true" }, h("span", {}, clock(answer.end_ms - (SAMPLES - 1) * answer.step_ms)), h("span", {}, `${state.at === null ? "" : `at ${clock(whenMs)} · `}top ${show(top)}`), h("span", {}, clock(answer.end_ms))),
  );
}

function last(values) {
  return values.findLast((value) => value !== null);
}

function shownAt(values, at, show) {
  const value = at === null ? last(values) : values[at];
  return value === null || value === undefined ? "–" : show(value);
}

// A gap where nothing was measured; a single value between gaps is a dot.
function path(values, x, y) {
  let text = "";
  values.forEach((value, at) => {
    if (value === null) return;
    const isFirst = at === 0 || values[at - 1] === null;
    const isAlone = isFirst && (at === values.length - 1 || values[at + 1] === null);
    text += `${isFirst ? "M" : "L"}${x(at).toFixed(1)},${y(value).toFixed(1)}${isAlone ? "h0.1" : ""}`;
  });
  return text;
}
