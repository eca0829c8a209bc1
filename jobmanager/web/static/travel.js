// One checkpoint as it travelled: the cause in words, the barriers over the graph at any moment, and every subtask's time.

import { h } from "./dom.js";
import { bytes, duration, moment, plural, whole } from "./format.js";
import { graph } from "./graph.js";
import { isLarge, viewOf, zoomed, zoomTools } from "./graphtools.js";
import { badge } from "./states.js";
import { kindOf, remark, took } from "./checkpoints.js";

const PHASES = [
  ["delay", "way of the barrier"],
  ["align", "alignment"],
  ["sync", "sync"],
  ["async", "async"],
  ["ack", "acknowledgement"],
];
const MANAGER = { trigger: "sent", _metadata: "metadata", confirm: "confirm" };
const STAGES = ["barrier on its way", "aligning", "freezing state", "writing state", "acknowledging", "done"];
const STAGE_LOOKS = ["st-way", "ph-align", "ph-sync", "ph-async", "ph-ack", "st-done"];
const OPEN = "not acknowledged";
const SHOWN = 6;
const MORE = 100;
const PLAY_MS = 6000;

export const isCheckpoint = (text) => /^\d{1,18}$/.test(text);

export function travelTab(context) {
  const { data, where, kept, render, nowMs } = context;
  const { job } = data;
  const checkpoint = isCheckpoint(where.item) ? data.checkpoint : null;
  if (checkpoint === undefined) return h("p", { key: "wait", class: "muted" }, "Asking the JobManager …");
  if (checkpoint === null) return h("p", { key: "gone", class: "note" }, `The history has no checkpoint ${where.item} (any more). `, h("a", { href: `#/jobs/${job.id}/checkpoints` }, "All checkpoints"));
  const open = checkpoint.open.map(([vertex, subtask, cause]) => ({ vertex, subtask, cause, key: String([vertex, subtask]) }));
  const tracks = checkpoint.tracks.map(track);
  const state = (kept[`travel-${job.id}-${checkpoint.id}`] ||= { atMs: null, shown: {}, isPlaying: false });
  const sinceMs = checkpoint.status === "IN_PROGRESS" ? nowMs - checkpoint.trigger_ms : 0;
  const totalMs = Math.max(checkpoint.total_ms, sinceMs, 0.1);
  const isShown = tracks.length > 0 || open.length > 0;
  const critical = new Set(checkpoint.path.map(String));
  return [
    summary(checkpoint, job, nowMs),
    isShown && over(job, tracks, totalMs, state, checkpoint, viewOf(job, kept, "travel-graph"), render),
    isShown && timeline(job, tracks, open, totalMs, state, checkpoint, critical, render),
    tracks.length > 0 && causes(job, tracks, checkpoint),
  ];
}

// [vertex, subtask, start delay, alignment, sync, async, ack, bytes, in flight, unaligned, waited for]
function track([vertex, subtask, ...rest]) {
  const spans = rest.slice(0, 5);
  const ends = [];
  spans.reduce((sum, span, at) => (ends[at] = sum + span), 0);
  const [size, inFlight, isUnaligned, waitedFor] = rest.slice(5);
  return { vertex, subtask, key: String([vertex, subtask]), spans, ends, endMs: ends[4], size, inFlight, isUnaligned, waitedFor };
}

