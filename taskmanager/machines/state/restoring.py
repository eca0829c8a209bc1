"""Decides whether restored windows are read at once or stay in the files of their checkpoint, and into which parts they are divided there. Pure.

    small, or a part would not fit into memory ─▶ None: read before the first record
    else ─▶ parts of whole key groups: a part is what is read and combined at a time when windows fire

The rows of a file are sorted by key group, so a part of whole key groups is a slice of each file, and no file has to be rewritten. There are no smaller parts:
a subtask with few key groups and little memory reads its windows before the first record, and divides them by the hash of the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.taskmanager.machines.state.spilling import FAN_OUT

EAGER_BYTES: Final = 32 << 20
"""Restored windows of at most this size are read at once. That takes a tenth of a second or two, and an error in them is known before the task runs."""
PART_ROWS: Final = 1 << 17
"""Rows of a part where memory is not bounded: as many as a bucket has."""
PARTS_OF_LIMIT: Final = 8
"""The number of parts that fit into the memory limit together."""
LARGEST_OF_LIMIT: Final = 2
"""A part is at most the limit divided by this, which matters for a part of one key group with many keys."""


def decide_restored_parts(
    group_bytes: Sequence[int], rows: int, limit: int | None, eager_bytes: int = EAGER_BYTES
) -> list[range] | None:
    """Returns the parts of restored windows, as ranges of indices of key groups, in order; ``None``: everything is read at once.

    ``group_bytes``: bytes of each owned key group; ``limit``: bytes that windows may take in memory, ``None``: not bounded.
    """
    total = sum(group_bytes)
    if total <= eager_bytes:
        return None
    wanted = -(-rows // PART_ROWS)
    if limit is not None:
        wanted = max(wanted, -(-total * PARTS_OF_LIMIT // limit))
    width = -(-len(group_bytes) // min(max(wanted, 1), FAN_OUT))
    starts = range(0, len(group_bytes), width)
    parts = [range(start, min(start + width, len(group_bytes))) for start in starts]
    if limit is not None and any(LARGEST_OF_LIMIT * sum(group_bytes[i] for i in part) > limit for part in parts):
        return None
    return parts
