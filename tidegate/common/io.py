"""The module of PyFlink's `InputFormat`, which wraps a Java class: importing it raises an error that names what to use instead."""

from __future__ import annotations

from tidegate.common.names.java_only import refusing

_NAMES = "InputFormat"

__all__ = [*_NAMES.split()]

__getattr__ = refusing(__name__, _NAMES, "use FileSource, or env.from_spark(...) for what Spark reads")
