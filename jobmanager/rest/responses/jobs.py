"""Jobs as Flink's JSON (as observed from Flink 2.3, not from its OpenAPI file).

Unknown values are those that Flink uses for "unknown": -1 for times, 0 for counters with ``...-complete: false``.
"""

from __future__ import annotations

import html
from collections.abc import Mapping

from tidegate.jobmanager.machines.settings import RestartSettings, job_settings
from tidegate.jobmanager.machines.views import JobView, VertexView
from tidegate.jobmanager.rest.backend import MetricStore
from tidegate.jobmanager.rest.responses.java_throwable import failure_cause
from tidegate.jobmanager.rest.responses.tasks import aggregate_state, io_metrics, state_counts, timespan
from tidegate.model.configuration import Configuration
from tidegate.model.graph import JobGraph, JobVertex, blocks_exchanges
from tidegate.model.ids import JobId, hex_id
from tidegate.model.options import (
    AdaptiveSchedulerOptions,
    ExecutionOptions,
    PipelineOptions,
    RestartStrategyOptions,
    RestartStrategyType,
    SchedulerExecutionMode,
    SchedulerType,
)
from tidegate.model.options.job import RuntimeMode
from tidegate.model.states import ExecutionState, JobState
from tidegate.model.values import JsonObject

_OBJECT_REUSE = "pipeline.object-reuse"
_RESULTS = {JobState.FINISHED: "SUCCEEDED", JobState.FAILED: "FAILED", JobState.CANCELED: "CANCELED"}


def job_type(configuration: Mapping[str, str]) -> str:
    """Returns BATCH or STREAMING; the client has resolved AUTOMATIC before."""
    mode = Configuration.from_strings(configuration).get(ExecutionOptions.RUNTIME_MODE)
    return "BATCH" if mode is RuntimeMode.BATCH else "STREAMING"


def scheduler_type(configuration: Mapping[str, str]) -> str:
    """Returns the scheduler of a job; Adaptive also for jobs in reactive mode."""
    option = Configuration.from_strings(configuration).get
    is_reactive = option(AdaptiveSchedulerOptions.MODE) is SchedulerExecutionMode.REACTIVE
    is_adaptive = is_reactive or option(AdaptiveSchedulerOptions.SCHEDULER) is SchedulerType.ADAPTIVE
    is_staged = blocks_exchanges(configuration)
    return SchedulerType.ADAPTIVE.value if is_adaptive and not is_staged else SchedulerType.DEFAULT.value


def job_item(job: JobView, now_ms: int) -> JsonObject:
    """Returns one job as in a list."""
    attempts = [subtask.current for vertex in job.vertices for subtask in vertex.subtasks]
    counts = {state.lower(): number for state, number in state_counts(a.state for a in attempts).items()}
    last = max((at for a in attempts for at in a.state_timestamps_ms.values()), default=0)
    return {
        "jid": job.job_id,
        "name": job.name,
        "jobType": job_type(job.configuration),
        "schedulerType": scheduler_type(job.configuration),
        **job_times(job, now_ms),
        "state": job.state.value,
        "last-modification": max([last, job.start_ms, *job.state_timestamps_ms.values()]),
        "tasks": {**counts, "total": len(attempts)},
        "pending-operators": 0,
    }


def job_times(job: JobView, now_ms: int) -> JsonObject:
    end_ms = job.end_ms
    return {
        "start-time": job.start_ms,
        "end-time": -1 if end_ms is None else end_ms,
        "duration": (now_ms if end_ms is None else end_ms) - job.start_ms,
    }


def job_details(job: JobView, measures: MetricStore, now_ms: int) -> JsonObject:
    vertices = [_vertex(job, vertex, measures, now_ms) for vertex in job.vertices]
    return {
        "jid": job.job_id,
        "application-id": job.job_id,
        "name": job.name,
        "isStoppable": False,
        "state": job.state.value,
        "job-type": job_type(job.configuration),
        "schedulerType": scheduler_type(job.configuration),
        **job_times(job, now_ms),
        "maxParallelism": -1,
        "now": now_ms,
        "timestamps": {state.value: job.state_timestamps_ms.get(state, 0) for state in JobState},
        "vertices": vertices,
        "status-counts": state_counts(ExecutionState(vertex["status"]) for vertex in vertices),
        "plan": plan(job.job_id, job.graph),
        "pending-operators": 0,
    }


