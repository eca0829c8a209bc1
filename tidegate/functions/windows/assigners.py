"""Window assigners by time, and the global one (Flink: ``org.apache.flink.streaming.api.windowing.assigners``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Generic, Protocol, TypeAlias, TypeVar

from tidegate.common.serializer import TypeSerializer
from tidegate.functions.interfaces import RuntimeContext
from tidegate.functions.windows.serializers import GlobalWindowSerializer, PickledWindowSerializer, TimeWindowSerializer
from tidegate.functions.windows.triggers import EventTimeTrigger, Length, NeverTrigger, ProcessingTimeTrigger, Trigger
from tidegate.functions.windows.windows import GlobalWindow, MergeReport, TimeWindow
from tidegate.model.errors import InvalidJob
from tidegate.model.values import AssignedWindow, Record
from tidegate.records.batch import MIN_TIMESTAMP
from tidegate.records.time import to_millis

T = TypeVar("T")
W = TypeVar("W")


class AssignerScope(Protocol):
    """The context of an assigner: the clock and the runtime context."""

    def get_current_processing_time(self) -> int:
        """Returns the clock's time in milliseconds since the epoch."""

    def get_runtime_context(self) -> RuntimeContext:
        """Returns the runtime context of the window operator."""


class WindowAssigner(ABC, Generic[T, W]):
    """Assigns each record to its windows (PyFlink: ``WindowAssigner``)."""

    WindowAssignerContext: TypeAlias = AssignerScope

    @abstractmethod
    def assign_windows(self, element: T, timestamp: int, context: AssignerScope) -> Collection[W]:
        """Returns the windows of a record; ``timestamp`` is its event time in milliseconds."""

    @abstractmethod
    def get_default_trigger(self, env: object = None) -> Trigger[Record, AssignedWindow]:
        """Returns the trigger of windows for which none is set."""

    def get_window_serializer(self) -> TypeSerializer[AssignedWindow]:
        """Returns the serializer of windows in state."""
        return PickledWindowSerializer()

    @abstractmethod
    def is_event_time(self) -> bool:
        """Returns whether windows follow event time rather than processing time."""


class MergingWindowAssigner(WindowAssigner[T, W]):
    """An assigner whose windows can be merged, for example when they touch."""

    MergeCallback: TypeAlias = MergeReport

    @abstractmethod
    def merge_windows(self, windows: Iterable[W], callback: MergeReport) -> None:
        """Merges windows: calls ``callback.merge(these, into_this)`` for each set of windows to merge."""


class TimeWindowAssigner(WindowAssigner[T, TimeWindow]):
    """The base of assigners by time: the time domain determines the trigger."""

    _is_event_time = True

    def get_default_trigger(self, env: object = None) -> Trigger[Record, AssignedWindow]:
        return EventTimeTrigger() if self._is_event_time else ProcessingTimeTrigger()

    def get_window_serializer(self) -> TypeSerializer[AssignedWindow]:
        return TimeWindowSerializer()

    def is_event_time(self) -> bool:
        return self._is_event_time

    def _moment(self, timestamp: int | None, context: AssignerScope) -> int:
        """Returns the event time of the record, or the clock's time."""
        if not self._is_event_time:
            return context.get_current_processing_time()
        if timestamp is None or timestamp == MIN_TIMESTAMP:
            raise InvalidJob(
                "a record without a timestamp came to an event-time window: "
                "give the stream a WatermarkStrategy with a timestamp assigner before the window"
            )
        return timestamp


