"""Joins in a program: keys, types, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.unit.tidegate.datastream.graph_kit import make_env, numbers, partitioners, program_of, same
from tests.unit.tidegate.datastream.options_kit import given
from tidegate.common import Time, Types
from tidegate.datastream import KeySelector, OutputTag
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.functions.interfaces import CoGroupFunction, FlatJoinFunction, JoinFunction, ProcessJoinFunction
from tidegate.model.errors import InvalidJob
from tidegate.model.graph import Partitioner

WINDOWS = TumblingEventTimeWindows.of(Time.seconds(1))


class Pair(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Iterable[Any]:
        return ((left, right),)


class Sum(JoinFunction):
    def join(self, first: Any, second: Any) -> Any:
        return first + second


class Sums(FlatJoinFunction):
    def join(self, first: Any, second: Any) -> Iterable[Any]:
        return (first + second,)


class Group(CoGroupFunction):
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
        return (len(list(first)),)


class OwnKey(KeySelector):
    def get_key(self, value: Any) -> Any:
        return value


def test_an_interval_join_has_a_key_for_each_side_and_bounds_in_ms() -> None:
    env = make_env()
    left, right = numbers(env).key_by(same), numbers(env).key_by(lambda value: -value)
    late = OutputTag("late", Types.LONG())
    joined = left.interval_join(right).between(Time.seconds(-1), Time.seconds(2)).lower_bound_exclusive()
    made = joined.upper_bound_exclusive().side_output_right_late_data(late).process(Pair())
    made.get_side_output(late).print()
    job = env.build()
    spec = program_of(job, 2).operators[0]
    assert partitioners(job)[:2] == [Partitioner.HASH, Partitioner.HASH]
    assert (given(spec)["lower_ms"], given(spec)["upper_ms"]) == (-999, 1999)
    assert given(spec)["late_tags"] == [None, "late"]
    assert spec.second_key is not None


def test_interval_joins_that_cannot_be_are_refused() -> None:
    env = make_env()
    keyed = numbers(env).key_by(same)
    with pytest.raises(InvalidJob, match="two keyed streams"):
        keyed.interval_join(numbers(env))  # type: ignore[arg-type]
    with pytest.raises(InvalidJob, match="the interval is empty"):
        keyed.interval_join(keyed).between(5, 4).process(Pair())
    with pytest.raises(InvalidJob, match="event time only"):
        keyed.interval_join(keyed).in_processing_time()
    with pytest.raises(InvalidJob, match="needs a ProcessJoinFunction"):
        keyed.interval_join(keyed).between(0, 1).process(Sum())  # type: ignore[arg-type]


@pytest.mark.parametrize("function", [Sum(), Sums(), lambda first, second: first])
def test_a_join_is_a_window_over_both_streams(function: Any) -> None:
    env = make_env()
    where = numbers(env).join(numbers(env)).where(OwnKey(), Types.LONG()).equal_to(same)
    where.window(WINDOWS).allowed_lateness(5).apply(function, Types.LONG()).print()
    job = env.build()
    assert partitioners(job).count(Partitioner.HASH) == 2
    assert program_of(job, 2).operators[0].kind == "window"


def test_co_group_and_what_is_refused() -> None:
    env = make_env()
    where = numbers(env).co_group(numbers(env)).where(same)
    where.equal_to(same).window(WINDOWS).apply(Group(), Types.LONG()).print()
    env.build()
    with pytest.raises(InvalidJob, match="needs a CoGroupFunction"):
        where.equal_to(same).window(WINDOWS).apply(Sum())
    with pytest.raises(InvalidJob, match="needs a JoinFunction"):
        numbers(env).join(numbers(env)).where(same).equal_to(same).window(WINDOWS).apply(Group())
    with pytest.raises(InvalidJob, match="different types"):
        numbers(env).join(numbers(env)).where(same, Types.LONG()).equal_to(same, Types.STRING())
    with pytest.raises(InvalidJob, match="different environments"):
        numbers(env).join(numbers(make_env()))
