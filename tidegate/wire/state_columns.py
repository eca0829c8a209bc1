"""The names of the columns of state files, and which of them identify an entry (docs/state-format.md)."""

from __future__ import annotations

KEY_GROUP = "key_group"
ELEMENT = "element"
DELETED = "deleted"
WINDOW_START = "window_start"
WINDOW_END = "window_end"
_IDENTITY = (KEY_GROUP, "key", WINDOW_START, WINDOW_END, "window_id", "namespace", "timestamp")


def is_identity(column: str) -> bool:
    """Tells whether a column of a state file identifies an entry (key group, key, window, namespace, time of a timer), rather than holding its value."""
    return column in _IDENTITY or column.startswith("key.")
