"""The check of a restore: what is done with each operator's state when a job starts from a checkpoint. The JobManager applies it to submissions, and
``tidegate savepoint check`` shows it beforehand.

    manifest ─┐                       ┌─ RESTORES         the job has the operator
              ├─ examine_restore ─▶ ──┼─ DROPPED          it has not: refused without --allow-non-restored-state
    graph ────┘                       ├─ CANNOT_BE_READ   it has, but the state does not fit it: always refused
                                      └─ STARTS_EMPTY     it has, and the checkpoint holds nothing of it

A task that had finished may not get data again:

    a fully finished vertex    needs producers that are all fully finished
    a partly finished one      needs fully finished producers where all channels exist, and producers of which at
                               least some had finished where channels are pointwise

Operators are matched by id: that of the uid, or else the one generated from the graph.
Follows Flink's ``StateAssignmentOperation.java`` (``checkStateMappingCompleteness``, ``checkParallelismPreconditions``) and
``VertexFinishedStateChecker.java``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tidegate.model.checkpoint import CheckpointManifest, InFlightEdge, OperatorState
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import JobEdge, JobGraph, JobVertex, OperatorInfo
from tidegate.model.ids import OperatorId, VertexId


class RestoreOutcome(Enum):
    """The outcome for an operator's state at a restore."""

    RESTORES = "RESTORES"
    DROPPED = "DROPPED"
    CANNOT_BE_READ = "CANNOT_BE_READ"
    STARTS_EMPTY = "STARTS_EMPTY"


@dataclass(frozen=True, slots=True)
class OperatorVerdict:
    """The outcome for one operator. ``reason``: why it is not RESTORES, and what to do; empty otherwise."""

    operator_id: OperatorId
    name: str
    uid: str
    outcome: RestoreOutcome
    reason: str = ""


def examine_restore(graph: JobGraph, manifest: CheckpointManifest) -> tuple[OperatorVerdict, ...]:
    """Returns one verdict for each operator with state, in the order of the manifest, one for each edge whose in-flight data has no edge now, then
    those for operators that start empty."""
    owners = {op.operator_id: vertex for vertex in graph.vertices for op in vertex.operators}
    conflicts = _finished_conflicts(graph, manifest)
    first_maximum: dict[VertexId, int] = {}
    verdicts = []
    for state in manifest.operators:
        owner = owners.get(state.operator_id)
        if owner is None:
            if state.subtasks:
                verdicts.append(_verdict(state, RestoreOutcome.DROPPED, _why_dropped(manifest, state)))
            continue
        reason = _why_unreadable(owner, state, first_maximum) or conflicts.get(state.operator_id, "")
        reason = reason or _why_left_over(owner, state)
        outcome = RestoreOutcome.CANNOT_BE_READ if reason else RestoreOutcome.RESTORES
        verdicts.append(_verdict(state, outcome, reason))
    verdicts += _edges_without_a_place(graph, manifest)
    known = {state.operator_id for state in manifest.operators}
    fresh = [op for vertex in graph.vertices for op in vertex.operators if op.operator_id not in known]
    return (*verdicts, *(_starts_empty(operator) for operator in fresh))


def check_restore(graph: JobGraph, manifest: CheckpointManifest, *, allow_non_restored: bool) -> JobGraph:
    """Checks a restore; returns the graph as it will run: a restored max parallelism overrides a derived one.

    Raises ``InvalidJob`` when state has no operator, or max parallelisms contradict.
    """
    raise_refusal(examine_restore(graph, manifest), allow_non_restored=allow_non_restored)
    owners = {op.operator_id: vertex.vertex_id for vertex in graph.vertices for op in vertex.operators}
    stored = {
        owners[state.operator_id]: state.max_parallelism
        for state in manifest.operators
        if state.operator_id in owners and _is_keyed(state)
    }
    vertices = tuple(
        replace(v, max_parallelism=stored[v.vertex_id]) if v.vertex_id in stored else v for v in graph.vertices
    )
    return replace(graph, vertices=vertices)


def raise_refusal(verdicts: Sequence[OperatorVerdict], *, allow_non_restored: bool) -> None:
    """Raises ``InvalidJob`` for the first verdict that refuses the job."""
    for verdict in verdicts:
        is_dropped = verdict.outcome is RestoreOutcome.DROPPED and not allow_non_restored
        if is_dropped or verdict.outcome is RestoreOutcome.CANNOT_BE_READ:
            raise InvalidJob(verdict.reason)


def places_of_edges(graph: JobGraph, edges: Sequence[InFlightEdge]) -> dict[int, JobEdge]:
    """Maps the id of each old edge to the job's edge that connects the same chains (the tail of the producing one, the head of the consuming one, and
    the input). Where several do, they are matched in order; the last stands for missing ones."""
    vertices = {vertex.vertex_id: vertex for vertex in graph.vertices}
    found: dict[tuple[OperatorId, OperatorId, int], list[JobEdge]] = {}
    for edge in graph.edges:
        source, target = vertices[edge.source].operators[-1], vertices[edge.target].operators[0]
        found.setdefault((source.operator_id, target.operator_id, edge.input_index), []).append(edge)
    places: dict[int, JobEdge] = {}
    taken: dict[tuple[OperatorId, OperatorId, int], int] = {}
    for old in sorted(edges, key=lambda e: e.edge_id):
        ends = (old.source, old.target, old.input_index)
        if ends in found:
            number = taken[ends] = taken.get(ends, -1) + 1
            places[old.edge_id] = found[ends][min(number, len(found[ends]) - 1)]
    return places


