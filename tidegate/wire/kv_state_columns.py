"""The keys and values of queryable state as Arrow IPC streams of one batch each.

keys      column ``key``, in the type of the stream's keys
values    columns ``row`` (int32: the place of a key that has a value among the keys) and ``value``, in the type of the state
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from tidegate.model.errors import CorruptFrame

KEY, ROW, VALUE = "key", "row", "value"
_VERSIONED: Final = 4
"""The bytes of a flatbuffers vtable before its first field."""
_HEADER_TYPE, _HEADER, _DATA, _COMPRESSION = 1, 2, 1, 3
"""The numbers of fields of Arrow's ``Message``, its ``DictionaryBatch`` and its ``RecordBatch``."""
_DICTIONARY_BATCH, _RECORD_BATCH = 2, 3
"""The types of a ``Message``'s header."""


def write_keys(keys: pa.Array, field: pa.Field) -> bytes:
    return _written(pa.RecordBatch.from_arrays([keys], schema=pa.schema([field.with_name(KEY)])))


def keys_of(content: bytes) -> pa.Array:
    """Decodes the keys of a query. Raises ``CorruptFrame``."""
    return _read(content, [KEY]).column(0)


def write_values(rows: Sequence[int], values: pa.Array, field: pa.Field) -> bytes:
    schema = pa.schema([pa.field(ROW, pa.int32()), field.with_name(VALUE)])
    return _written(pa.RecordBatch.from_arrays([pa.array(rows, pa.int32()), values], schema=schema))


def values_of(content: bytes) -> pa.RecordBatch:
    """Decodes the values in the response to a query of queryable state: columns ``row`` and ``value``. Raises ``CorruptFrame``."""
    return _read(content, [ROW, VALUE])


def _written(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _read(content: bytes, names: list[str]) -> pa.RecordBatch:
    try:
        if any(_is_compressed(bytes(message.metadata)) for message in pa.ipc.MessageReader.open_stream(content)):
            raise CorruptFrame(
                "keys or values of queryable state are compressed, which is not allowed; send them uncompressed"
            )
        with pa.ipc.open_stream(content) as reader:
            batch = reader.read_next_batch()
            batch.validate(full=True)
        found = batch.schema.names
    except (pa.ArrowException, OSError, ValueError, IndexError, StopIteration, struct.error) as error:
        raise CorruptFrame(f"keys or values of queryable state cannot be read: {error}") from error
    if found != names:
        raise CorruptFrame(f"keys or values of queryable state have the columns {found}, not {names}")
    return batch


def _is_compressed(message: bytes) -> bool:
    """Tells whether the buffers of a message are compressed, from its flatbuffer: Arrow would allocate whatever size they state. Raises
    ``struct.error`` or ``IndexError`` for an invalid message."""
    at = _reference(message, 0)
    header, kind = _field(message, at, _HEADER), _field(message, at, _HEADER_TYPE)
    if header is None or kind is None or message[kind] not in (_DICTIONARY_BATCH, _RECORD_BATCH):
        return False
    batch = _reference(message, header)
    if message[kind] == _DICTIONARY_BATCH:
        data = _field(message, batch, _DATA)
        if data is None:
            return False
        batch = _reference(message, data)
    return _field(message, batch, _COMPRESSION) is not None


def _reference(message: bytes, at: int) -> int:
    return at + int(struct.unpack_from("<I", message, at)[0])


def _field(message: bytes, table: int, number: int) -> int | None:
    """Returns the position of a field of a flatbuffers table; ``None`` when it is absent."""
    versioned = table - int(struct.unpack_from("<i", message, table)[0])
    if versioned < 0:
        raise struct.error("a table of queryable state has no columns")
    (size,) = struct.unpack_from("<H", message, versioned)
    place = _VERSIONED + 2 * number
    if place + 2 > size:
        return None
    (offset,) = struct.unpack_from("<H", message, versioned + place)
    return table + int(offset) if offset else None
