"""PyFlink's JDBC connector wraps Java classes: its names are refused when they are used, with what to use instead."""

from __future__ import annotations

from tidegate.common.records.java_only import refusing

_NAMES = """
JdbcConnectionOptions JdbcExecutionOptions JdbcSink
"""

__getattr__ = refusing(
    __name__,
    _NAMES,
    "use tidegate.connectors.postgres.PostgresSink for PostgreSQL, env.from_spark(...) to read any JDBC source",
)
