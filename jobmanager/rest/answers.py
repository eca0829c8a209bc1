"""Views as Flink's JSON: cluster, jobs, TaskManagers (facts of Flink 2.3's wire, not of its OpenAPI file).

What is not known here has the value that Flink gives to "not known": -1 for ports and times, 0 for counters with
``...-complete: false``, ``null`` for memory.
"""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from jobmanager.machines.views import ClusterView, JobView, TaskManagerView, VertexView
from tidegate.model.ids import AttemptId, hex_id
from tidegate.model.states import ExecutionState, JobState
from tidegate.pb.common_pb2 import TaskMetrics
from tidegate.wire.versions import VERSION

FLINK_VERSION = "2.3.0"
"""The Flink whose REST API this is; clients choose their behaviour by it."""
REFRESH_INTERVAL_MS = 3_000

MetricsOf = Callable[[AttemptId], TaskMetrics | None]
Json = dict[str, Any]


def config_answer(now_ms: int) -> Json:
    offset = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone().utcoffset()
    name = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone().tzname()
    return {
        "refresh-interval": REFRESH_INTERVAL_MS,
        "timezone-name": name or "UTC",
        "timezone-offset": int(offset.total_seconds() * 1000) if offset else 0,
        "flink-version": FLINK_VERSION,
        "flink-revision": f"tidegate {VERSION}",
        "features": {"web-submit": False, "web-cancel": False, "web-rescale": False, "web-history": False},
    }


def overview_answer(cluster: ClusterView, jobs: list[JobView]) -> Json:
    states = Counter(job.state for job in jobs)
    return {
        "taskmanagers": len(cluster.task_managers),
        "slots-total": cluster.slots_total,
        "slots-available": cluster.slots_free,
        "jobs-running": sum(not job.state.is_terminal for job in jobs),
        "jobs-finished": states[JobState.FINISHED],
        "jobs-cancelled": states[JobState.CANCELED],
        "jobs-failed": states[JobState.FAILED],
        "flink-version": FLINK_VERSION,
        "flink-commit": f"tidegate {VERSION}",
    }


def jobs_overview_answer(jobs: list[JobView], now_ms: int) -> Json:
    return {"jobs": [_job_item(job, now_ms) for job in jobs]}


def job_answer(job: JobView, metrics_of: MetricsOf, now_ms: int) -> Json:
    vertices = [_vertex(job, vertex, metrics_of, now_ms) for vertex in job.vertices]
    return {
        "jid": job.job_id,
        "application-id": job.job_id,
        "name": job.name,
        "isStoppable": False,
        "state": job.state.value,
        "job-type": "STREAMING",
        "schedulerType": "Default",
        "start-time": job.start_ms,
        "end-time": -1 if job.end_ms is None else job.end_ms,
        "duration": (now_ms if job.end_ms is None else job.end_ms) - job.start_ms,
        "maxParallelism": -1,
        "now": now_ms,
        "timestamps": {
            **{state.value: job.state_timestamps_ms.get(state, 0) for state in JobState},
            "RECONCILING": 0,
        },
        "vertices": vertices,
        "status-counts": _counts(vertex["status"] for vertex in vertices),
        "plan": _plan(job),
        "pending-operators": 0,
    }


def task_managers_answer(cluster: ClusterView, jobs: list[JobView]) -> Json:
    assigned = Counter(
        subtask.current.task_manager_id
        for job in jobs
        for vertex in job.vertices
        for subtask in vertex.subtasks
        if not subtask.current.state.is_terminal
    )
    return {"taskmanagers": [_task_manager(view, assigned[view.task_manager_id]) for view in cluster.task_managers]}


def _job_item(job: JobView, now_ms: int) -> Json:
    states = [subtask.current.state for vertex in job.vertices for subtask in vertex.subtasks]
    counts = {name.lower(): number for name, number in _counts(state.value for state in states).items()}
    return {
        "jid": job.job_id,
        "name": job.name,
        "start-time": job.start_ms,
        "end-time": -1 if job.end_ms is None else job.end_ms,
        "duration": (now_ms if job.end_ms is None else job.end_ms) - job.start_ms,
        "state": job.state.value,
        "last-modification": max([job.start_ms, *job.state_timestamps_ms.values()]),
        "tasks": {"total": len(states), **counts},
        "pending-operators": 0,
        "job-type": "STREAMING",
        "schedulerType": "Default",
    }


def _counts(states: Any) -> dict[str, int]:
    found = Counter(states)
    return {**{state.value: found[state.value] for state in ExecutionState}, "RECONCILING": 0}


