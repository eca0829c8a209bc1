"""Patterns on streams: ``select``, ``flat_select`` and ``process`` with their side outputs, streams without keys, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from tests.unit.tidegate.datastream.graph_kit import make_env, numbers
from tidegate.cep import (
    CEP,
    MalformedPatternException,
    Pattern,
    PatternFlatSelectFunction,
    PatternFlatTimeoutFunction,
    PatternProcessFunction,
    PatternSelectFunction,
    PatternStream,
    PatternTimeoutFunction,
    TimedOutPartialMatchHandler,
)
from tidegate.common import Types
from tidegate.datastream import DataStream, OutputTag, RuntimeContext
from tidegate.model.errors import InvalidJob
from tidegate.testing import OperatorHarness

RISE = Pattern.begin("low").where(lambda n: n < 10).followed_by("high").where(lambda n: n >= 10).within(50)
TIMED_OUT, LATE = OutputTag("timed out", Types.STRING()), OutputTag("late", Types.LONG())


def is_even(number: int) -> int:
    return number % 2


class Sum(PatternSelectFunction):
    opened = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        self.opened += 1

    def select(self, pattern: dict[str, list[Any]]) -> Any:
        return self.opened * sum(event for events in pattern.values() for event in events)


class Each(PatternFlatSelectFunction):
    def flat_select(self, pattern: dict[str, list[Any]]) -> Iterable[Any]:
        return [event for events in pattern.values() for event in events]


class TimedOut(PatternTimeoutFunction):
    def timeout(self, pattern: dict[str, list[Any]], timeout_timestamp: int) -> Any:
        return f"{pattern['low']} at {timeout_timestamp}"


class EachTimedOut(PatternFlatTimeoutFunction):
    def timeout(self, pattern: dict[str, list[Any]], timeout_timestamp: int) -> Iterable[Any]:
        return [f"{event} at {timeout_timestamp}" for event in pattern["low"]]


class Both(PatternProcessFunction, TimedOutPartialMatchHandler):
    def process_match(self, match: dict[str, list[Any]], ctx: PatternProcessFunction.Context) -> Iterable[Any]:
        yield match["high"][0]
        yield TIMED_OUT, f"{match['low'][0]} was in time at {ctx.timestamp()}"

    def process_timed_out_match(
        self, match: dict[str, list[Any]], ctx: PatternProcessFunction.Context
    ) -> Iterable[Any]:
        yield TIMED_OUT, f"{match['low'][0]} at {ctx.timestamp()}"


def run(made: Callable[[PatternStream], DataStream], *, keyed: bool = True) -> tuple[list[Any], list[Any]]:
    """What comes of 1, 2, 10 at their times and 3, which times out: on the main output, and on the other one."""

    def piece(stream: DataStream) -> DataStream:
        return made(CEP.pattern(stream.key_by(is_even, Types.LONG()) if keyed else stream, RISE))

    with OperatorHarness(piece, Types.LONG()) as harness:
        harness.push_all([10, 1, 2], [30, 10, 20])
        harness.push_watermark(30)
        harness.push(4, 30)
        harness.push(3, 100)
        harness.push_watermark(200)
        assert harness.side_output(LATE) in ([4], [])
        return harness.output, harness.side_output(TIMED_OUT)


def test_select_gives_one_record_for_each_match() -> None:
    assert run(lambda stream: stream.select(Sum(), Types.LONG())) == ([12], [])
    assert run(lambda stream: stream.select(lambda match: match["high"][0], Types.LONG()), keyed=False)[0] == [10, 10]


def test_select_gives_a_record_for_each_partial_match_that_timed_out() -> None:
    def selected(timeout: Any) -> tuple[list[Any], list[Any]]:
        options = {"timed_out_partial_matches_tag": TIMED_OUT, "pattern_timeout_function": timeout}
        return run(lambda stream: stream.select(Sum(), Types.LONG(), **options))

    expected = ([12], ["[1] at 60", "[3] at 150"])
    assert selected(TimedOut()) == selected(lambda match, at: f"{match['low']} at {at}") == expected


def test_flat_select_gives_any_number_of_records() -> None:
    assert run(lambda stream: stream.flat_select(Each(), Types.LONG())) == ([2, 10], [])
    assert run(lambda stream: stream.flat_select(lambda match: None, Types.LONG())) == ([], [])
    found = run(
        lambda stream: stream.flat_select(
            Each(),
            Types.LONG(),
            timed_out_partial_matches_tag=TIMED_OUT,
            pattern_flat_timeout_function=EachTimedOut(),
        )
    )
    assert found == ([2, 10], ["1 at 60", "3 at 150"])


def test_process_sees_matches_and_partial_ones_that_timed_out() -> None:
    assert run(lambda stream: stream.process(Both(), Types.LONG())) == (
        [10], ["2 was in time at 30", "1 at 60", "3 at 150"],
    )  # fmt: skip


def test_late_events_go_to_a_side_output() -> None:
    def piece(stream: DataStream) -> DataStream:
        return CEP.pattern(stream, RISE).side_output_late_data(LATE).select(Sum(), Types.LONG())

    with OperatorHarness(piece, Types.LONG()) as harness:
        harness.push_watermark(30)
        harness.push(4, 30)
        assert harness.side_output(LATE) == [4]


def test_events_of_one_time_are_in_the_order_of_a_comparator() -> None:
    def piece(stream: DataStream) -> DataStream:
        return CEP.pattern(stream, RISE, lambda one, other: one - other).select(Sum(), Types.LONG())

    with OperatorHarness(piece, Types.LONG()) as harness:
        harness.push_all([10, 1], [5, 5])
        harness.push_watermark(5)
        assert harness.output == [11]


def test_in_processing_time_events_come_as_they_come() -> None:
    def piece(stream: DataStream) -> DataStream:
        return CEP.pattern(stream, RISE).in_processing_time().process(Both(), Types.LONG())

    with OperatorHarness(piece, Types.LONG()) as harness:
        harness.push_all([1, 10, 2])
        assert harness.output == [10]
        harness.advance_processing_time(49)
        assert harness.side_output(TIMED_OUT) == ["1 was in time at 0"]
        harness.advance_processing_time(50)
        assert harness.side_output(TIMED_OUT)[1:] == ["2 at 50"]


NO_FUNCTION: Any = 5
NO_PROCESS_FUNCTION: Any = Sum()
REFUSED: list[tuple[Callable[[PatternStream], Any], str]] = [
    (lambda stream: stream.process(NO_PROCESS_FUNCTION), "process takes a PatternProcessFunction"),
    (lambda stream: stream.select(NO_FUNCTION), "select takes a PatternSelectFunction or a function of the match, not 5"),
    (lambda stream: stream.select(Sum(), timed_out_partial_matches_tag=TIMED_OUT), "select: timed-out partial matches need a tag and a function"),
    (lambda stream: stream.flat_select(Each(), pattern_flat_timeout_function=EachTimedOut()), "flat_select: timed-out partial matches need a tag"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "words"), REFUSED, ids=[words[:30] for _, words in REFUSED])
def test_what_cannot_be_is_refused(made: Callable[[PatternStream], Any], words: str) -> None:
    with pytest.raises(InvalidJob, match=words):
        made(CEP.pattern(numbers(make_env()), RISE))


def test_patterns_that_cannot_be_are_refused_when_the_graph_is_built() -> None:
    stream = numbers(make_env())
    wrong: Any = "a pattern"
    with pytest.raises(MalformedPatternException, match="Duplicate pattern name: a"):
        CEP.pattern(stream, Pattern.begin("a").next("a"))
    with pytest.raises(MalformedPatternException, match="the pattern could match no event at all"):
        CEP.pattern(stream, Pattern.begin("a").optional())
    with pytest.raises(InvalidJob, match="a comparator of events needs event time"):
        CEP.pattern(stream, RISE, lambda one, other: 0).in_processing_time().select(Sum())
    with pytest.raises(InvalidJob, match="takes a Pattern, not 'a pattern'"):
        CEP.pattern(stream, wrong)


def test_a_stream_without_keys_is_worked_on_by_one_subtask() -> None:
    env = make_env().set_parallelism(4)
    made = CEP.pattern(numbers(env), RISE).select(Sum(), Types.LONG())
    assert made._operator("").parallelism == 1