function summary(checkpoint, job, nowMs) {
  const around = (step) => h("a", { class: "button", href: `#/jobs/${job.id}/checkpoints/${checkpoint.id + step}`, "aria-label": step < 0 ? "The checkpoint before" : "The checkpoint after" }, step < 0 ? "←" : "→");
  const fact = (name, value, small) => h("div", {}, h("dt", {}, name), h("dd", {}, value, small && h("small", {}, ` ${small}`)));
  const inFlight = checkpoint.tracks.reduce((sum, each) => sum + each[8], 0);
  return [
    h(
      "div",
      { key: "which", class: "head" },
      h("div", { class: "title" }, h("div", { class: "line" }, h("h2", {}, `${kindOf(checkpoint)[0].toUpperCase()}${kindOf(checkpoint).slice(1)} ${checkpoint.id}`), badge(checkpoint.status), remark(checkpoint) && !checkpoint.failure && h("span", { class: "muted small" }, remark(checkpoint))), h("p", { class: "words", "data-words": true }, checkpoint.words)),
      h("div", { class: "actions" }, checkpoint.id > 1 && around(-1), around(1), h("a", { class: "button", href: `#/jobs/${job.id}/checkpoints` }, "All")),
    ),
    h(
      "dl",
      { key: "facts", class: "facts" },
      fact("Duration", duration(took(checkpoint, nowMs))),
      fact("Triggered", moment(checkpoint.trigger_ms).slice(11), moment(checkpoint.trigger_ms).slice(0, 10)),
      fact("Acknowledged", `${whole(checkpoint.acknowledged)}`, `of ${whole(checkpoint.expected)}`),
      fact("State size", bytes(checkpoint.size_bytes), inFlight ? `${bytes(inFlight)} in flight` : ""),
    ),
    checkpoint.location && h("p", { key: "place", class: "small muted" }, "In ", checkpoint.location.startsWith("memory:") ? "the JobManager’s memory" : h("code", {}, checkpoint.location)),
    checkpoint.missing_count > 0 && h("p", { key: "missing", class: "note warn" }, `No acknowledgement${checkpoint.status === "IN_PROGRESS" ? " yet" : ""} of ${checkpoint.missing.slice(0, 12).join(", ")}${checkpoint.missing_count > 12 ? ` and ${whole(checkpoint.missing_count - 12)} more` : ""}.`),
  ];
}

// ---- over the graph --------------------------------------------------------------------------------------------------

function over(job, tracks, totalMs, state, checkpoint, view, render) {
  const atMs = state.atMs ?? totalMs;
  const byVertex = job.vertices.map((_, number) => tracks.filter((each) => each.vertex === number));
  const numbers = new Map(job.vertices.map((vertex, number) => [vertex.id, number]));
  const move = (event) => {
    state.atMs = Number(event.target.value);
    state.isPlaying = false;
    render();
  };
  const drawn = graph({
    job,
    ...(isLarge(job) ? {} : { height: 94 }), // a box of a large graph is seen from afar
    label: `Barriers over the graph at ${duration(atMs)}`,
    how: () => "",
    look: {
      edge: (edge) => byVertex[numbers.get(edge.source)].some((each) => each.ends[1] <= atMs) && byVertex[numbers.get(edge.target)].some((each) => each.ends[1] > atMs),
      style: (vertex) => ({ "--state": stateColour(byVertex[numbers.get(vertex.id)], vertex.parallelism, atMs) }),
    },
    inside: (vertex) => stages(vertex, byVertex[numbers.get(vertex.id)], atMs),
    ...zoomed(job, view, render),
  });
  return h(
    "section",
    { key: "over", class: "card", "aria-labelledby": "over-title" },
    h("header", {}, h("h2", { id: "over-title" }, "The barriers over the graph"), h("span", { class: "muted small" }, "Move the time, or let it run slowly."), isLarge(job) && zoomTools(view, render)),
    drawn,
    h(
      "div",
      { class: "player" },
      h("button", { type: "button", onclick: () => play(state, totalMs, render), "aria-label": state.isPlaying ? "Stop the time" : "Let the time run" }, state.isPlaying ? "❚❚" : "▶"),
      h("input", { type: "range", min: 0, max: totalMs, step: totalMs / 500, value: String(atMs), oninput: move, "aria-label": "Time after the trigger", "aria-valuetext": `${duration(atMs)}: ${progressOf(checkpoint, atMs)}` }),
      h("output", {}, duration(atMs), h("br", {}), h("span", { class: "muted small" }, progressOf(checkpoint, atMs))),
    ),
  );
}

