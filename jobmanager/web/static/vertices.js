// The graph with its rates and loads, the table of vertices, and the subtasks of one of them.

import { h } from "./dom.js";
import { bytes, clock, duration, percent, perSecond, plural, short, watermark, whole } from "./format.js";
import { attempts } from "./attempts.js";
import { graph } from "./graph.js";
import { open, seen, tools, viewOf, zoomed } from "./graphtools.js";
import { findings } from "./findings.js";
import { rescales } from "./rescales.js";
import { may, maySee } from "./session.js";
import { rescaleJob } from "./actions.js";
import { badge, colour, isOver, meter, taskCounts } from "./states.js";
import { windowTable } from "./window.js";

const SKEWED = 25;
const BUSY = 0.05; // below it no operator of a chain is worth a word
const MIB = 1024 * 1024;

export function graphTab(context) {
  const { job, checkpoints } = context.data;
  return [metrics(context.data, checkpoints, job), findings(context.data), h("section", { key: "graph", class: "card", "aria-labelledby": "graph-title" }, graphOf(context))];
}

function key() {
  return h("ul", { class: "legend", "aria-label": "Legend" }, h("li", {}, h("i", { style: { background: "var(--busy)" } }), "busy"), h("li", {}, h("i", { style: { background: "var(--backpressured)" } }), "backpressured"));
}

function graphOf({ data, nowMs, where, kept, render }) {
  const { job, rates = {} } = data;
  const view = viewOf(job, kept);
  const { vertices, edges, found } = seen(job, view);
  const sent = (edge) => rates[edge.from ?? edge.source]?.out_s || 0;
  const isFound = new Set(found);
  const told = new Set((data.findings || []).map((each) => each.vertex));
  const drawn = graph({
    job: { ...job, vertices, edges },
    ...zoomed(job, view, render),
    label: `Graph of ${job.name}`,
    link: (vertex) => (vertex.run ? () => open(vertex.run, view, render) : `#/jobs/${job.id}/vertices/${vertex.id}`),
    how: (edge) => (sent(edge) > 0 ? perSecond(sent(edge)) : ""),
    look: {
      chosen: where.item,
      edge: (edge) => sent(edge) > 0,
      style: (vertex) => ({ "--state": colour(vertex.run ? stateOf(vertex.run) : vertex.state) }),
      marks: (vertex) => `${(vertex.run || [vertex]).some((each) => told.has(each.id)) ? " told" : ""}${isFound.has(vertex.id) ? " found" : ""}${vertex.id === found[view.at] ? " looked" : ""}`,
    },
    inside: (vertex) => (vertex.run ? ofRun(vertex, rates) : ofVertex(vertex, rates[vertex.id], nowMs)),
  });
  return [h("header", {}, h("h2", { id: "graph-title" }, "Graph"), tools({ job, view, found, render }), key()), drawn];
}

const stateOf = (run) => (run.find((vertex) => vertex.state !== "RUNNING") || run[0]).state;

function ofVertex(vertex, found, nowMs) {
  return [
    h("span", { class: "name" }, vertex.name),
    h("span", { class: "sub" }, h("span", {}, plural(vertex.parallelism, "subtask")), h("span", {}, found && vertex.state === "RUNNING" ? flow(found) : vertex.state.toLowerCase())),
    h("span", { class: "sub" }, h("span", { class: "mark" }, "watermark"), h("span", {}, found ? watermark(found.watermark_ms, nowMs) : "–", found?.late > 0 && h("b", { class: "late" }, ` · ${short(found.late)} late`))),
    h("span", { class: "loads" }, load("busy", found?.busy, ""), load("backpr.", found?.backpressured, "bp")),
  ];
}

// Several vertices in one box: the highest of their loads.
function ofRun({ name, run }, rates) {
  const highest = (kind) => {
    const shares = run.map((vertex) => rates[vertex.id]?.[kind]?.[0]).filter((share) => share !== undefined);
    return shares.length ? [Math.max(...shares)] : undefined;
  };
  const state = stateOf(run);
  const first = rates[run[0].id];
  return [
    h("span", { class: "name" }, name),
    h("span", { class: "sub" }, h("span", {}, plural(run.length, "vertex", "vertices")), h("span", {}, first && state === "RUNNING" ? flow(first) : state.toLowerCase())),
    h("span", { class: "sub" }, h("span", {}, "expand")),
    h("span", { class: "loads" }, load("busy", highest("busy"), ""), load("backpr.", highest("backpressured"), "bp")),
  ];
}

function flow(found) {
  if (found.in_s === undefined) return "running";
  return found.in_s > 0 || found.records_in > 0 ? `${perSecond(found.in_s)} in` : `${perSecond(found.out_s)} out`;
}

