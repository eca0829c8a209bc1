"""What goes to disk when the windows of a subtask are more than its memory may hold, and when pieces on disk become one. Pure.

    budget ─▶ decide_limits: a part for windows, a part for what the next incremental checkpoint is to write

    memory over its limit ─▶ decide_spill: the largest partition ─▶ merged: half of it was duplicates? it stays
                                                                    else ─▶ decide_parts: written as one piece each ─▶ forgotten
    16 pieces of a partition, the newer ones as large as the first ─▶ decide_combine: they become one

The laws: after each step no more than the limit is held; a partition is cut before its first piece is written and never after that, so that a piece belongs
to one partition; and what is combined at a time (when windows fire, for a snapshot, or because there are many pieces) is one partition, so about
``1 / FAN_OUT`` of the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.model.keygroups import KeyGroupRange

FAN_OUT: Final = 64
"""Partitions of a state that is on disk. With ten times the budget one of them takes a sixth of the budget, and a piece of one is a 32nd of it:
large enough to be written and read in one go."""
MOST_PIECES: Final = 16
"""With fewer pieces of a partition it costs more to write them again than to read them."""
CHANGES_SHARE: Final = 4
"""The part of the budget that may keep what the next incremental checkpoint is to write."""


def decide_limits(budget_bytes: int) -> tuple[int | None, int | None]:
    """Returns the bytes that windows may hold in memory, and those that may be kept for the next incremental checkpoint; ``None``: not bounded, as
    with a budget of 0."""
    if budget_bytes <= 0:
        return None, None
    changes = budget_bytes // CHANGES_SHARE
    return budget_bytes - changes, changes


def decide_spill(held: Sequence[int], inbox: int, limit: int) -> int | None:
    """``held``: bytes in memory of each partition; ``inbox``: of what is not partitioned yet. Returns the partition to write, -1: partition the inbox first,
    ``None``: all fits."""
    if sum(held) + inbox <= limit:
        return None
    largest = max(range(len(held)), key=lambda index: held[index])
    return largest if held[largest] and sum(held) >= inbox else -1


def is_worth_keeping(before: int, merged: int) -> bool:
    """Whether a partition whose bytes were so many before it was merged stays in memory: at least half of it was duplicates."""
    return 2 * merged <= before


def decide_parts(partition: KeyGroupRange, owned: KeyGroupRange) -> list[KeyGroupRange]:
    """Returns what a partition without pieces is cut into before its first piece is written, in order."""
    width = -(-owned.size // FAN_OUT)
    starts = range(partition.start, partition.end + 1, width)
    return [KeyGroupRange(start, min(start + width - 1, partition.end)) for start in starts]


def decide_combine(pieces: Sequence[int]) -> bool:
    """``pieces``: rows of each piece of a partition, the oldest first. As often as rows are written again, they have doubled."""
    return len(pieces) >= MOST_PIECES and sum(pieces[1:]) >= pieces[0]