def _edges_without_a_place(graph: JobGraph, manifest: CheckpointManifest) -> list[OperatorVerdict]:
    places = places_of_edges(graph, manifest.edges)
    states = {state.operator_id: state for state in manifest.operators}

    def named(operator_id: OperatorId) -> str:
        return repr(states[operator_id].name) if operator_id in states else f"(id {operator_id})"

    def verdict(edge: InFlightEdge) -> OperatorVerdict:
        way = f"from operator {named(edge.source)} to operator {named(edge.target)}"
        reason = (
            f"checkpoint {manifest.checkpoint_id} holds data in flight {way}, which the job does not connect that way; "
            "keep both operators, their chains and that edge, start from an aligned checkpoint or a savepoint, or drop "
            "that data with --allow-non-restored-state"
        )
        target = states.get(edge.target)
        uid = target.uid if target else ""
        return OperatorVerdict(edge.target, f"data in flight {way}", uid, RestoreOutcome.DROPPED, reason)

    lost = {(e.source, e.target, e.input_index): e for e in manifest.edges if e.edge_id not in places}
    return [verdict(edge) for edge in lost.values()]


def _verdict(state: OperatorState, outcome: RestoreOutcome, reason: str = "") -> OperatorVerdict:
    return OperatorVerdict(state.operator_id, state.name, state.uid, outcome, reason)


def _starts_empty(operator: OperatorInfo) -> OperatorVerdict:
    return OperatorVerdict(operator.operator_id, operator.name, operator.uid, RestoreOutcome.STARTS_EMPTY)


def _why_left_over(vertex: JobVertex, state: OperatorState) -> str:
    """Returns why unassigned splits of a checkpoint cannot be restored; empty: the job's coordinator assigns them."""
    operator = next(op for op in vertex.operators if op.operator_id == state.operator_id)
    if state.coordinator is None or operator.splits is not None:
        return ""
    return (
        f"source '{operator.name}' has {len(state.coordinator.unassigned)} splits in the checkpoint that no reader had begun, and the "
        "source that the job has in its place cannot read them: start the job with the source that it had"
    )


def _why_dropped(manifest: CheckpointManifest, state: OperatorState) -> str:
    return (
        f"checkpoint {manifest.checkpoint_id} holds state of operator {state.name!r} (id {state.operator_id}"
        f"{', uid ' + state.uid if state.uid else ''}), which the job does not have; give the operator that "
        "uid again, or drop its state with --allow-non-restored-state"
    )


def _why_unreadable(vertex: JobVertex, state: OperatorState, first_maximum: dict[VertexId, int]) -> str:
    if not _is_keyed(state):
        return ""
    before = first_maximum.setdefault(vertex.vertex_id, state.max_parallelism)
    if vertex.max_parallelism_is_explicit and vertex.max_parallelism != state.max_parallelism:
        return (
            f"max parallelism of {vertex.name!r} is set to {vertex.max_parallelism}, but its state was written with "
            f"{state.max_parallelism}, and keys cannot move between key groups; set it to {state.max_parallelism}"
        )
    if before != state.max_parallelism:
        return (
            f"operators chained in {vertex.name!r} have state with max parallelism {before} and {state.max_parallelism}; "
            "they cannot be chained: call disable_chaining() on one of them"
        )
    if vertex.parallelism > state.max_parallelism:
        return (
            f"parallelism {vertex.parallelism} of {vertex.name!r} is above the max parallelism {state.max_parallelism} "
            "of its state; lower it"
        )
    return ""


def _is_keyed(state: OperatorState) -> bool:
    return any(snapshot.keyed for snapshot in state.subtasks.values())


# ---- tasks that had finished -------------------------------------------------------------------------------------------


class VertexFinished(Enum):
    """How many subtasks of a vertex had finished when the checkpoint was taken."""

    ALL_RUNNING = "all running"
    PARTLY_FINISHED = "partly finished"
    FULLY_FINISHED = "fully finished"


def _finished_conflicts(graph: JobGraph, manifest: CheckpointManifest) -> dict[OperatorId, str]:
    """Returns why a vertex cannot start with its restored finished state, by its first operator in the checkpoint; empty: all can."""
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
        f"{vertices[edge.source].name!r} is {source.value}: it would get data after its end; place new operators that feed it "
        "after it, or start from a checkpoint that was taken before anything finished"
    )


def _kind(state: OperatorState | None) -> VertexFinished:
    if state is None or not state.finished:
        return VertexFinished.ALL_RUNNING
    is_full = len(state.finished) == state.parallelism
    return VertexFinished.FULLY_FINISHED if is_full else VertexFinished.PARTLY_FINISHED


def _known(vertex: JobVertex, states: dict[OperatorId, OperatorState]) -> OperatorId:
    """Returns an operator of the vertex that is in the checkpoint; there is one, unless the whole vertex had finished."""
    return next(op.operator_id for op in vertex.operators if op.operator_id in states)
