"""PyFlink's hybrid source connector wraps Java classes: its names are refused when they are used, with what to use instead."""

from __future__ import annotations

from tidegate.common.records.java_only import refusing

_NAMES = """
HybridSource HybridSourceBuilder
"""

__getattr__ = refusing(
    __name__,
    _NAMES,
    "read the bounded part and the unbounded one as two sources and union them",
)
