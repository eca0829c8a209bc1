"""PyFlink's helpers for settings of Java (``pyflink.datastream.utils``): they import, using one is refused."""

from __future__ import annotations

from tidegate.common.names.java_only import refusing

__getattr__ = refusing(
    __name__,
    "create_hadoop_configuration create_java_properties",
    "give a tidegate.common.Configuration to what takes settings",
)
