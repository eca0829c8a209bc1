// The frame: where one can go, whether the page is live, light or dark, and the keys.

import { h } from "./dom.js";
import { openDialog } from "./actions.js";
import { button, maySee } from "./session.js";

const PLACES = [
  ["cluster", "#/", "Cluster", "c"],
  ["submit", "#/submit", "Submit a job", "s"],
  ["configuration", "#/configuration", "Configuration", "o"],
  ["logs", "#/logs", "Logs", "l"],
];
const TABS = ["", "/vertices", "/checkpoints", "/plots", "/flames", "/state", "/exceptions", "/configuration"];
const THEMES = ["auto", "light", "dark"];
const SAYS = { live: "live", lost: "connection lost", connecting: "connecting" };

let theme = stored("theme", "auto");
let areKeysOn = stored("keys", "on") === "on";
applyTheme();

export function header({ where, signed }, state) {
  return h(
    "div",
    { class: "bar" },
    h("a", { class: "brand", href: "#/" }, h("img", { src: "web/icon.svg", alt: "", width: 26, height: 26 }), "tidegate"),
    h(
      "nav",
      { "aria-label": "Main" },
      places().map(([name, href, text]) => h("a", { href, "aria-current": (where.name === name || (name === "cluster" && where.name === "job")) && "page" }, text)),
    ),
    h(
      "div",
      { class: "tools" },
      h("span", { class: "pulse", "data-state": state }, SAYS[state]),
      h("a", { class: "ghost", href: "docs/" }, "Docs"),
      button(signed),
      h("button", { class: "ghost", type: "button", onclick: nextTheme, "aria-label": `Theme: ${theme}. Change it`, title: `Theme: ${theme}` }, { auto: "◐", light: "☀", dark: "☾" }[theme]),
      h("button", { class: "ghost", type: "button", onclick: help, "aria-label": "Keys of this page", title: "Keys of this page" }, "?"),
    ),
  );
}

const places = () => PLACES.filter(([name]) => maySee(name));

let redraw = () => {};

export function keys({ route, render }) {
  redraw = render;
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.target.closest("input, textarea, select") || document.querySelector("dialog[open]")) return;
    if (event.key === "?") return help();
    if (!areKeysOn) return undefined;
    if (event.key === "t") return nextTheme();
    const place = places().find(([, , , key]) => key === event.key);
    if (place) location.hash = place[1];
    const where = route();
    const tab = TABS[Number(event.key) - 1];
    if (where.name === "job" && tab !== undefined) location.hash = `#/jobs/${where.job}${tab}`;
    return undefined;
  });
}

function nextTheme() {
  theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  store("theme", theme);
  applyTheme();
  redraw();
}

function applyTheme() {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

function help() {
  const rows = [...places().map(([, , text, key]) => [key, text]), ["1 – 8", "Tabs of a job"], ["t", "Light, dark, or as the system"], ["?", "This list"]];
  openDialog("Keys", (close, update) => [
    h("dl", {}, rows.map(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)])),
    h(
      "label",
      { class: "check" },
      h("input", {
        type: "checkbox",
        checked: areKeysOn,
        onchange: (event) => {
          areKeysOn = event.target.checked;
          store("keys", areKeysOn ? "on" : "off");
          update();
        },
      }),
      "Keys of one letter are on",
    ),
    h("div", { class: "actions" }, h("button", { type: "button", class: "primary", onclick: close }, "Close")),
  ]);
}

function stored(name, otherwise) {
  try {
    return localStorage.getItem(`tidegate.${name}`) || otherwise;
  } catch {
    return otherwise; // a browser that keeps nothing
  }
}

function store(name, value) {
  try {
    localStorage.setItem(`tidegate.${name}`, value);
  } catch {
    return;
  }
}
