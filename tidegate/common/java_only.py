"""Names of PyFlink that stand for Java classes: a program that uses one is told what to use here instead.

A module whose connector exists in Java only refuses its names when they are imported:

    from tidegate.datastream.connectors.pulsar import PulsarSource
    ImportError: PulsarSource is a connector of Flink's Java side, which tidegate does not have; use KafkaSource ...
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["refusing"]


def refusing(module: str, names: str, instead: str) -> Callable[[str], object]:
    """The ``__getattr__`` of such a module. ``names``: those that PyFlink has there, between blanks."""
    known = frozenset(names.split())

    def missing(name: str) -> object:
        if name in known:
            raise ImportError(
                f"{module}.{name} stands for a Java class of Flink, which tidegate does not run; {instead}", name=module
            )
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return missing
