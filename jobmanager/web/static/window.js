// A table of which only the rows in sight are in the document, sorted by the column that was chosen.

import { h } from "./dom.js";

const ROW_PX = 36;
const BEYOND = 6;

// columns: [{ name, of: row => value to sort by, show: row => content, isText }]
export function windowTable({ key, label, columns, rows, kept, render }) {
  const state = (kept[key] ||= { top: 0, height: 420, by: 0, isDown: false });
  const column = columns[state.by];
  const value = (row) => column.of(row) ?? -Infinity;
  const sorted = [...rows].sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (state.isDown ? -1 : 1));
  const first = Math.max(0, Math.floor(state.top / ROW_PX) - BEYOND);
  const last = Math.min(sorted.length, Math.ceil((state.top + state.height) / ROW_PX) + BEYOND);
  const gap = (name, count) => count > 0 && h("tr", { key: name, class: "gap", "aria-hidden": "true" }, h("td", { colspan: columns.length, style: { height: `${count * ROW_PX}px` } }));
  const choose = (at) => () => {
    state.isDown = state.by === at ? !state.isDown : !columns[at].isText && at > 0;
    state.by = at;
    render();
  };
  return h(
    "div",
    {
      key,
      class: "window",
      tabindex: 0,
      role: "region",
      "aria-label": label,
      onscroll: (event) => {
        state.top = event.target.scrollTop;
        state.height = event.target.clientHeight;
        render();
      },
    },
    h(
      "table",
      { "aria-rowcount": sorted.length + 1 },
      h(
        "thead",
        {},
        h(
          "tr",
          { "aria-rowindex": 1 },
          columns.map((each, at) =>
            h(
              "th",
              { scope: "col", class: each.isText || at === 0 ? "" : "num", "aria-sort": state.by === at ? (state.isDown ? "descending" : "ascending") : null },
              h("button", { type: "button", class: "sort", onclick: choose(at) }, each.name, state.by === at ? (state.isDown ? " ↓" : " ↑") : ""),
            ),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        gap("above", first),
        sorted.slice(first, last).map((row, at) =>
          h("tr", { key: row.key, "aria-rowindex": first + at + 2 }, columns.map((each, number) => (number === 0 ? h("th", { scope: "row" }, each.show(row)) : h("td", { class: each.isText ? "" : "num" }, each.show(row))))),
        ),
        gap("below", sorted.length - last),
      ),
    ),
  );
}
