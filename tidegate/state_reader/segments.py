"""Reads one state file as a table, and checks it against the manifest.

Laws: size and checksum first (the store does that), then the Arrow file itself, then the index: a row is only returned
when its key group is the one that ``offsets`` names. What does not fit is ``CorruptData`` naming the file.
"""

from __future__ import annotations

import json
from typing import Protocol

import numpy as np
import pyarrow as pa

from tidegate.model.checkpoint import OperatorStateHandle, SegmentHandle, StateHandle
from tidegate.model.errors import CorruptData
from tidegate.model.values import JsonObject
from tidegate.wire.state_columns import ELEMENT, KEY_GROUP

METADATA_KEY = b"tidegate"
PICKLED_KEY = b"tidegate.pickled"
MSGPACK_KEY = b"tidegate.msgpack"


class VerifiedSegments(Protocol):
    """Reads the bytes of a handle and verifies their size and checksum."""

    def read(self, handle: StateHandle) -> memoryview:
        """Returns the bytes of a handle. Raises an error when size or checksum differ."""


def read_segment(source: VerifiedSegments, segment: SegmentHandle, place: str) -> pa.Table:
    """Reads the rows of one segment, sorted by ``key_group``. ``place``: the checkpoint, for messages."""
    name = file_name(segment.handle, segment.state_name, place)
    table = _opened(source.read(segment.handle), name)
    first, last = segment.offsets[0], segment.offsets[-1]
    if last > table.num_rows:
        raise CorruptData(f"{name} has {table.num_rows} rows, but its index says {last}; use another checkpoint")
    if KEY_GROUP not in table.schema.names or table.schema.field(KEY_GROUP).type != pa.int32():
        raise CorruptData(
            f"{name} has no int32 column '{KEY_GROUP}' among {table.schema.names}, so it is no file of keyed state; use another checkpoint"
        )
    rows = table.slice(first, last - first)
    expected = np.repeat(np.arange(segment.key_groups.start, segment.key_groups.end + 1), np.diff(segment.offsets))
    if not np.array_equal(rows.column(KEY_GROUP).to_numpy(), expected):
        raise CorruptData(f"{name}: its key groups are not those of its index; use another checkpoint")
    return rows


def read_elements(source: VerifiedSegments, state: OperatorStateHandle, place: str) -> pa.Table:
    """Reads the elements of one subtask's operator state: one binary column ``element``."""
    name = file_name(state.handle, state.state_name, place)
    table = _opened(source.read(state.handle), name)
    if table.schema.names != [ELEMENT] or table.num_rows != state.elements:
        raise CorruptData(
            f"{name} has {table.num_rows} rows of {table.schema.names}, expected {state.elements} of the column "
            f"'{ELEMENT}'; use another checkpoint"
        )
    return table


def description_of(schema: pa.Schema) -> JsonObject:
    """Returns the JSON object in a state file's metadata: version, operator, state, kind, types. Empty when there is none."""
    content = (schema.metadata or {}).get(METADATA_KEY)
    found: JsonObject = json.loads(content) if content else {}
    return found


def is_pickled(field: pa.Field) -> bool:
    """Tells whether a column holds pickled objects."""
    return PICKLED_KEY in (field.metadata or {})


def is_msgpack(field: pa.Field) -> bool:
    """Tells whether a column holds values as MessagePack."""
    return MSGPACK_KEY in (field.metadata or {})


def file_name(handle: StateHandle, state_name: str, place: str) -> str:
    """Returns the name of a handle's file in messages."""
    if not handle.path:
        return f"state '{state_name}' inside {place}/_metadata"
    absolute = "://" in handle.path or handle.path.startswith("/")
    return f"state file {handle.path}" if absolute else f"state file {place}/{handle.path}"


def _opened(content: memoryview, name: str) -> pa.Table:
    try:
        table = pa.ipc.open_file(pa.py_buffer(content)).read_all()
        table.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError, ValueError) as error:
        raise CorruptData(f"{name} is not a readable Arrow file ({error}); use another checkpoint") from error
    return table
