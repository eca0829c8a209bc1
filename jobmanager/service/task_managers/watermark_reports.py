"""Watermark reports that wait for the machine's answer.

begin ─▶ WatermarkReported ─▶ machine ─▶ AnnounceWatermark ─▶ announced ─▶ the caller
"""

from __future__ import annotations

import asyncio

from tidegate.jobmanager.machines.commands import AnnounceWatermark
from tidegate.jobmanager.machines.events import WatermarkReported
from tidegate.model.ids import AttemptId


class WatermarkReports:
    """Open watermark reports by id. Belongs to the loop's thread."""

    def __init__(self) -> None:
        self._last_id = 0
        self._open: dict[int, asyncio.Future[int]] = {}

    def begin(
        self, attempt: AttemptId, group: str, watermark_ms: int, interval_ms: int
    ) -> tuple[WatermarkReported, asyncio.Future[int]]:
        """Returns the event to post, and a future of the lowest watermark of the group in ms."""
        self._last_id += 1
        answer = self._open[self._last_id] = asyncio.get_running_loop().create_future()
        return WatermarkReported(attempt, group, watermark_ms, interval_ms, self._last_id), answer

    def announced(self, command: AnnounceWatermark) -> None:
        answer = self._open.pop(command.report_id, None)
        if answer is not None and not answer.done():  # the caller may have been cancelled
            answer.set_result(command.lowest_ms)
