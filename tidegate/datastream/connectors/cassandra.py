"""PyFlink's Cassandra connector wraps Java classes: its names are refused when they are used, with what to use instead."""

from __future__ import annotations

from tidegate.common.records.java_only import refusing

_NAMES = """
CassandraCommitter CassandraFailureHandler CassandraSink ClusterBuilder ConsistencyLevel
MapperOptions
"""

__getattr__ = refusing(
    __name__,
    _NAMES,
    "write to PostgreSQL (PostgresSink), to files or to Kafka instead",
)
