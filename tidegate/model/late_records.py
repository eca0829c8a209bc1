"""Records that operators of event time have dropped because they came too late (Flink: ``numLateRecordsDropped``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LateRecords:
    """As in Flink an attempt counts from 0, so ``dropped`` is what the current attempts of an operator report. ``dropped_before`` is
    what earlier ones reported: those were dropped too, and a record that was read again after a restart may be among both."""

    operator: str
    dropped: int
    dropped_before: int = 0

    def __str__(self) -> str:
        """The line with which the job's log and its client's output end."""
        before = f" since the last restart, and up to {self.dropped_before:,} before it" if self.dropped_before else ""
        plural = "" if self.dropped == 1 else "s"
        return (
            f"{self.dropped:,} late record{plural} dropped at operator '{self.operator}'{before}: the watermark had passed them. Give "
            "the watermark strategy a larger bound, or give it to from_source"
        )
