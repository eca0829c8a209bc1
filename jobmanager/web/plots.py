"""Records metrics of running jobs for the page's plots: of jobs, vertices, subtasks and functions, once in a step.

An ended job keeps its plots until the JobManager drops it. All metrics are from reports of TaskManagers; none is asked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from tidegate.jobmanager.machines.views import CheckpointView, JobView, VertexView
from tidegate.jobmanager.rest.backend import Backend, MetricStore
from tidegate.jobmanager.web.checkpoint_causes import CheckpointCauses
from tidegate.jobmanager.web.findings import JobFinding, SubtaskLoad, VertexLoad, decide_findings
from tidegate.jobmanager.web.job_parts import rates_of
from tidegate.jobmanager.web.series import JOB, STEP_MS, Scope, Series
from tidegate.model.channel_events import END_OF_TIME
from tidegate.model.ids import JobId, VertexId
from tidegate.model.values import JsonObject
from tidegate.wire.task_metrics import PROFILE, RESIDENT_MEMORY

LOOK_MS = 1_000
"""How often checkpoints in progress are looked at, in ms; metrics are recorded every fifth time."""
RECENT_STEPS = 12
"""Findings about rates are over these steps, a minute; half of them must have been reported."""
_START_OF_TIME_MS = -(2**62)
"""Watermarks below this are those of sources that emitted none."""

Checkpointed = Mapping[Scope, tuple[float, float]]
"""Bytes of state and duration in ms of the last completed checkpoint, by scope."""

_log = logging.getLogger(__name__)


class Plots:
    """Records the series of running jobs, and holds them for the page until the JobManager drops the job."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._series: dict[JobId, Series] = {}
        self._checkpointed: dict[JobId, tuple[int, Checkpointed]] = {}
        self._found: dict[JobId, tuple[int, list[JobFinding]]] = {}
        """Findings by job, with the step of the series that they are of."""
        self._due_ms = 0
        self.causes = CheckpointCauses(backend.measures)

    async def run(self) -> None:
        """Records until it is cancelled."""
        while True:
            try:
                self.look(self._backend.now_ms())
            except Exception:  # noqa: BLE001  (a driver: metrics for a page must not end the endpoint)
                _log.exception("metrics could not be recorded for plots")
            await asyncio.sleep(LOOK_MS / 1000)

    def look(self, now_ms: int) -> None:
        """Notes why checkpoints in progress wait; once in a step it records all metrics."""
        jobs = self._backend.views.jobs()
        running = [job for job in jobs if not job.state.is_terminal]
        for job in running:
            if job.checkpoints.in_progress:
                self.causes.note(job)
        if now_ms < self._due_ms:
            return
        self._due_ms = now_ms + STEP_MS
        known = {job.job_id for job in jobs}
        self.causes.keep(known)
        self._series = {job_id: series for job_id, series in self._series.items() if job_id in known}
        self._checkpointed = {job_id: kept for job_id, kept in self._checkpointed.items() if job_id in known}
        self._found = {job_id: kept for job_id, kept in self._found.items() if job_id in known}
        for job in running:
            self._series.setdefault(job.job_id, Series()).record(now_ms, self._samples(job, now_ms))

    def answer(self, job_id: JobId, vertex_id: str, subtask: int) -> JsonObject:
        """Returns the series of a job (``vertex_id`` is empty), of a vertex (``subtask`` is -1) or of a subtask."""
        series = self._series.get(job_id, Series())
        return {"step_ms": STEP_MS, "end_ms": series.last_ms, "series": series.show((vertex_id, subtask))}

    def findings(self, job: JobView) -> list[JsonObject]:
        """Returns what is wrong with how a running job works, as JSON."""
        return [
            {
                "kind": each.kind,
                "vertex": each.vertex_id,
                "subtask": each.subtask,
                "sentence": each.sentence,
                "advice": each.advice,
            }
            for each in self._findings(job)
        ]

    def findings_of(self, job_id: JobId) -> Sequence[JobFinding]:
        """Returns what is wrong with how a running job works; of one that is unknown or over, nothing."""
        job = self._backend.views.job(job_id)
        return () if job is None else self._findings(job)

    def _findings(self, job: JobView) -> Sequence[JobFinding]:
        """Returns the findings of this step; once in a step they are looked for again."""
        series = self._series.get(job.job_id)
        if series is None or job.state.is_terminal:
            return ()
        kept = self._found.get(job.job_id)
        if kept is None or kept[0] != series.steps:
            metrics = [_metrics(job, vertex, series, self._backend.measures) for vertex in job.vertices]
            kept = self._found[job.job_id] = (series.steps, decide_findings(metrics))
        return kept[1]

    def _samples(self, job: JobView, now_ms: int) -> Iterator[tuple[Scope, Mapping[str, float]]]:
        measures, checkpointed = self._backend.measures, self._last(job)
        by_vertex = {vertex.vertex_id: _of_vertex(vertex, measures, now_ms) for vertex in job.vertices}
        yield JOB, _of_job(job, by_vertex) | _state(checkpointed, JOB)
        for vertex in job.vertices:
            scope = (vertex.vertex_id, -1)
            yield scope, by_vertex[vertex.vertex_id] | _state(checkpointed, scope) | _user(vertex, measures)
        for vertex in job.vertices:
            for subtask in vertex.subtasks:
                alone = VertexView(vertex.vertex_id, vertex.name, 1, 1, (subtask,))
                scope = (vertex.vertex_id, subtask.index)
                yield scope, _of_vertex(alone, measures, now_ms) | _state(checkpointed, scope) | _user(alone, measures)

    def _last(self, job: JobView) -> Checkpointed:
        """Returns sizes and durations of the last completed checkpoint, computed once for each."""
        view = job.checkpoints.last_completed
        if view is None:
            return {}
        kept = self._checkpointed.get(job.job_id)
        if kept is None or kept[0] != view.checkpoint_id:
            kept = self._checkpointed[job.job_id] = (view.checkpoint_id, _checkpointed(view))
        return kept[1]


