"""The names of ``pyflink.common.types``, at the same module path."""

from __future__ import annotations

from tidegate.common.row import Row, RowKind

__all__ = ["Row", "RowKind"]