class _AlignedWindows(TimeWindowAssigner[T]):
    """Assigns windows of ``size_ms`` that start every ``slide_ms``, shifted by ``offset_ms``, equal for all keys."""

    def __init__(self, size: Length, slide: Length, offset: Length) -> None:
        named = type(self).__name__
        size, slide = to_millis(size, f"{named}: the size in ms"), to_millis(slide, f"{named}: the slide in ms")
        offset = to_millis(offset, f"{named}: the offset in ms")
        if size <= 0 or slide <= 0:
            raise InvalidJob(
                f"{type(self).__name__}: size and slide must be positive (size {size} ms, slide {slide} ms)"
            )
        if abs(offset) >= slide:
            raise InvalidJob(
                f"{type(self).__name__}: the offset {offset} ms must be smaller than {slide} ms, the time from one window to the next"
            )
        self.size_ms = size
        self.slide_ms = slide
        self.offset_ms = offset
        self._depend_on_last = size % slide == 0
        """Whether all records between two starts have the same windows; those of the last record are kept."""
        self._last: int | None = None
        self._of_last: list[TimeWindow] = []

    def assign_windows(self, element: Record, timestamp: int, context: AssignerScope) -> list[TimeWindow]:
        moment = self._moment(timestamp, context)
        last = moment - (moment - self.offset_ms) % self.slide_ms
        if last != self._last or not self._depend_on_last:
            self._last, self._of_last = last, self._windows_of(moment)
        return self._of_last

    def _windows_of(self, moment: int) -> list[TimeWindow]:
        last = TimeWindow.get_window_start_with_offset(moment, self.offset_ms, self.slide_ms)
        starts = range(last, moment - self.size_ms, -self.slide_ms)
        return [TimeWindow(start, start + self.size_ms) for start in starts]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size_ms}, {self.slide_ms}, {self.offset_ms})"


class _TumblingWindows(_AlignedWindows[T]):
    def __init__(self, size: Length, offset: Length = 0) -> None:
        super().__init__(size, size, offset)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size_ms}, {self.offset_ms})"


class TumblingEventTimeWindows(_TumblingWindows[T]):
    """Tumbling windows in event time (PyFlink: ``TumblingEventTimeWindows``)."""

    @staticmethod
    def of(size: Length, offset: Length | None = None) -> TumblingEventTimeWindows[Record]:
        """Creates windows of ``size``, which start at its multiples plus ``offset``."""
        return TumblingEventTimeWindows(size, offset or 0)


class TumblingProcessingTimeWindows(_TumblingWindows[T]):
    """Tumbling windows in processing time (PyFlink: ``TumblingProcessingTimeWindows``)."""

    _is_event_time = False

    @staticmethod
    def of(size: Length, offset: Length | None = None) -> TumblingProcessingTimeWindows[Record]:
        """Creates windows of ``size``, which start at its multiples plus ``offset``."""
        return TumblingProcessingTimeWindows(size, offset or 0)


class SlidingEventTimeWindows(_AlignedWindows[T]):
    """Sliding windows of ``size`` that start every ``slide``, in event time; each record is in ``size / slide`` of them (PyFlink:
    ``SlidingEventTimeWindows``)."""

    def __init__(self, size: Length, slide: Length, offset: Length = 0) -> None:
        super().__init__(size, slide, offset)

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingEventTimeWindows[Record]:
        """Creates windows of ``size``, which begin at the multiples of ``slide`` plus ``offset``."""
        return SlidingEventTimeWindows(size, slide, offset or 0)


class SlidingProcessingTimeWindows(_AlignedWindows[T]):
    """Sliding windows of ``size`` that start every ``slide``, in processing time (PyFlink: ``SlidingProcessingTimeWindows``)."""

    _is_event_time = False

    def __init__(self, size: Length, slide: Length, offset: Length = 0) -> None:
        super().__init__(size, slide, offset)

    @staticmethod
    def of(size: Length, slide: Length, offset: Length | None = None) -> SlidingProcessingTimeWindows[Record]:
        """Creates windows of ``size``, which begin at the multiples of ``slide`` plus ``offset``."""
        return SlidingProcessingTimeWindows(size, slide, offset or 0)


class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """Assigns all records of a key to one window, which never ends. It needs a trigger, since its own never fires (PyFlink: ``GlobalWindows``)."""

    def assign_windows(self, element: Record, timestamp: int, context: AssignerScope) -> list[GlobalWindow]:
        return [GlobalWindow.get()]

    @staticmethod
    def create() -> GlobalWindows[Record]:
        """Creates the assigner."""
        return GlobalWindows()

    def get_default_trigger(self, env: object = None) -> Trigger[Record, AssignedWindow]:
        return NeverTrigger()

    def get_window_serializer(self) -> TypeSerializer[AssignedWindow]:
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"
