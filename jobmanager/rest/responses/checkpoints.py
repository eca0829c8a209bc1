"""Checkpoints as Flink's JSON: the list with its summary, one checkpoint, and the configuration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.jobmanager.machines.settings import job_settings
from tidegate.jobmanager.machines.views import (
    CheckpointsView,
    CheckpointView,
    JobView,
    SubtaskCheckpointView,
    VertexView,
)
from tidegate.jobmanager.rest.numbers import distribution, summary
from tidegate.model.checkpoint import SnapshotType
from tidegate.model.configuration import Configuration
from tidegate.model.options import CheckpointingOptions, CheckpointRetention, StateBackendKind, StateOptions
from tidegate.model.stats_summary import StatsSummary
from tidegate.model.values import JsonObject

INTERVAL_OFF_MS = 2**63 - 1
"""The ``interval`` of a job without periodic checkpoints."""
_BACKEND_NAMES = {
    StateBackendKind.HASHMAP: "HashMapStateBackend",
    StateBackendKind.ROCKSDB: "EmbeddedRocksDBStateBackend",
    StateBackendKind.FORST: "ForStStateBackend",
}
_CHANGELOG_MATERIALIZATION_MS = 600_000
"""Flink's default of ``state.changelog.periodic-materialize.interval``, in ms."""
_AT_LEAST_ONCE = "at_least_once"
"""The mode that Flink also reports for a job without periodic checkpoints."""


def checkpoints_answer(view: CheckpointsView) -> JsonObject:
    """Answers ``/jobs/:jobid/checkpoints``. The summary covers all completed checkpoints, as in Flink."""
    return {
        "counts": {
            "restored": view.restored,
            "total": view.completed + view.failed + view.in_progress,
            "in_progress": view.in_progress,
            "completed": view.completed,
            "failed": view.failed,
        },
        "summary": _summary(view),
        "latest": {
            "completed": _optional_item(view.last_completed),
            "savepoint": _optional_item(view.last_savepoint),
            "failed": _optional_item(view.last_failed),
            "restored": _restored(view),
        },
        "history": [checkpoint_item(checkpoint) for checkpoint in view.history],
    }


def checkpoint_details(view: CheckpointView, vertices: Iterable[VertexView]) -> JsonObject:
    """Returns one checkpoint with a part for every vertex of the job, as Flink's dashboard needs it."""
    item = checkpoint_item(view)
    return {**item, "tasks": {vertex.vertex_id: vertex_part(view, vertex) for vertex in vertices}}


def vertex_details(view: CheckpointView, vertex: VertexView) -> JsonObject:
    """Returns one checkpoint of one vertex, subtask by subtask."""
    acknowledged = _of_vertex(view, vertex)
    return {
        **vertex_part(view, vertex),
        "summary": _subtask_summary(view, list(acknowledged.values())),
        "subtasks": [_subtask(view, index, acknowledged.get(index)) for index in range(vertex.parallelism)],
    }


def vertex_part(view: CheckpointView, vertex: VertexView) -> JsonObject:
    subtasks = list(_of_vertex(view, vertex).values())
    in_time = [subtask.ack_ms for subtask in subtasks if not subtask.aborted]
    last_ack = max(in_time, default=-1)
    size = sum(subtask.size_bytes for subtask in subtasks)
    return {
        "id": view.checkpoint_id,
        "status": view.status,
        "latest_ack_timestamp": last_ack,
        "checkpointed_size": sum(subtask.metrics.bytes_persisted for subtask in subtasks),
        "state_size": size,
        "end_to_end_duration": -1 if last_ack < 0 else max(0, last_ack - view.trigger_ms),
        "alignment_buffered": 0,
        "processed_data": sum(subtask.metrics.bytes_processed_during_alignment for subtask in subtasks),
        "persisted_data": sum(subtask.metrics.in_flight_bytes for subtask in subtasks),
        "num_subtasks": vertex.parallelism,
        "num_acknowledged_subtasks": len(in_time),
    }


