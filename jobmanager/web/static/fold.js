// Straight runs of a large graph as one box each: vertices that only feed the next one, which is fed by nobody else.

const LEAST = 3; // a run of two is as large as the box that would stand for it
const MOST = 8; // a longer run becomes several boxes

// Returns the runs, each a list of ids in the order of the data.
export function runs(ids, edges) {
  const out = new Map(ids.map((id) => [id, []]));
  const into = new Map(ids.map((id) => [id, []]));
  for (const { source, target } of edges) {
    out.get(source).push(target);
    into.get(target).push(source);
  }
  const next = (id) => (out.get(id).length === 1 && into.get(out.get(id)[0]).length === 1 ? out.get(id)[0] : null);
  const begins = (id) => into.get(id).length !== 1 || next(into.get(id)[0]) === null;
  const found = [];
  for (const id of ids.filter(begins)) {
    const run = [];
    for (let at = id; at !== null && !run.includes(at); at = next(at)) run.push(at);
    if (run.length < LEAST) continue;
    const size = Math.ceil(run.length / Math.ceil(run.length / MOST));
    for (let from = 0; from < run.length; from += size) found.push(run.slice(from, from + size));
  }
  return found.filter((run) => run.length >= LEAST);
}

// Returns the graph with a box for each run of `folds`: `{ id, run }` among the vertices, and the edges between what is left.
// An edge keeps the vertex that it begins at as `from`.
export function folded(vertices, edges, folds) {
  const inside = new Map(folds.flatMap((run) => run.map((id) => [id, run])));
  const place = (id) => (inside.has(id) ? `run-${inside.get(id)[0]}` : id);
  const by = new Map(vertices.map((vertex) => [vertex.id, vertex]));
  return {
    vertices: vertices.flatMap((vertex) => {
      const run = inside.get(vertex.id);
      if (!run) return [vertex];
      const members = run.map((id) => by.get(id));
      return run[0] === vertex.id ? [{ id: place(vertex.id), name: `${members[0].name} … ${members.at(-1).name}`, run: members }] : [];
    }),
    edges: edges.map((edge) => ({ ...edge, source: place(edge.source), target: place(edge.target), from: edge.source })).filter((edge) => edge.source !== edge.target),
  };
}
