"""The entry of a keyed state: the key of a record and, for state of a window, the window."""

from __future__ import annotations

from typing import Any, TypeAlias

from tidegate.model.values import Key

Namespace: TypeAlias = Any
"""The namespace that distinguishes several values of one key and state: a window, which may be of any hashable class; ``None``: none."""

Entry = tuple[Key, Namespace]
"""(key, namespace). The key is canonical (``tidegate.records.canonical.forms``)."""
