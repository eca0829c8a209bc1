"""Explains in words why a subtask has not acknowledged a checkpoint, from its metrics and its producers.

    it does not run ─▶ says so
    some producer has not acknowledged either ─▶ no barrier from those
    else: the barrier (of a source: the trigger) is there ─▶ its output is full, its functions are busy, or its state is being written

Metrics of TaskManagers are some seconds old at most, and change when a checkpoint is aborted: so causes are noted while it is in
progress, and the last ones stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.jobmanager.machines.views import CheckpointView, JobView, SubtaskView, VertexView
from tidegate.jobmanager.rest.backend import MetricStore
from tidegate.model.checkpoint_travel import Place, subtask_name
from tidegate.model.graph import producers_of
from tidegate.model.ids import CheckpointId, JobId
from tidegate.model.states import ExecutionState
from tidegate.wire.task_metrics import INPUT

MAX_CAUSES = 50
"""How many subtasks are explained: the page shows no more, and of a thousand that wait for one the first few say as much."""
MAX_NOTED = 20
"""For how many checkpoints of a job the causes are kept: a history of the usual length and those kept beyond it."""
MANY = 0.5
"""From this share of its time on a subtask counts as busy, or as backpressured."""
_NAMED = 3
"""How many producers are named; the others are counted."""


class CheckpointCauses:
    """Remembers why subtasks were late in each checkpoint, by job and checkpoint."""

    def __init__(self, measures: MetricStore) -> None:
        self._measures = measures
        self._noted: dict[JobId, dict[CheckpointId, Mapping[Place, str]]] = {}

    def note(self, job: JobView) -> None:
        """Notes the causes of checkpoints in progress."""
        for view in job.checkpoints.history:
            if view.status == "IN_PROGRESS":
                noted = self._noted.setdefault(job.job_id, {})
                noted[view.checkpoint_id] = causes_of(job, view, self._measures)
                while len(noted) > MAX_NOTED:
                    del noted[min(noted)]

    def of(self, job: JobView, view: CheckpointView) -> Mapping[Place, str]:
        """Returns causes by subtask that has not acknowledged: current ones while the checkpoint is in progress, else the last noted."""
        if view.status == "IN_PROGRESS":
            self.note(job)
        return self._noted.get(job.job_id, {}).get(view.checkpoint_id, {})

    def keep(self, job_ids: Iterable[JobId]) -> None:
        """Drops the causes of all other jobs."""
        known = set(job_ids)
        self._noted = {job_id: noted for job_id, noted in self._noted.items() if job_id in known}


def missing_places(job: JobView, view: CheckpointView) -> list[tuple[VertexView, SubtaskView]]:
    """Returns subtasks that have not acknowledged, in the order of the vertices. Finished ones need not."""
    there = {(part.attempt.vertex_id, part.attempt.subtask) for part in view.subtasks}
    return [
        (vertex, subtask)
        for vertex in job.vertices
        for subtask in vertex.subtasks
        if subtask.current.state is not ExecutionState.FINISHED and (vertex.vertex_id, subtask.index) not in there
    ]


def causes_of(job: JobView, view: CheckpointView, measures: MetricStore) -> dict[Place, str]:
    missing = missing_places(job, view)
    places: set[Place] = {(vertex.vertex_id, subtask.index) for vertex, subtask in missing}
    return {
        (vertex.vertex_id, subtask.index): _cause(job, vertex, subtask, places, measures)
        for vertex, subtask in missing[:MAX_CAUSES]
    }


def _cause(job: JobView, vertex: VertexView, subtask: SubtaskView, missing: set[Place], measures: MetricStore) -> str:
    if subtask.current.state is not ExecutionState.RUNNING:
        return f"it is {subtask.current.state.value}"
    silent = _silent_producers(job, vertex, subtask, missing)
    if silent:
        more = f" and {len(silent) - _NAMED} more" if len(silent) > _NAMED else ""
        return f"no barrier has come from {', '.join(silent[:_NAMED])}{more}"
    is_source = not job.graph.inputs_of(vertex.vertex_id)
    what = "the trigger" if is_source else "the barrier"
    backpressured, busy = _share(subtask, measures, "backpressured_ms"), _share(subtask, measures, "busy_ms")
    if backpressured >= MANY:
        return f"{what} waits in it: its output is full, {_held_by(job, vertex, measures)}"
    waiting = 0.0 if is_source else _metric(subtask, measures, f"{INPUT}.Buffers.inputQueueLength")
    if waiting > 0:
        used = _metric(subtask, measures, f"{INPUT}.Buffers.inPoolUsage")
        full = "its input is full" if used >= MANY else "its input holds records"
        return (
            f"the barrier waits behind {waiting:.0f} buffers: {full}, and its functions are busy {busy:.0%} of the time"
        )
    if busy >= MANY:
        return f"{what} has reached it, and its functions are busy {busy:.0%} of the time"
    return f"{what} has reached it: one call of a function goes on, or its state is being written"


def _silent_producers(job: JobView, vertex: VertexView, subtask: SubtaskView, missing: set[Place]) -> list[str]:
    found: list[str] = []
    for edge in job.graph.inputs_of(vertex.vertex_id):
        source = job.graph.vertex(edge.source)
        producers = producers_of(edge.partitioner, source.parallelism, vertex.parallelism, subtask.index)
        found += [subtask_name(source.name, index) for index in producers if (source.vertex_id, index) in missing]
    return found


def _held_by(job: JobView, vertex: VertexView, measures: MetricStore) -> str:
    """Describes the next vertex downstream that is not backpressured itself: it slows the others down."""
    by_id = {each.vertex_id: each for each in job.vertices}
    looked, ahead = set(), [vertex.vertex_id]
    while ahead:
        current = ahead.pop(0)
        for edge in job.graph.edges:
            if edge.source != current or edge.target in looked:
                continue
            looked.add(edge.target)
            target = by_id[edge.target]
            if max(_share(each, measures, "backpressured_ms") for each in target.subtasks) < MANY:
                busy = max(_share(each, measures, "busy_ms") for each in target.subtasks)
                if busy >= MANY:
                    return f"backpressured by {target.name}, which is busy {busy:.0%} of the time"
            else:
                ahead.append(edge.target)
    return "and no busy vertex behind it is known"


def _share(subtask: SubtaskView, measures: MetricStore, counter: str) -> float:
    span = measures.span_of(subtask.current.attempt)
    return 0.0 if span is None else min(1.0, span.per_second(counter) / 1000)


def _metric(subtask: SubtaskView, measures: MetricStore, name: str) -> float:
    counters = measures.metrics_of(subtask.current.attempt)
    return 0.0 if counters is None else counters.figures.get(name, 0.0)
