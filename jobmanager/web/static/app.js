// The page: which view the address names, what it looks at, and its frame.
//
//   address (#/jobs/<id>/checkpoints/7) ─▶ view ─▶ live.show(...) ─▶ data ─▶ values ─▶ patch

import { patch, h } from "./dom.js";
import { Live } from "./live.js";
import { header, keys } from "./shell.js";
import { explanation, isKeptFrom, isSignedOut, look } from "./session.js";
import { clusterView } from "./cluster.js";
import { isJob, jobView } from "./job.js";
import { isCheckpoint } from "./travel.js";
import { submitView } from "./submit.js";
import { logsView } from "./logs.js";
import { configurationView } from "./configuration.js";

const main = document.getElementById("main");
const top = document.getElementById("top");
const kept = {}; // what views remember while they are shown: opened parts, texts of filters

let scheduled = false;
export const live = new Live(render, () => look(signed), () => !isSignedOut());

function route() {
  const path = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decoded);
  if (path[0] === "jobs" && path[1]) return { name: "job", job: path[1].toLowerCase(), tab: path[2] || "graph", item: path[3], part: path[4] };
  const name = ["submit", "logs", "configuration"].includes(path[0]) ? path[0] : "cluster";
  return { name, item: path[1] };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a % that somebody typed
  }
}

const VIEWS = { cluster: clusterView, job: jobView, submit: submitView, logs: logsView, configuration: configurationView };

function looksAt(where) {
  if (where.name !== "job" || !isJob(where.job)) return {};
  return {
    job: where.job,
    vertex: where.tab === "vertices" ? where.item : undefined,
    checkpoint: where.tab === "checkpoints" && isCheckpoint(where.item) ? where.item : undefined,
  };
}

function render() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    performance.mark("tg-render");
    const where = route();
    const context = { where, data: live.data, nowMs: live.nowMs(), kept, render, signed };
    document.documentElement.dataset.live = live.state;
    patch(top, header(context, live.state));
    const { title, content } = isKeptFrom(where.name) ? keptFrom(where.name) : VIEWS[where.name](context);
    if (document.title !== `${title} · tidegate`) document.title = `${title} · tidegate`;
    patch(main, [content, footer(live.data.hello)]);
    showTab();
    performance.measure("tg-update", "tg-render");
  });
}

function keptFrom(name) {
  const title = name === "submit" ? "Submit a job" : "Logs";
  return { title, content: [h("h1", { key: "title" }, title), explanation(name)] };
}

let shownTab;
function showTab() { // on a narrow screen the tabs scroll sideways
  const tab = main.querySelector(".tabs [aria-current=page]");
  if (tab?.hash === shownTab) return;
  shownTab = tab?.hash;
  tab?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function footer(hello) {
  return h("footer", { key: "footer" }, hello ? `tidegate ${hello.version} · Python ${hello.python} · generation ${hello.generation.slice(-8)}` : "");
}

let last = "";
function moved() {
  const where = route();
  const view = `${where.name}/${where.job || ""}/${where.tab || ""}`;
  const isOther = last !== "" && view !== last;
  last = view;
  live.show(looksAt(where));
  render();
  if (isOther) {
    window.scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
}

// Somebody else looks at the page: what was shown before may not be for them.
function signed() {
  live.forget();
  for (const view of Object.keys(kept)) delete kept[view];
  render();
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the view
  main.focus();
});
addEventListener("hashchange", moved);
setInterval(render, 1000); // durations go on
keys({ route, render, kept });
look(signed);
moved();
