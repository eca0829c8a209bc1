"""PyFlink's JDBC connector wraps Java classes: its names are refused when they are used, with what to use instead."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.java_only import java_only

_NAMES = """
JdbcConnectionOptions JdbcExecutionOptions JdbcSink
"""

__all__ = [*_NAMES.split()]

__getattr__ = finding(
    __name__,
    java_only(
        __name__,
        _NAMES,
        "use tidegate.connectors.postgres.PostgresSink for PostgreSQL, env.from_spark(...) to read any JDBC source",
    ),
    elsewhere("tidegate.common.typeinfo", "RowTypeInfo"),
    elsewhere("tidegate.functions.java_functions", "SinkFunction"),
)