function progressOf({ moments_ms: at, status, end_ms, trigger_ms }, atMs) {
  const failedMs = end_ms - trigger_ms;
  if (at.confirmed !== null && atMs >= at.confirmed) return "confirmed";
  if (at.completed !== null && atMs >= at.completed) return "complete";
  if (at.sealed !== null && atMs >= at.sealed) return "all acknowledged";
  if (status === "FAILED" && atMs >= failedMs) return "given up";
  return at.sent !== null && atMs >= at.sent ? "on its way" : "triggered";
}

function stageOf(each, atMs) {
  const stage = each.ends.findIndex((end) => atMs < end);
  return stage < 0 ? 5 : stage;
}

function stages(vertex, tracks, atMs) {
  const counts = [0, 0, 0, 0, 0, 0];
  for (const each of tracks) counts[stageOf(each, atMs)] += 1;
  counts[0] += vertex.parallelism - tracks.length;
  const words = counts.map((count, stage) => count > 0 && `${vertex.parallelism > 1 ? `${count} ` : ""}${stage === 0 && tracks.length < vertex.parallelism ? OPEN : STAGES[stage]}`).filter(Boolean);
  return [
    h("span", { class: "name" }, vertex.name),
    h("span", { class: "stages", "aria-hidden": "true" }, counts.map((count, stage) => count > 0 && h("i", { class: STAGE_LOOKS[stage], style: { width: `${(count / vertex.parallelism) * 100}%` } }))),
    h("span", { class: "stage" }, words.join(", ")),
  ];
}

function stateColour(tracks, parallelism, atMs) {
  const done = tracks.filter((each) => atMs >= each.endMs).length;
  if (done === parallelism) return "var(--p-metadata)";
  return tracks.some((each) => atMs >= each.ends[0]) ? "var(--p-async)" : "var(--line-strong)";
}

function play(state, totalMs, render) {
  state.isPlaying = !state.isPlaying;
  if (!state.isPlaying) return render();
  if (state.atMs === null || state.atMs >= totalMs) state.atMs = 0;
  const from = performance.now() - (state.atMs / totalMs) * PLAY_MS;
  const step = (now) => {
    if (!state.isPlaying) return;
    state.atMs = Math.min(totalMs, ((now - from) / PLAY_MS) * totalMs);
    if (state.atMs >= totalMs) state.isPlaying = false;
    else requestAnimationFrame(step);
    render();
  };
  requestAnimationFrame(step);
  return render();
}

// ---- time by subtask -------------------------------------------------------------------------------------------------

function timeline(job, tracks, open, totalMs, state, checkpoint, critical, render) {
  const left = (ms) => `${(100 * ms) / totalMs}%`;
  return h(
    "section",
    { key: "timeline", class: "card", "aria-labelledby": "timeline-title" },
    h(
      "header",
      {},
      h("h2", { id: "timeline-title" }, "Time by subtask"),
      h("ul", { class: "legend", "aria-label": "Legend" }, PHASES.map(([look, text]) => h("li", {}, h("i", { class: `ph-${look}` }), text)), open.length > 0 && h("li", {}, h("i", { class: "ph-open" }), OPEN), h("li", {}, h("i", { class: "ph-metadata" }), "JobManager")),
    ),
    h(
      "div",
      { class: "lanes" },
      h("div", { class: "axis", "aria-hidden": "true" }, [0, 0.25, 0.5, 0.75, 1].map((share) => h("span", { style: { left: `${share * 100}%` } }, duration(totalMs * share)))),
      h("div", { class: "marks", "aria-hidden": "true" }, ["sent", "sealed", "completed"].map((name) => checkpoint.moments_ms[name] !== null && h("i", { key: name, style: { left: left(Math.min(totalMs, checkpoint.moments_ms[name])) } })), h("i", { key: "head", class: "head", style: { left: left(state.atMs ?? totalMs) } })),
      job.vertices.map((vertex, number) => laneGroup(vertex, tracks.filter((each) => each.vertex === number), open.filter((each) => each.vertex === number), checkpoint.missing_of?.[number] ?? 0, { left, totalMs, checkpoint }, critical, state, render)),
      checkpoint.manager && managerLane(checkpoint, left),
    ),
  );
}

