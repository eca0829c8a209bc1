// The stream of changes: one for the page, opened anew when it shows something else, closed while nobody looks.

import { openEvents } from "./api.js";

const PARTS = ["hello", "cluster", "jobs", "job", "rates", "subtasks", "checkpoints", "checkpoint", "exceptions", "accumulators", "findings", "gone"];
const AGAIN_MS = 3000;

export class Live {
  constructor(changed, refused, mayAsk) {
    this.changed = changed;
    this.refused = refused; // called when no stream is given
    this.mayAsk = mayAsk; // false while nobody is signed in
    this.data = {};
    this.state = "connecting"; // connecting | live | lost
    this.url = null;
    this.source = null;
    this.clockMs = 0; // the JobManager's clock minus ours
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open()));
  }

  // Look at the cluster ({}) or a job ({job, vertex, checkpoint}). What belongs to something else is forgotten.
  show(what) {
    const query = new URLSearchParams(Object.entries(what).filter(([, value]) => value !== undefined && value !== null));
    const url = `web/events?${query}`;
    if (url === this.url) return;
    const old = this.what || {};
    this.url = url;
    this.what = what;
    const keep = what.job !== undefined && old.job === what.job;
    const kept = keep ? this.data : { hello: this.data.hello };
    this.data = { ...kept };
    if (old.vertex !== what.vertex) delete this.data.subtasks;
    if (old.checkpoint !== what.checkpoint) delete this.data.checkpoint;
    this.close();
    this.open();
  }

  nowMs() {
    return Date.now() + this.clockMs;
  }

  open() {
    if (this.source !== null || this.url === null || document.hidden || !this.mayAsk()) return;
    const source = openEvents(this.url);
    this.source = source;
    for (const name of PARTS) source.addEventListener(name, (event) => this.take(source, name, event.data));
    source.onerror = () => {
      if (source !== this.source) return;
      this.notify("lost");
      if (source.readyState === EventSource.CLOSED) {
        this.close();
        this.refused();
        setTimeout(() => this.open(), AGAIN_MS);
      }
    };
  }

  forget() {
    this.data = {};
    this.close();
    this.open();
  }

  close() {
    if (this.source !== null) this.source.close();
    this.source = null;
  }

  take(source, name, text) {
    if (source !== this.source) return;
    this.data[name] = JSON.parse(text);
    if (name === "hello") this.clockMs = this.data.hello.now_ms - Date.now();
    if (name === "job" || name === "gone") delete this.data[name === "job" ? "gone" : "job"];
    this.notify("live");
  }

  notify(state) {
    this.state = state;
    this.changed();
  }
}
