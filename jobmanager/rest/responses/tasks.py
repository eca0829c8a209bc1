"""Parts of answers about tasks that several paths share: states, counters, durations, endpoints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tidegate.jobmanager.machines.views import AttemptView
from tidegate.jobmanager.rest.numbers import aggregate
from tidegate.model.ids import TaskManagerId
from tidegate.model.states import ExecutionState
from tidegate.model.values import JsonObject
from tidegate.pb.common_pb2 import TaskMetrics
from tidegate.wire.accumulators import merged_of

UNASSIGNED = "(unassigned)"
_DURATIONS = ("CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING")
_COUNTERS = {
    "read-bytes": "bytes_in",
    "write-bytes": "bytes_out",
    "read-records": "records_in",
    "write-records": "records_out",
}
_TIMES = {
    "accumulated-backpressured-time": "backpressured_ms",
    "accumulated-idle-time": "idle_ms",
    "accumulated-busy-time": "busy_ms",
}


def state_counts(states: Iterable[ExecutionState]) -> dict[str, int]:
    """Counts tasks by every state that Flink has; RECONCILING never occurs here."""
    found = Counter(states)
    return {**{state.value: found[state] for state in ExecutionState}, "RECONCILING": 0}


def aggregate_state(states: Iterable[ExecutionState]) -> ExecutionState:
    """Returns the state of a vertex (``ExecutionJobVertex.getAggregateJobVertexState``)."""
    found = set(states)
    for state in ("FAILED", "CANCELING", "CANCELED", "INITIALIZING", "RUNNING"):
        if ExecutionState(state) in found:
            return ExecutionState(state)
    if ExecutionState.FINISHED in found:
        return ExecutionState.FINISHED if len(found) == 1 else ExecutionState.RUNNING
    return ExecutionState.CREATED


def io_metrics(parts: Sequence[TaskMetrics | None]) -> JsonObject:
    """Returns sums over tasks; ``...-complete`` says whether every one of them has reported."""
    known = [part for part in parts if part is not None]
    answer: JsonObject = {}
    for name, counter in _COUNTERS.items():
        answer[name] = sum(getattr(part, counter) for part in known)
        answer[f"{name}-complete"] = len(known) == len(parts)
    for name, counter in _TIMES.items():
        answer[name] = sum(getattr(part, counter) for part in known)
    answer["accumulated-busy-time"] = float(answer["accumulated-busy-time"])
    return answer


def user_accumulators(parts: Iterable[TaskMetrics | None]) -> list[JsonObject]:
    """Returns the accumulators of several tasks merged, with values as texts (``StringifiedAccumulatorResult.java``)."""
    return [
        {"name": name, "type": type(found).__name__, "value": found.shown()} for name, found in merged_of(parts).items()
    ]


def timespan(attempts: Sequence[AttemptView], now_ms: int) -> JsonObject:
    """Returns ``start-time``, ``end-time`` (-1 until all are over) and ``duration`` of a group of tasks."""
    starts = [attempt.start_ms for attempt in attempts if attempt.start_ms is not None]
    ends = [attempt.end_ms for attempt in attempts if attempt.end_ms is not None]
    start = min(starts, default=-1)
    end = max(ends) if ends and len(ends) == len(attempts) else -1
    duration = -1 if start < 0 else (now_ms if end < 0 else end) - start
    return {"start-time": start, "end-time": end, "duration": duration}


def status_durations(attempt: AttemptView, now_ms: int) -> dict[str, int]:
    """Returns how long the attempt was in each state on the way to RUNNING, in ms; -1: never (``StatusDurationUtils``)."""
    entered = sorted(attempt.state_timestamps_ms.items(), key=lambda item: (item[1], _ORDER[item[0]]))
    durations = dict.fromkeys(_DURATIONS, -1)
    for (state, at_ms), following in zip(entered, [*entered[1:], None], strict=True):
        if state.value in durations:
            durations[state.value] = (following[1] if following else now_ms) - at_ms
    return durations


def state_timestamps(attempt: AttemptView) -> dict[str, int]:
    """Returns when the attempt entered each state; 0: never."""
    times = {state.value: attempt.state_timestamps_ms.get(state, 0) for state in ExecutionState}
    return {**times, "RECONCILING": 0}


def endpoint(attempt: AttemptView, endpoints: Mapping[TaskManagerId, str]) -> str:
    """Returns the address of the attempt's TaskManager; of one that is lost, its id."""
    if attempt.task_manager_id is None:
        return UNASSIGNED
    return endpoints.get(attempt.task_manager_id, attempt.task_manager_id)


def aggregated(metrics: Sequence[JsonObject], durations: Sequence[Mapping[str, int]]) -> JsonObject:
    """Returns statistics over tasks: metrics, and durations by state as far as there are any."""
    found: dict[str, list[int]] = {}
    for part in durations:
        for state, duration_ms in part.items():
            if duration_ms >= 0:
                found.setdefault(state, []).append(duration_ms)
    names = (*_COUNTERS, *_TIMES)
    return {
        "metrics": {name: aggregate([int(part[name]) for part in metrics]) for name in names},
        "status-duration": {state: aggregate(values) for state, values in found.items()},
    }


_ORDER = {state: place for place, state in enumerate(ExecutionState)}
