"""PyFlink's way into the JVM. There is none here: asking for it raises an error that says what to do instead."""

from __future__ import annotations

__all__ = ["get_gateway"]


def get_gateway() -> object:
    """Raises ``RuntimeError``, always."""
    raise RuntimeError(
        "tidegate has no Java gateway: its job API is Python's own. What a program did through get_gateway().jvm needs a "
        "Python counterpart (sources and sinks: tidegate.connectors.base; settings: Configuration)"
    )
