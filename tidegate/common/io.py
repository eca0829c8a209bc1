"""`InputFormat` of PyFlink wraps a Java class: refused at import, with what to use instead."""

from __future__ import annotations

from tidegate.common.names.java_only import refusing

__getattr__ = refusing(__name__, "InputFormat", "use FileSource, or env.from_spark(...) for what Spark reads")