function load(name, shares, kind) {
  const text = shares ? `${Math.round(shares[0] * 100)} %` : "–";
  return [h("span", {}, name), h("i", { class: kind, "aria-hidden": "true" }, h("i", { class: "eased", style: { width: shares ? text.replace(" ", "") : "0" } })), h("b", {}, text)];
}

function metrics({ rates = {} }, checkpoints, job) {
  const sources = job.vertices.filter((vertex) => !job.edges.some((edge) => edge.target === vertex.id));
  const sum = (name) => sources.reduce((total, vertex) => total + (rates[vertex.id]?.[name] || 0), 0);
  const last = checkpoints && checkpoints.history.find((item) => item.status === "COMPLETED");
  const late = Object.values(rates).reduce((sum, found) => sum + found.late, 0);
  const fact = (name, value, small) => h("div", {}, h("dt", {}, name), h("dd", {}, value, small && h("small", {}, ` ${small}`)));
  return h(
    "dl",
    { key: "facts", class: "facts" },
    isOver(job.state) ? fact("From sources", short(sum("records_out")), "records") : fact("From sources", perSecond(sum("out_s"))),
    fact("Tasks", whole(job.vertices.reduce((sum, vertex) => sum + vertex.parallelism, 0)), `in ${plural(job.vertices.length, "vertex", "vertices")}`),
    fact("Last checkpoint", last ? duration(last.end_ms - last.trigger_ms) : "–", last ? `no. ${last.id}` : ""),
    fact("Checkpoints", checkpoints ? whole(checkpoints.counts.completed) : "–", checkpoints && checkpoints.counts.failed ? `${checkpoints.counts.failed} failed` : ""),
    fact("Late records dropped", short(late)),
  );
}

export function verticesTab(context) {
  const { data, where } = context;
  const chosen = data.job.vertices.find((vertex) => vertex.id === where.item);
  return [h("section", { key: "vertices", class: "card", "aria-labelledby": "vertices-title" }, h("header", {}, h("h2", { id: "vertices-title" }, "Vertices")), vertexTable(context)), chosen && findings(context.data, chosen), chosen && operators(context, chosen), chosen && subtasks(context, chosen), chosen && data.subtasks?.vertex === chosen.id && attempts(data.job, chosen, data.subtasks.rows, context.nowMs), !chosen && rescales(context), accumulators(context.data, chosen)];
}

function vertexTable({ data, nowMs, where }) {
  const { job, rates = {} } = data;
  const columns = ["In", "Out", "Records in", "Records out", "Late", "Busy", "Backpressured", "Watermark"];
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of vertices" },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Vertex"), h("th", { scope: "col" }, "State"), h("th", { scope: "col" }, "Subtasks"), columns.map((name) => h("th", { scope: "col", class: "num" }, name)))),
      h(
        "tbody",
        {},
        job.vertices.map((vertex) => {
          const found = rates[vertex.id] || {};
          return h(
            "tr",
            { key: vertex.id, class: vertex.id === where.item ? "chosen" : "" },
            h("th", { scope: "row" }, h("a", { href: `#/jobs/${job.id}/vertices/${vertex.id}`, "aria-current": vertex.id === where.item && "true" }, vertex.name), busiest(vertex, found)),
            h("td", {}, badge(vertex.state)),
            h("td", { class: "small nowrap" }, taskCounts(vertex.tasks)),
            h("td", { class: "num" }, perSecond(found.in_s)),
            h("td", { class: "num" }, perSecond(found.out_s)),
            h("td", { class: "num" }, short(found.records_in)),
            h("td", { class: "num" }, short(found.records_out)),
            h("td", { class: "num" }, found.late > 0 ? h("span", { class: "badge warn plain", title: "Records dropped since they came behind the watermark" }, short(found.late)) : short(found.late)),
            h("td", { class: "num" }, meter(found.busy, "busy", "Busy")),
            h("td", { class: "num" }, meter(found.backpressured, "backpressured", "Backpressured")),
            h("td", { class: "num" }, watermark(found.watermark_ms, nowMs)),
          );
        }),
      ),
    ),
  );
}

// Of the job, or of the vertex that is looked at; without any there is nothing to see.
function accumulators({ accumulators: values }, chosen) {
  const rows = values ? (chosen ? values.vertices[chosen.id] || [] : values.job) : [];
  if (rows.length === 0) return null;
  return h(
    "section",
    { key: "accumulators", class: "card", "aria-labelledby": "accumulators-title" },
    h("header", {}, h("h2", { id: "accumulators-title" }, chosen ? `Accumulators of ${chosen.name}` : "Accumulators"), h("span", { class: "muted small" }, "of all subtasks together")),
    h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of accumulators" },
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, ["Name", "Kind", "Value"].map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, rows.map((row) => h("tr", { key: row.name }, h("th", { scope: "row" }, row.name), h("td", { class: "muted" }, row.type), h("td", { class: "mono value" }, row.value)))),
      ),
    ),
  );
}

