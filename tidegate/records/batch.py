"""Batches of records, in which data moves between operators: Python records, or Arrow columns; both with timestamps.

On the wire a batch is an Arrow record batch: the columns of the stream's type, then, if there are timestamps,
a last column ``__timestamp`` (int64, ms since the epoch, nullable).
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidegate.model.values import FieldValue

TIMESTAMP_COLUMN = "__timestamp"

MIN_TIMESTAMP = -(2**63)
"""The timestamp of a record without one (Flink: ``TimestampAssigner.NO_TIMESTAMP``)."""


@dataclass(slots=True)
class RecordsBatch:
    """A batch of Python records. ``timestamps``: ``None`` when no record has one, else as many as ``values``."""

    values: list[FieldValue]
    timestamps: list[int | None] | None = None

    def __len__(self) -> int:
        return len(self.values)

    def slice(self, start: int, stop: int) -> RecordsBatch:
        """Returns the records from ``start`` up to ``stop``, as a copy."""
        stamps = None if self.timestamps is None else self.timestamps[start:stop]
        return RecordsBatch(self.values[start:stop], stamps)


@dataclass(slots=True)
class ArrowBatch:
    """A batch of Arrow columns. ``data``: exactly the columns of the stream's type. ``timestamps``: an int64 array, or ``None``."""

    data: pa.RecordBatch
    timestamps: pa.Array | None = None

    def __len__(self) -> int:
        return int(self.data.num_rows)

    def slice(self, start: int, stop: int) -> ArrowBatch:
        """Returns the rows from ``start`` up to ``stop``, without a copy."""
        stamps = None if self.timestamps is None else self.timestamps.slice(start, stop - start)
        return ArrowBatch(self.data.slice(start, stop - start), stamps)


Batch = RecordsBatch | ArrowBatch


def to_wire(batch: ArrowBatch) -> pa.RecordBatch:
    """Converts a batch to the record batch that is sent: with the timestamps as last column when there are any. Copies no data."""
    if batch.timestamps is None:
        return batch.data
    schema = batch.data.schema.append(pa.field(TIMESTAMP_COLUMN, pa.int64()))
    return pa.RecordBatch.from_arrays([*batch.data.columns, batch.timestamps], schema=schema)


def from_wire(data: pa.RecordBatch) -> ArrowBatch:
    """Converts a record batch that was received back to a batch; the inverse of ``to_wire``."""
    last = data.num_columns - 1
    if last < 0 or data.schema.field(last).name != TIMESTAMP_COLUMN:
        return ArrowBatch(data)
    columns = data.columns
    schema = data.schema.remove(last)
    return ArrowBatch(pa.RecordBatch.from_arrays(columns[:last], schema=schema), columns[last])
