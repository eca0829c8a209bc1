// Where the vertices of a graph stand: layers by the longest way from a source, inside a layer by the mean place of the
// neighbours. Wide: from left to right; narrow: from top to bottom.

const SWEEPS = 6;

let last = { shape: "", rows: [] };

// The ids by layer. The page draws the same graph many times, so the last one is remembered.
export function layered(ids, edges) {
  const shape = JSON.stringify([ids, edges.map(({ source, target }) => [source, target])]);
  if (shape !== last.shape) last = { shape, rows: arranged(ids, edges) };
  return last.rows;
}

function arranged(ids, edges) {
  const known = new Set(ids);
  const inner = edges.filter((edge) => known.has(edge.source) && known.has(edge.target));
  const layer = new Map(ids.map((id) => [id, 0]));
  for (let round = 0; round < ids.length; round += 1) {
    let moved = false;
    for (const { source, target } of inner) {
      if (layer.get(target) <= layer.get(source) && layer.get(source) < ids.length) {
        layer.set(target, layer.get(source) + 1);
        moved = true;
      }
    }
    if (!moved) break;
  }
  const layers = [];
  for (const id of ids) (layers[layer.get(id)] ||= []).push(id);
  const rows = layers.filter(Boolean);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    const down = sweep % 2 === 0;
    const place = new Map(rows.flatMap((row) => row.map((id, at) => [id, at - (row.length - 1) / 2])));
    for (const row of down ? rows : [...rows].reverse()) {
      const mean = (id) => {
        const near = inner.flatMap((edge) => (down ? (edge.target === id ? [edge.source] : []) : edge.source === id ? [edge.target] : []));
        return near.length ? near.reduce((sum, other) => sum + place.get(other), 0) / near.length : place.get(id);
      };
      const means = new Map(row.map((id) => [id, mean(id)]));
      row.sort((a, b) => means.get(a) - means.get(b));
      row.forEach((id, at) => place.set(id, at - (row.length - 1) / 2));
    }
  }
  return rows;
}

// Boxes by id, lines by edge, and the size of the whole, in pixels.
export function placed(ids, edges, box, isNarrow) {
  const rows = layered(ids, edges);
  const widest = Math.max(...rows.map((row) => row.length), 1);
  const step = isNarrow ? { along: box.height + box.gapAlong, across: box.width + box.gapAcross } : { along: box.width + box.gapAlong, across: box.height + box.gapAcross };
  const acrossSize = isNarrow ? box.width : box.height;
  const alongSize = isNarrow ? box.height : box.width;
  const breadth = widest * step.across - box.gapAcross;
  const boxes = new Map();
  rows.forEach((row, layer) => {
    const start = (breadth - (row.length * step.across - box.gapAcross)) / 2;
    row.forEach((id, at) => {
      const along = layer * step.along;
      const across = start + at * step.across;
      boxes.set(id, isNarrow ? { x: across, y: along } : { x: along, y: across });
    });
  });
  const length = rows.length * step.along - box.gapAlong;
  const size = isNarrow ? { width: breadth, height: length } : { width: length, height: breadth };
  const lines = edges
    .filter((edge) => boxes.has(edge.source) && boxes.has(edge.target))
    .map((edge) => line(edge, boxes.get(edge.source), boxes.get(edge.target), alongSize, acrossSize, isNarrow));
  return { boxes, lines, size };
}

function line(edge, from, to, alongSize, acrossSize, isNarrow) {
  if (isNarrow) {
    const [x1, y1, x2, y2] = [from.x + acrossSize / 2, from.y + alongSize, to.x + acrossSize / 2, to.y - 7];
    const bend = Math.max(18, (y2 - y1) / 2);
    return { edge, path: `M${x1},${y1}C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}`, middle: { x: (x1 + x2) / 2, y: (y1 + y2) / 2 } };
  }
  const [x1, y1, x2, y2] = [from.x + alongSize, from.y + acrossSize / 2, to.x - 7, to.y + acrossSize / 2];
  const bend = Math.max(24, (x2 - x1) / 2);
  return { edge, path: `M${x1},${y1}C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`, middle: { x: (x1 + x2) / 2, y: (y1 + y2) / 2 } };
}
