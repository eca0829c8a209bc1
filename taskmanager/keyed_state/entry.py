"""Whose state it is: the key of a record and, for state of a window, the window."""

from __future__ import annotations

from typing import Any, TypeAlias

from tidegate.model.values import Key

Namespace: TypeAlias = Any
"""What keeps several values of one key and state apart: a window, which an assigner of a user makes of any hashable class. ``None``: none."""

Entry = tuple[Key, Namespace]
"""(key, namespace). The key is canonical (``tidegate.records.canonical.forms``)."""