def plan(job_id: JobId, graph: JobGraph) -> JsonObject:
    """Returns the job graph; sinks first, as Flink lists it."""
    nodes = []
    for vertex in reversed(graph.vertices):
        node: JsonObject = {
            "id": vertex.vertex_id,
            "operator": "",
            "parallelism": vertex.parallelism,
            "operator_strategy": "",
            "description": _description(vertex),
            "optimizer_properties": {},
        }
        inputs = [
            {"id": edge.source, "num": number, "exchange": "pipelined_bounded", "ship_strategy": edge.partitioner.value}
            for number, edge in enumerate(graph.inputs_of(vertex.vertex_id))
        ]
        if inputs:
            node["inputs"] = inputs
        nodes.append(node)
    return {"jid": job_id, "name": graph.name, "type": job_type(graph.configuration), "nodes": nodes}


def job_config(job: JobView) -> JsonObject:
    configuration = Configuration.from_strings(job.configuration)
    return {
        "jid": job.job_id,
        "name": job.name,
        "execution-config": {
            "restart-strategy": _restart_strategy(configuration, job_settings(job.configuration).restart),
            "job-parallelism": configuration.get(PipelineOptions.PARALLELISM),
            "object-reuse-mode": configuration.to_strings().get(_OBJECT_REUSE, "false").lower() == "true",
            "user-config": {},
        },
    }


def execution_result(job: JobView) -> JsonObject:
    """Answers the path that a waiting client polls; a failure's cause is in the form that Flink's own client reads."""
    if not job.state.is_terminal or job.end_ms is None:
        return {"status": {"id": "IN_PROGRESS"}}
    result: JsonObject = {
        "id": job.job_id,
        "name": job.name,
        "application-id": job.job_id,
        "application-status": _RESULTS[job.state],
        "accumulator-results": {},
        "net-runtime": job.end_ms - job.start_ms,
        "start-time": job.start_ms,
        "end-time": job.end_ms,
    }
    if job.state is JobState.FAILED and job.failure is not None:
        result["failure-cause"] = failure_cause(job.failure)
    return {"status": {"id": "COMPLETED"}, "job-execution-result": result}


def _vertex(job: JobView, vertex: VertexView, measures: MetricStore, now_ms: int) -> JsonObject:
    attempts = [subtask.current for subtask in vertex.subtasks]
    group = job.graph.vertex(vertex.vertex_id).slot_sharing_group
    return {
        "id": vertex.vertex_id,
        "slotSharingGroupId": hex_id(job.job_id, group),
        "name": vertex.name,
        "maxParallelism": vertex.max_parallelism,
        "parallelism": vertex.parallelism,
        "status": aggregate_state(attempt.state for attempt in attempts).value,
        **timespan(attempts, now_ms),
        "tasks": state_counts(attempt.state for attempt in attempts),
        "metrics": io_metrics([measures.metrics_of(attempt.attempt) for attempt in attempts]),
    }


def _description(vertex: JobVertex) -> str:
    """Describes a chain as a tree, one operator a line."""
    lines = []
    for depth, operator in enumerate(vertex.operators):
        lines.append(("   " * (depth - 1) + "+- " if depth else "") + html.escape(operator.name) + "<br/>")
    return "".join(lines)


def _restart_strategy(configuration: Configuration, settings: RestartSettings) -> str:
    """Describes the restart strategy as Flink's ``RestartStrategyDescriptionUtils`` does."""
    if not configuration.is_set(RestartStrategyOptions.TYPE):
        return "Cluster level default restart strategy"
    match settings.strategy:
        case RestartStrategyType.NONE:
            return "Restart deactivated."
        case RestartStrategyType.FIXED_DELAY:
            delay = java_duration(settings.fixed_delay_ms)
            return f"Restart with fixed delay ({delay}). #{settings.fixed_attempts} restart attempts."
        case RestartStrategyType.FAILURE_RATE:
            return (
                f"Failure rate restart with maximum of {settings.rate_max_failures} failures within interval "
                f"{java_duration(settings.rate_interval_ms)} and fixed delay {java_duration(settings.rate_delay_ms)}."
            )
        case RestartStrategyType.EXPONENTIAL_DELAY:
            return (
                f"Restart with exponential delay: starting at {java_duration(settings.initial_backoff_ms)}, "
                f"increasing by {settings.backoff_multiplier:f}, with maximum "
                f"{java_duration(settings.max_backoff_ms)}. Delay resets after "
                f"{java_duration(settings.reset_threshold_ms)} with jitter {settings.jitter_factor:f}"
            )


def java_duration(value_ms: int) -> str:
    """Formats a duration like ``java.time.Duration``: ``PT1H30M``, ``PT0.5S``, ``PT0S``."""
    minutes, rest_ms = divmod(value_ms, 60_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{rest_ms / 1000:.3f}".rstrip("0").rstrip(".")
    parts = (f"{hours}H" if hours else "", f"{minutes}M" if minutes else "", f"{seconds}S" if rest_ms else "")
    return f"PT{''.join(parts) or '0S'}"
