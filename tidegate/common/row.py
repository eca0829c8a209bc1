"""`Row` and `RowKind` (PyFlink: ``pyflink.common.types``), at the path in the pickles of checkpoints."""

from __future__ import annotations

from tidegate.records.row import PositionalNames, Row, RowKind, make_row

__all__ = ["PositionalNames", "Row", "RowKind", "make_row"]
