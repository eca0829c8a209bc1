"""Pickles PyFlink's subclasses of tidegate's classes as the base class, so that a subtask need not import the DSL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Shipped: TypeAlias = tuple[Callable[..., object], tuple[type], object]


def shipped_as(base: type, instance: object) -> Shipped:
    """Returns the ``__reduce__`` value of a class that only adds constructors to ``base``: it is unpickled as ``base``. Handles dataclasses with slots,
    which have no ``__dict__`` but a ``__getstate__``."""
    get_state = getattr(base, "__getstate__", vars)
    return object.__new__, (base,), get_state(instance)
