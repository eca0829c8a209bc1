"""State that travelled inside acknowledgements. Once ``_metadata`` holds it, the JobManager lets go of it, and reads it back
only when a task is to be restored from it.

    drop_inline_state(manifest)            the same manifest; handles of inline state say only what it was
    inline_state_of(manifest)              what was dropped, by handle, from the manifest as it was read
    fill_inline_state(restore, content)    handles as they were before they were dropped

A dropped handle has neither ``path`` nor ``data``; size and checksum name its content, as they do for whoever verifies it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, TypeVar

from tidegate.model.checkpoint import (
    ChannelStateHandle,
    CheckpointManifest,
    OperatorSnapshot,
    OperatorState,
    OperatorStateHandle,
    RestoredOperator,
    SegmentHandle,
    StateHandle,
    TaskRestore,
)
from tidegate.model.errors import CorruptData, InternalError

ContentKey = tuple[str, int]
"""Checksum and size."""

_Named = TypeVar("_Named", SegmentHandle, OperatorStateHandle, ChannelStateHandle)


def drop_inline_state(manifest: CheckpointManifest) -> CheckpointManifest:
    """What refers to no inline state is the same object as before."""
    return replace(manifest, operators=tuple(_without(operator) for operator in manifest.operators))


def inline_state_of(manifest: CheckpointManifest) -> dict[ContentKey, bytes]:
    """Raises ``InternalError`` when two contents have the same checksum and size."""
    found: dict[ContentKey, bytes] = {}
    for operator in manifest.operators:
        for snapshot in operator.subtasks.values():
            for handle in snapshot.handles:
                if handle.data is None:
                    continue
                key = (handle.checksum, handle.size_bytes)
                if found.setdefault(key, handle.data) != handle.data:
                    raise InternalError(
                        f"checkpoint {manifest.checkpoint_id}: two states of {operator.name!r} have the checksum {handle.checksum}"
                    )
    return found


def is_dropped(handle: StateHandle) -> bool:
    return handle.data is None and not handle.path


def needs_inline_state(restore: TaskRestore | None) -> bool:
    """Whether something of it was dropped."""
    return restore is not None and any(
        is_dropped(named.handle)
        for operator in restore.operators.values()
        for part in (operator.keyed, operator.operator, operator.channels)
        for named in part
    )


def fill_inline_state(restore: TaskRestore, content: Mapping[ContentKey, bytes]) -> TaskRestore:
    """Raises ``CorruptData`` when the checkpoint does not hold what was dropped."""

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
            _mapped(operator.keyed, filled),
            _mapped(operator.operator, filled),
            operator.slices,
            _mapped(operator.channels, filled),
        )
        for operator_id, operator in restore.operators.items()
    }
    return replace(restore, operators=operators)


def _without(operator: OperatorState) -> OperatorState:
    return replace(operator, subtasks={index: _dropped(snapshot) for index, snapshot in operator.subtasks.items()})


def _dropped(snapshot: OperatorSnapshot) -> OperatorSnapshot:
    parts = (snapshot.keyed, snapshot.operator, snapshot.input_channels, snapshot.output_channels)
    if not any(named.handle.data is not None for part in parts if part for named in part):
        return snapshot
    return OperatorSnapshot(
        _mapped(snapshot.keyed, _drop),
        _mapped(snapshot.operator, _drop),
        _mapped(snapshot.input_channels, _drop),
        _mapped(snapshot.output_channels, _drop),
    )


def _drop(handle: StateHandle) -> StateHandle:
    return handle if handle.data is None else StateHandle(handle.size_bytes, handle.checksum)


def _mapped(part: tuple[_Named, ...], change: Callable[[StateHandle], StateHandle]) -> tuple[_Named, ...]:
    return tuple([_with_handle(named, change(named.handle)) for named in part]) if part else part


def _with_handle(named: _Named, handle: StateHandle) -> _Named:
    """``dataclasses.replace``, in half of its time."""
    values_of, place = _LAYOUTS[type(named)]
    values = list(values_of(named))
    values[place] = handle
    return type(named)(*values)


def _layout(kind: type[SegmentHandle | OperatorStateHandle | ChannelStateHandle]) -> tuple[attrgetter[Any], int]:
    names = [field.name for field in fields(kind)]
    return attrgetter(*names), names.index("handle")


_LAYOUTS = {kind: _layout(kind) for kind in (SegmentHandle, OperatorStateHandle, ChannelStateHandle)}
