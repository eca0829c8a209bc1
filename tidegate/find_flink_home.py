"""Where PyFlink finds Flink (``pyflink.find_flink_home``): the names import, using one is refused."""

from __future__ import annotations

from tidegate.common.names.java_only import refusing

__getattr__ = refusing(
    __name__, "_find_flink_home _find_flink_source_root", "it is installed as a whole by pip, and has no FLINK_HOME"
)
