"""Decides the options of a triggered checkpoint: where it is written, how its barriers align, what it may refer to.

    at-least-once                              AT_LEAST_ONCE   nothing is blocked
    savepoint, or unaligned is off             ALIGNED
    unaligned, aligned timeout 0               UNALIGNED       barriers overtake what is in flight, from the start
    unaligned, aligned timeout t               ALIGNED, and unaligned once t has passed

Savepoints are always aligned, self-contained, and never share files. Follows Flink's ``CheckpointOptions.forConfig``.
"""

from __future__ import annotations

from tidegate.jobmanager.machines.checkpoint.trigger import CheckpointRequest
from tidegate.jobmanager.machines.events import LocationCreated
from tidegate.jobmanager.machines.settings import CheckpointSettings
from tidegate.model.checkpoint import Alignment, CheckpointOptions
from tidegate.model.graph import CheckpointingMode


def decide_options(
    settings: CheckpointSettings,
    request: CheckpointRequest,
    located: LocationCreated,
    oldest_base_id: int,
    *,
    must_be_full: bool,
) -> CheckpointOptions:
    is_savepoint = request.snapshot_type.is_savepoint
    alignment, aligned_timeout_ms = _decide_alignment(settings, is_savepoint=is_savepoint)
    shares = settings.incremental and not is_savepoint
    return CheckpointOptions(
        location=located.location,
        snapshot_type=request.snapshot_type,
        alignment=alignment,
        aligned_timeout_ms=aligned_timeout_ms,
        is_full=must_be_full or request.is_full or is_savepoint,
        shared_location=located.shared_location if shares else "",
        oldest_base_id=oldest_base_id,
    )


def _decide_alignment(settings: CheckpointSettings, *, is_savepoint: bool) -> tuple[Alignment, int | None]:
    if settings.mode is CheckpointingMode.AT_LEAST_ONCE:
        return Alignment.AT_LEAST_ONCE, None
    if is_savepoint or not settings.unaligned:
        return Alignment.ALIGNED, None
    if settings.aligned_timeout_ms == 0:
        return Alignment.UNALIGNED, None
    return Alignment.ALIGNED, settings.aligned_timeout_ms
