// How much of a large graph is seen, and how near: zoom, search, and straight runs as one box.

import { h } from "./dom.js";
import { folded, runs } from "./fold.js";

const LARGE = 12; // from so many vertices on there are tools; a smaller graph is seen at once
const STEP = 1.25;
const NEAREST = 1.5;
export const FARTHEST = 0.35;

export const newView = () => ({ zoom: "fit", now: 1, isFolded: true, opened: new Set(), text: "", at: 0 });

// What is remembered of how a graph of a job is looked at.
export const viewOf = (job, kept, name = "graph") => (kept[`${name}-${job.id}`] ||= newView());

export const isLarge = (job) => job.vertices.length >= LARGE;

// The graph as it is seen, and the ids of the vertices that are searched for.
export function seen(job, view) {
  if (!isLarge(job)) return { vertices: job.vertices, edges: job.edges, found: [] };
  const text = view.text.trim().toLowerCase();
  const found = text ? job.vertices.filter((vertex) => [vertex.name, ...vertex.operators].some((name) => name.toLowerCase().includes(text))).map((vertex) => vertex.id) : [];
  const folds = view.isFolded ? runs(job.vertices.map((vertex) => vertex.id), job.edges).filter((run) => !view.opened.has(run[0]) && !run.some((id) => found.includes(id))) : [];
  return { ...folded(job.vertices, job.edges, folds), found };
}

export function open(run, view, render) {
  view.opened.add(run[0].id);
  render();
  inNextFrame(() => document.querySelector(`.vertex[data-vertex="${CSS.escape(run[0].id)}"]`)?.focus());
}

function zoomBy(factor, view, render) {
  view.zoom = view.now = Math.min(NEAREST, Math.max(FARTHEST, view.now * factor)); // the next key may come before it is drawn
  render();
}

// The keys of the graph itself.
function zoomKeys(view, render) {
  return (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "+" || event.key === "-") zoomBy(event.key === "+" ? STEP : 1 / STEP, view, render);
    if (event.key === "0") {
      view.zoom = "fit";
      render();
    }
  };
}

export function tools({ job, view, found, render }) {
  if (!isLarge(job)) return null;
  const straight = runs(job.vertices.map((vertex) => vertex.id), job.edges);
  const areFolded = view.isFolded && straight.some((run) => !view.opened.has(run[0]));
  const look = (step) => {
    if (found.length === 0) return;
    view.at = (view.at + step + found.length) % found.length;
    render();
    inNextFrame(() => document.querySelector(".vertex.looked")?.scrollIntoView({ block: "nearest", inline: "center" }));
  };
  return h(
    "div",
    { class: "filters graph-tools" },
    h("input", {
      type: "search",
      "aria-label": "Find a vertex",
      placeholder: "Find a vertex …",
      value: view.text,
      oninput: (event) => {
        view.text = event.target.value;
        view.at = 0;
        render();
        inNextFrame(() => document.querySelector(".vertex.looked")?.scrollIntoView({ block: "nearest", inline: "center" }));
      },
      onkeydown: (event) => event.key === "Enter" && look(event.shiftKey ? -1 : 1),
    }),
    h("span", { class: "muted small", role: "status" }, view.text.trim() ? (found.length ? `${view.at + 1} of ${found.length}` : "none") : ""),
    straight.length > 0 &&
      h(
        "button",
        {
          type: "button",
          onclick: () => {
            view.isFolded = !areFolded;
            view.opened.clear();
            render();
          },
        },
        areFolded ? "Expand all" : "Collapse runs",
      ),
    zoomTools(view, render),
  );
}

// What a graph needs to be drawn as near as it is looked at, where it is large.
export const zoomed = (job, view, render) => (isLarge(job) ? { view, onkeydown: zoomKeys(view, render) } : {});

export function zoomTools(view, render) {
  const zoom = (factor) => () => zoomBy(factor, view, render);
  return h(
    "div",
    { class: "actions", role: "group", "aria-label": "Zoom" },
    h("button", { type: "button", "aria-label": "Zoom out", disabled: view.now <= FARTHEST, onclick: zoom(1 / STEP) }, "−"),
    h("button", { type: "button", "aria-label": "Zoom in", disabled: view.now >= NEAREST, onclick: zoom(STEP) }, "+"),
    h("button", { type: "button", "aria-pressed": view.zoom === "fit" ? "true" : "false", onclick: () => ((view.zoom = "fit"), render()) }, "Fit"),
  );
}

function inNextFrame(act) {
  requestAnimationFrame(() => requestAnimationFrame(act)); // the first one draws
}
