// What lies in a completed checkpoint: operators, their states, and rows of one of them. Read when somebody asks.
//
//   #/jobs/<id>/state[/<checkpoint>] ─▶ web/state ─▶ operators and states ─▶ rows, fifty at a time, or those of a key

import { h } from "./dom.js";
import { ask } from "./api.js";
import { bytes, moment, whole } from "./format.js";
import { kindOf } from "./checkpoints.js";

const ROWS = 50;
const TRIES = 3; // so often the newest checkpoint is taken instead of one that is gone

export function stateTab({ data, where, kept, render }) {
  const { job, checkpoints } = data;
  if (!checkpoints) return h("p", { key: "wait", class: "muted" }, "Asking the JobManager …");
  const complete = checkpoints.history.filter((item) => item.status === "COMPLETED" && !item.discarded);
  const state = (kept[`state-${job.id}`] ||= { checkpoint: null, overview: null, error: "", chosen: null, key: "", rows: null, wait: false, misses: 0 });
  const own = state.error && state.misses < TRIES ? (complete[0]?.id ?? state.checkpoint) : (state.checkpoint ?? complete[0]?.id); // the newest one may have replaced what was asked for
  const wanted = where.item === undefined ? own : Number(where.item);
  if (wanted !== undefined && wanted !== state.checkpoint) open(state, job, wanted, render);
  return [
    h(
      "section",
      { key: "state", class: "card", "aria-labelledby": "state-title" },
      h("header", {}, h("h2", { id: "state-title" }, "State"), chooser(job, complete, state)),
      content(state, job, complete, render),
    ),
    state.chosen && rowsOf(state, job, render),
  ];
}

function chooser(job, complete, state) {
  if (complete.length === 0) return null;
  const isListed = complete.some((item) => item.id === state.checkpoint);
  return h(
    "div",
    { class: "filters" },
    h(
      "select",
      { "aria-label": "Which checkpoint", value: String(state.checkpoint), onchange: (event) => (location.hash = `#/jobs/${job.id}/state/${event.target.value}`) },
      !isListed && h("option", { key: "own", value: String(state.checkpoint) }, `Checkpoint ${state.checkpoint}`),
      complete.map((item) => h("option", { key: item.id, value: String(item.id) }, `${kindOf(item)} ${item.id}, ${moment(item.trigger_ms)}`)),
    ),
  );
}

function content(state, job, complete, render) {
  if (state.error) return h("div", { class: "body stack" }, h("p", { class: "note warn" }, state.error), state.misses >= TRIES && complete.length > 0 && h("div", {}, h("button", { type: "button", onclick: () => newest(state, job, render) }, "Read the newest checkpoint")));
  if (state.checkpoint === null) return h("p", { class: "empty" }, "There is state to look into when a checkpoint is complete and kept.");
  if (state.overview === null) return h("p", { class: "empty", role: "status" }, `Checkpoint ${state.checkpoint} is read …`);
  const rows = state.overview.operators.flatMap((operator) => operator.states.map((each) => ({ operator, each })));
  if (rows.length === 0) return h("p", { class: "empty" }, "No operator of this job has state.");
  const isChosen = ({ operator, each }) => state.chosen && state.chosen.operator.id === operator.id && state.chosen.each.name === each.name;
  const choose = (row) => () => {
    Object.assign(state, { chosen: row, key: "", rows: null });
    read(state, job, 0, render);
  };
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of states" },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ["Operator", "State", "Kind", "Redistribution"].map((name) => h("th", { scope: "col" }, name)), ["Rows", "Size"].map((name) => h("th", { scope: "col", class: "num" }, name)))),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            { key: `${row.operator.id} ${row.each.name}`, class: isChosen(row) ? "chosen" : "" },
            h("th", { scope: "row" }, row.operator.title),
            h("td", {}, h("button", { type: "button", class: "ghost", "aria-pressed": isChosen(row) ? "true" : "false", "aria-label": `Look into ${row.each.name} of ${row.operator.title}`, onclick: choose(row) }, row.each.name)),
            h("td", {}, row.each.kind),
            h("td", { class: "small" }, row.each.redistribution.toLowerCase().replace("_", " ")),
            h("td", { class: "num" }, row.each.rows === null ? "–" : whole(row.each.rows)),
            h("td", { class: "num" }, bytes(row.each.size_bytes)),
          ),
        ),
      ),
    ),
  );
}

