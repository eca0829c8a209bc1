"""Window joins and coGroup: the records of two streams with equal keys in one window (Flink: ``JoinedStreams.java``,
``CoGroupedStreams.java``; PyFlink has neither).

    first ──tag 0─┐
                  ├─ union ─ key_by ─ window ─▶ co_group(records of first, records of second)
    second ─tag 1─┘                             join: for each pair of them

    a.join(b).where(key_of_a).equal_to(key_of_b).window(TumblingEventTimeWindows.of(Time.seconds(5))).apply(function)

All records of a window are in state until it fires. ``join`` is an inner join: a window without records of both gives nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.common.time import Duration, Time
from tidegate.common.typeinfo import TypeInformation, Types
from tidegate.datastream._streams.record_methods import RecordMethods
from tidegate.datastream._streams.stream_types import TypeHint
from tidegate.datastream.window import Evictor, Trigger, WindowAssigner
from tidegate.functions.adapted.join_windows import (
    CoGroupWindow,
    FlatJoinWindow,
    JoinWindow,
    Selector,
    Tagged,
    TaggedKey,
)
from tidegate.functions.base import Function
from tidegate.functions.interfaces import KeySelector, WindowFunction
from tidegate.functions.join_functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from tidegate.model.errors import InvalidJob
from tidegate.model.values import AssignedWindow, Key, Record, UserObject

if TYPE_CHECKING:
    from tidegate.datastream._streams.windowed_stream import WindowedStream
    from tidegate.datastream.data_stream import DataStream

__all__ = ["CoGroupedStreams", "JoinedStreams"]


class CoGroupedStreams:
    """``a.co_group(b)``"""

    _method = "co_group"

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        if not isinstance(stream2, RecordMethods):
            raise InvalidJob(f"{self._method} needs another stream, not {stream2!r}")
        if stream1.get_execution_environment() is not stream2.get_execution_environment():
            raise InvalidJob("the two streams belong to different environments")
        self.stream1 = stream1
        self.stream2 = stream2

    def where(self, key_selector: Selector, key_type: TypeInformation | None = None) -> Where:
        """The key of a record of the first stream."""
        return Where(self, _checked(key_selector, "where"), key_type)

    def adapter(self, function: UserObject) -> WindowFunction[Record, Record, Key, AssignedWindow]:
        """The window function that ``apply`` means."""
        if not isinstance(function, CoGroupFunction):
            raise InvalidJob(f"apply behind co_group needs a CoGroupFunction, not {function!r}")
        return CoGroupWindow(function)


class JoinedStreams(CoGroupedStreams):
    """``a.join(b)``"""

    _method = "join"

    def adapter(self, function: UserObject) -> WindowFunction[Record, Record, Key, AssignedWindow]:
        if isinstance(function, FlatJoinFunction):
            return FlatJoinWindow(function)
        if isinstance(function, JoinFunction) or (callable(function) and not isinstance(function, Function)):
            return JoinWindow(function)
        raise InvalidJob(f"apply behind join needs a JoinFunction, a FlatJoinFunction or a function, not {function!r}")


class Where:
    """A join whose first stream has a key selector; ``equal_to`` adds the second one (Flink:
    ``CoGroupedStreams.Where``)."""

    def __init__(self, streams: CoGroupedStreams, selector1: Selector, key_type: TypeInformation | None) -> None:
        self._streams = streams
        self._selector1 = selector1
        self._key_type = key_type

    def equal_to(self, key_selector: Selector, key_type: TypeInformation | None = None) -> EqualTo:
        """The key of a record of the second stream. Both keys have one type."""
        first, second = self._key_type, key_type
        if first is not None and second is not None and first != second:
            raise InvalidJob(f"the keys of the two streams have different types: {first!r} and {second!r}")
        selectors = (self._selector1, _checked(key_selector, "equal_to"))
        return EqualTo(self._streams, selectors, first if first is not None else second)


class EqualTo:
    """A join with both key selectors; ``window`` adds the windows (Flink: ``CoGroupedStreams.Where.EqualTo``)."""

    def __init__(
        self, streams: CoGroupedStreams, selectors: tuple[Selector, Selector], key_type: TypeInformation | None
    ) -> None:
        self._streams = streams
        self._selectors = selectors
        self._key_type = key_type

    def window(self, assigner: WindowAssigner[Record, AssignedWindow]) -> WithWindow:
        """Says which windows the two streams are joined in."""
        streams = self._streams
        kinds = (streams.stream1.get_type(), streams.stream2.get_type())
        tagged = Types.TUPLE([Types.INT(), *kinds])
        union = streams.stream1.map(Tagged(0), tagged).union(streams.stream2.map(Tagged(1), tagged))
        return WithWindow(streams, union.key_by(TaggedKey(*self._selectors), self._key_type).window(assigner))


class WithWindow:
    """Settings of the window, then ``apply``."""

    def __init__(self, streams: CoGroupedStreams, windowed: WindowedStream) -> None:
        self._streams = streams
        self._windowed = windowed

    def trigger(self, trigger: Trigger[Record, AssignedWindow]) -> WithWindow:
        """Replaces the trigger of the window assigner."""
        self._windowed.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor) -> WithWindow:
        """Removes elements around the call of the function, as the evictor decides."""
        self._windowed.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int | Time | Duration) -> WithWindow:
        """Keeps windows for this long behind their end (milliseconds, ``Time`` or ``Duration``), so that late records
        still reach them."""
        self._windowed.allowed_lateness(time_ms)
        return self

    def apply(self, function: UserObject, output_type: TypeHint = None) -> DataStream:
        """``function``: a CoGroupFunction behind ``co_group``; a JoinFunction, FlatJoinFunction or a function of two records
        behind ``join``."""
        made: DataStream = self._windowed.apply(self._streams.adapter(function), output_type)
        return made


def _checked(selector: Selector, method: str) -> Selector:
    if not isinstance(selector, KeySelector) and not callable(selector):
        raise InvalidJob(f"{method} needs a KeySelector or a function, not {selector!r}")
    return selector
