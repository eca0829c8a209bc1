"""Operator state of sources and sinks: elements that belong to a subtask, not to a key.

    list       split among the subtasks at a restore        (SPLIT)
    union      every subtask sees all elements, and takes its own (UNION)
    broadcast  every subtask has the same elements           (BROADCAST)

Elements here, those of sources and sinks, are msgpack-able values; ``function_state`` keeps those of user functions. They are encoded when the state is frozen:
there are few of them, their owners may change them later, and the encoded copy does not change (law 3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import msgspec
import numpy as np
import pyarrow as pa

from tidegate.model.checkpoint import OperatorSnapshot, StateRedistribution
from tidegate.model.errors import ON_DAMAGE, CorruptData, NotSerializable
from tidegate.model.values import StateValue
from tidegate.taskmanager.state.files.segments import (
    ELEMENT,
    MSGPACK,
    StateDescription,
    element_schema,
    read_elements,
    write_elements,
)
from tidegate.taskmanager.state.ports import FrozenState, OperatorRestore, SegmentStore
from tidegate.wire.unreadable import UNREADABLE

_FILE_BYTES = 2048
"""Bytes of an Arrow file besides its elements: an upper bound for schema, footer and padding."""
_LARGE_BYTES = 64 << 10
"""Bytes from which an element gets a chunk of its own. Copying a smaller one costs less than a chunk."""


@dataclass(slots=True)
class FrozenElements(FrozenState):
    """The encoded elements of one state. ``is_kept_empty``: the state is written even without elements, so that a restore can tell an empty state from a
    missing one.
    """

    operator: str
    state_name: str
    mode: StateRedistribution
    elements: Sequence[bytes]
    is_kept_empty: bool = False

    def size_limit_bytes(self) -> int | None:
        return sum(map(len, self.elements)) + 8 * len(self.elements) + _FILE_BYTES

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        if not self.elements and not self.is_kept_empty:
            return OperatorSnapshot()
        about, schema = _described(self.operator, self.state_name, self.mode)
        written = write_elements(store, _binary(self.elements), schema, self.mode, about)
        return OperatorSnapshot(operator=(written,))


@dataclass(slots=True)
class FrozenParts(FrozenState):
    """Several frozen states of one operator, combined."""

    parts: list[FrozenState]

    def size_limit_bytes(self) -> int | None:
        sizes = [part.size_limit_bytes() for part in self.parts]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def write(self, store: SegmentStore) -> OperatorSnapshot:
        written = [part.write(store) for part in self.parts]
        return OperatorSnapshot(
            keyed=tuple(s for w in written for s in w.keyed), operator=tuple(o for w in written for o in w.operator)
        )

    def release(self) -> None:
        for part in self.parts:
            part.release()


def freeze_elements(
    operator: str,
    state_name: str,
    elements: Iterable[StateValue],
    mode: StateRedistribution = StateRedistribution.SPLIT,
    *,
    is_kept_empty: bool = False,
) -> FrozenElements:
    """Encodes the elements of a state as msgpack. Raises ``NotSerializable`` naming an element that msgpack cannot encode."""
    encoded = []
    for element in elements:
        try:
            encoded.append(msgspec.msgpack.encode(element))
        except (TypeError, OverflowError, ValueError) as error:
            raise NotSerializable(
                f"operator '{operator}', state '{state_name}': {element!r} is not made of plain values ({error}): use "
                "dicts, lists, strings, numbers and bytes"
            ) from error
    return FrozenElements(operator, state_name, mode, encoded, is_kept_empty)


@lru_cache(maxsize=256)
def _described(operator: str, state_name: str, mode: StateRedistribution) -> tuple[StateDescription, pa.Schema]:
    """Returns description and schema of a state, which are the same in every checkpoint."""
    kind = {"SPLIT": "list", "UNION": "union", "BROADCAST": "broadcast"}[mode.value]
    about = StateDescription(operator, state_name, kind, {"element": "msgpack"})
    return about, element_schema(pa.field(ELEMENT, pa.binary(), metadata=MSGPACK), about)


def _binary(elements: Sequence[bytes]) -> pa.Array | pa.ChunkedArray:
    """Returns elements as a binary array. Large elements, such as what a sink wrote since the last checkpoint, become chunks of their own and are
    not copied.
    """
    if elements and all(len(element) < _LARGE_BYTES for element in elements):
        return pa.array(elements, pa.binary())
    chunks: list[pa.Array] = []
    small: list[bytes] = []
    for element in elements:
        if _LARGE_BYTES <= len(element) < 1 << 31:
            chunks += [pa.array(small, pa.binary()), _alone(element)] if small else [_alone(element)]
            small = []
        else:
            small.append(element)
    if small:
        chunks.append(pa.array(small, pa.binary()))
    return pa.chunked_array(chunks, pa.binary())


def _alone(element: bytes) -> pa.Array:
    offsets = pa.py_buffer(np.array([0, len(element)], np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(element)])


def has_state(restore: OperatorRestore | None, state_name: str) -> bool:
    restored = restore.operator if restore else None
    return restored is not None and any(handle.state_name == state_name for handle in restored.operator)


def restore_elements(restore: OperatorRestore | None, state_name: str) -> list[StateValue]:
    """Returns the restored elements of one state of this subtask, in the order of the old subtasks. Tuples become lists. Raises ``CorruptData``,
    ``StorageError``.
    """
    found: list[StateValue] = []
    if restore is None or restore.operator is None:
        return found
    source, restored = restore.segments, restore.operator
    for handle, (first, last) in zip(restored.operator, restored.slices, strict=True):
        if handle.state_name != state_name or first >= last:
            continue
        for content in read_elements(source, handle, first, last):
            try:
                found.append(msgspec.msgpack.decode(content))
            except UNREADABLE as error:
                raise CorruptData(
                    f"state file {handle.handle.path or state_name}: an element is unreadable ({error}); {ON_DAMAGE}"
                ) from error
    return found
