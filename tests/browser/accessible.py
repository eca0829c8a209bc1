"""What a page must have for keyboards and screen readers, looked up in the document: a list of what is wrong.

Beside our own rules, all of axe-core's: its script comes with ``axe-playwright-python``.
"""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_FAULTS = """() => {
  const faults = [];
  const seen = (node) => node.checkVisibility();
  const name = (node) => (node.getAttribute("aria-label") || (node.getAttribute("aria-labelledby") || "").split(" ")
    .map((id) => document.getElementById(id)?.textContent || "").join("") || [...(node.labels || [])].map((l) => l.textContent).join("")
    || node.textContent || "").trim();
  const shown = (node) => node.outerHTML.slice(0, 120);
  if (!document.documentElement.lang) faults.push("no language");
  if (document.querySelectorAll("main").length !== 1) faults.push("not one main");
  if (document.querySelectorAll("h1").length !== 1) faults.push("not one h1");
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    const next = Number(heading.localName[1]);
    if (next > level + 1) faults.push(`a heading skips a level: ${shown(heading)}`);
    level = next;
  }
  for (const node of document.querySelectorAll("a, button, input, select, [role=img], [role=region], nav, section[aria-labelledby]"))
    if (seen(node) && !name(node)) faults.push(`without a name: ${shown(node)}`);
  for (const node of document.querySelectorAll("a")) if (!node.hasAttribute("href")) faults.push(`leads nowhere: ${shown(node)}`);
  for (const node of document.querySelectorAll("img")) if (!node.hasAttribute("alt")) faults.push(`no alt: ${shown(node)}`);
  for (const node of document.querySelectorAll("thead th")) if (node.scope !== "col") faults.push(`no scope: ${shown(node)}`);
  for (const node of document.querySelectorAll("main *")) {
    const style = getComputedStyle(node);
    const scrolls = ["auto", "scroll"].includes(style.overflowX) && node.scrollWidth > node.clientWidth + 1;
    if (scrolls && node.tabIndex < 0 && !node.querySelector("a, button")) faults.push(`scrolls, but not by keyboard: ${shown(node)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  for (const id of new Set(ids)) if (ids.filter((other) => other === id).length > 1) faults.push(`two have the id ${id}`);
  return faults;
}"""

_CONTRASTS = """() => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const rgba = (text) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const under = (node) => {
    for (; node; node = node.parentElement) {
      const colour = rgba(getComputedStyle(node).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return rgba("white");
  };
  const faults = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !node.checkVisibility() || node.closest(".hidden-text, .skip, :disabled, script")) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(rgba(style.color)), light(under(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (parseFloat(style.fontSize) >= 18 ? 3 : 4.5))
        faults.add(`${ratio.toFixed(2)}: ${walker.currentNode.data.trim().slice(0, 40)} (${node.className})`);
  }
  return [...faults];
}"""


def faults(page: Page) -> list[str]:
    """Names, headings, landmarks, scopes, text alternatives, areas that only a mouse can scroll."""
    return list(page.evaluate(_FAULTS))


def faint_texts(page: Page) -> list[str]:
    """Texts whose contrast is below what WCAG AA asks for."""
    return list(page.evaluate(_CONTRASTS))


def violations(page: Page) -> list[str]:
    """What axe-core reports, with the first element of each."""
    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {each['help']}: {each['nodes'][0]['html'][:120]}" for each in found]
