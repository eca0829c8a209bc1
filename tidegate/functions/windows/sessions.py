"""Sessions: windows that grow with each record, and end when none came for the length of the gap.

Each record opens a window of its own, from its time to its time and the gap; windows of a key that overlap or touch are
merged. (Flink: ``EventTimeSessionWindows.java``, ``DynamicEventTimeSessionWindows.java`` and their counterparts by the clock.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from tidegate.common.names.type_variables import T
from tidegate.common.time import to_millis
from tidegate.functions.windows.assigners import AssignerScope, MergingWindowAssigner, TimeWindowAssigner
from tidegate.functions.windows.triggers import Length
from tidegate.functions.windows.windows import MergeReport, TimeWindow
from tidegate.model.errors import InvalidJob


class SessionWindowTimeGapExtractor(ABC):
    """Tells the gap that follows a record."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """In ms; positive."""


class _Sessions(TimeWindowAssigner[T], MergingWindowAssigner[T, TimeWindow]):
    def merge_windows(self, windows: Iterable[TimeWindow], callback: MergeReport) -> None:
        TimeWindow.merge_windows(windows, callback)


class _FixedGap(_Sessions[T]):
    def __init__(self, session_gap: int) -> None:
        if session_gap <= 0:
            raise InvalidJob(f"{type(self).__name__}: the gap must be positive, not {session_gap} ms")
        self.gap_ms = session_gap

    def assign_windows(self, element: Any, timestamp: int, context: AssignerScope) -> list[TimeWindow]:
        moment = self._moment(timestamp, context)
        return [TimeWindow(moment, moment + self.gap_ms)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.gap_ms})"


class _DynamicGap(_Sessions[T]):
    def __init__(self, session_window_time_gap_extractor: SessionWindowTimeGapExtractor) -> None:
        if not isinstance(session_window_time_gap_extractor, SessionWindowTimeGapExtractor):
            raise InvalidJob(
                f"{type(self).__name__} needs a SessionWindowTimeGapExtractor, not {session_window_time_gap_extractor!r}"
            )
        self.extractor = session_window_time_gap_extractor

    def assign_windows(self, element: Any, timestamp: int, context: AssignerScope) -> list[TimeWindow]:
        moment = self._moment(timestamp, context)
        gap_ms = self.extractor.extract(element)
        if gap_ms <= 0:
            raise InvalidJob(
                f"{type(self).__name__}: the gap must be positive, but {type(self.extractor).__name__} gave {gap_ms} ms "
                f"for {element!r}"
            )
        return [TimeWindow(moment, moment + gap_ms)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.extractor).__name__})"


class EventTimeSessionWindows(_FixedGap[T]):
    """By the timestamps of the records."""

    @staticmethod
    def with_gap(size: Length) -> EventTimeSessionWindows[Any]:
        return EventTimeSessionWindows(to_millis(size))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows[Any]:
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_FixedGap[T]):
    """By the clock."""

    _is_event_time = False

    @staticmethod
    def with_gap(size: Length) -> ProcessingTimeSessionWindows[Any]:
        return ProcessingTimeSessionWindows(to_millis(size))

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows[Any]:
        return DynamicProcessingTimeSessionWindows(extractor)


class DynamicEventTimeSessionWindows(_DynamicGap[T]):
    """By the timestamps of the records, each of which says how long the gap behind it may be."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows[Any]:
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_DynamicGap[T]):
    """The same by the clock."""

    _is_event_time = False

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows[Any]:
        return DynamicProcessingTimeSessionWindows(extractor)
