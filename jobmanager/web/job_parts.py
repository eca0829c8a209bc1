"""The job parts of the page: the graph, rates, the subtasks of one vertex, failures.

Jobs are shown by vertex: the size of the parts does not grow with the number of subtasks, except for the one vertex whose
subtasks are shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.jobmanager.machines.views import JobView, SubtaskView, VertexView
from tidegate.jobmanager.rest.backend import Backend, MetricStore
from tidegate.jobmanager.rest.fault_service import FaultService
from tidegate.jobmanager.rest.numbers import skew_percent
from tidegate.jobmanager.rest.responses.exceptions import failures
from tidegate.jobmanager.rest.responses.faults import fault_entries
from tidegate.jobmanager.rest.responses.tasks import aggregate_state, user_accumulators
from tidegate.model.rescaling.history import Rescale
from tidegate.model.values import JsonObject
from tidegate.pb.common_pb2 import TaskMetrics
from tidegate.wire.task_metrics import RESIDENT_MEMORY, ReadingSpan, busy_operators, failing_commits

MAX_EXCEPTIONS = 20
"""How many exceptions the page shows; REST has all that are kept."""


def job_head(job: JobView) -> JsonObject:
    """Returns what a list and the job's own page both show."""
    return {
        "id": job.job_id,
        "name": job.name,
        "state": job.state.value,
        "start_ms": job.start_ms,
        "end_ms": job.end_ms,
        "restarts": job.restarts,
        "waiting_for": job.waiting_for,
        "starting_since_ms": job.starting_since_ms,
        "failure": None if job.failure is None else job.failure.message,
    }


def job_part(job: JobView, backend: Backend) -> JsonObject:
    return {
        **job_head(job),
        "times_ms": {state.value: at_ms for state, at_ms in job.state_timestamps_ms.items()},
        "has_savepoint_directory": backend.has_savepoint_directory(job.job_id),
        "vertices": [_vertex(job, vertex) for vertex in job.vertices],
        "edges": [
            {"source": edge.source, "target": edge.target, "partitioner": edge.partitioner.value}
            for edge in job.graph.edges
        ],
        "rescales": [_rescale(one) for one in job.rescale_history.history] if job.rescale_history is not None else [],
    }


def _rescale(rescale: Rescale) -> JsonObject:
    reason = rescale.reason
    return {
        "id": rescale.rescale_id,
        "trigger": rescale.trigger.value,
        "start_ms": rescale.started_ms,
        "end_ms": rescale.ended_ms,
        "outcome": None if reason is None else reason.terminal_state.name,
        "reason": None if reason is None else reason.value,
        "states": [span.state.value for span in rescale.spans],
        "vertices": [
            {"name": vertex.name, "before": vertex.before, "after": vertex.after, "upper": vertex.bounds.upper}
            for vertex in rescale.vertices
        ],
    }


def rates_part(job: JobView, measures: MetricStore) -> JsonObject:
    """Returns rates by vertex id; a vertex without reports is absent."""
    found = ((vertex.vertex_id, rates_of(vertex, measures)) for vertex in job.vertices)
    return {vertex_id: rates for vertex_id, rates in found if rates is not None}


def subtasks_part(vertex: VertexView, measures: MetricStore) -> JsonObject:
    return {"vertex": vertex.vertex_id, "rows": [_subtask(subtask, measures) for subtask in vertex.subtasks]}


def accumulators_part(job: JobView, measures: MetricStore) -> JsonObject:
    """Returns accumulators, values as texts, of the job and by vertex; subtasks are merged."""
    metrics = {
        vertex.vertex_id: [measures.metrics_of(subtask.current.attempt) for subtask in vertex.subtasks]
        for vertex in job.vertices
    }
    by_vertex = {vertex_id: user_accumulators(parts) for vertex_id, parts in metrics.items()}
    return {
        "job": user_accumulators([part for parts in metrics.values() for part in parts]),
        "vertices": {vertex_id: found for vertex_id, found in by_vertex.items() if found},
    }


def exceptions_part(job: JobView, faults: FaultService | None) -> JsonObject:
    return failures(job, MAX_EXCEPTIONS, fault_entries(faults, job))


def _vertex(job: JobView, vertex: VertexView) -> JsonObject:
    declared = job.graph.vertex(vertex.vertex_id)
    return {
        "id": vertex.vertex_id,
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "max_parallelism": vertex.max_parallelism,
        "state": aggregate_state(subtask.current.state for subtask in vertex.subtasks).value,
        "tasks": {state.value: count for state, count in vertex.tasks.items()},
        "operators": [operator.name for operator in declared.operators],
        "group": declared.slot_sharing_group,
    }


