"""`SqlDialect`: the names of SQL dialects (PyFlink: ``pyflink.table.sql_dialect``)."""

from __future__ import annotations

__all__ = ["SqlDialect"]


class SqlDialect:
    """Names of SQL dialects, of which only Flink's own is supported."""

    DEFAULT = 0
    HIVE = 1