function laneGroup(vertex, tracks, open, missing, { left, totalMs, checkpoint }, critical, state, render) {
  const slowest = [...tracks].sort((a, b) => critical.has(b.key) - critical.has(a.key) || b.endMs - a.endMs);
  const limit = state.shown[vertex.id] || SHOWN;
  const shown = slowest.slice(0, limit).sort((a, b) => a.subtask - b.subtask);
  const more = () => {
    state.shown[vertex.id] = limit === SHOWN ? MORE : limit + MORE;
    render();
  };
  const rest = tracks.length - shown.length;
  const silent = missing - Math.min(open.length, limit); // of very many some are listed
  return h(
    "div",
    { key: vertex.id, class: "lane-group" },
    h("h3", {}, vertex.name, rest > 0 && h("span", { class: "muted small" }, `the slowest ${limit} of ${whole(tracks.length)}`)),
    h("ul", {}, open.slice(0, limit).map((each) => openLane(each, totalMs, checkpoint)), shown.map((each) => lane(each, vertex, left, critical.has(each.key), checkpoint))),
    silent > 0 && h("p", { class: "small muted" }, `${whole(silent)} ${open.length > 0 ? "more " : ""}${silent === 1 ? "has" : "have"} not acknowledged`),
    rest > 0 && h("button", { type: "button", class: "link small", onclick: more }, `Show ${Math.min(rest, MORE)} more`),
  );
}

// Who has not acknowledged: hatched up to now, or to when the checkpoint was given up, with the cause in words below it.
function openLane(each, totalMs, checkpoint) {
  const name = `Subtask ${each.subtask + 1}`;
  const isOver = checkpoint.status !== "IN_PROGRESS";
  const untilMs = isOver ? checkpoint.end_ms - checkpoint.trigger_ms : totalMs;
  const words = `${OPEN}${isOver ? ` when it was given up after ${duration(untilMs)}` : ` for ${duration(untilMs)}`}${each.cause ? `: ${each.cause}` : ""}`;
  return h(
    "li",
    { key: `open-${each.key}`, class: "lane open" },
    h("span", { class: "label" }, name),
    h("span", { class: "run", role: "img", "aria-label": `${name}: ${words}`, title: words }, h("i", { class: "ph-open", style: { left: "0%", width: `${(100 * untilMs) / totalMs}%` } })),
    h("span", { class: "at" }, "–"),
    each.cause && h("span", { class: "cause" }, each.cause),
  );
}

function lane(each, vertex, left, isCritical, checkpoint) {
  const starts = [0, ...each.ends];
  const name = `Subtask ${each.subtask + 1}`;
  const words = PHASES.map(([, text], at) => `${text} ${duration(each.spans[at])}`).join(", ");
  return h(
    "li",
    { key: each.key, class: isCritical ? "lane critical" : "lane" },
    h("span", { class: "label" }, isCritical && h("i", { class: "path-dot", "aria-hidden": "true" }), name, each.isUnaligned && " · unaligned", isLate(each, checkpoint) && " · late", isCritical && h("span", { class: "hidden-text" }, ", on the critical path")),
    h("span", { class: "run", role: "img", "aria-label": `${name}: ${words}`, title: words.replaceAll(", ", "\n") }, PHASES.map(([look], at) => each.spans[at] > 0 && h("i", { class: `ph-${look}`, style: { left: left(starts[at]), width: left(each.spans[at]) } }))),
    h("span", { class: "at" }, duration(each.endMs)),
  );
}

