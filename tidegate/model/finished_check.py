"""Whether a job may start from a checkpoint in which part of the tasks had finished: a finished task may not get data again.

    a fully finished vertex    needs producers that are all fully finished
    a partly finished one      needs fully finished producers where all channels exist, and producers of which at
                               least some had finished where channels are pointwise

Follows Flink's ``VertexFinishedStateChecker.java``.
"""

from __future__ import annotations

from enum import Enum

from tidegate.model.checkpoint import CheckpointManifest, OperatorState
from tidegate.model.graph import JobEdge, JobGraph, JobVertex
from tidegate.model.ids import OperatorId, VertexId


class VertexFinished(Enum):
    ALL_RUNNING = "all running"
    PARTLY_FINISHED = "partly finished"
    FULLY_FINISHED = "fully finished"


def finished_conflicts(graph: JobGraph, manifest: CheckpointManifest) -> dict[OperatorId, str]:
    """Why a vertex cannot start as it was, by the first of its operators that the checkpoint knows; empty: everything fits."""
    if not any(state.finished for state in manifest.operators):
        return {}
    states = {state.operator_id: state for state in manifest.operators}
    vertices = {vertex.vertex_id: vertex for vertex in graph.vertices}
    conflicts: dict[OperatorId, str] = {}
    found: dict[VertexId, VertexFinished] = {}
    for vertex in graph.vertices:
        kinds = {_kind(states.get(op.operator_id)) for op in vertex.operators}
        if len(kinds) > 1:
            conflicts[_known(vertex, states)] = (
                f"operators chained in {vertex.name!r} had not finished alike in the checkpoint; keep their chains as they were, "
                "or start from a checkpoint that was taken before anything finished"
            )
        found[vertex.vertex_id] = min(kinds, key=list(VertexFinished).index)
    for edge in graph.edges:
        reason = _conflict(edge, vertices, found)
        if reason:
            conflicts.setdefault(_known(vertices[edge.target], states), reason)
    return conflicts


def _conflict(edge: JobEdge, vertices: dict[VertexId, JobVertex], found: dict[VertexId, VertexFinished]) -> str:
    source, target = found[edge.source], found[edge.target]
    fits = {
        VertexFinished.ALL_RUNNING: True,
        VertexFinished.FULLY_FINISHED: source is VertexFinished.FULLY_FINISHED,
        VertexFinished.PARTLY_FINISHED: source is not VertexFinished.ALL_RUNNING
        if edge.partitioner.is_pointwise
        else source is VertexFinished.FULLY_FINISHED,
    }[target]
    if fits:
        return ""
    return (
        f"{vertices[edge.target].name!r} was {target.value} in the checkpoint, but its producer "
        f"{vertices[edge.source].name!r} is {source.value}: it would get data after its end; give new operators that feed it "
        "a place behind it, or start from a checkpoint that was taken before anything finished"
    )


def _kind(state: OperatorState | None) -> VertexFinished:
    if state is None or not state.finished:
        return VertexFinished.ALL_RUNNING
    is_full = len(state.finished) == state.parallelism
    return VertexFinished.FULLY_FINISHED if is_full else VertexFinished.PARTLY_FINISHED


def _known(vertex: JobVertex, states: dict[OperatorId, OperatorState]) -> OperatorId:
    """Returns an operator of the vertex that is in the checkpoint; there is one, unless all of the vertex had finished."""
    return next(op.operator_id for op in vertex.operators if op.operator_id in states)
