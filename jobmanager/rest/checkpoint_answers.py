"""Views of checkpoints as Flink's JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jobmanager.machines.views import CheckpointsView, CheckpointView
from tidegate.model.checkpoint import SnapshotType

Json = dict[str, Any]

_PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}


def checkpoints_answer(view: CheckpointsView) -> Json:
    """``/jobs/:id/checkpoints``. The summary is over the completed checkpoints of the history."""
    completed = [checkpoint for checkpoint in view.history if checkpoint.status == "COMPLETED"]
    items = [checkpoint_item(checkpoint) for checkpoint in completed]
    names = ("checkpointed_size", "state_size", "end_to_end_duration", "alignment_buffered", "processed_data")
    return {
        "counts": {
            "restored": view.restored,
            "total": view.completed + view.failed + view.in_progress,
            "in_progress": view.in_progress,
            "completed": view.completed,
            "failed": view.failed,
        },
        "summary": {name: _summary([item[name] for item in items]) for name in (*names, "persisted_data")},
        "latest": {
            "completed": _optional_item(view.last_completed),
            "savepoint": _optional_item(view.last_savepoint),
            "failed": _optional_item(view.last_failed),
            "restored": _restored(view.last_restored),
        },
        "history": [checkpoint_item(checkpoint) for checkpoint in view.history],
    }


def checkpoint_item(view: CheckpointView) -> Json:
    """One checkpoint as in the history list."""
    last_ack = max((subtask.ack_ms for subtask in view.subtasks), default=-1)
    metrics = [subtask.metrics for subtask in view.subtasks]
    item: Json = {
        "className": view.status.lower(),
        "id": view.checkpoint_id,
        "status": view.status,
        "is_savepoint": view.snapshot_type.is_savepoint,
        "savepointFormat": "CANONICAL" if view.snapshot_type.is_savepoint else None,
        "trigger_timestamp": view.trigger_ms,
        "latest_ack_timestamp": last_ack,
        "checkpointed_size": view.size_bytes,
        "state_size": view.size_bytes,
        "end_to_end_duration": _duration_ms(view, last_ack),
        "alignment_buffered": 0,
        "processed_data": sum(part.bytes_processed_during_alignment for part in metrics),
        "persisted_data": sum(part.bytes_persisted for part in metrics),
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


def external_path(location: str) -> str:
    if location.startswith("memory:"):
        return "<checkpoint-not-externally-addressable>"
    return f"file:{location}" if location.startswith("/") else location


def _duration_ms(view: CheckpointView, last_ack_ms: int) -> int:
    if view.status == "FAILED":
        return -1 if view.end_ms is None else view.end_ms - view.trigger_ms
    return -1 if last_ack_ms < 0 else last_ack_ms - view.trigger_ms


def _type(view: CheckpointView) -> str:
    if view.snapshot_type is SnapshotType.CHECKPOINT:
        unaligned = any(subtask.metrics.unaligned for subtask in view.subtasks)
        return "UNALIGNED_CHECKPOINT" if unaligned else "CHECKPOINT"
    return "SYNC_SAVEPOINT" if view.snapshot_type.is_synchronous else "SAVEPOINT"


def _optional_item(view: CheckpointView | None) -> Json | None:
    return None if view is None else checkpoint_item(view)


def _restored(view: CheckpointView | None) -> Json | None:
    if view is None:
        return None
    return {
        "id": view.checkpoint_id,
        "restore_timestamp": -1,
        "is_savepoint": view.snapshot_type.is_savepoint,
        "external_path": external_path(view.location),
    }


def _summary(values: Sequence[int]) -> Json:
    if not values:
        return {"min": 0, "max": 0, "avg": 0, **dict.fromkeys(_PERCENTILES, "NaN")}
    ordered = sorted(values)
    ranks = {
        name: float(ordered[min(len(ordered) - 1, int(part * len(ordered)))]) for name, part in _PERCENTILES.items()
    }
    return {"min": ordered[0], "max": ordered[-1], "avg": sum(ordered) // len(ordered), **ranks}
