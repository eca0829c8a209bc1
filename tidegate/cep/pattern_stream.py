"""Streams of the matches of a pattern (Flink: ``CEP``, ``PatternStream``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from tidegate.common.typeinfo import Types
from tidegate.datastream._streams.stream_types import TypeHint, type_of
from tidegate.datastream.data_stream import DataStream, KeyedStream
from tidegate.functions.adapters import OneKey
from tidegate.functions.cep.compiler import compile_pattern
from tidegate.functions.cep.errors import MalformedPatternException
from tidegate.functions.cep.functions import (
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternTimeoutFunction,
    Selecting,
    SelectingWithTimeouts,
)
from tidegate.functions.cep.nfa import Found
from tidegate.functions.cep.pattern import Pattern
from tidegate.functions.output_tag import OutputTag
from tidegate.model.errors import InvalidJob
from tidegate.model.program import KeySpec
from tidegate.model.values import UserObject


class CEP:
    """Applies patterns to streams (Flink: ``CEP``)."""

    @staticmethod
    def pattern(
        stream: DataStream, pattern: Pattern, comparator: Callable[[Any, Any], int] | None = None
    ) -> PatternStream:
        """Searches for a pattern in the events of each key, or, in a stream without keys, in all events in one subtask. ``comparator``: the order of
        events with equal timestamps (below 0: the first one comes first); the order of arrival by default. Raises ``MalformedPatternException``."""
        if not isinstance(pattern, Pattern):
            raise InvalidJob(f"CEP.pattern takes a Pattern, not {pattern!r}")
        if compile_pattern(pattern).can_match_nothing():
            raise MalformedPatternException(
                "the pattern could match no event at all, as all of its stages are optional: make one of them take an event"
            )
        return PatternStream(stream, pattern, _Settings(comparator=comparator))


@dataclass(frozen=True)
class _Settings:
    is_event_time: bool = True
    comparator: Callable[[Any, Any], int] | None = None
    late_tag: OutputTag | None = None


class PatternStream:
    """A stream with a pattern to search for; ``select``, ``flat_select`` or ``process`` defines the output for its matches. In event time by default."""

    def __init__(self, stream: DataStream, pattern: Pattern, settings: _Settings) -> None:
        self._stream, self._pattern, self._settings = stream, pattern, settings

    def in_event_time(self) -> PatternStream:
        """Processes events in the order of their timestamps, buffered until the watermark reaches them; the default."""
        return self._with(is_event_time=True)

    def in_processing_time(self) -> PatternStream:
        """Processes events in the order of arrival, with the time of the clock."""
        return self._with(is_event_time=False)

    def side_output_late_data(self, late_data_output_tag: OutputTag) -> PatternStream:
        """Emits late events, at or before the watermark, to a side output instead of counting and dropping them."""
        return self._with(late_tag=late_data_output_tag)

    def process(self, pattern_process_function: PatternProcessFunction, output_type: TypeHint = None) -> DataStream:
        """Calls the function for each match, and, if it is a ``TimedOutPartialMatchHandler``, for each partial match that timed out."""
        if not isinstance(pattern_process_function, PatternProcessFunction):
            raise InvalidJob(f"process takes a PatternProcessFunction, not {pattern_process_function!r}")
        settings = self._settings
        if settings.comparator is not None and not settings.is_event_time:
            raise InvalidJob(
                "a comparator of events needs event time: in processing time no two events have the same time"
            )
        options: dict[str, UserObject] = {
            "func": pattern_process_function,
            "pattern": self._pattern,
            "is_event_time": settings.is_event_time,
            "comparator": settings.comparator,
            "late_tag": None if settings.late_tag is None else settings.late_tag.tag_id,
        }
        stream = self._stream
        if isinstance(stream, KeyedStream):
            return stream._keyed("cep", "CEP", options, type_of(output_type))
        one_key = KeyedStream(stream, KeySpec(selector=OneKey(), key_type=Types.BYTE()))
        return one_key._keyed("cep", "CEP", options, type_of(output_type)).force_non_parallel()

    def select(
        self,
        pattern_select_function: PatternSelectFunction | Callable[[Found], Any],
        output_type: TypeHint = None,
        *,
        timed_out_partial_matches_tag: OutputTag | None = None,
        pattern_timeout_function: PatternTimeoutFunction | Callable[[Found, int], Any] | None = None,
    ) -> DataStream:
        """Emits one record for each match. With a tag and a function for it, a record for each timed-out partial match goes to a side output."""
        return self._selected(
            (pattern_select_function, PatternSelectFunction, "select"),
            (timed_out_partial_matches_tag, pattern_timeout_function, PatternTimeoutFunction),
            output_type,
            is_flat=False,
        )

    def flat_select(
        self,
        pattern_flat_select_function: PatternFlatSelectFunction | Callable[[Found], Iterable[Any] | None],
        output_type: TypeHint = None,
        *,
        timed_out_partial_matches_tag: OutputTag | None = None,
        pattern_flat_timeout_function: PatternFlatTimeoutFunction
        | Callable[[Found, int], Iterable[Any] | None]
        | None = None,
    ) -> DataStream:
        """Emits any number of records for each match. With a tag and a function for it, those for timed-out partial matches go to a side output."""
        return self._selected(
            (pattern_flat_select_function, PatternFlatSelectFunction, "flat_select"),
            (timed_out_partial_matches_tag, pattern_flat_timeout_function, PatternFlatTimeoutFunction),
            output_type,
            is_flat=True,
        )

    def _selected(
        self,
        selects: tuple[Any, type, str],
        times_out: tuple[OutputTag | None, Any, type],
        output_type: TypeHint,
        *,
        is_flat: bool,
    ) -> DataStream:
        function, _, method = selects
        call = _call(*selects)
        tag, timeout, timeout_kind = times_out
        if (tag is None) != (timeout is None):
            raise InvalidJob(f"{method}: timed-out partial matches need a tag and a function for it, or neither")
        if tag is None:
            return self.process(Selecting(function, call, is_flat=is_flat), output_type)
        call_timeout = _call(timeout, timeout_kind, "timeout")
        made = SelectingWithTimeouts(function, call, tag, timeout, call_timeout, is_flat=is_flat)
        return self.process(made, output_type)

    def _with(self, **settings: Any) -> PatternStream:
        return PatternStream(self._stream, self._pattern, replace(self._settings, **settings))


def _call(function: Any, kind: type, method: str) -> Callable[..., Any]:
    found = getattr(function, method) if isinstance(function, kind) else function
    if not callable(found):
        raise InvalidJob(f"{method} takes a {kind.__name__} or a function of the match, not {function!r}")
    call: Callable[..., Any] = found
    return call


__all__ = ["CEP", "PatternStream"]