// Of a chain: the operator that most of its subtasks' time goes to.
function busiest(vertex, found) {
  const shares = Object.entries(found.operators || {});
  if (vertex.operators.length < 2 || shares.length === 0) return null;
  const [name, [highest]] = shares.reduce((most, each) => (each[1][1] > most[1][1] ? each : most));
  return highest >= BUSY && h("span", { class: "busiest small muted" }, `busiest: ${name}, ${percent(highest)}`);
}

function operators({ data }, vertex) {
  const shares = data.rates?.[vertex.id]?.operators;
  if (!shares || vertex.operators.length < 2) return null;
  return h(
    "section",
    { key: `operators-${vertex.id}`, class: "card", "aria-labelledby": "operators-title" },
    h("header", {}, h("h2", { id: "operators-title" }, "Operators of the chain"), h("span", { class: "muted small" }, "share of the time of a subtask: highest, and the mean of all")),
    h(
      "ul",
      { class: "operators" },
      vertex.operators.map((name, at) => h("li", { key: at }, h("span", { class: "name" }, name), meter(shares[name], "busy", "Busy"), h("span", { class: "muted small" }, shares[name] ? `mean ${percent(shares[name][1])}` : ""))),
    ),
  );
}

function subtasks({ data, nowMs, kept, render }, vertex) {
  const { job, rates = {} } = data;
  const rows = data.subtasks && data.subtasks.vertex === vertex.id ? data.subtasks.rows.map((row) => ({ ...row, key: row.index })) : null;
  const skew = rates[vertex.id]?.skew || 0;
  const columns = [
    { name: "Subtask", of: (row) => row.index, show: (row) => String(row.index + 1) },
    { name: "State", of: (row) => row.state, show: (row) => badge(row.state), isText: true },
    { name: "Attempt", of: (row) => row.attempt, show: (row) => String(row.attempt + 1) },
    { name: "In", of: (row) => row.in_s, show: (row) => perSecond(row.in_s) },
    { name: "Out", of: (row) => row.out_s, show: (row) => perSecond(row.out_s) },
    { name: "Records in", of: (row) => row.records_in, show: (row) => short(row.records_in) },
    { name: "Records out", of: (row) => row.records_out, show: (row) => short(row.records_out) },
    { name: "Busy", of: (row) => row.busy, show: (row) => meter(row.busy, "busy", "Busy") },
    { name: "Backpressured", of: (row) => row.backpressured, show: (row) => meter(row.backpressured, "backpressured", "Backpressured") },
    { name: "Memory", of: (row) => row.memory_mib, show: (row) => (row.memory_mib === undefined ? "–" : bytes(row.memory_mib * MIB)) },
    { name: "Watermark", of: (row) => row.watermark_ms, show: (row) => watermark(row.watermark_ms, nowMs) },
    { name: "Since", of: (row) => row.start_ms, show: (row) => (row.start_ms ? clock(row.start_ms) : "–") },
    { name: "TaskManager", of: (row) => row.task_manager || "", show: (row) => h("span", { class: "mono" }, row.task_manager || "–"), isText: true },
  ];
  return h(
    "section",
    { key: `subtasks-${vertex.id}`, class: "card", "aria-labelledby": "subtasks-title" },
    h(
      "header",
      {},
      h("div", {}, h("h2", { id: "subtasks-title" }, `Subtasks of ${vertex.name}`), h("p", { class: "muted small" }, `${plural(vertex.operators.length, "operator")}: ${vertex.operators.join(" → ")} · at most ${whole(vertex.max_parallelism)} subtasks · slot sharing group ${vertex.group}`)),
      skew > SKEWED && h("span", { class: "badge warn", title: "Mean deviation of the subtasks' input rates from their mean" }, `uneven input: ${skew} %`),
      h("div", { class: "actions" }, may("operate") && job.state === "RUNNING" && h("button", { type: "button", onclick: () => rescaleJob(job, vertex) }, "Rescale …"), h("a", { class: "button", href: `#/jobs/${job.id}/plots/${vertex.id}` }, "Plots"), maySee("flames") && h("a", { class: "button", href: `#/jobs/${job.id}/flames/${vertex.id}` }, "Flames"), h("a", { class: "button", href: `#/jobs/${job.id}/vertices` }, "Close")),
    ),
    rows === null ? h("p", { class: "empty" }, "Asking the JobManager …") : windowTable({ key: `table-${vertex.id}`, label: `Table of subtasks of ${vertex.name}`, columns, rows, kept, render }),
  );
}
