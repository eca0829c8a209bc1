"""Replacement of the handles of a manifest, or of a part of it. Only what changes is copied, since there may be ten thousand subtasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, TypeVar

from tidegate.model.checkpoint import (
    ChannelStateHandle,
    CheckpointManifest,
    OperatorSnapshot,
    OperatorState,
    OperatorStateHandle,
    SegmentHandle,
    StateHandle,
)

Change = Callable[[StateHandle], StateHandle]
"""Returns another handle, or the same object to leave it unchanged."""

_Named = TypeVar("_Named", SegmentHandle, OperatorStateHandle, ChannelStateHandle)


def map_handles(manifest: CheckpointManifest, change: Change) -> CheckpointManifest:
    """Replaces handles of a manifest; parts without a changed handle are reused."""
    return replace(manifest, operators=tuple(_operator(operator, change) for operator in manifest.operators))


def mapped(part: tuple[_Named, ...], change: Change) -> tuple[_Named, ...]:
    """Replaces handles of a tuple; returns the same object if nothing changes."""
    if not part:
        return part
    handles = [change(named.handle) for named in part]
    if all(handle is named.handle for handle, named in zip(handles, part, strict=True)):
        return part
    return tuple([_with_handle(named, handle) for named, handle in zip(part, handles, strict=True)])


def _operator(operator: OperatorState, change: Change) -> OperatorState:
    return replace(operator, subtasks={index: _snapshot(found, change) for index, found in operator.subtasks.items()})


def _snapshot(snapshot: OperatorSnapshot, change: Change) -> OperatorSnapshot:
    before = (snapshot.keyed, snapshot.operator, snapshot.input_channels, snapshot.output_channels)
    after = (
        mapped(snapshot.keyed, change),
        mapped(snapshot.operator, change),
        mapped(snapshot.input_channels, change),
        mapped(snapshot.output_channels, change),
    )
    return snapshot if all(a is b for a, b in zip(after, before, strict=True)) else OperatorSnapshot(*after)


def _with_handle(named: _Named, handle: StateHandle) -> _Named:
    """Replaces the handle of a part, in half the time of ``dataclasses.replace``."""
    values_of, place = _LAYOUTS[type(named)]
    values = list(values_of(named))
    values[place] = handle
    return type(named)(*values)


def _layout(kind: type[SegmentHandle | OperatorStateHandle | ChannelStateHandle]) -> tuple[attrgetter[Any], int]:
    names = [field.name for field in fields(kind)]
    return attrgetter(*names), names.index("handle")


_LAYOUTS = {kind: _layout(kind) for kind in (SegmentHandle, OperatorStateHandle, ChannelStateHandle)}
