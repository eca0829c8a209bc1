"""The bounds of the parallelism of a job's vertices, and which are refused (Flink: ``JobResourceRequirements.java``).

    bounds ─▶ problems_of ─▶ texts for the user
          └─▶ fit(slots) ──▶ the parallelism of each vertex, in so many slots

A vertex that cannot run with another parallelism keeps the one that it has. Vertices between which rows go forward have as many subtasks as
each other: such a group has the tightest bounds of its members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tidegate.model.graph import JobGraph, JobVertex, Partitioner
from tidegate.model.ids import VertexId

NOT_SAID = -1
"""Stands for a default bound: 1 for the lower, the max parallelism for the upper, as in Flink's REST API."""


@dataclass(frozen=True, slots=True)
class ParallelismBounds:
    """A range of parallelism, both ends included."""

    lower: int
    upper: int


Bounds = Mapping[VertexId, ParallelismBounds]


def bounds_of(graph: JobGraph) -> dict[VertexId, ParallelismBounds]:
    """Returns the default bounds of a job: at most the parallelism that it has."""
    return {v.vertex_id: ParallelismBounds(1, v.parallelism) for v in graph.vertices}


def most_of(vertex: JobVertex) -> int:
    """Returns the highest possible parallelism of a vertex."""
    return vertex.parallelism if vertex.keeps_parallelism else vertex.max_parallelism


def completed(graph: JobGraph, bounds: Bounds) -> dict[VertexId, ParallelismBounds]:
    """Replaces default bounds by numbers."""
    most = {vertex.vertex_id: most_of(vertex) for vertex in graph.vertices}
    return {
        vertex_id: ParallelismBounds(
            1 if requested.lower == NOT_SAID else requested.lower,
            most.get(vertex_id, requested.upper) if requested.upper == NOT_SAID else requested.upper,
        )
        for vertex_id, requested in bounds.items()
    }


def problems_of(graph: JobGraph, bounds: Bounds) -> list[str]:
    """Returns why ``completed`` bounds are refused, with Flink's messages where it refuses them; empty: they are not."""
    vertices = {vertex.vertex_id: vertex for vertex in graph.vertices}
    problems = []
    for vertex_id, requested in bounds.items():
        vertex = vertices.get(vertex_id)
        if vertex is None:
            problems.append(f"Job vertex [{vertex_id}] was not found in the JobGraph.")
        elif problem := _problem(vertex, requested):
            problems.append(problem)
    problems += [
        f"The request is incomplete, missing job vertex [{vertex_id}] resource requirements."
        for vertex_id in vertices
        if vertex_id not in bounds
    ]
    return problems or _contradictions(graph, bounds)


def fit(graph: JobGraph, bounds: Bounds, slots: int) -> dict[VertexId, int] | None:
    """Returns the highest parallelism of each vertex that fits ``slots``; slot sharing groups grow evenly as far as they need. ``None``: even the
    lowest does not fit."""
    joined = [_common(group, bounds) for group in forward_groups(graph)]
    highest = {vertex.vertex_id: both.upper for group, both in joined for vertex in group}
    if slots_of(graph, highest) <= slots:
        return highest
    found = {vertex.vertex_id: both.lower for group, both in joined for vertex in group}
    if slots_of(graph, found) > slots:
        return None
    while (more := _grown(graph, joined, found, slots)) is not None:
        found = more
    return found


def slots_of(graph: JobGraph, parallelism: Mapping[VertexId, int]) -> int:
    """Returns how many slots a job needs: for each slot sharing group the highest parallelism of its vertices."""
    widest: dict[str, int] = {}
    for vertex in graph.vertices:
        group = vertex.slot_sharing_group
        widest[group] = max(widest.get(group, 0), parallelism[vertex.vertex_id])
    return sum(widest.values())


def with_parallelism(graph: JobGraph, parallelism: Mapping[VertexId, int]) -> JobGraph:
    """Returns the job with other parallelisms. Vertices that are not named stay unchanged."""
    vertices = (replace(v, parallelism=parallelism.get(v.vertex_id, v.parallelism)) for v in graph.vertices)
    return replace(graph, vertices=tuple(vertices))


def parallelism_of(graph: JobGraph) -> dict[VertexId, int]:
    return {vertex.vertex_id: vertex.parallelism for vertex in graph.vertices}


def forward_groups(graph: JobGraph) -> list[tuple[JobVertex, ...]]:
    """Returns the groups of vertices with equal parallelism, since they are connected by FORWARD edges, in the order of the graph."""
    group_of = {vertex.vertex_id: [vertex.vertex_id] for vertex in graph.vertices}
    for edge in graph.edges:
        source, target = group_of[edge.source], group_of[edge.target]
        if edge.partitioner is Partitioner.FORWARD and source is not target:
            source += target
            group_of.update(dict.fromkeys(target, source))
    seen = {id(group): group for group in group_of.values()}
    return [tuple(v for v in graph.vertices if v.vertex_id in group) for group in seen.values()]


_Joined = tuple[tuple[JobVertex, ...], ParallelismBounds]


def _grown(
    graph: JobGraph, joined: Iterable[_Joined], found: Mapping[VertexId, int], slots: int
) -> dict[VertexId, int] | None:
    """Raises the parallelism of the lowest group that fits by one; ``None``: there is none."""
    for group, both in sorted(joined, key=lambda one: found[one[0][0].vertex_id]):
        now = found[group[0].vertex_id]
        more = {**found, **{vertex.vertex_id: now + 1 for vertex in group}}
        if now < both.upper and slots_of(graph, more) <= slots:
            return more
    return None


def _common(group: tuple[JobVertex, ...], bounds: Bounds) -> _Joined:
    each = [_own(vertex, bounds[vertex.vertex_id]) for vertex in group]
    return group, ParallelismBounds(max(one.lower for one in each), min(one.upper for one in each))


def _own(vertex: JobVertex, requested: ParallelismBounds) -> ParallelismBounds:
    return ParallelismBounds(vertex.parallelism, vertex.parallelism) if vertex.keeps_parallelism else requested


def _problem(vertex: JobVertex, requested: ParallelismBounds) -> str:
    vertex_id = vertex.vertex_id
    if requested.lower < 1 or requested.upper < 1:
        return (
            f"Both, the requested lower bound [{requested.lower}] and upper bound [{requested.upper}] for job vertex [{vertex_id}] "
            "must be greater than zero."
        )
    if requested.lower > requested.upper:
        return (
            f"The requested lower bound [{requested.lower}] for job vertex [{vertex_id}] is higher than the upper bound "
            f"[{requested.upper}]."
        )
    if vertex.keeps_parallelism and requested.upper != vertex.parallelism:
        return (
            f"The newly requested parallelism {requested.upper} for the job vertex {vertex_id} is not possible: {vertex.name!r} can only run with "
            f"parallelism {vertex.parallelism}."
        )
    if requested.upper > vertex.max_parallelism:
        return (
            f"The newly requested parallelism {requested.upper} for the job vertex {vertex_id} exceeds its maximum parallelism "
            f"{vertex.max_parallelism}."
        )
    return ""


def _contradictions(graph: JobGraph, bounds: Bounds) -> list[str]:
    """Returns which vertices need the same parallelism but have disjoint bounds."""
    found = []
    for group, both in (_common(group, bounds) for group in forward_groups(graph)):
        if both.lower > both.upper:
            names = " and ".join(f"{v.name!r} [{v.vertex_id}]" for v in group)
            found.append(
                f"{names} need the same parallelism, since rows go forward between them, and no number is within the bounds of "
                "all; give them the same ones."
            )
    return found
