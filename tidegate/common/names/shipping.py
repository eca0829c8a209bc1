"""Classes of PyFlink's names over ours: a program takes ours into a subtask, which does not load the DSL for a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Shipped: TypeAlias = tuple[Callable[..., object], tuple[type], object]


def shipped_as(base: type, instance: object) -> Shipped:
    """For ``__reduce__`` of a class that adds to ``base`` only how it is made: what is unpickled is one of ``base``. A dataclass with slots
    has its fields in no ``__dict__``, and a ``__getstate__`` of its own."""
    get_state = getattr(base, "__getstate__", vars)
    return object.__new__, (base,), get_state(instance)
