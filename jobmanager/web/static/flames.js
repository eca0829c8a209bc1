// Where the time of a vertex goes: Python's own frames, sampled in its subtasks when somebody asks.
//
//   #/jobs/<id>/flames/<vertex> ─▶ flamegraph of the REST API ─▶ a row for each depth; a click makes a frame the whole width

import { h } from "./dom.js";
import { ask } from "./api.js";
import { clock, percent, whole } from "./format.js";
import { isOver } from "./states.js";

const AGAIN_MS = 1500;
const LEAST = 0.002; // narrower than a pixel
const KINDS = [["full", "All of the time"], ["on_cpu", "While it computes"], ["off_cpu", "While it waits"]];
const SAYS = { [-1]: "It does not run: there is nothing to sample.", [-2]: "Sampling is switched off here (rest.flamegraph.enabled)." };
const ALL = "all";

export function flamesTab({ data, where, kept, render, nowMs }) {
  const { job } = data;
  const vertex = job.vertices.find((each) => each.id === where.item) || job.vertices[0];
  const state = (kept[`flames-${job.id}`] ||= { kind: "full", subtask: ALL, vertex: "", answer: null, error: "", requestedMs: 0, asked: "", root: [] });
  if (state.vertex !== vertex.id) Object.assign(state, { vertex: vertex.id, subtask: ALL, answer: null, root: [], requestedMs: 0 });
  look(state, job, vertex, nowMs, render);
  return h(
    "section",
    { key: "flames", class: "card", "aria-labelledby": "flames-title" },
    h("header", {}, h("h2", { id: "flames-title" }, "Where the time goes"), chooser(state, job, vertex, render)),
    h("div", { class: "body" }, content(state, vertex, render)),
  );
}

function look(state, job, vertex, nowMs, render) {
  const isThere = state.answer !== null && (state.answer.endTimestamp > 0 || state.answer.endTimestamp === -1 || state.answer.endTimestamp === -2);
  if (isThere || nowMs - state.requestedMs < AGAIN_MS || isOver(job.state)) return;
  const query = queryOf(state);
  const wanted = `${state.vertex} ${query}`;
  if (state.asked === wanted) return; // it is not answered yet
  Object.assign(state, { requestedMs: nowMs, asked: wanted });
  ask("GET", `jobs/${job.id}/vertices/${vertex.id}/flamegraph?${query}`)
    .then((answer) => ({ answer, error: "" }), (error) => ({ error: error.message }))
    .then((found) => {
      if (state.asked !== wanted) return;
      Object.assign(state, { asked: "" }, wanted === `${state.vertex} ${queryOf(state)}` ? found : {});
      render();
    });
}

function queryOf(state) {
  return new URLSearchParams({ type: state.kind, ...(state.subtask === ALL ? {} : { subtaskindex: state.subtask }) });
}

function chooser(state, job, vertex, render) {
  const change = (name) => (event) => {
    Object.assign(state, { [name]: event.target.value, answer: null, root: [], requestedMs: 0 });
    render();
  };
  const again = () => {
    Object.assign(state, { answer: null, root: [], requestedMs: 0 });
    render();
  };
  return h(
    "div",
    { class: "filters" },
    h("select", { "aria-label": "Vertex", value: vertex.id, onchange: (event) => (location.hash = `#/jobs/${job.id}/flames/${event.target.value}`) }, job.vertices.map((each) => h("option", { key: each.id, value: each.id }, each.name))),
    h("select", { "aria-label": "Subtask", value: state.subtask, onchange: change("subtask") }, h("option", { value: ALL }, "All subtasks"), Array.from({ length: vertex.parallelism }, (_, index) => h("option", { key: index, value: String(index) }, `Subtask ${index + 1}`))),
    h("select", { "aria-label": "Which time", value: state.kind, onchange: change("kind") }, KINDS.map(([name, text]) => h("option", { key: name, value: name }, text))),
    h("button", { type: "button", onclick: again }, "Look again"),
  );
}

function content(state, vertex, render) {
  if (state.error) return h("p", { class: "note bad" }, state.error);
  const { answer } = state;
  if (answer === null || answer.endTimestamp === -3) return h("p", { class: "muted", role: "status" }, "Stacks are being sampled: this takes some five seconds.");
  if (SAYS[answer.endTimestamp]) return h("p", { class: "muted" }, SAYS[answer.endTimestamp]);
  if (answer.data.value === 0) return h("p", { class: "muted" }, "No sample is like that: try all of the time.");
  const root = state.root.reduce((node, at) => node.children[at] || node, answer.data);
  const choose = (path) => () => {
    state.root = path;
    render();
  };
  return [
    h("p", { key: "said", class: "small muted" }, `${whole(answer.data.value)} samples of ${vertex.name}, taken at ${clock(answer.endTimestamp)}. Sampled anew at most once a minute. Choose a frame to see only what it calls.`),
    state.root.length > 0 && h("button", { key: "back", type: "button", onclick: choose([]) }, "Show everything"),
    h("ul", { key: `flame-${state.root.join("-")}`, class: "flame", "aria-label": "Frames, outermost first" }, frame(root, state.root, root.value, answer.data.value, choose)),
  ];
}

// A list in a list, which a screen reader can walk; its boxes lie side by side below their caller.
function frame(node, path, ofWidth, total, choose) {
  const share = node.value / ofWidth;
  if (share < LEAST) return null;
  const [name, place] = split(node.name);
  const text = `${name}${place ? `, line ${place}` : ""}: ${percent(node.value / total)} of the samples`;
  return h(
    "li",
    { key: path.join("-") || "root", style: { width: `${100 * share}%` } },
    h("button", { type: "button", class: `frame ${look_of(node.name)}`, title: text, "aria-label": text, onclick: choose(path) }, short(name)),
    node.children.length > 0 && h("ul", {}, [...node.children.keys()].sort((a, b) => node.children[b].value - node.children[a].value).map((at) => frame(node.children[at], [...path, at], node.value, total, choose))),
  );
}

function split(name) {
  const at = name.lastIndexOf(":");
  return at < 0 ? [name === "root" ? "All samples" : name, ""] : [name.slice(0, at), name.slice(at + 1)];
}

// The class and the function, without the modules they are in.
const short = (name) => (name === "All samples" ? name : name.split(".").slice(-2).join("."));

function look_of(name) {
  if (name === "root") return "of-root";
  if (name.startsWith("tidegate.taskmanager.runtime.mailbox.")) return "of-wait";
  return name.startsWith("tidegate.") ? "of-runtime" : "of-user";
}
