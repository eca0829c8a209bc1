"""Keys that a client asks for, and the values that it gets: Arrow IPC streams of one batch each.

keys      column ``key``, in the type of the stream's keys
values    columns ``row`` (int32: the place of a key that has a value among the keys) and ``value``, in the type of the state
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.model.errors import CorruptFrame

KEY, ROW, VALUE = "key", "row", "value"


def write_keys(keys: pa.Array, field: pa.Field) -> bytes:
    return _written(pa.RecordBatch.from_arrays([keys], schema=pa.schema([field.with_name(KEY)])))


def keys_of(content: bytes) -> pa.Array:
    """Raises ``CorruptFrame``."""
    return _read(content, [KEY]).column(0)


def write_values(rows: Sequence[int], values: pa.Array, field: pa.Field) -> bytes:
    schema = pa.schema([pa.field(ROW, pa.int32()), field.with_name(VALUE)])
    return _written(pa.RecordBatch.from_arrays([pa.array(rows, pa.int32()), values], schema=schema))


def values_of(content: bytes) -> pa.RecordBatch:
    """Raises ``CorruptFrame``."""
    return _read(content, [ROW, VALUE])


def _written(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _read(content: bytes, names: list[str]) -> pa.RecordBatch:
    try:
        with pa.ipc.open_stream(content) as reader:
            batch = reader.read_next_batch()
            batch.validate(full=True)
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise CorruptFrame(f"keys or values of queryable state cannot be read: {error}") from error
    if batch.schema.names != names:
        raise CorruptFrame(f"keys or values of queryable state have the columns {batch.schema.names}, not {names}")
    return batch
