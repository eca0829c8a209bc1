"""Session windows: they grow with each record, and end after a gap without records.

Each record opens a window of its own, from its time to its time and the gap; windows of a key that overlap or touch are
merged. (Flink: ``EventTimeSessionWindows.java``, ``DynamicEventTimeSessionWindows.java`` and their counterparts by the clock.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from tidegate.common.names.type_variables import T
from tidegate.functions.windows.assigners import AssignerScope, MergingWindowAssigner, TimeWindowAssigner
from tidegate.functions.windows.triggers import Length
from tidegate.functions.windows.windows import MergeReport, TimeWindow
from tidegate.model.errors import InvalidJob
from tidegate.model.values import Record
from tidegate.model.whole_numbers import whole_number
from tidegate.records.time import to_millis


class SessionWindowTimeGapExtractor(ABC):
    """Returns the gap after a record (PyFlink: ``SessionWindowTimeGapExtractor``)."""

    @abstractmethod
    def extract(self, element: Record) -> int:
        """Returns the gap in milliseconds, which must be positive."""


class _Sessions(TimeWindowAssigner[T], MergingWindowAssigner[T, TimeWindow]):
    def merge_windows(self, windows: Iterable[TimeWindow], callback: MergeReport) -> None:
        TimeWindow.merge_windows(windows, callback)


class _FixedGap(_Sessions[T]):
    def __init__(self, session_gap: Length) -> None:
        gap_ms = to_millis(session_gap, f"{type(self).__name__}: the gap in ms")
        if gap_ms <= 0:
            raise InvalidJob(f"{type(self).__name__}: the gap must be positive, not {gap_ms} ms")
        self.gap_ms = gap_ms

    def assign_windows(self, element: Record, timestamp: int, context: AssignerScope) -> list[TimeWindow]:
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

    def assign_windows(self, element: Record, timestamp: int, context: AssignerScope) -> list[TimeWindow]:
        moment = self._moment(timestamp, context)
        gap_ms = self.extractor.extract(element)
        if gap_ms.__class__ is not int:
            gap_ms = whole_number(gap_ms, f"{self!r}: the gap in ms for {repr(element)[:200]}")
        if gap_ms <= 0:
            raise InvalidJob(
                f"{type(self).__name__}: the gap must be positive, but {type(self.extractor).__name__} gave {gap_ms} ms "
                f"for {element!r}"
            )
        return [TimeWindow(moment, moment + gap_ms)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.extractor).__name__})"


class EventTimeSessionWindows(_FixedGap[T]):
    """Session windows in event time: a window ends after a gap without records (PyFlink: ``EventTimeSessionWindows``)."""

    @staticmethod
    def with_gap(size: Length) -> EventTimeSessionWindows[Record]:
        """Creates sessions with one gap for all records."""
        return EventTimeSessionWindows(size)

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows[Record]:
        """Creates sessions in which each record has a gap of its own."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_FixedGap[T]):
    """Session windows in processing time: a window ends after a gap without records (PyFlink: ``ProcessingTimeSessionWindows``)."""

    _is_event_time = False

    @staticmethod
    def with_gap(size: Length) -> ProcessingTimeSessionWindows[Record]:
        """Creates sessions with one gap for all records."""
        return ProcessingTimeSessionWindows(size)

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows[Record]:
        """Creates sessions in which each record has a gap of its own."""
        return DynamicProcessingTimeSessionWindows(extractor)


class DynamicEventTimeSessionWindows(_DynamicGap[T]):
    """Session windows in event time, with a gap for each record (PyFlink: ``DynamicEventTimeSessionWindows``)."""

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicEventTimeSessionWindows[Record]:
        """Creates sessions in which each record has a gap of its own."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_DynamicGap[T]):
    """Session windows in processing time, with a gap for each record (PyFlink: ``DynamicProcessingTimeSessionWindows``)."""

    _is_event_time = False

    @staticmethod
    def with_dynamic_gap(extractor: SessionWindowTimeGapExtractor) -> DynamicProcessingTimeSessionWindows[Record]:
        """Creates sessions in which each record has a gap of its own."""
        return DynamicProcessingTimeSessionWindows(extractor)
