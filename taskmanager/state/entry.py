"""Whose state it is: the key of a record and, for state of a window, the window."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

from tidegate.model.values import Key

Namespace: TypeAlias = Any
"""What keeps several values of one key and state apart: a window, which an assigner of a user makes of any hashable class. ``None``: none."""

Entry = tuple[Key, Namespace]
"""(key, namespace)."""


def canonical_key(key: Key) -> Key:
    """The key as a dict finds it again: the one NaN of this process in place of any other, a list as a tuple."""
    if key.__class__ is float:
        return math.nan if key != key else key
    if key.__class__ is list:
        return tuple(map(canonical_key, key))
    if key.__class__ is tuple and any(part != part for part in key):
        return tuple(canonical_key(part) for part in key)
    return key
