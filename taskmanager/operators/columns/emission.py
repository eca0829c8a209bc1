"""Emits result rows in batches of at most ``EMIT_ROWS`` rows, which an exchange sends without splitting them."""

from __future__ import annotations

import pyarrow as pa

from tidegate.records.batch import ArrowBatch
from tidegate.taskmanager.operators.operator import Output

EMIT_ROWS = 1 << 16
"""Rows of the largest batch that goes through an exchange (docs/internals/performance.md)."""


def emit_rows(output: Output, rows: pa.RecordBatch, stamps: pa.Array | None = None) -> None:
    """Emits the rows in order, each with its timestamp if there are any."""
    for at in range(0, rows.num_rows, EMIT_ROWS):
        part = None if stamps is None else stamps.slice(at, EMIT_ROWS)
        output.emit(ArrowBatch(rows.slice(at, EMIT_ROWS), part))
