"""Inline state of acknowledgements. Once ``_metadata`` contains it, the JobManager drops it, and reads it back only when a task is to be restored from
it.

    drop_inline_state(manifest)            the same manifest; handles of inline state say only what it was
    inline_state_of(manifest)              what was dropped, by handle, from the manifest as it was read
    fill_inline_state(restore, content)    handles as they were before they were dropped

A dropped handle has neither ``path`` nor ``data``; size and checksum name its content, as for any reader that verifies it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.model.checkpoint import CheckpointManifest, RestoredOperator, StateHandle, TaskRestore
from tidegate.model.errors import CorruptData, InternalError
from tidegate.model.handles.mapped_handles import map_handles, mapped

ContentKey = tuple[str, int]
"""Checksum and size of inline state."""


def drop_inline_state(manifest: CheckpointManifest) -> CheckpointManifest:
    """Drops inline state from a manifest; parts without any are reused."""
    return map_handles(manifest, _drop)


def inline_state_of(manifest: CheckpointManifest) -> dict[ContentKey, bytes]:
    """Returns the inline state of a manifest, by handle. Raises ``InternalError`` when two contents have the same checksum and size."""
    found: dict[ContentKey, bytes] = {}
    for operator in manifest.operators:
        for snapshot in operator.subtasks.values():
            for handle in snapshot.handles:
                if handle.data is None:
                    continue
                key = (handle.checksum, handle.size_bytes)
                if found.setdefault(key, handle.data) != handle.data:
                    raise InternalError(
                        f"checkpoint {manifest.checkpoint_id}: two different states of operator {operator.name!r} have the same checksum, "
                        f"{handle.checksum}"
                    )
    return found


def is_dropped(handle: StateHandle) -> bool:
    return handle.data is None and not handle.path


def needs_inline_state(restore: TaskRestore | None) -> bool:
    """Returns whether some of its inline state was dropped."""
    return restore is not None and any(
        is_dropped(named.handle)
        for operator in restore.operators.values()
        for part in (operator.keyed, operator.operator, operator.channels)
        for named in part
    )


def fill_inline_state(restore: TaskRestore, content: Mapping[ContentKey, bytes]) -> TaskRestore:
    """Restores dropped inline state. Raises ``CorruptData`` when the checkpoint does not contain it."""

    def filled(handle: StateHandle) -> StateHandle:
        if not is_dropped(handle):
            return handle
        data = content.get((handle.checksum, handle.size_bytes))
        if data is None:
            raise CorruptData(
                f"{restore.location}/_metadata no longer holds state of {handle.size_bytes} bytes with the checksum "
                f"{handle.checksum}; it was replaced by another; restore from another checkpoint"
            )
        return replace(handle, data=data)

    operators = {
        operator_id: RestoredOperator(
            mapped(operator.keyed, filled),
            mapped(operator.operator, filled),
            operator.slices,
            mapped(operator.channels, filled),
        )
        for operator_id, operator in restore.operators.items()
    }
    return replace(restore, operators=operators)


def _drop(handle: StateHandle) -> StateHandle:
    return handle if handle.data is None else StateHandle(handle.size_bytes, handle.checksum)
