"""How the next batch of rows is aggregated before it is exchanged: one decision, from the keys of the batch and from what became of earlier ones.

few windows, one integer key in a narrow range ─▶ RANGE       arrays by key, across batches
few windows, other keys that repeat            ─▶ DICTIONARY  codes of a ``KeyDictionary``, in the same arrays
many windows, or too many keys                 ─▶ GROUPED     one group by window and keys for each batch, merged when they get many
keys that hardly repeat                        ─▶ UNGROUPED   each row as it is
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

MAX_WINDOWS_OF_BATCH = 8
"""A batch that spreads over more windows is grouped by window and key in one go."""
MIN_ROWS_TO_JUDGE = 1024
"""What a batch of fewer rows shows of its keys decides nothing."""
HARDLY_REPEAT = 0.97
"""Different keys in a sample of 8,192 rows, as a part of it: so many differ when they are drawn from more keys than a dictionary has codes."""
PAUSE_BATCHES = 32
"""What did not help is tried again after so many batches."""


class Strategy(Enum):
    RANGE = "range"
    DICTIONARY = "dictionary"
    GROUPED = "grouped"
    UNGROUPED = "ungrouped"


class StrategyChooser:
    """Chooses for one subtask, batch by batch. A strategy that did not help is left out for the next ``PAUSE_BATCHES`` batches that could use it."""

    def __init__(self) -> None:
        self._ungrouped = 0
        """How many more batches go on ungrouped."""
        self._without_dictionary = 0
        """How many more batches are grouped without a dictionary."""

    def choose(self, windows: int, *, is_narrow: bool, share_of_keys: Callable[[], float | None]) -> Strategy:
        """Returns the strategy for a batch of rows in ``windows`` windows, from the first to the last. ``is_narrow``: it has one key column, of integers
        in a range that fits into arrays. ``share_of_keys``: called at most once, gives how many keys of a sample differ, 0 to 1; ``None``: unknown."""
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
        """Returns the strategy for a batch whose keys no dictionary has room for."""
        self._without_dictionary = PAUSE_BATCHES
        return Strategy.GROUPED

    def on_grouped(self, rows: int, groups: int) -> None:
        """``rows`` rows of a batch became ``groups`` partials."""
        if rows >= MIN_ROWS_TO_JUDGE and groups > rows // 2:
            self._ungrouped = PAUSE_BATCHES
