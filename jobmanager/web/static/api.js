// The REST API of this port. Every call gives what was answered, or throws an Error that says what was wrong.

import { SignedEvents } from "./events.js";

const POLL_MS = 300;
const KEPT = "tidegate.token";

// The token of who is signed in. The tab keeps it when it is loaded again; another tab, and another port of this host, do not have it.
let token = kept();

function kept() {
  try {
    return sessionStorage.getItem(KEPT) || "";
  } catch {
    return ""; // a browser that keeps nothing
  }
}

export function useToken(text) {
  token = text;
  try {
    if (text) sessionStorage.setItem(KEPT, text);
    else sessionStorage.removeItem(KEPT);
  } catch {
    return;
  }
}

const identity = () => (token ? { authorization: `Bearer ${token}` } : {});

// A stream of changes.
export const openEvents = (path) => (token ? new SignedEvents(path, identity()) : new EventSource(path));

// For a link to a text of the API: the browser follows it without the token, so it is asked for and saved where there is one.
export async function save(event, path, name) {
  if (!token) return;
  event.preventDefault();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([await ask("GET", path)], { type: "text/plain" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href));
}

export async function ask(method, path, body) {
  const options = { method, headers: identity() };
  if (body instanceof FormData) options.body = body;
  else if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["content-type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The JobManager does not answer.");
  }
  const isText = !(answer.headers.get("content-type") || "").includes("json");
  const said = isText ? await answer.text() : await answer.json();
  if (!answer.ok) throw new Error(isText ? `${answer.status} ${answer.statusText}` : firstLine(said.errors));
  return said;
}

// A trigger is answered with an id; the end is asked for below `statusPath`.
export async function operation(path, body, statusPath) {
  const { "request-id": id } = await ask("POST", path, body);
  for (;;) {
    const { status, operation: result } = await ask("GET", `${statusPath}/${id}`);
    if (status.id === "COMPLETED") {
      const cause = result && (result["failure-cause"] || result.failureCause);
      if (cause) throw new Error(firstLine([cause["stack-trace"] || cause.class]));
      return result;
    }
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
}

function firstLine(errors) {
  const text = String((errors || []).find((line) => line && line !== "Internal server error.") || "It failed.");
  const line = text.split("\n").find((part) => part && !part.startsWith("<Exception")) || text;
  return line.replace(/^[\w.$]+(?:Exception|Error): /, "");
}