def _vertex(job: JobView, vertex: VertexView, metrics_of: MetricsOf, now_ms: int) -> Json:
    attempts = [subtask.current for subtask in vertex.subtasks]
    starts = [attempt.start_ms for attempt in attempts if attempt.start_ms is not None]
    ends = [attempt.end_ms for attempt in attempts if attempt.end_ms is not None]
    start = min(starts, default=-1)
    end = max(ends) if ends and len(ends) == len(attempts) else -1
    group = job.graph.vertex(vertex.vertex_id).slot_sharing_group
    return {
        "id": vertex.vertex_id,
        "slotSharingGroupId": hex_id(job.job_id, group),
        "name": vertex.name,
        "maxParallelism": vertex.max_parallelism,
        "parallelism": vertex.parallelism,
        "status": aggregate_state([attempt.state for attempt in attempts]).value,
        "start-time": start,
        "end-time": end,
        "duration": -1 if start < 0 else (now_ms if end < 0 else end) - start,
        "tasks": _counts(attempt.state.value for attempt in attempts),
        "metrics": _metrics([metrics_of(attempt.attempt) for attempt in attempts]),
    }


def aggregate_state(states: list[ExecutionState]) -> ExecutionState:
    """The state of a vertex (``ExecutionJobVertex.getAggregateJobVertexState``)."""
    found = set(states)
    for state in ("FAILED", "CANCELING", "CANCELED", "INITIALIZING", "RUNNING"):
        if ExecutionState(state) in found:
            return ExecutionState(state)
    if ExecutionState.FINISHED in found:
        return ExecutionState.FINISHED if len(found) == 1 else ExecutionState.RUNNING
    return ExecutionState.CREATED


def _metrics(parts: list[TaskMetrics | None]) -> Json:
    known = [part for part in parts if part is not None]
    complete = len(known) == len(parts)
    return {
        "read-bytes": sum(part.bytes_in for part in known),
        "read-bytes-complete": complete,
        "write-bytes": sum(part.bytes_out for part in known),
        "write-bytes-complete": complete,
        "read-records": sum(part.records_in for part in known),
        "read-records-complete": complete,
        "write-records": sum(part.records_out for part in known),
        "write-records-complete": complete,
        "accumulated-backpressured-time": sum(part.backpressured_ms for part in known),
        "accumulated-idle-time": sum(part.idle_ms for part in known),
        "accumulated-busy-time": float(sum(part.busy_ms for part in known)),
    }


def _plan(job: JobView) -> Json:
    nodes = []
    for vertex in reversed(job.graph.vertices):
        node: Json = {
            "id": vertex.vertex_id,
            "parallelism": vertex.parallelism,
            "operator": "",
            "operator_strategy": "",
            "description": "<br/>".join(html.escape(operator.name) for operator in vertex.operators),
            "optimizer_properties": {},
        }
        inputs = [
            {"num": number, "id": edge.source, "ship_strategy": edge.partitioner.value, "exchange": "pipelined_bounded"}
            for number, edge in enumerate(job.graph.inputs_of(vertex.vertex_id))
        ]
        if inputs:
            node["inputs"] = inputs
        nodes.append(node)
    return {"jid": job.job_id, "name": job.name, "type": "STREAMING", "nodes": nodes}


def _task_manager(view: TaskManagerView, assigned_tasks: int) -> Json:
    resource = {
        "cpuCores": 0.0,
        "taskHeapMemory": 0,
        "taskOffHeapMemory": 0,
        "managedMemory": 0,
        "networkMemory": 0,
        "extendedResources": {},
    }
    sizes = dict.fromkeys(
        (
            "frameworkHeap",
            "taskHeap",
            "frameworkOffHeap",
            "taskOffHeap",
            "networkMemory",
            "managedMemory",
            "jvmMetaspace",
            "jvmOverhead",
            "totalFlinkMemory",
        )
    )
    return {
        "id": view.task_manager_id,
        "path": view.address,
        "dataPort": -1,
        "jmxPort": -1,
        "timeSinceLastHeartbeat": view.last_heartbeat_ms,
        "slotsNumber": len(view.slots),
        "freeSlots": sum(slot.allocation_id is None for slot in view.slots),
        "assignedTasks": assigned_tasks,
        "totalResource": resource,
        "freeResource": resource,
        "hardware": {"cpuCores": 0, "physicalMemory": None, "freeMemory": None, "managedMemory": None},
        "memoryConfiguration": {**sizes, "totalProcessMemory": view.memory_bytes or None},
    }
