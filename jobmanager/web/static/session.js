// Who is signed in, where the cluster has users, and what that one may do.

import { h } from "./dom.js";
import { ask, useToken } from "./api.js";
import { openDialog, say } from "./actions.js";

const ROLES = ["view", "data", "operate", "deploy"];
let session = { users: false };
let isAsking = false;

// What the server lets a user do; this only says what to show.
export const may = (role) => !session.users || ROLES.indexOf(session.role) >= ROLES.indexOf(role);

// Views and tabs that need more than the least role.
const NEEDS = { submit: "deploy", logs: "data", flames: "data", state: "data" };
export const maySee = (name) => may(NEEDS[name] || "view");
export const isKeptFrom = (name) => NEEDS[name] !== undefined && !isSignedOut() && !may(NEEDS[name]);
export const explanation = (name) => h("p", { key: "needs", class: "note" }, `This needs the role ${NEEDS[name]}; ${session.name} has the role ${session.role}.`);
export const isSignedOut = () => session.users && !session.role;

// Looks who is signed in, asks for a token where nobody is, and calls `changed` when that is another than before.
export async function look(changed) {
  const before = JSON.stringify(session);
  try {
    session = await ask("GET", "web/session");
  } catch {
    return; // the JobManager is away, and the page says so
  }
  if (!session.role) useToken("");
  if (JSON.stringify(session) !== before) changed();
  if (isSignedOut()) signIn(changed);
}

export function signIn(changed) {
  if (isAsking) return;
  isAsking = true;
  let token = "";
  let refusal = "";
  const send = async (close, update) => {
    try {
      session = await ask("POST", "web/session", { token: token.trim() });
      useToken(token.trim());
      close();
      changed();
    } catch (error) {
      refusal = error.message;
      update();
    }
  };
  const dialog = openDialog("Sign in", (close, update) => [
    h("p", {}, "This cluster has users. A token is made by ", h("code", {}, "tidegate security add-user"), "."),
    refusal && h("p", { class: "note bad", role: "alert" }, refusal),
    h(
      "form",
      { class: "stack", onsubmit: (event) => (event.preventDefault(), send(close, update)) },
      h("label", {}, "Token", h("input", { name: "token", type: "password", autocomplete: "current-password", required: true, oninput: (event) => (token = event.target.value) })),
      h("div", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Sign in")),
    ),
  ]);
  dialog.addEventListener("close", () => (isAsking = false));
}

async function signOut(changed) {
  try {
    session = await ask("DELETE", "web/session");
  } catch (error) {
    return say(`Sign out: ${error.message}`, true);
  }
  useToken("");
  changed();
  return signIn(changed);
}

export function button(changed) {
  if (!session.users) return null;
  if (isSignedOut()) return h("button", { class: "ghost", type: "button", onclick: () => signIn(changed) }, "Sign in");
  return h("button", { class: "ghost", type: "button", title: `Role: ${session.role}. Sign out`, "aria-label": `Sign out ${session.name}`, onclick: () => signOut(changed) }, session.name);
}
