"""Conversion of tables of Arrow's readers to one batch of the wanted schema."""

from __future__ import annotations

import pyarrow as pa


def one_batch(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """Converts a table to one batch with the columns of ``schema``, which may have none: the number of rows is kept."""
    batches = table.combine_chunks().to_batches()
    if not batches:
        return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)
    data = batches[0].select(schema.names)
    return pa.RecordBatch.from_arrays(data.columns, schema=schema) if len(schema) else data
