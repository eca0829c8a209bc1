"""`SqlDialect`: in which words statements are written (PyFlink: ``pyflink.table.sql_dialect``)."""

from __future__ import annotations

__all__ = ["SqlDialect"]


class SqlDialect:
    """Names of dialects. Statements are in the one of Flink."""

    DEFAULT = 0
    HIVE = 1
