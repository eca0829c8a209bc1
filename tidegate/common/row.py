"""`Row` and `RowKind` (PyFlink: ``pyflink.common.types``), under the path by which the pickles in checkpoints name them."""

from __future__ import annotations

from tidegate.records.row import PositionalNames, Row, RowKind, make_row

__all__ = ["PositionalNames", "Row", "RowKind", "make_row"]
