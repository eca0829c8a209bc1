"""The module in which PyFlink finds Flink (``pyflink.find_flink_home``): its names can be imported, but using one raises an error."""

from __future__ import annotations

from tidegate.common.names.java_only import refusing

__getattr__ = refusing(
    __name__, "_find_flink_home _find_flink_source_root", "it is installed as a whole by pip, and has no FLINK_HOME"
)
