"""A changelog in columns: rows, and what each of them does.

The kind of a row stands in one last column (``tidegate.records.row_kinds``). A stream without that column has inserts only.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.records.row_kinds import KIND_FIELD, ROW_KIND, has_kinds, with_kinds

INSERT: Final = 0
"""A new row; all four by Flink's ``RowKind``."""
UPDATE_BEFORE: Final = 1
"""A row before a change of it, by Flink's ``RowKind``."""
UPDATE_AFTER: Final = 2
"""A row after a change of it, by Flink's ``RowKind``."""
DELETE: Final = 3
"""A row that goes, by Flink's ``RowKind``."""


def adds(kind: int) -> bool:
    """Whether a row of this kind is there afterwards."""
    return kind in (INSERT, UPDATE_AFTER)


def without_update_before(data: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch without the rows that are replaced by the ones behind them."""
    return data.filter(pc.not_equal(data.columns[-1], UPDATE_BEFORE)) if has_kinds(data.schema) else data


def as_inserts(data: pa.RecordBatch) -> pa.RecordBatch:
    """Returns a batch of inserts with their kinds."""
    if has_kinds(data.schema):
        return data
    kinds = pa.repeat(pa.scalar(INSERT, pa.int8()), data.num_rows)
    return pa.RecordBatch.from_arrays([*data.columns, kinds], schema=with_kinds(data.schema))


__all__ = [
    "DELETE",
    "INSERT",
    "KIND_FIELD",
    "ROW_KIND",
    "UPDATE_AFTER",
    "UPDATE_BEFORE",
    "adds",
    "as_inserts",
    "has_kinds",
    "with_kinds",
    "without_update_before",
]
