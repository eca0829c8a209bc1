"""Records that event-time operators dropped because they were late (Flink: ``numLateRecordsDropped``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LateRecords:
    """The late records of an operator. As in Flink an attempt counts from 0, so ``dropped`` is the count of current attempts. ``dropped_before``: of
    earlier ones; a record that was read again after a restart may be in both."""

    operator: str
    dropped: int
    dropped_before: int = 0

    def __str__(self) -> str:
        """Returns the last line of the job's log and its client's output."""
        before = f" since the last restart, and up to {self.dropped_before:,} before it" if self.dropped_before else ""
        plural = "" if self.dropped == 1 else "s"
        return (
            f"{self.dropped:,} late record{plural} dropped at operator '{self.operator}'{before}: the watermark had passed them. Give "
            "the watermark strategy a larger bound, or give it to from_source"
        )
