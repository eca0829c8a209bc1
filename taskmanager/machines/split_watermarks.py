"""Combines the watermarks of the splits that a source subtask reads into one watermark.

    assigned ─▶ split ── advanced ─▶ its watermark ─┐
    expected ─▶       ── idle / active              ├─▶ the combined watermark: the smallest of the splits that are not idle
                      ── retired (at its end)      ─┘

Laws. The combined watermark never decreases. A split takes part as soon as it is known: before its first record it holds the watermark at the lower bound of
its first record, if known, else at the minimum. An expected split (which its reader reads later) is never idle; other splits hold nothing back while they are
idle. When all are idle, the combined watermark stays. When the last split retires, its watermark stays the lower bound.

Follows Flink's ``WatermarkOutputMultiplexer.java`` and ``CombinedWatermarkStatus.java``, ``SourceOperator.java`` for splits that take part as soon as they are
assigned, and ``WatermarksWithIdleness.java`` for when a split is idle: after no record for so long, not counting the time in which the source could not emit.
Expected splits do not exist in Flink, which assigns a file source one split after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.model.channel_events import NO_WATERMARK


@dataclass(slots=True)
class _Split:
    watermark: int = NO_WATERMARK
    is_idle: bool = False
    quiet_ms: float = 0
    was_seen: bool = True
    """Whether a record came since the last tick."""


class SplitWatermarks:
    """Combines the watermarks of the splits of one source subtask, those that it has not begun included."""

    def __init__(self, idle_timeout_ms: int | None = None) -> None:
        """Begins without splits. ``idle_timeout_ms``: a split without records becomes idle after this time; ``None``: never."""
        self._idle_timeout_ms = idle_timeout_ms
        self._splits: dict[str, _Split] = {}
        self._expected: dict[str, int] = {}
        """The lowest watermark of each split that is not begun. There may be many splits: the lowest of all is computed only when needed."""
        self._lowest_expected: int | None = None
        """The lowest of ``_expected``; ``None``: it has to be computed again."""
        self._combined = NO_WATERMARK

    def __len__(self) -> int:
        return len(self._splits) + len(self._expected)

    @property
    def are_expected(self) -> bool:
        """Whether there are splits that the reader has not begun."""
        return bool(self._expected)

    def assigned(self, split: str) -> None:
        """Adds a split that is read from now on: its watermark takes part in the minimum."""
        if split not in self._expected:
            self._splits.setdefault(split, _Split())

    def expected(self, split: str, watermark_ms: int = NO_WATERMARK) -> None:
        """Adds a split that is read later: it holds the combined watermark at ``watermark_ms``, as its first record will be after that."""
        self._splits.pop(split, None)
        self._expected[split] = max(self._expected.get(split, NO_WATERMARK), watermark_ms)
        self._lowest_expected = None

    def seen(self, split: str) -> None:
        """Notes that a record of a split came, so that the split is active."""
        known = self._of(split)
        known.is_idle, known.quiet_ms, known.was_seen = False, 0, True

    def advanced(self, split: str, watermark_ms: int) -> None:
        known = self._of(split)
        known.watermark = max(known.watermark, watermark_ms)

    def marked(self, split: str, is_idle: bool) -> None:
        """Sets whether a split is idle or active, as decided by the watermark generator of the split."""
        self._of(split).is_idle = is_idle

    def retired(self, splits: Iterable[str]) -> None:
        """Removes splits that are read to their end. The watermark of the last one stays as the combined one."""
        gone = []
        for split in splits:
            if split in self._expected:  # it had no records
                self._begun(split)
            elif split in self._splits:
                gone.append(self._splits.pop(split))
        if gone and not len(self):
            self._combined = max(self._combined, *(split.watermark for split in gone))

    def passed(self, elapsed_ms: float) -> None:
        """Advances the clock of idleness by time in which the source could emit: splits without records for the idle timeout become idle."""
        for split in self._splits.values():
            if not split.was_seen and self._idle_timeout_ms is not None:
                split.quiet_ms += elapsed_ms
                split.is_idle = split.is_idle or split.quiet_ms >= self._idle_timeout_ms
            split.was_seen = False

    def watermark(self) -> int:
        """Returns the combined watermark: the lowest of all splits that are not idle. It never goes back."""
        active = [split.watermark for split in self._splits.values() if not split.is_idle]
        if self._expected:
            if self._lowest_expected is None:
                self._lowest_expected = min(self._expected.values())
            active.append(self._lowest_expected)
        if active:
            self._combined = max(self._combined, min(active))
        return self._combined

    def is_idle(self) -> bool:
        """Returns whether there are splits, and all of them are idle."""
        return bool(self._splits) and not self._expected and all(split.is_idle for split in self._splits.values())

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when a split is both begun and expected, or watermarks contradict each other."""
        both = self._splits.keys() & self._expected.keys()
        lowest = min(self._expected.values(), default=None)
        assert not both, f"splits {sorted(both)} are begun, and expected"
        assert self._lowest_expected in (None, lowest), f"{self._lowest_expected} is not the lowest expected: {lowest}"
        timeout_ms = self._idle_timeout_ms
        for name, split in self._splits.items():
            quiet = timeout_ms is not None and split.quiet_ms >= timeout_ms
            assert split.is_idle or not quiet, f"split {name} is quiet for {split.quiet_ms} ms, and counts as active"

    def _of(self, split: str) -> _Split:
        """Returns a split; begins it if it was only expected."""
        known = self._splits.get(split)
        if known is None:
            known = self._splits[split] = _Split(self._begun(split))
        return known

    def _begun(self, split: str) -> int:
        """Stops expecting a split; returns the watermark that it held back."""
        held = self._expected.pop(split, NO_WATERMARK)
        if held == self._lowest_expected:
            self._lowest_expected = None
        return held
