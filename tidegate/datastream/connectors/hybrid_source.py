"""PyFlink's hybrid source connector wraps Java classes: its names are refused when they are used, with what to use instead."""

from __future__ import annotations

from tidegate.common.names.finding import elsewhere, finding
from tidegate.common.names.java_only import java_only

_NAMES = """
HybridSource HybridSourceBuilder
"""

__all__ = [*_NAMES.split()]

__getattr__ = finding(
    __name__,
    java_only(__name__, _NAMES, "read the bounded part and the unbounded one as two sources and union them"),
    elsewhere("tidegate.datastream.connectors.base", "Source"),
)
