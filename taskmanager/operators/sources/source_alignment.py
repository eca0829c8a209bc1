"""Watermark alignment: a source pauses while it is too far ahead of the others of its group (Flink: ``SourceOperator.java``).

    every update interval: own watermark ─▶ JobManager ─▶ the lowest of the group ─▶ limit = lowest + allowed drift
    own watermark > limit ─▶ paused: nothing is polled until the others have come closer

A source without a watermark reports nothing, so that an empty partition does not pause others; one that is idle or at its end reports the maximum watermark.
While the JobManager does not answer, the last limit holds.
"""

from __future__ import annotations

from tidegate.common.watermark_strategy import WatermarkAlignment
from tidegate.model.channel_events import END_OF_TIME
from tidegate.records.batch import MIN_TIMESTAMP
from tidegate.taskmanager.operators.operator import OperatorContext
from tidegate.taskmanager.operators.sources.watermarks import EventTimes

PAUSES = "watermarkAlignmentPauses"


class SourceAlignment:
    """Aligns the watermark of a source with those of its group, through the JobManager: a source that is too far ahead pauses."""

    def __init__(self, context: OperatorContext, alignment: WatermarkAlignment, times: EventTimes) -> None:
        self._context = context
        self._alignment = alignment
        self._times = times
        self._limit = END_OF_TIME
        self._was_paused = False
        self._has_ended = False
        self._is_asking = False
        self._timer: object | None = None

    def open(self) -> None:
        if self._context.coordination.align_watermark is not None and self._context.background.run_async is not None:
            self._ask(0)

    def close(self) -> None:
        if self._timer is not None:
            self._context.timers.cancel(self._timer)
            self._timer = None

    def is_paused(self) -> bool:
        is_paused = self._times.emitted > self._limit
        if is_paused and not self._was_paused:
            self._context.metrics.add(PAUSES)
        self._was_paused = is_paused
        return is_paused

    def ended(self) -> None:
        """Notes that the source has ended, so that it holds no other source back."""
        self._has_ended = True
        if self._timer is not None:
            self.close()
            self._ask(0)

    def _ask(self, at_ms: int) -> None:
        """Reports the own watermark and takes the group's lowest one. There is one request at a time."""
        self._timer = self._context.timers.schedule(self._context.clock.now_ms() + self._alignment.update_ms, self._ask)
        own = END_OF_TIME if self._has_ended or self._times.is_idle else self._times.emitted
        if own == MIN_TIMESTAMP or (self._is_asking and not self._has_ended):
            return
        align, run_async = self._context.coordination.align_watermark, self._context.background.run_async
        assert align is not None
        assert run_async is not None
        alignment = self._alignment
        answers: list[int] = []
        self._is_asking = True
        run_async(
            lambda: answers.append(align(alignment.group, own, alignment.update_ms)),
            lambda error: self._on_answers(answers),
        )

    def _on_answers(self, answers: list[int]) -> None:
        self._is_asking = False
        if answers:
            lowest = answers[0]
            drift_ms = self._alignment.max_drift_ms
            self._limit = END_OF_TIME if lowest > END_OF_TIME - drift_ms else max(lowest, MIN_TIMESTAMP) + drift_ms
