"""Watermark alignment groups: the lowest watermark among all source subtasks of each group.

    subtask of a source ── reported(group, watermark) ─▶ the lowest of the group ─▶ announced in the answer

A source pauses while its own watermark is ahead of that by more than the allowed drift. Laws: a subtask counts with its last
report, of whichever attempt, and not before its first watermark; one that is idle or at its end reports
the maximum watermark and so holds no other back; one that has not reported for ten intervals (at least ``FORGET_MS``) is
dropped: it has ended, or the job has fewer subtasks now.

Nothing of it is durable: after a failure of the JobManager the subtasks report again. Follows Flink's ``SourceCoordinator.java``,
which combines watermarks and announces them every update interval.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.jobmanager.machines.events import WatermarkReported
from tidegate.model.ids import JobId

FORGET_MS = 10_000
"""After how many ms without a report a subtask is dropped, at least. Chosen, not measured: many times the interval of reports."""


@dataclass(frozen=True, slots=True)
class _Report:
    watermark_ms: int
    forget_at_ms: float


class WatermarkGroups:
    """The watermark alignment groups of all jobs; groups of different jobs are independent."""

    def __init__(self) -> None:
        self._groups: dict[tuple[JobId, str], dict[tuple[str, int], _Report]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def on(self, event: WatermarkReported, now_ms: float) -> int:
        """Notes a report; returns the lowest watermark of its group in ms, the maximum when the group holds no source back."""
        self._forget(now_ms)
        attempt = event.attempt
        reports = self._groups.setdefault((attempt.job_id, event.group), {})
        forget_at_ms = now_ms + max(FORGET_MS, 10 * event.interval_ms)
        reports[attempt.vertex_id, attempt.subtask] = _Report(event.watermark_ms, forget_at_ms)
        return min(report.watermark_ms for report in reports.values())

    def _forget(self, now_ms: float) -> None:
        for name, reports in list(self._groups.items()):
            for source in [source for source, report in reports.items() if report.forget_at_ms <= now_ms]:
                del reports[source]
            if not reports:
                del self._groups[name]

    def check_invariants(self) -> None:
        """Raises ``AssertionError`` when an empty group is kept."""
        empty = [name for name, reports in self._groups.items() if not reports]
        assert not empty, f"groups {empty} are empty"
