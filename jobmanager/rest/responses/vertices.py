"""One vertex, its subtasks and their attempts as Flink's JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.jobmanager.machines.views import AttemptView, VertexView
from tidegate.jobmanager.rest.backend import Backend, MetricStore
from tidegate.jobmanager.rest.responses.tasks import (
    UNASSIGNED,
    aggregate_state,
    aggregated,
    endpoint,
    io_metrics,
    state_counts,
    state_timestamps,
    status_durations,
    timespan,
)
from tidegate.model.channel_events import NO_WATERMARK
from tidegate.model.ids import TaskManagerId
from tidegate.model.values import JsonObject
from tidegate.wire.task_metrics import ReadingSpan

NOT_MEASURED: JsonObject = {"status": "deprecated"}
"""Flink's answer when there is no backpressure information (``JobVertexBackPressureInfo.java``)."""
_Endpoints = Mapping[TaskManagerId, str]


def vertex_details(vertex: VertexView, measures: MetricStore, endpoints: _Endpoints, now_ms: int) -> JsonObject:
    subtasks = [subtask_details(subtask.current, measures, endpoints, now_ms) for subtask in vertex.subtasks]
    return {
        "id": vertex.vertex_id,
        "name": vertex.name,
        "parallelism": vertex.parallelism,
        "maxParallelism": vertex.max_parallelism,
        "now": now_ms,
        "subtasks": subtasks,
        "aggregated": aggregated(
            [subtask["metrics"] for subtask in subtasks], [subtask["status-duration"] for subtask in subtasks]
        ),
    }


def subtask_details(attempt: AttemptView, measures: MetricStore, endpoints: _Endpoints, now_ms: int) -> JsonObject:
    """Returns one attempt of a subtask."""
    times = timespan([attempt], now_ms)
    return {
        "subtask": attempt.attempt.subtask,
        "status": attempt.state.value,
        "attempt": attempt.attempt.attempt,
        "endpoint": endpoint(attempt, endpoints),
        **times,
        "metrics": io_metrics([measures.metrics_of(attempt.attempt)]),
        "taskmanager-id": attempt.task_manager_id or UNASSIGNED,
        "status-duration": status_durations(attempt, now_ms),
        "start_time": times["start-time"],
    }


def subtask_times(vertex: VertexView, endpoints: _Endpoints, now_ms: int) -> JsonObject:
    return {
        "id": vertex.vertex_id,
        "name": vertex.name,
        "now": now_ms,
        "subtasks": [
            {
                "subtask": subtask.index,
                "endpoint": endpoint(subtask.current, endpoints),
                "duration": _since_scheduled(subtask.current, now_ms),
                "timestamps": state_timestamps(subtask.current),
            }
            for subtask in vertex.subtasks
        ],
    }


def by_task_manager(vertex: VertexView, measures: MetricStore, endpoints: _Endpoints, now_ms: int) -> JsonObject:
    """Returns the vertex grouped by TaskManager."""
    groups: dict[str, list[AttemptView]] = {}
    for subtask in vertex.subtasks:
        groups.setdefault(subtask.current.task_manager_id or UNASSIGNED, []).append(subtask.current)
    return {
        "id": vertex.vertex_id,
        "name": vertex.name,
        "now": now_ms,
        "taskmanagers": [_group(name, group, measures, endpoints, now_ms) for name, group in groups.items()],
    }


def backpressure(vertex: VertexView, backend: Backend) -> JsonObject:
    """Returns backpressure ratios over the last seconds; ``NOT_MEASURED`` before there are any."""
    spans = [(subtask.index, backend.measures.span_of(subtask.current.attempt)) for subtask in vertex.subtasks]
    subtasks = [_pressure(index, span) for index, span in spans if span is not None]
    if not subtasks:
        return NOT_MEASURED
    level = _level(max(subtask["ratio"] for subtask in subtasks))
    return {
        "status": "ok",
        "backpressureLevel": level,
        "end-timestamp": max(span.until_ms for _, span in spans if span is not None),
        "subtasks": subtasks,
        "backpressure-level": level,
    }


def watermarks(vertex: VertexView, measures: MetricStore) -> list[JsonObject]:
    found = [(subtask.index, measures.metrics_of(subtask.current.attempt)) for subtask in vertex.subtasks]
    return [
        {
            "id": f"{index}.currentInputWatermark",
            "value": str(metrics.watermark_ms if metrics.HasField("watermark_ms") else NO_WATERMARK),
        }
        for index, metrics in found
        if metrics is not None
    ]


def _group(
    name: str, attempts: Sequence[AttemptView], measures: MetricStore, endpoints: _Endpoints, now_ms: int
) -> JsonObject:
    parts = [measures.metrics_of(attempt.attempt) for attempt in attempts]
    return {
        "endpoint": endpoint(attempts[0], endpoints),
        "status": aggregate_state(attempt.state for attempt in attempts).value,
        **timespan(attempts, now_ms),
        "metrics": io_metrics(parts),
        "status-counts": state_counts(attempt.state for attempt in attempts),
        "taskmanager-id": name,
        "aggregated": aggregated(
            [io_metrics([part]) for part in parts], [status_durations(attempt, now_ms) for attempt in attempts]
        ),
    }


def _since_scheduled(attempt: AttemptView, now_ms: int) -> int:
    """Returns the time since SCHEDULED in ms; -1 before. Flink counts from there in this path."""
    at = next((ms for state, ms in attempt.state_timestamps_ms.items() if state.value == "SCHEDULED"), None)
    return -1 if at is None else (now_ms if attempt.end_ms is None else attempt.end_ms) - at


def _pressure(index: int, span: ReadingSpan) -> JsonObject:
    ratio = _share(span, "backpressured_ms")
    return {
        "subtask": index,
        "backpressureLevel": _level(ratio),
        "ratio": ratio,
        "idleRatio": _share(span, "idle_ms"),
        "busyRatio": _share(span, "busy_ms"),
        "backpressure-level": _level(ratio),
    }


def _share(span: ReadingSpan, counter: str) -> float:
    return min(1.0, span.per_second(counter) / 1000)


def _level(ratio: float) -> str:
    return "ok" if ratio <= 0.1 else "low" if ratio <= 0.5 else "high"
