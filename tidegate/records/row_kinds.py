"""The column of row kinds of a batch: the change that each row makes, as int8 with Flink's values (``RowKind.java``).

It is the last column, named ``ROW_KIND``. A batch without it has inserts only. Streams of rows (``Types.ROW``) have it in those batches that hold other
kinds; streams of columns (``ArrowTypeInfo``) have it in all batches where their type has it, else in none.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

ROW_KIND: Final = "$row_kind"
"""The name of the column of row kinds; no column of a table may have it."""

KIND_FIELD: Final = pa.field(ROW_KIND, pa.int8(), nullable=False)


def has_kinds(schema: pa.Schema) -> bool:
    """Tells whether the last column is that of row kinds."""
    return len(schema) > 0 and schema.names[-1] == ROW_KIND


def with_kinds(schema: pa.Schema) -> pa.Schema:
    """Returns the schema with the column of row kinds as its last."""
    return schema.append(KIND_FIELD)


def without_kinds(data: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch without its column of row kinds."""
    last = data.num_columns - 1
    return data.remove_column(last) if has_kinds(data.schema) else data


__all__ = ["KIND_FIELD", "ROW_KIND", "has_kinds", "with_kinds", "without_kinds"]