def _checkpointed(view: CheckpointView) -> Checkpointed:
    found: dict[Scope, tuple[float, float]] = {}
    took_ms = 0 if view.end_ms is None else view.end_ms - view.trigger_ms
    found[JOB] = (float(view.size_bytes), float(took_ms))
    for part in view.subtasks:
        size, took = float(part.size_bytes), float(max(0, part.ack_ms - view.trigger_ms))
        vertex = (part.attempt.vertex_id, -1)
        before = found.get(vertex, (0.0, 0.0))
        found[vertex] = (before[0] + size, max(before[1], took))
        found[part.attempt.vertex_id, part.attempt.subtask] = (size, took)
    return found


def _metrics(job: JobView, vertex: VertexView, series: Series, measures: MetricStore) -> VertexLoad:
    """Returns the metrics of a vertex from which findings are decided; without subtasks where one of them has too few reports."""
    rates = rates_of(vertex, measures) or {}
    inputs = job.graph.inputs_of(vertex.vertex_id)
    rows = "in_s" if inputs else "out_s"
    recent: dict[int, dict[str, list[float]]] = {}
    for subtask in vertex.subtasks:
        scope = (vertex.vertex_id, subtask.index)
        values = {name: series.values(scope, name, RECENT_STEPS) for name in (rows, "busy", "backpressured")}
        if min(map(len, values.values())) >= RECENT_STEPS // 2:
            recent[subtask.index] = values
    is_whole = len(recent) == len(vertex.subtasks)
    return VertexLoad(
        vertex.vertex_id,
        vertex.name,
        tuple(
            SubtaskLoad(index, fmean(values[rows]), fmean(values["busy"]), fmean(values["backpressured"]))
            for index, values in recent.items()
        )
        if is_whole
        else (),
        min((len(values[rows]) for values in recent.values()), default=0) * STEP_MS,
        tuple((edge.source, edge.partitioner) for edge in inputs),
        {name: highest for name, (highest, _) in rates.get("operators", {}).items()},
        series.values((vertex.vertex_id, -1), "state_bytes"),
        STEP_MS,
    )


def _state(checkpointed: Checkpointed, scope: Scope) -> dict[str, float]:
    if scope not in checkpointed:
        return {}
    size, took_ms = checkpointed[scope]
    return {"state_bytes": size, "checkpoint_ms": took_ms}


def _of_vertex(vertex: VertexView, measures: MetricStore, now_ms: int) -> dict[str, float]:
    rates = rates_of(vertex, measures)
    if rates is None:
        return {}
    found: dict[str, float] = {name: float(rates[name]) for name in ("in_s", "out_s", "late") if name in rates}
    found |= {name: float(rates[name][0]) for name in ("busy", "backpressured", "idle") if name in rates}
    metrics = (measures.metrics_of(subtask.current.attempt) for subtask in vertex.subtasks)
    memory = [
        counters.figures[RESIDENT_MEMORY] for counters in metrics if counters and RESIDENT_MEMORY in counters.figures
    ]
    found |= {"memory_bytes": sum(memory)} if memory else {}
    mark_ms = rates["watermark_ms"]
    if mark_ms is not None and _START_OF_TIME_MS < mark_ms < END_OF_TIME:
        found["lag_ms"] = float(now_ms - mark_ms)
    return found


def _of_job(job: JobView, by_vertex: Mapping[VertexId, Mapping[str, float]]) -> dict[str, float]:
    reported = [values for values in by_vertex.values() if values]
    if not reported:
        return {}
    targets = {edge.target for edge in job.graph.edges}
    sources = {edge.source for edge in job.graph.edges}
    lags = [values["lag_ms"] for values in reported if "lag_ms" in values]
    memory = [values["memory_bytes"] for values in reported if "memory_bytes" in values]
    return {
        "in_s": sum(values.get("out_s", 0.0) for vertex_id, values in by_vertex.items() if vertex_id not in targets),
        "out_s": sum(values.get("in_s", 0.0) for vertex_id, values in by_vertex.items() if vertex_id not in sources),
        "late": sum(values["late"] for values in reported),
        **({"memory_bytes": sum(memory)} if memory else {}),
        "busy": max(values.get("busy", 0.0) for values in reported),
        "backpressured": max(values.get("backpressured", 0.0) for values in reported),
        **({"lag_ms": max(lags)} if lags else {}),
    }


def _user(vertex: VertexView, measures: MetricStore) -> dict[str, float]:
    """Returns metrics of functions by ``operator.name``, summed over subtasks."""
    found: dict[str, float] = {}
    for subtask in vertex.subtasks:
        counters = measures.metrics_of(subtask.current.attempt)
        for name, value in {} if counters is None else counters.user.items():
            if not name.startswith(PROFILE):
                found[f"user.{name}"] = found.get(f"user.{name}", 0.0) + value
    return found