// It acknowledged when the checkpoint had been given up.
function isLate(each, { status, end_ms, trigger_ms }) {
  return status === "FAILED" && end_ms !== null && each.endMs > end_ms - trigger_ms;
}

function managerLane(checkpoint, left) {
  let at = 0;
  const parts = checkpoint.manager.map(([name, span]) => {
    const part = { name, span, start: at };
    at += span;
    return part;
  });
  const words = parts.filter((part) => part.name).map((part) => `${part.name} ${duration(part.span)}`).join(", ");
  return h(
    "div",
    { key: "manager", class: "lane-group" },
    h("h3", {}, "JobManager"),
    h(
      "ul",
      {},
      h(
        "li",
        { class: "lane" },
        h("span", { class: "label" }, "Trigger, _metadata, confirm"),
        h("span", { class: "run", role: "img", "aria-label": `JobManager: ${words}`, title: words.replaceAll(", ", "\n") }, parts.map((part) => part.name && part.span > 0 && h("i", { class: `ph-${MANAGER[part.name]}`, style: { left: left(part.start), width: left(part.span) } }))),
        h("span", { class: "at" }, duration(at)),
      ),
    ),
  );
}

// ---- causes ----------------------------------------------------------------------------------------------------------

function causes(job, tracks, checkpoint) {
  const byKey = new Map(tracks.map((each) => [each.key, each]));
  const steps = checkpoint.path.map((place) => byKey.get(String(place))).filter(Boolean);
  return h(
    "div",
    { key: "causes", class: "columns" },
    h(
      "section",
      { class: "card", "aria-labelledby": "path-title" },
      h("header", {}, h("h2", { id: "path-title" }, "Critical path")),
      h("div", { class: "body" }, h("ol", { class: "way" }, steps.map((each) => step(job, each)), checkpoint.manager && h("li", { key: "end" }, h("strong", {}, "JobManager"), h("p", { class: "small muted" }, end(checkpoint))))),
    ),
    h(
      "section",
      { class: "card", "aria-labelledby": "waits-title" },
      h("header", {}, h("h2", { id: "waits-title" }, "Longest waits for a channel")),
      checkpoint.waits.length === 0
        ? h("p", { class: "empty" }, "No subtask waited for another channel’s barrier.")
        : h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Subtask"), h("th", { scope: "col", class: "num" }, "Waited"), h("th", { scope: "col" }, "For the barrier of"))), h("tbody", {}, checkpoint.waits.map((wait) => h("tr", { key: wait.name }, h("th", { scope: "row" }, wait.name), h("td", { class: "num" }, duration(wait.wait_ms)), h("td", {}, wait.for)))))),
    ),
  );
}

function step(job, each) {
  const vertex = job.vertices[each.vertex];
  const waited = each.waitedFor && each.spans[1] > 0 ? ` waited ${duration(each.spans[1])} for ${each.waitedFor},` : each.spans[1] > 0 ? ` aligned for ${duration(each.spans[1])},` : "";
  return h(
    "li",
    { key: each.key },
    h("strong", {}, `${vertex.name} (${each.subtask + 1})`),
    h("p", { class: "small muted" }, `The barrier was there after ${duration(each.ends[0])};${waited} froze its state in ${duration(each.spans[2])}, wrote ${bytes(each.size)} in ${duration(each.spans[3])}; acknowledged at ${duration(each.endMs)}.`),
  );
}

function end({ moments_ms: at, acknowledged }) {
  const written = at.completed !== null && at.sealed !== null ? ` It wrote _metadata in ${duration(at.completed - at.sealed)}.` : "";
  const confirmed = at.confirmed !== null ? ` Tasks were told at ${duration(at.confirmed)}.` : "";
  return `The last of ${plural(acknowledged, "acknowledgement")} came at ${duration(at.sealed ?? 0)}.${written}${confirmed}`;
}
