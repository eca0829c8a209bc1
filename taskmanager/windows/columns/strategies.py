"""Chooses how a batch of rows is aggregated before it is exchanged, from the keys of the batch and the results of earlier ones.

few windows, one integer key in a narrow range ─▶ RANGE       arrays by key, across batches
few windows, other keys that repeat            ─▶ DICTIONARY  codes of a ``KeyDictionary``, in the same arrays
many windows, or too many keys                 ─▶ GROUPED     one group by window and keys for each batch, merged when they get many
keys that hardly repeat                        ─▶ UNGROUPED   each row as it is
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

MAX_WINDOWS_OF_BATCH = 8
"""Most windows of a batch that are aggregated one by one. A batch with more is grouped by window and key at once."""
MIN_ROWS_TO_JUDGE = 1024
"""Least rows of a batch from which its keys are judged."""
HARDLY_REPEAT = 0.97
"""The share of distinct keys in a sample of 8,192 rows above which keys hardly repeat. A sample has that share when it is drawn from more keys than a
dictionary has codes.
"""
PAUSE_BATCHES = 32
"""Number of batches after which a strategy that did not help is tried again."""


class Strategy(Enum):
    """The ways to aggregate a batch before the exchange, as drawn above."""

    RANGE = "range"
    DICTIONARY = "dictionary"
    GROUPED = "grouped"
    UNGROUPED = "ungrouped"


class StrategyChooser:
    """Chooses the strategy of one subtask, batch by batch. A strategy that did not help is left out for the next ``PAUSE_BATCHES`` batches that
    could use it.
    """

    def __init__(self) -> None:
        self._ungrouped = 0
        """The number of further batches that are not grouped."""
        self._without_dictionary = 0
        """The number of further batches that are grouped without a dictionary."""

    def choose(self, windows: int, *, is_narrow: bool, share_of_keys: Callable[[], float | None]) -> Strategy:
        """Returns the strategy for a batch of rows in ``windows`` windows, from the first to the last.

        ``is_narrow``: it has one key column, of integers in a range that fits into arrays. ``share_of_keys``: called at most once; returns the share of
        distinct keys in a sample, 0 to 1, or ``None`` if it is not known.
        """
        if windows <= MAX_WINDOWS_OF_BATCH:
            if is_narrow:
                return Strategy.RANGE
            if self._ungrouped or self._without_dictionary:
                self._without_dictionary = max(0, self._without_dictionary - 1)
            elif (share_of_keys() or 0.0) > HARDLY_REPEAT:
                self._ungrouped = PAUSE_BATCHES
            else:
                return Strategy.DICTIONARY
        if self._ungrouped:
            self._ungrouped -= 1
            return Strategy.UNGROUPED
        return Strategy.GROUPED

    def without_dictionary(self) -> Strategy:
        """Returns the strategy for a batch whose keys do not fit into a dictionary."""
        self._without_dictionary = PAUSE_BATCHES
        return Strategy.GROUPED

    def on_grouped(self, rows: int, groups: int) -> None:
        """Notes that ``rows`` rows of a batch were grouped to ``groups`` partials."""
        if rows >= MIN_ROWS_TO_JUDGE and groups > rows // 2:
            self._ungrouped = PAUSE_BATCHES