def rates_of(vertex: VertexView, measures: MetricStore) -> JsonObject | None:
    """Returns sums of rates, the highest and the mean share of time, and the lowest watermark of a subtask; ``None`` before a report.

    Ended attempts have counts, and no rates.
    """
    attempts = [subtask.current.attempt for subtask in vertex.subtasks]
    living = [subtask.current.attempt for subtask in vertex.subtasks if not subtask.current.state.is_terminal]
    counters = [found for found in map(measures.metrics_of, attempts) if found is not None]
    if not counters:
        return None
    spans = [span for span in map(measures.span_of, living) if span is not None]
    marks = [metrics.watermark_ms for metrics in counters if metrics.HasField("watermark_ms")]
    return {
        "records_in": sum(metrics.records_in for metrics in counters),
        "records_out": sum(metrics.records_out for metrics in counters),
        "late": sum(metrics.late_records_dropped for metrics in counters),
        "failing_commits_ms": max(ms for metrics in counters for ms in (0, *failing_commits(metrics).values())),
        "watermark_ms": min(marks) if len(marks) == len(counters) else None,
        **(_per_second(spans) if spans else {}),
    }


def _per_second(spans: Sequence[ReadingSpan]) -> JsonObject:
    incoming = [span.per_second("records_in") for span in spans]
    return {
        "in_s": round(sum(incoming), 1),
        "out_s": _sum(spans, "records_out"),
        "bytes_in_s": _sum(spans, "bytes_in"),
        "bytes_out_s": _sum(spans, "bytes_out"),
        "busy": _shares(spans, "busy_ms"),
        "backpressured": _shares(spans, "backpressured_ms"),
        "idle": _shares(spans, "idle_ms"),
        "operators": _busy_operators(spans),
        "skew": round(skew_percent(incoming)) if len(incoming) > 1 else 0,
    }


def _sum(spans: Sequence[ReadingSpan], counter: str) -> float:
    return round(sum(span.per_second(counter) for span in spans), 1)


def _shares(spans: Sequence[ReadingSpan], counter: str) -> list[float]:
    """Returns the highest and the mean share, between 0 and 1."""
    shares = [_share(span, counter) for span in spans]
    return [round(max(shares), 3), round(sum(shares) / len(shares), 3)]


def _share(span: ReadingSpan, counter: str) -> float:
    return min(1.0, span.per_second(counter) / 1000)


def _busy_operators(spans: Sequence[ReadingSpan]) -> dict[str, list[float]]:
    """Returns the highest and the mean share of a subtask's time by operator."""
    by_name: dict[str, list[float]] = {}
    for span in spans:
        for name, share in sorted(busy_operators(span).items()):
            by_name.setdefault(name, []).append(share)
    return {name: [round(max(shares), 3), round(sum(shares) / len(spans), 3)] for name, shares in by_name.items()}


def _subtask(subtask: SubtaskView, measures: MetricStore) -> JsonObject:
    current = subtask.current
    return {
        "index": subtask.index,
        "attempt": current.attempt.attempt,
        "state": current.state.value,
        "task_manager": current.task_manager_id,
        "host": current.host,
        "start_ms": current.start_ms,
        "end_ms": current.end_ms,
        "earlier": [
            [view.attempt.attempt, view.state.value, view.start_ms, view.end_ms, view.host]
            for view in subtask.earlier
            if view.start_ms is not None
        ],
        **_measured(
            measures.metrics_of(current.attempt),
            None if current.state.is_terminal else measures.span_of(current.attempt),
        ),
    }


def _measured(counters: TaskMetrics | None, span: ReadingSpan | None) -> JsonObject:
    if counters is None:
        return {}
    found: JsonObject = {
        "records_in": counters.records_in,
        "records_out": counters.records_out,
        "watermark_ms": counters.watermark_ms if counters.HasField("watermark_ms") else None,
    }
    if RESIDENT_MEMORY in counters.figures:
        found["memory_mib"] = round(counters.figures[RESIDENT_MEMORY] / (1 << 20))
    if span is not None:
        found |= {
            "operators": {name: round(share, 3) for name, share in sorted(busy_operators(span).items())},
            "in_s": round(span.per_second("records_in"), 1),
            "out_s": round(span.per_second("records_out"), 1),
            "busy": round(_share(span, "busy_ms"), 3),
            "backpressured": round(_share(span, "backpressured_ms"), 3),
        }
    return found
