"""Interval joins: each record of one keyed stream with those of another whose event time lies in an interval around its own.

    left.interval_join(right).between(Time.seconds(-5), Time.seconds(5)).upper_bound_exclusive().process(function)

A pair joins when ``left + lower <= right <= left + upper``. Follows Flink's ``KeyedStream.IntervalJoin``; PyFlink has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.common.time import Duration, Time, to_millis
from tidegate.datastream._streams.record_methods import RecordMethods
from tidegate.datastream._streams.stream_types import TypeHint, type_of
from tidegate.functions.join_functions import ProcessJoinFunction
from tidegate.functions.output_tag import OutputTag
from tidegate.model.errors import InvalidJob
from tidegate.model.values import UserObject

if TYPE_CHECKING:
    from tidegate.datastream.data_stream import DataStream, KeyedStream

__all__ = ["IntervalJoin", "IntervalJoined"]


class IntervalJoin:
    """An interval join that still needs its bounds; ``between`` sets them (Flink: ``KeyedStream.IntervalJoin``). Raises
    ``InvalidJob`` unless both streams are keyed and belong to one environment."""

    def __init__(self, left: KeyedStream, right: KeyedStream) -> None:
        if not isinstance(right, RecordMethods) or right._key() is None:
            raise InvalidJob("interval_join needs two keyed streams: put key_by behind the other one, too")
        if left.get_execution_environment() is not right.get_execution_environment():
            raise InvalidJob("the two streams belong to different environments")
        self._left = left
        self._right = right

    def in_event_time(self) -> IntervalJoin:
        """As it is anyway."""
        return self

    def in_processing_time(self) -> IntervalJoin:
        """Raises ``InvalidJob``: as in Flink, interval joins work in event time only."""
        raise InvalidJob("an interval join works in event time only, as in Flink")

    def between(self, lower_bound: int | Time | Duration, upper_bound: int | Time | Duration) -> IntervalJoined:
        """Relative to the left record, ms; both ends belong to the interval."""
        return IntervalJoined(
            self._left,
            self._right,
            to_millis(lower_bound, "between: the lower bound"),
            to_millis(upper_bound, "between: the upper bound"),
        )


class IntervalJoined:
    """An interval join with its bounds, in milliseconds relative to the left record's time (Flink:
    ``KeyedStream.IntervalJoined``)."""

    def __init__(self, left: KeyedStream, right: KeyedStream, lower_ms: int, upper_ms: int) -> None:
        self._left = left
        self._right = right
        self._lower_ms = lower_ms
        self._upper_ms = upper_ms
        self._is_lower_inclusive = True
        self._is_upper_inclusive = True
        self._late_tags: dict[int, OutputTag] = {}

    def lower_bound_exclusive(self) -> IntervalJoined:
        """Leaves out pairs that lie exactly at the lower bound."""
        self._is_lower_inclusive = False
        return self

    def upper_bound_exclusive(self) -> IntervalJoined:
        """Leaves out pairs that lie exactly at the upper bound."""
        self._is_upper_inclusive = False
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Records behind the watermark go there instead of being dropped."""
        self._late_tags[0] = output_tag
        return self

    def side_output_right_late_data(self, output_tag: OutputTag) -> IntervalJoined:
        """Records behind the watermark go there instead of being dropped."""
        self._late_tags[1] = output_tag
        return self

    def process(self, process_join_function: ProcessJoinFunction, output_type: TypeHint = None) -> DataStream:
        """Calls the function for every pair. Raises ``InvalidJob`` unless it is a ``ProcessJoinFunction``, and when the
        interval is empty."""
        if not isinstance(process_join_function, ProcessJoinFunction):
            raise InvalidJob(f"an interval join needs a ProcessJoinFunction, not {process_join_function!r}")
        lower_ms = self._lower_ms + (not self._is_lower_inclusive)
        upper_ms = self._upper_ms - (not self._is_upper_inclusive)
        if lower_ms > upper_ms:
            raise InvalidJob(f"the interval is empty: from {lower_ms} ms to {upper_ms} ms")
        options: dict[str, UserObject] = {
            "func": process_join_function,
            "lower_ms": lower_ms,
            "upper_ms": upper_ms,
            "late_tags": [self._late_tags[side].tag_id if side in self._late_tags else None for side in (0, 1)],
        }
        left, right = self._left, self._right
        env = left.get_execution_environment()
        inputs = (left._transformation, right._transformation)
        keys = (left.record_key(), right.record_key())
        made = env.add_operator("interval_join", "Interval Join", options, type_of(output_type), inputs, *keys)
        return self._left._behind(made)
