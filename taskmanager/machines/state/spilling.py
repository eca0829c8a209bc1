"""Decides which windows of a subtask are spilled to disk, and when spilled pieces are combined into one. Pure.

    budget ─▶ decide_limits: a part for windows, a part for what the next incremental checkpoint is to write

    memory over its limit ─▶ decide_spill: the largest partition ─▶ merged: half of it was duplicates? it stays
                                                                    else ─▶ decide_parts: written as one piece each ─▶ forgotten
    16 pieces of a partition, the newer ones as large as the first ─▶ decide_combine: they become one

Laws: after each step the memory is within its limit; a partition is divided only before its first piece is written, so that a piece belongs to one partition;
pieces are combined one partition at a time (when windows fire, for a snapshot, or because there are many pieces), which is about ``1 / FAN_OUT`` of the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tidegate.model.keygroups import KeyGroupRange

FAN_OUT: Final = 64
"""Number of partitions of a state on disk. With ten times the budget one of them takes a sixth of the budget, and a piece of one is a 32nd of it: large enough
to be written and read in one go.
"""
MOST_PIECES: Final = 16
"""Number of pieces from which a partition may be combined. With fewer it costs more to write them again than to read them."""
CHANGES_SHARE: Final = 4
"""The share of the budget (a quarter) that may hold what the next incremental checkpoint writes."""


def decide_limits(budget_bytes: int) -> tuple[int | None, int | None]:
    """Returns the bytes that windows may hold in memory, and those that may be kept for the next incremental checkpoint. Both are ``None`` (not bounded) with a
    budget of 0.
    """
    if budget_bytes <= 0:
        return None, None
    changes = budget_bytes // CHANGES_SHARE
    return budget_bytes - changes, changes


def decide_spill(held: Sequence[int], inbox: int, limit: int) -> int | None:
    """Returns the partition to write to disk; -1: the inbox has to be partitioned first; ``None``: everything fits.

    ``held``: bytes in memory of each partition; ``inbox``: bytes that are not partitioned yet.
    """
    if sum(held) + inbox <= limit:
        return None
    largest = max(range(len(held)), key=lambda index: held[index])
    return largest if held[largest] and sum(held) >= inbox else -1


def is_worth_keeping(before: int, merged: int) -> bool:
    """Tells whether a partition stays in memory after it was merged: at least half of its bytes were duplicates."""
    return 2 * merged <= before


def decide_parts(partition: KeyGroupRange, owned: KeyGroupRange) -> list[KeyGroupRange]:
    """Returns the key group ranges into which a partition without pieces is divided before its first piece is written, in order."""
    width = -(-owned.size // FAN_OUT)
    starts = range(partition.start, partition.end + 1, width)
    return [KeyGroupRange(start, min(start + width - 1, partition.end)) for start in starts]


def decide_combine(pieces: Sequence[int]) -> bool:
    """Tells whether the pieces of a partition are to be combined into one. ``pieces``: rows of each piece, the oldest first.

    Rows are written again only once their number has doubled.
    """
    return len(pieces) >= MOST_PIECES and sum(pieces[1:]) >= pieces[0]