def checkpoint_item(view: CheckpointView) -> JsonObject:
    """Returns one checkpoint as in the history list."""
    totals = view.totals
    item: JsonObject = {
        "className": view.status.lower(),
        "id": view.checkpoint_id,
        "status": view.status,
        "is_savepoint": view.snapshot_type.is_savepoint,
        "savepointFormat": "CANONICAL" if view.snapshot_type.is_savepoint else None,
        "trigger_timestamp": view.trigger_ms,
        "latest_ack_timestamp": totals.last_ack_ms,
        "checkpointed_size": totals.bytes_persisted,
        "state_size": view.size_bytes,
        "end_to_end_duration": _duration_ms(view, totals.last_ack_ms),
        "alignment_buffered": 0,
        "processed_data": totals.bytes_processed_during_alignment,
        "persisted_data": totals.in_flight_bytes,
        "num_subtasks": view.expected,
        "num_acknowledged_subtasks": view.acknowledged,
        "checkpoint_type": _type(view),
        "tasks": {},
    }
    if view.status == "COMPLETED":
        item["external_path"] = external_path(view.location)
        item["discarded"] = view.discarded
    if view.status == "FAILED":
        item["failure_timestamp"] = view.end_ms
        item["failure_message"] = view.failure
    return item


def checkpoint_config(job: JobView) -> JsonObject:
    """Answers ``/jobs/:jobid/checkpoints/config``."""
    settings = job_settings(job.configuration).checkpoints
    configuration = Configuration.from_strings(job.configuration)
    in_files = configuration.get(CheckpointingOptions.DIRECTORY) is not None
    return {
        "mode": _AT_LEAST_ONCE if settings.interval_ms is None else settings.mode.value.lower(),
        "interval": INTERVAL_OFF_MS if settings.interval_ms is None else settings.interval_ms,
        "timeout": settings.timeout_ms,
        "min_pause": settings.min_pause_ms,
        "max_concurrent": settings.max_concurrent,
        "externalization": {
            "enabled": settings.retention is not CheckpointRetention.NONE,
            "delete_on_cancellation": settings.retention is not CheckpointRetention.RETAIN_ON_CANCELLATION,
        },
        "state_backend": _BACKEND_NAMES[configuration.get(StateOptions.BACKEND)],
        "checkpoint_storage": "FileSystemCheckpointStorage" if in_files else "JobManagerCheckpointStorage",
        "unaligned_checkpoints": settings.unaligned,
        "tolerable_failed_checkpoints": settings.tolerable_failures,
        "aligned_checkpoint_timeout": settings.aligned_timeout_ms if settings.unaligned else 0,
        "checkpoints_after_tasks_finish": settings.after_tasks_finish,
        "state_changelog_enabled": False,
        "changelog_periodic_materialization_interval": _CHANGELOG_MATERIALIZATION_MS,
        "changelog_storage": "memory",
    }


def find_checkpoint(view: CheckpointsView, checkpoint_id: int) -> CheckpointView | None:
    """Finds a checkpoint in the history or among those kept beyond it: the latest, the slowest, the last failed."""
    latest = (view.last_completed, view.last_savepoint, view.last_failed)
    everything = (*view.history, *latest, *view.beyond)
    return next((c for c in everything if c is not None and c.checkpoint_id == checkpoint_id), None)


def external_path(location: str) -> str:
    if location.startswith("memory:"):
        return "<checkpoint-not-externally-addressable>"
    return f"file:{location}" if location.startswith("/") else location


def _of_vertex(view: CheckpointView, vertex: VertexView) -> dict[int, SubtaskCheckpointView]:
    return {s.attempt.subtask: s for s in view.subtasks if s.attempt.vertex_id == vertex.vertex_id}


