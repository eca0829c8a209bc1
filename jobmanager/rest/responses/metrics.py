"""Metrics of the JobManager, jobs, vertices and subtasks, under Flink's names where it has them.

An unknown name is left out, as in Flink; values are texts. Rates cover the last seconds between two reports of
the TaskManager, and are absent before the second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidegate.jobmanager.machines.views import AttemptView, ClusterView, JobView, VertexView
from tidegate.jobmanager.rest.backend import Backend
from tidegate.jobmanager.rest.http.errors import RestError
from tidegate.jobmanager.rest.http.request import RestRequest, bad_query
from tidegate.jobmanager.rest.numbers import number, skew_percent
from tidegate.jobmanager.rest.responses.checkpoints import checkpoint_item
from tidegate.jobmanager.rest.routes import Answer, Handler
from tidegate.model.states import ExecutionState, JobState
from tidegate.model.values import JsonObject
from tidegate.wire.task_metrics import Value, named, of_operators

Metrics = Mapping[str, Value]
DEPLOYING, RUNNING, FINISHED = ExecutionState.DEPLOYING, ExecutionState.RUNNING, ExecutionState.FINISHED

_TIMES_IN_STATE = {
    "initializingTime": JobState.INITIALIZING,
    "createdTime": JobState.CREATED,
    "runningTime": JobState.RUNNING,
    "restartingTime": JobState.RESTARTING,
    "failingTime": JobState.FAILING,
    "cancellingTime": JobState.CANCELLING,
}
_NOT_IN_PATHS = str.maketrans(dict.fromkeys(" .:,", "_"))
_AGGREGATIONS: dict[str, Callable[[Sequence[float]], float]] = {
    "min": min,
    "max": max,
    "avg": lambda values: sum(values) / len(values),
    "sum": sum,
    "skew": skew_percent,
}


def cluster_metrics(cluster: ClusterView, jobs: Sequence[JobView]) -> Metrics:
    return {
        "numRunningJobs": sum(not job.state.is_terminal for job in jobs),
        "taskSlotsTotal": cluster.slots_total,
        "taskSlotsAvailable": cluster.slots_free,
        "numRegisteredTaskManagers": len(cluster.task_managers),
    }


def job_metrics(job: JobView, now_ms: int) -> Metrics:
    """Returns the metrics of a job. Metrics of the last completed checkpoint are -1 until a checkpoint has completed, as in Flink."""
    checkpoints = job.checkpoints
    last = checkpoints.last_completed
    item = None if last is None else checkpoint_item(last)
    restored_ms = checkpoints.last_restored_ms
    return {
        "numRestarts": job.restarts,
        "numRescales": job.rescales,
        "numberOfCompletedCheckpoints": checkpoints.completed,
        "numberOfFailedCheckpoints": checkpoints.failed,
        "numberOfInProgressCheckpoints": checkpoints.in_progress,
        "totalNumberOfCheckpoints": checkpoints.completed + checkpoints.failed + checkpoints.in_progress,
        "lastCompletedCheckpointId": -1 if last is None else last.checkpoint_id,
        "lastCheckpointDuration": -1 if item is None else item["end_to_end_duration"],
        "lastCheckpointSize": -1 if item is None else item["checkpointed_size"],
        "lastCheckpointFullSize": -1 if item is None else item["state_size"],
        "lastCheckpointMetadataSize": -1 if last is None else last.metadata_bytes,
        "lastCheckpointProcessedData": -1 if item is None else item["processed_data"],
        "lastCheckpointPersistedData": -1 if item is None else item["persisted_data"],
        "lastCheckpointExternalPath": "n/a" if item is None else item["external_path"],
        "lastCheckpointCompletedTimestamp": -1 if last is None or last.end_ms is None else last.end_ms,
        "lastCheckpointRestoreTimestamp": -1 if restored_ms is None else restored_ms,
        **{name: _time_in(job, state, now_ms) for name, state in _TIMES_IN_STATE.items()},
        **_deployment_times(job, now_ms),
        "uptime": -1 if job.state.is_terminal else _time_in(job, JobState.RUNNING, now_ms),
        "downtime": _downtime_ms(job, now_ms),
    }


def subtask_metrics(attempt: AttemptView, backend: Backend) -> Metrics:
    """Returns the metrics of the current attempt; user metrics have their own names."""
    counters = backend.measures.metrics_of(attempt.attempt)
    if counters is None:
        return {}
    span = backend.measures.span_of(attempt.attempt)
    return {**named(counters, span), **{_in_path(name): value for name, value in of_operators(counters, span).items()}}


def vertex_metrics(vertex: VertexView, backend: Backend) -> Metrics:
    """Returns the metrics of all subtasks, each name prefixed with its subtask."""
    return {
        f"{subtask.index}.{name}": value
        for subtask in vertex.subtasks
        for name, value in subtask_metrics(subtask.current, backend).items()
    }


def of_what_is_known(answer: Handler) -> Handler:
    """Wraps a handler: an unknown job, vertex, subtask or TaskManager is an empty list and no error, as in Flink
    (``AbstractMetricsHandler.java``).
    """

    def answered(request: RestRequest) -> Answer:
        try:
            return answer(request)
        except RestError as error:
            if error.status == 400:
                raise
            return []

    return answered


def collection(found: Metrics, request: RestRequest) -> list[JsonObject]:
    """Answers a metrics path: the names, or with ``get`` the values of those that exist."""
    names = request.listed("get")
    if names is None:
        return [] if "get" in request.query else [{"id": name} for name in found]
    return [{"id": name, "value": _text(found[name])} for name in dict.fromkeys(names) if name in found]


def aggregation(parts: Sequence[Metrics], request: RestRequest) -> list[JsonObject]:
    """Answers a path that aggregates metrics over several components; texts are left out."""
    wanted = request.query["agg"].split(",") if "agg" in request.query else list(_AGGREGATIONS)
    for name in wanted:
        if name.lower() not in _AGGREGATIONS:
            raise bad_query("agg", name, f"one of {', '.join(_AGGREGATIONS)}")
    kinds = [name for name in _AGGREGATIONS if name in {text.lower() for text in wanted}]
    names = request.listed("get")
    if names is None:
        return [{"id": name} for name in dict.fromkeys(name for part in parts for name in part)]
    answer = []
    for name in dict.fromkeys(names):
        values = [float(part[name]) for part in parts if isinstance(part.get(name), int | float)]
        if values:
            answer.append({"id": name, **{kind: number(float(_AGGREGATIONS[kind](values))) for kind in kinds}})
    return answer


def _in_path(name: str) -> str:
    """Replaces characters in the operator's part of a metric name as Flink does (``MetricQueryService.replaceInvalidChars``)."""
    operator, dot, metric = name.rpartition(".")
    return operator.translate(_NOT_IN_PATHS) + dot + metric


