"""PyFlink's `SourceFunction` and `SinkFunction`, which wrap Java objects: creating one is refused, with advice what to use instead.

They are there so that a module that only names them can be imported.
"""

from __future__ import annotations

__all__ = ["SinkFunction", "SourceFunction"]


class SourceFunction:
    """Raises ``TypeError`` when it is created: in PyFlink it wraps a Java class."""

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError(
            "a SourceFunction wraps a Java class, which tidegate does not run; "
            "write a Source in Python (tidegate.connectors.base) or use one of tidegate.connectors"
        )


class SinkFunction:
    """Raises ``TypeError`` when it is created: in PyFlink it wraps a Java class."""

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError(
            "a SinkFunction wraps a Java class, which tidegate does not run; "
            "write a Sink in Python (tidegate.connectors.base), use one of tidegate.connectors, or execute_and_collect()"
        )
