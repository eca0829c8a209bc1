"""Says before a rescale what it would change: the subtasks of each vertex, and how much of its state goes to another subtask.

    parallelism, a vertex or all ─▶ bounds of every vertex ─▶ refusal, or changes with their state ─▶ the page asks, and sends the bounds

It changes nothing: the page sends ``requirements`` to the REST API, which decides again.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.jobmanager.machines.events import RescaleRequested
from tidegate.jobmanager.machines.views import JobView, VertexView
from tidegate.jobmanager.rest.handlers.rescaling import requirements
from tidegate.jobmanager.rest.requested_bounds import bounds_with
from tidegate.model.errors import Misuse
from tidegate.model.graph import Partitioner
from tidegate.model.ids import VertexId
from tidegate.model.keygroups import subtask_of
from tidegate.model.values import JsonObject


def rescale_plan(
    job: JobView, parallelism: int, vertex_id: str, refusal_of: Callable[[RescaleRequested], str]
) -> JsonObject:
    """Returns what a request for ``parallelism`` would do, to one vertex and those that change with it, or to all (``vertex_id`` is empty).

    ``refusal``: why it would be refused, or empty. ``state_bytes``: of the last completed checkpoint, ``None`` without one;
    ``key_groups``, ``moved``: of a vertex with keyed input.
    """
    try:
        bounds = bounds_with(job, parallelism, [vertex_id] if vertex_id else [])
    except Misuse as error:
        return {"refusal": error.message, "requirements": {}, "changes": []}
    refusal = refusal_of(RescaleRequested(job.job_id, bounds))
    state = _state_bytes(job)
    changes = [
        _change(job, vertex, bounds[vertex.vertex_id].upper, state)
        for vertex in job.vertices
        if bounds[vertex.vertex_id].upper != vertex.parallelism
    ]
    return {"refusal": refusal, "requirements": requirements(bounds), "changes": changes}


def moved_key_groups(max_parallelism: int, before: int, after: int) -> int:
    """Returns how many key groups another subtask owns afterwards."""
    return sum(
        subtask_of(group, max_parallelism, before) != subtask_of(group, max_parallelism, after)
        for group in range(max_parallelism)
    )


def _change(job: JobView, vertex: VertexView, after: int, state: dict[VertexId, int] | None) -> JsonObject:
    is_keyed = any(edge.partitioner is Partitioner.HASH for edge in job.graph.inputs_of(vertex.vertex_id))
    most = vertex.max_parallelism
    return {
        "vertex": vertex.vertex_id,
        "name": vertex.name,
        "before": vertex.parallelism,
        "after": after,
        "state_bytes": None if state is None else state.get(vertex.vertex_id, 0),
        "key_groups": most if is_keyed else None,
        "moved": moved_key_groups(most, vertex.parallelism, after) if is_keyed and after <= most else None,
    }


def _state_bytes(job: JobView) -> dict[VertexId, int] | None:
    """Returns the bytes of state by vertex in the last completed checkpoint; ``None`` without one."""
    view = job.checkpoints.last_completed
    if view is None:
        return None
    found: dict[VertexId, int] = {}
    for part in view.subtasks:
        vertex_id = part.attempt.vertex_id
        found[vertex_id] = found.get(vertex_id, 0) + part.size_bytes
    return found