def _subtask(view: CheckpointView, index: int, subtask: SubtaskCheckpointView | None) -> JsonObject:
    if subtask is None:
        return {"className": "pending", "index": index, "status": "pending_or_failed"}
    metrics = subtask.metrics
    return {
        "className": "completed",
        "index": index,
        "ack_timestamp": subtask.ack_ms,
        "end_to_end_duration": max(0, subtask.ack_ms - view.trigger_ms),
        "checkpointed_size": metrics.bytes_persisted,
        "state_size": subtask.size_bytes,
        "checkpoint": {"sync": int(metrics.sync_ms), "async": int(metrics.async_ms)},
        "alignment": {
            "buffered": 0,
            "processed": metrics.bytes_processed_during_alignment,
            "persisted": metrics.in_flight_bytes,
            "duration": int(metrics.alignment_ms),
        },
        "start_delay": int(metrics.start_delay_ms),
        "unaligned_checkpoint": metrics.unaligned,
        "aborted": subtask.aborted,
        "status": "completed",
    }


def _summary(view: CheckpointsView) -> JsonObject:
    """Returns the summary of all completed checkpoints. Alignment buffers nothing, as in Flink: zeros, as many as there are samples."""
    found = view.summary
    buffered = StatsSummary(found.state_size.count, ranks=(0.0,) * len(found.state_size.ranks))
    return {
        "checkpointed_size": distribution(found.checkpointed_size),
        "state_size": distribution(found.state_size),
        "end_to_end_duration": distribution(found.end_to_end_duration),
        "alignment_buffered": distribution(buffered),
        "processed_data": distribution(found.processed_data),
        "persisted_data": distribution(found.persisted_data),
    }


def _subtask_summary(view: CheckpointView, subtasks: Sequence[SubtaskCheckpointView]) -> JsonObject:
    metrics = [subtask.metrics for subtask in subtasks]

    def over(values: Iterable[float]) -> JsonObject:
        return summary([int(value) for value in values], percentiles=False)

    return {
        "checkpointed_size": over(part.bytes_persisted for part in metrics),
        "state_size": over(subtask.size_bytes for subtask in subtasks),
        "end_to_end_duration": over(max(0, subtask.ack_ms - view.trigger_ms) for subtask in subtasks),
        "checkpoint_duration": {
            "sync": over(part.sync_ms for part in metrics),
            "async": over(part.async_ms for part in metrics),
        },
        "alignment": {
            "buffered": summary([0 for _ in metrics]),  # the only one with percentiles, in Flink too
            "processed": over(part.bytes_processed_during_alignment for part in metrics),
            "persisted": over(part.in_flight_bytes for part in metrics),
            "duration": over(part.alignment_ms for part in metrics),
        },
        "start_delay": over(part.start_delay_ms for part in metrics),
    }


def _duration_ms(view: CheckpointView, last_ack_ms: int) -> int:
    if view.status == "FAILED":
        return -1 if view.end_ms is None else max(0, view.end_ms - view.trigger_ms)
    return -1 if last_ack_ms < 0 else max(0, last_ack_ms - view.trigger_ms)


def _type(view: CheckpointView) -> str:
    if view.snapshot_type is SnapshotType.CHECKPOINT:
        return "UNALIGNED_CHECKPOINT" if view.totals.is_unaligned else "CHECKPOINT"
    return "SYNC_SAVEPOINT" if view.snapshot_type.is_synchronous else "SAVEPOINT"


def _optional_item(view: CheckpointView | None) -> JsonObject | None:
    return None if view is None else checkpoint_item(view)


def _restored(view: CheckpointsView) -> JsonObject | None:
    restored = view.last_restored
    if restored is None:
        return None
    return {
        "id": restored.checkpoint_id,
        "restore_timestamp": -1 if view.last_restored_ms is None else view.last_restored_ms,
        "is_savepoint": restored.snapshot_type.is_savepoint,
        "external_path": external_path(restored.location),
    }