def _time_in(job: JobView, state: JobState, now_ms: int) -> int:
    """Returns how long the job has been in a state, in ms; 0 when it is in another."""
    return now_ms - job.state_timestamps_ms[state] if job.state is state else 0


def _deployment_times(job: JobView, now_ms: int) -> Metrics:
    """Returns how long subtasks have been deploying, and how long all have been running or finished, in ms; 0 when it is not so
    (``DeploymentStateTimeMetrics.java``, ``AllSubTasksRunningOrFinishedStateTimeMetrics.java``).
    """
    current = [subtask.current for vertex in job.vertices for subtask in vertex.subtasks]
    began = [a.state_timestamps_ms[DEPLOYING] for a in current if a.state is DEPLOYING]
    run = [a.state_timestamps_ms.get(RUNNING, job.start_ms) for a in current]
    all_run = bool(current) and all(a.state in (RUNNING, FINISHED) for a in current) and not job.state.is_terminal
    return {
        "deployingTime": now_ms - min(began) if began else 0,
        "allSubTasksRunningOrFinishedTime": now_ms - max(run) if all_run else 0,
    }


def _downtime_ms(job: JobView, now_ms: int) -> int:
    if job.state.is_terminal:
        return -1
    since = job.state_timestamps_ms.get(JobState.RESTARTING)
    return now_ms - since if job.state is JobState.RESTARTING and since is not None else 0


def _text(value: Value) -> str:
    return str(number(value)) if isinstance(value, float) else str(value)
