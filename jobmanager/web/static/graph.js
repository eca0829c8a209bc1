// The job's graph: vertices as boxes, edges with how they deal records. The boxes are links in the order of the data; who does
// not see the picture hears them as a list, and the edges as sentences.

import { h } from "./dom.js";
import { layered, placed } from "./layout.js";
import { FARTHEST } from "./graphtools.js";

const WIDE = { width: 232, height: 142, gapAlong: 96, gapAcross: 28 };
const LEAST = { width: 172, gapAlong: 66, acrossWidth: 148 };
const FRAME_PX = 40;
const NARROW = { width: 272, height: 142, gapAlong: 58, gapAcross: 12 };
const FAR = 0.7; // below it a box has its name and its loads alone, and the name is as large as it can be read
const FARTHER = 0.5; // below it there is space for two lines of it
const narrow = matchMedia("(max-width: 760px)");

function roomFor() {
  const main = document.getElementById("main");
  const style = getComputedStyle(main);
  return main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - FRAME_PX;
}

// As wide as there is room for; a larger graph scrolls.
function fitted(job, isNarrow) {
  const rows = layered(job.vertices.map((vertex) => vertex.id), job.edges);
  const layers = rows.length;
  const room = roomFor();
  if (isNarrow) {
    const across = Math.max(...rows.map((row) => row.length));
    const width = Math.floor((room - (across - 1) * NARROW.gapAcross) / across);
    return { ...NARROW, width: Math.max(LEAST.acrossWidth, Math.min(NARROW.width, width)) };
  }
  const share = Math.min(1, room / (layers * (WIDE.width + WIDE.gapAlong) - WIDE.gapAlong));
  const width = Math.max(LEAST.width, Math.floor(WIDE.width * share));
  const gap = Math.floor((room - layers * width) / Math.max(1, layers - 1));
  return { ...WIDE, width, gapAlong: Math.max(LEAST.gapAlong, Math.min(WIDE.gapAlong, gap)) };
}

function zoomOf(view, width) {
  if (!view) return 1;
  view.now = view.zoom === "fit" ? Math.min(1, Math.max(FARTHEST, roomFor() / width)) : view.zoom;
  return view.now;
}

// `inside(vertex)`: content of a box. `how(edge)`: second line of an edge's label. `link(vertex)`: where the box leads, or what it
// does. `view`: how near it is looked at (`graphtools.js`).
export function graph({ job, label, inside, how, link, look, height, view, onkeydown }) {
  const isNarrow = narrow.matches;
  const box = { ...fitted(job, isNarrow), ...(height ? { height } : {}) };
  const names = new Map(job.vertices.map((vertex) => [vertex.id, vertex.name]));
  const { boxes, lines, size } = placed(job.vertices.map((vertex) => vertex.id), job.edges, box, isNarrow);
  const zoom = zoomOf(view, size.width);
  return h(
    "div",
    { class: `graph${zoom < FAR ? " far" : ""}${zoom < FARTHER ? " farthest" : ""}`, onkeydown, tabindex: 0, role: "region", "aria-label": label },
    h(
      "div",
      { class: "sheet", style: { width: `${size.width}px`, height: `${size.height}px`, zoom: String(zoom), "--zoom": String(zoom) } },
      h(
        "svg",
        { width: size.width, height: size.height, "aria-hidden": "true" },
        h("defs", {}, h("marker", { id: "tip", viewBox: "0 0 8 8", refX: 1, refY: 4, markerWidth: 8, markerHeight: 8, markerUnits: "userSpaceOnUse", orient: "auto" }, h("path", { class: "tip", d: "M0,0L8,4L0,8z" }))),
        lines.map(({ edge, path }) => h("path", { class: look && look.edge(edge) ? "edge flowing" : "edge", d: path, "marker-end": "url(#tip)" })),
      ),
      lines.map(({ edge, middle }) =>
        h("div", { class: "how", "aria-hidden": "true", style: { left: `${middle.x}px`, top: `${middle.y}px` } }, edge.partitioner.toLowerCase(), how && how(edge) && h("b", {}, how(edge))),
      ),
      h(
        "ol",
        { "aria-label": "Vertices" },
        job.vertices.map((vertex) => {
          const at = boxes.get(vertex.id);
          const style = { left: `${at.x}px`, top: `${at.y}px`, width: `${box.width}px`, height: `${box.height}px`, ...(look ? look.style(vertex) : {}) };
          const chosen = look && look.chosen === vertex.id ? " chosen" : "";
          const leads = link && link(vertex);
          const marks = `vertex${chosen}${look?.marks ? look.marks(vertex) : ""}`;
          if (typeof leads === "function") return h("li", { key: vertex.id }, h("button", { type: "button", class: `${marks} run`, style, "aria-expanded": "false", title: vertex.name, onclick: leads }, inside(vertex)));
          return h("li", { key: vertex.id }, link ? h("a", { class: marks, "data-vertex": vertex.id, href: leads, style, "aria-current": chosen ? "true" : null, title: vertex.name }, inside(vertex)) : h("div", { class: "vertex", style, title: vertex.name }, inside(vertex)));
        }),
      ),
    ),
    h("ul", { class: "hidden-text", "aria-label": "Edges" }, job.edges.map((edge) => h("li", {}, `${names.get(edge.source)} feeds ${names.get(edge.target)} by ${edge.partitioner.toLowerCase()}${how && how(edge) ? `, ${how(edge)}` : ""}`))),
  );
}
