"""Turns a user's request, one parallelism for a whole job or for some vertices, into bounds for every vertex."""

from __future__ import annotations

from collections.abc import Collection

from tidegate.jobmanager.machines.views import JobView
from tidegate.model.errors import Misuse
from tidegate.model.graph import JobGraph, JobVertex
from tidegate.model.ids import VertexId
from tidegate.model.rescaling.bounds import ParallelismBounds, forward_groups


def bounds_with(job: JobView, parallelism: int, names: Collection[str]) -> dict[VertexId, ParallelismBounds]:
    """Returns the bounds of every vertex with ``parallelism`` for the chosen ones.

    ``names``: ids or names of vertices or of their operators; empty: all whose parallelism can change. Vertices connected by forward
    edges change together. Raises ``Misuse`` for an unknown name, or when no vertex would change.
    """
    chosen = {vertex.vertex_id for name in names for vertex in _named(job.graph, name)}
    bounds = dict(job.bounds)
    for group in forward_groups(job.graph):
        is_meant = any(v.vertex_id in chosen for v in group) if names else not any(v.keeps_parallelism for v in group)
        if is_meant:
            bounds |= {
                v.vertex_id: ParallelismBounds(min(bounds[v.vertex_id].lower, parallelism), parallelism) for v in group
            }
    if bounds == job.bounds and not any(both.upper == parallelism for both in bounds.values()):
        raise Misuse(
            f"no vertex of job {job.job_id} can be rescaled: each of them keeps the parallelism that it was submitted with"
        )
    return bounds


def _named(graph: JobGraph, name: str) -> list[JobVertex]:
    found = [v for v in graph.vertices if name in (v.vertex_id, v.name, *(op.name for op in v.operators))]
    if not found:
        known = ", ".join(f"{v.name!r}" for v in graph.vertices)
        raise Misuse(f"the job has no vertex {name!r}; it has {known}")
    return found
