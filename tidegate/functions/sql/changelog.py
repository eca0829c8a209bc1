"""Changelogs in columns: rows with their kinds.

The kind of a row stands in one last column (``tidegate.records.row_kinds``). A stream without that column has inserts only.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.records.row_kinds import KIND_FIELD, ROW_KIND, has_kinds, with_kinds

INSERT: Final = 0
"""The kind of a new row; all four are Flink's ``RowKind``."""
UPDATE_BEFORE: Final = 1
"""The kind of a row before a change, by Flink's ``RowKind``."""
UPDATE_AFTER: Final = 2
"""The kind of a row after a change, by Flink's ``RowKind``."""
DELETE: Final = 3
"""The kind of a deleted row, by Flink's ``RowKind``."""


def adds(kind: int) -> bool:
    """Returns whether a row kind adds a row."""
    return kind in (INSERT, UPDATE_AFTER)


def is_insert_only(data: pa.RecordBatch) -> bool:
    """Returns whether all rows of a batch are added ones."""
    if not has_kinds(data.schema):
        return True
    kinds = data.columns[-1]
    return not pc.any(pc.or_(pc.equal(kinds, UPDATE_BEFORE), pc.equal(kinds, DELETE))).as_py()


def without_update_before(data: pa.RecordBatch) -> pa.RecordBatch:
    """Drops the -U rows of a batch."""
    return data.filter(pc.not_equal(data.columns[-1], UPDATE_BEFORE)) if has_kinds(data.schema) else data


def as_inserts(data: pa.RecordBatch) -> pa.RecordBatch:
    """Adds a column of row kinds to a batch of inserts."""
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
    "is_insert_only",
    "with_kinds",
    "without_update_before",
]
