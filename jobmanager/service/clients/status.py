"""Converts views of the machines to protobuf messages for clients."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from tidegate.jobmanager.machines.views import (
    CheckpointsView,
    CheckpointView,
    ClusterView,
    JobSummary,
    JobView,
    SubtaskView,
    TaskManagerView,
    VertexSummary,
    VertexView,
)
from tidegate.jobmanager.web.findings import JobFinding
from tidegate.model.accumulators import serialized
from tidegate.model.ids import AttemptId
from tidegate.model.late_records import LateRecords
from tidegate.model.values import JsonObject
from tidegate.pb import common_pb2
from tidegate.pb import jobmanager_pb2 as pb
from tidegate.wire.accumulators import accumulators_to_pb, merged_of
from tidegate.wire.convert import checkpoint_metrics_to_pb, optional_error_to_pb
from tidegate.wire.versions import PYTHON_VERSION, VERSION

MetricsOf = Callable[[AttemptId], common_pb2.TaskMetrics | None]


def job_status(job: JobView, metrics_of: MetricsOf, late_records: Iterable[LateRecords]) -> pb.JobStatus:
    """Converts the full view of a job, with metrics and accumulators of its subtasks."""
    found = job_summary(job)
    found.late_records.extend(
        pb.LateRecords(operator=late.operator, dropped=late.dropped, dropped_before=late.dropped_before)
        for late in late_records
    )
    for vertex, shown in zip(job.vertices, found.vertices, strict=True):
        shown.subtasks.extend(_subtask_status(subtask, metrics_of) for subtask in vertex.subtasks)
    subtasks = [subtask for shown in found.vertices for subtask in shown.subtasks]
    for name, merged in accumulators_to_pb(serialized(merged_of(subtask.metrics for subtask in subtasks))).items():
        found.accumulators[name].CopyFrom(merged)
    for subtask in subtasks:
        if subtask.HasField("metrics"):
            subtask.metrics.ClearField("accumulators")
    return found


def job_summary(job: JobSummary | JobView, findings: Iterable[JobFinding] = ()) -> pb.JobStatus:
    """Converts a job without its subtasks. ``findings``: what is wrong with how it works."""
    last = job.checkpoints.last_completed
    return pb.JobStatus(
        job_id=job.job_id,
        name=job.name,
        state=job.state.value,
        start_ms=job.start_ms,
        end_ms=job.end_ms,
        restarts=job.restarts,
        failure=optional_error_to_pb(job.failure),
        vertices=[_vertex_status(vertex) for vertex in job.vertices],
        last_completed=None if last is None else checkpoint_status(last, with_subtasks=False),
        state_timestamps_ms={state.value: at_ms for state, at_ms in job.state_timestamps_ms.items()},
        checkpoints_completed=job.checkpoints.completed,
        checkpoints_failed=job.checkpoints.failed,
        waiting_for=job.waiting_for,
        starting_since_ms=job.starting_since_ms,
        findings=[
            pb.JobFinding(
                kind=found.kind,
                vertex_id=found.vertex_id,
                subtask=found.subtask,
                sentence=found.sentence,
                advice=found.advice,
            )
            for found in findings
        ],
    )


def archived_summary(item: JsonObject) -> pb.JobStatus:
    """Converts a job of the archive. ``item``: its entry in the job list; the tasks of all its vertices are added up."""
    completed, failed, _ = item["checkpoints"] or (0, 0, 0)
    return pb.JobStatus(
        job_id=item["id"],
        name=item["name"],
        state=item["state"],
        start_ms=item["start_ms"],
        end_ms=item["end_ms"],
        restarts=item["restarts"] or 0,
        vertices=[pb.VertexStatus(task_counts=item["tasks"])],
        checkpoints_completed=completed,
        checkpoints_failed=failed,
    )


def checkpoint_list(checkpoints: CheckpointsView, subtasks_of: int | None = None) -> pb.CheckpointList:
    """Converts the checkpoint history. ``subtasks_of``: the only checkpoint whose subtasks are included; ``None``: all."""
    return pb.CheckpointList(
        checkpoints=[
            checkpoint_status(checkpoint, with_subtasks=subtasks_of in (None, checkpoint.checkpoint_id))
            for checkpoint in checkpoints.history
        ],
        completed=checkpoints.completed,
        failed=checkpoints.failed,
        in_progress=checkpoints.in_progress,
        restored=checkpoints.restored,
    )


def checkpoint_status(checkpoint: CheckpointView, *, with_subtasks: bool) -> pb.CheckpointStatus:
    return pb.CheckpointStatus(
        checkpoint_id=checkpoint.checkpoint_id,
        status=checkpoint.status,
        snapshot_type=checkpoint.snapshot_type.value,
        trigger_ms=checkpoint.trigger_ms,
        completed_ms=checkpoint.completed_ms,
        size_bytes=checkpoint.size_bytes,
        path=checkpoint.location,
        failure=checkpoint.failure,
        acknowledged=checkpoint.acknowledged,
        expected=checkpoint.expected,
        subtasks=[
            pb.SubtaskCheckpoint(
                vertex_id=subtask.attempt.vertex_id,
                index=subtask.attempt.subtask,
                ack_ms=subtask.ack_ms,
                metrics=checkpoint_metrics_to_pb(subtask.metrics),
                size_bytes=subtask.size_bytes,
            )
            for subtask in (checkpoint.subtasks if with_subtasks else ())
        ],
        discarded=checkpoint.discarded,
        restored=checkpoint.restored,
        sent_ms=checkpoint.sent_ms,
        sealed_ms=checkpoint.sealed_ms,
        confirmed_ms=checkpoint.confirmed_ms,
    )


def cluster_status(cluster: ClusterView, rest_port: int) -> pb.ClusterStatus:
    """Converts the cluster view, without its high availability."""
    return pb.ClusterStatus(
        generation=cluster.generation,
        version=VERSION,
        python_version=PYTHON_VERSION,
        start_ms=cluster.start_ms,
        task_managers=[_task_manager_status(task_manager) for task_manager in cluster.task_managers],
        workers=[
            pb.WorkerStatus(worker_id=w.worker_id, state=w.state, since_ms=w.since_ms, reason=w.reason)
            for w in cluster.workers
        ],
        pid=os.getpid(),
        rest_port=rest_port,
    )


def _vertex_status(vertex: VertexSummary | VertexView) -> pb.VertexStatus:
    return pb.VertexStatus(
        vertex_id=vertex.vertex_id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        task_counts={state.value: count for state, count in vertex.tasks.items()},
    )


def _subtask_status(subtask: SubtaskView, metrics_of: MetricsOf) -> pb.SubtaskStatus:
    current = subtask.current
    return pb.SubtaskStatus(
        index=subtask.index,
        attempt=current.attempt.attempt,
        state=current.state.value,
        task_manager_id=current.task_manager_id or "",
        metrics=metrics_of(current.attempt),
        host=current.host,
        start_ms=current.start_ms or 0,
        data_address=current.data_address,
    )


def _task_manager_status(task_manager: TaskManagerView) -> pb.TaskManagerStatus:
    return pb.TaskManagerStatus(
        task_manager_id=task_manager.task_manager_id,
        address=task_manager.address,
        slots=[
            pb.SlotStatus(index=slot.index, allocation_id=slot.allocation_id or "", job_id=slot.job_id or "")
            for slot in task_manager.slots
        ],
        last_heartbeat_ms=task_manager.last_heartbeat_ms,
        pid=task_manager.pid,
        host=task_manager.host,
        memory_bytes=task_manager.memory_bytes,
    )