function rowsOf(state, job, render) {
  const { operator, each } = state.chosen;
  const search = (event) => {
    event.preventDefault();
    read(state, job, 0, render);
  };
  return h(
    "section",
    { key: "rows", class: "card", "aria-labelledby": "rows-title" },
    h(
      "header",
      {},
      h("h2", { id: "rows-title" }, `${each.name} of ${operator.title}`),
      each.is_keyed &&
        h(
          "form",
          { class: "filters", role: "search", onsubmit: search },
          h("input", { type: "search", class: "find", "aria-label": "Key", placeholder: "Key, such as 42 or [\"UA\", 7]", value: state.key, oninput: (event) => (state.key = event.target.value) }),
          h("button", { type: "submit" }, "Find"),
        ),
    ),
    table(state, job, render),
  );
}

function table(state, job, render) {
  const { rows, wait } = state;
  if (rows === null || wait) return h("p", { class: "empty", role: "status" }, "It is read …");
  if (rows.error) return h("div", { class: "body" }, h("p", { class: "note warn" }, rows.error));
  if (rows.rows.length === 0) return h("p", { class: "empty" }, state.key ? "No row has this key." : "It has no rows.");
  const last = rows.from + rows.rows.length;
  const page = (text, from, isOff) => h("button", { type: "button", disabled: isOff, onclick: () => read(state, job, from, render) }, text);
  return [
    h(
      "div",
      { key: "table", class: "scroll", tabindex: 0, role: "region", "aria-label": "Rows of the state" },
      h(
        "table",
        { class: "cells" },
        h("thead", {}, h("tr", {}, rows.columns.map((name) => h("th", { scope: "col" }, name)))),
        h("tbody", {}, rows.rows.map((cells, at) => h("tr", { key: rows.from + at }, cells.map((text) => h("td", { class: "mono" }, text))))),
      ),
    ),
    h(
      "div",
      { key: "pages", class: "line pages" },
      h("span", { class: "muted small", role: "status" }, `Rows ${whole(rows.from + 1)} to ${whole(last)}${rows.total === null ? "" : ` of ${whole(rows.total)}`}`),
      page("Before", Math.max(0, rows.from - ROWS), rows.from === 0),
      page("Next", last, !rows.has_more),
    ),
  ];
}

function newest(state, job, render) {
  Object.assign(state, { misses: 0, checkpoint: null });
  location.hash = `#/jobs/${job.id}/state`;
  render();
}

function open(state, job, checkpoint, render) {
  Object.assign(state, { checkpoint, overview: null, error: "" });
  request(job, { checkpoint }).then((answer) => {
    if (state.checkpoint !== checkpoint) return;
    if (answer.error) Object.assign(state, { error: answer.error, misses: state.misses + 1 });
    else Object.assign(state, { overview: answer, misses: 0 });
    const rows = answer.error ? [] : answer.operators.flatMap((operator) => operator.states.map((each) => ({ operator, each })));
    state.chosen = state.chosen && (rows.find((row) => row.operator.id === state.chosen.operator.id && row.each.name === state.chosen.each.name) || null);
    if (state.chosen) read(state, job, 0, render); // the same state in another checkpoint
    render();
  });
}

function read(state, job, from, render) {
  const { checkpoint, chosen, key } = state;
  const mine = (state.asked = {});
  state.wait = true;
  request(job, { checkpoint, operator: chosen.operator.id, state: chosen.each.name, from, ...(key ? { key } : {}) }).then((answer) => {
    if (state.checkpoint !== checkpoint || state.asked !== mine) return;
    state.rows = answer;
    state.wait = false;
    render();
  });
  render();
}

function request(job, query) {
  return ask("GET", `web/state?${new URLSearchParams({ job: job.id, ...query })}`).catch((error) => ({ error: error.message }));
}
