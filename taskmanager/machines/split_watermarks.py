"""One watermark of many splits: how far event time has come in a source that reads several splits at once.

    split ── advanced ─▶ its watermark ─┐
          ── idle / active              ├─▶ the combined watermark: the smallest of the splits that are not idle
          ── retired (at its end)      ─┘

Laws. The combined watermark never goes back. A split that is idle holds nothing back; when all are idle it stays where it is.
The last split that retires leaves its watermark behind, so that what it promised is kept.

Follows Flink's ``WatermarkOutputMultiplexer.java`` and ``CombinedWatermarkStatus.java``, and ``WatermarksWithIdleness.java`` for
when a split is idle: after no record for so long, not counting the time in which the source could not emit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

NO_WATERMARK = -(2**63)


@dataclass(slots=True)
class _Split:
    watermark: int = NO_WATERMARK
    is_idle: bool = False
    quiet_ms: float = 0
    was_seen: bool = True
    """Whether a record came since the last tick."""


class SplitWatermarks:
    def __init__(self, idle_timeout_ms: int | None = None) -> None:
        """``idle_timeout_ms``: a split without records is idle after this long; ``None``: never."""
        self._idle_timeout_ms = idle_timeout_ms
        self._splits: dict[str, _Split] = {}
        self._combined = NO_WATERMARK

    def __len__(self) -> int:
        return len(self._splits)

    def splits(self) -> list[str]:
        return list(self._splits)

    def seen(self, split: str) -> None:
        """A record came: the split takes part in the minimum."""
        known = self._splits.get(split)
        if known is None:
            self._splits[split] = _Split()
            return
        known.is_idle, known.quiet_ms, known.was_seen = False, 0, True

    def advanced(self, split: str, watermark_ms: int) -> None:
        known = self._splits.setdefault(split, _Split())
        known.watermark = max(known.watermark, watermark_ms)

    def marked(self, split: str, is_idle: bool) -> None:
        """A generator says so itself."""
        self._splits.setdefault(split, _Split()).is_idle = is_idle

    def retired(self, splits: Iterable[str]) -> None:
        """They are at their end."""
        gone = [self._splits.pop(split) for split in splits if split in self._splits]
        if gone and not self._splits:
            self._combined = max(self._combined, *(split.watermark for split in gone))

    def passed(self, elapsed_ms: float) -> None:
        """So much time went by in which the source could emit."""
        for split in self._splits.values():
            if not split.was_seen and self._idle_timeout_ms is not None:
                split.quiet_ms += elapsed_ms
                split.is_idle = split.is_idle or split.quiet_ms >= self._idle_timeout_ms
            split.was_seen = False

    def watermark(self) -> int:
        """The combined one."""
        active = [split.watermark for split in self._splits.values() if not split.is_idle]
        if active:
            self._combined = max(self._combined, min(active))
        return self._combined

    def is_idle(self) -> bool:
        """Whether there are splits, and all of them are idle."""
        return bool(self._splits) and all(split.is_idle for split in self._splits.values())
