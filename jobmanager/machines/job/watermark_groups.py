"""How far the sources of a group have come together: the lowest watermark among all of their subtasks.

    subtask of a source ── reported(group, watermark) ─▶ the lowest of the group ─▶ announced in the answer

A source pauses while its own watermark is ahead of that by more than the allowed drift. Laws: a subtask counts with its last
report, whatever attempt it was of, and before its first watermark not at all; one that is idle or at its end reports
the end of time, and so holds nobody back; one that was not heard of for ten intervals (at least ``FORGET_MS``) is
forgotten: it is gone, or the job has fewer subtasks now.

Nothing of it is durable: after a failure of the JobManager the subtasks report again. Follows Flink's ``SourceCoordinator.java``,
which combines watermarks and announces them every update interval.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.jobmanager.machines.events import WatermarkReported
from tidegate.model.ids import JobId

FORGET_MS = 10_000
"""Chosen, not measured: many times the interval at which sources report; an attempt that is silent for longer has ended."""


@dataclass(frozen=True, slots=True)
class _Report:
    watermark_ms: int
    forget_at_ms: float


class WatermarkGroups:
    """The watermark groups of all jobs; groups of different jobs have nothing to do with each other."""

    def __init__(self) -> None:
        self._groups: dict[tuple[JobId, str], dict[tuple[str, int], _Report]] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def on(self, event: WatermarkReported, now_ms: float) -> int:
        """The lowest watermark of the group, in ms; the end of time when it holds no source back."""
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
        """Raises ``AssertionError`` when a group is kept that nobody reports to."""
        empty = [name for name, reports in self._groups.items() if not reports]
        assert not empty, f"groups {empty} are empty"
