// States in words, colours and shapes that say the same.

import { h } from "./dom.js";
import { duration } from "./format.js";

const LOOKS = {
  RUNNING: "good",
  COMPLETED: "good",
  FINISHED: "done",
  FAILED: "bad",
  FAILING: "bad",
  RESTARTING: "warn",
  CANCELLING: "warn",
  CANCELING: "warn",
  IN_PROGRESS: "warn",
  INITIALIZING: "warn",
  DEPLOYING: "warn",
  SCHEDULED: "warn",
  CREATED: "warn",
};
const COLOURS = { good: "var(--good)", done: "var(--accent)", bad: "var(--bad)", warn: "var(--warn)" };

export const isOver = (state) => ["FINISHED", "FAILED", "CANCELED"].includes(state);
export const colour = (state) => COLOURS[LOOKS[state]] || "var(--line-strong)";
export const badge = (state, text) => h("span", { class: `badge ${LOOKS[state] || ""}` }, text || state.toLowerCase().replaceAll("_", " "));

// A job that waits for slots is RUNNING to the scheduler, and at a halt to whoever looks.
export function jobBadge(job) {
  const trouble = isOver(job.state) ? "" : job.waiting_for ? "waiting for slots" : job.commits_fail ? "commits fail" : "";
  return trouble ? h("span", { class: "badge warn" }, trouble) : badge(job.state);
}

export function taskCounts(tasks) {
  const found = Object.entries(tasks).filter(([, count]) => count > 0);
  return found.map(([state, count]) => `${count} ${state.toLowerCase()}`).join(", ") || "none yet";
}

export function meter(shares, kind, label) {
  if (shares === undefined) return h("span", { class: "muted" }, "–");
  const share = Array.isArray(shares) ? shares[0] : shares;
  const text = `${Math.round(share * 100)} %`;
  return h(
    "span",
    { class: `meter ${kind}`, title: Array.isArray(shares) ? `${label}: highest ${text}, mean ${Math.round(shares[1] * 100)} %` : label },
    h("i", { "aria-hidden": "true" }, h("i", { class: "eased", style: { width: text.replace(" ", "") } })),
    h("b", {}, text),
  );
}

// What a job waits for, such as "6 of 9 slots; 2 TaskManagers starting for 4 s".
export const waitingFor = (job, nowMs) => (job.starting_since_ms ? `${job.waiting_for} for ${duration(nowMs - job.starting_since_ms)}` : job.waiting_for);
