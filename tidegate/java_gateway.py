"""PyFlink's gateway to the JVM. There is no JVM: using it raises an error that says what to do instead."""

from __future__ import annotations

__all__ = ["get_gateway"]


def get_gateway() -> object:
    """Raises ``RuntimeError``, since there is no JVM."""
    raise RuntimeError(
        "tidegate has no Java gateway: its job API is Python's own. What a program did through get_gateway().jvm needs a "
        "Python counterpart (sources and sinks: tidegate.connectors.base; settings: Configuration)"
    )
