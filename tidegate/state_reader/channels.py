"""Reads data in flight as tables: the data of an unaligned checkpoint in the channels between subtasks.

Two states of an operator: ``in-flight.input``, of the head of a chain, had reached the consumer; ``in-flight.output``, of its
tail, still waited at the producer. A row stands for one record, in the order of its channel:

    edge │ producer │ consumer │ direction │ batch │ watermark │ event │ the record's columns ... │ __timestamp (where records have one)

``batch`` counts the batches of a channel. ``watermark`` is one that stands in front of the row (in milliseconds), on the first
row of a batch only; one behind the last row has a row of its own, with nulls for the record. So has a user's ``event``, as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa

from tidegate.model.checkpoint import ChannelStateHandle
from tidegate.model.errors import CorruptData
from tidegate.state_reader.segments import VerifiedSegments

INPUT, OUTPUT = "in-flight.input", "in-flight.output"
KIND = "in_flight"
CHANNEL_COLUMNS = ("edge", "producer", "consumer", "direction", "batch", "watermark", "event")
_WATERMARK_KEY, _EVENT_KEY = b"tidegate.watermark", b"tidegate.event"


def read_channel(source: VerifiedSegments, channel: ChannelStateHandle, state_name: str, place: str) -> pa.Table:
    """Reads the rows of one channel. ``place``: the checkpoint, for messages. Raises ``CorruptData``."""
    handle = channel.handle
    where = f"state file {place}/{handle.path}" if handle.path else f"data in flight inside {place}/_metadata"
    name = f"{where} (edge {channel.edge_id}, subtask {channel.producer} to {channel.consumer})"
    try:
        with pa.ipc.open_stream(pa.py_buffer(source.read(handle))) as reader:
            parts = list(_parts(reader, channel, state_name.rpartition(".")[2]))
    except (pa.ArrowException, OSError, ValueError, TypeError, msgspec.DecodeError, RecursionError) as error:
        raise CorruptData(f"{name} is not a readable Arrow stream ({error}); use another checkpoint") from error
    filled = sum(has_rows for _, has_rows in parts)
    if filled != channel.batches:
        raise CorruptData(f"{name} has {filled} batches, but {channel.batches} are listed; use another checkpoint")
    return pa.concat_tables([part for part, _ in parts])


def _parts(
    reader: pa.ipc.RecordBatchStreamReader, channel: ChannelStateHandle, direction: str
) -> Iterator[tuple[pa.Table, bool]]:
    """Yields each batch as a table, and whether it has records."""
    number = 0
    while True:
        try:
            batch, metadata = reader.read_next_batch_with_custom_metadata()
        except StopIteration:
            return
        batch.validate(full=True)
        stored = {} if metadata is None else dict(metadata)
        records = pa.Table.from_batches([batch]).replace_schema_metadata(None)
        has_rows = records.num_rows > 0
        if not has_rows:  # an event, or a watermark behind everything
            nulls = [pa.nulls(1, field.type) for field in records.schema]
            records = pa.table(nulls, schema=pa.schema([f.with_nullable(True) for f in records.schema]))
        yield _with_channel(records, channel, direction, number, stored), has_rows
        number += has_rows


def _with_channel(
    records: pa.Table, channel: ChannelStateHandle, direction: str, number: int, stored: dict[bytes, bytes]
) -> pa.Table:
    rows = max(records.num_rows, 1)
    mark, event = stored.get(_WATERMARK_KEY), stored.get(_EVENT_KEY)
    others = [None] * (rows - 1)
    watermarks = pa.array([None if mark is None else int(mark), *others], pa.int64())
    events = pa.array([None if event is None else _as_json(event), *others], pa.string())
    values = (channel.edge_id, channel.producer, channel.consumer)
    columns = [pa.array(np.full(rows, value, np.int32)) for value in values]
    columns += [pa.array([direction] * rows), pa.array(np.full(rows, number, np.int32)), watermarks, events]
    fields = [records.schema.field(name) for name in records.schema.names]
    return pa.table(
        [*columns, *records.columns],
        schema=pa.schema(
            [
                *(pa.field(name, column.type) for name, column in zip(CHANNEL_COLUMNS, columns, strict=True)),
                *(field.with_nullable(True) for field in fields),
            ]
        ),
    )


def _as_json(event: bytes) -> str:
    return msgspec.json.encode(msgspec.msgpack.decode(event)).decode()
