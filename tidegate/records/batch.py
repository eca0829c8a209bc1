"""A batch: the only thing that moves through a chain. Rows of records, or columns of Arrow; both with timestamps.

On the wire a batch is an Arrow record batch: the columns of the stream's type, then, if there are timestamps,
a last column ``__timestamp`` (int64, ms since the epoch, nullable).
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from tidegate.model.values import FieldValue

TIMESTAMP_COLUMN = "__timestamp"

MIN_TIMESTAMP = -(2**63)
"""The timestamp of a record that has none (Flink: ``TimestampAssigner.NO_TIMESTAMP``)."""


@dataclass(slots=True)
class RecordsBatch:
    """``values`` are Python records. ``timestamps`` is ``None`` when no record has one, else as long as ``values``."""

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
    """``data`` has the columns of the stream's type and no others. ``timestamps`` is int64, or ``None``."""

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
    """The record batch that travels: with the timestamps as last column when there are any. No data is copied."""
    if batch.timestamps is None:
        return batch.data
    schema = batch.data.schema.append(pa.field(TIMESTAMP_COLUMN, pa.int64()))
    return pa.RecordBatch.from_arrays([*batch.data.columns, batch.timestamps], schema=schema)


def from_wire(data: pa.RecordBatch) -> ArrowBatch:
    """Undoes ``to_wire``."""
    last = data.num_columns - 1
    if last < 0 or data.schema.field(last).name != TIMESTAMP_COLUMN:
        return ArrowBatch(data)
    columns = data.columns
    schema = data.schema.remove(last)
    return ArrowBatch(pa.RecordBatch.from_arrays(columns[:last], schema=schema), columns[last])
