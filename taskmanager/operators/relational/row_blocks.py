"""Rows of a window as values of state: a few rows as a list of tuples, more of them as bytes, a stream of Arrow's IPC format with one batch.

Versions before kept each row as a value, a tuple.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from tidegate.functions.sql.rows import Row, array_of_values, rows_of, typed

ROWS_FOR_BYTES: Final = 16
"""Fewest rows that are kept as bytes. Measured with rows of four columns: from here on bytes take less time than tuples, and no more space (a stream has
some 750 bytes besides its rows).
"""

MOST_ROWS: Final = 256
"""Most rows of a value. An incremental snapshot decides by numbers of entries what it writes again, so a value must not be large beside others. Chosen: with so
many rows what a stream costs besides them hardly counts.
"""


class RowBlocks:
    """Converts rows of a schema to values of state, and back."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._start = schema.serialize().to_pybytes()

    def values_of(self, data: pa.RecordBatch) -> list[Any]:
        """Returns values for the rows of a batch, in their order."""
        return [self._value_of(data.slice(at, MOST_ROWS)) for at in range(0, data.num_rows, MOST_ROWS)]

    def batches_of(self, values: Iterable[Any]) -> list[pa.RecordBatch]:
        """Returns the rows of values, in their order."""
        found: list[pa.RecordBatch] = []
        rows: list[Row] = []
        for value in values:
            if isinstance(value, bytes):
                if rows:
                    found.append(self._batch_of_rows(rows))
                    rows = []
                found.append(self._batch_of_bytes(value))
            elif isinstance(value, list):
                rows += value
            else:
                rows.append(value)
        if rows:
            found.append(self._batch_of_rows(rows))
        return found

    def _value_of(self, data: pa.RecordBatch) -> Any:
        if data.num_rows < ROWS_FOR_BYTES:
            return rows_of(data)
        return self._start + data.serialize().to_pybytes()

    def _batch_of_bytes(self, value: bytes) -> pa.RecordBatch:
        if value.startswith(self._start):
            return pa.ipc.read_record_batch(pa.py_buffer(value).slice(len(self._start)), self._schema)
        stored = pa.ipc.open_stream(value).read_next_batch()  # of a version whose columns had other types
        columns = [typed(column, field.type) for column, field in zip(stored.columns, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _batch_of_rows(self, rows: list[Row]) -> pa.RecordBatch:
        columns = zip(*rows, strict=True)
        arrays = [array_of_values(values, field.type) for values, field in zip(columns, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


__all__ = ["RowBlocks"]
