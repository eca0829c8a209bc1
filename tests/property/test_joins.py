"""Interval joins and window joins against a plain reference, over any order of arrival that watermarks allow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.taskmanager.operators.harness import restored_of, spec, start
from tests.unit.taskmanager.operators.keyed_kit import PAIR, first
from tidegate.common.time import Time
from tidegate.common.typeinfo import Types
from tidegate.datastream.window import TumblingEventTimeWindows
from tidegate.functions.adapted.join_windows import CoGroupWindow, JoinWindow, Tagged, TaggedKey
from tidegate.functions.adapters import ApplyWindow
from tidegate.functions.interfaces import CoGroupFunction, ProcessJoinFunction
from tidegate.model.program import KeySpec, OperatorSpec

RECORDS = st.lists(st.tuples(st.integers(0, 1), st.sampled_from("ab"), st.integers(0, 30)), max_size=25)
"""(side, key, time)"""
KEY = KeySpec(selector=first)


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any]:
        yield (left, right)


class Both(CoGroupFunction):
    def co_group(self, first: Iterable[Any], second: Iterable[Any]) -> Iterable[Any]:
        yield (sorted(first), sorted(second))


@settings(deadline=None)
@given(RECORDS, st.integers(-10, 10), st.integers(0, 10), st.integers(0, 25))
def test_an_interval_join_gives_every_pair_once(
    records: list[tuple[int, str, int]], lower: int, length: int, cut: int
) -> None:
    upper = lower + length
    options = {"func": Pairs(), "lower_ms": lower, "upper_ms": upper, "late_tags": (None, None)}
    made = spec("interval_join", input_types=(PAIR, PAIR), key=KEY, second_key=KEY, options=options)
    running = start(made)
    found: list[Any] = []
    for i, (side, key, time) in enumerate(records):
        if i == cut:
            found += running.out.values()
            running = start(made, restored=restored_of([running.snapshot()]))
        running.feed([(key, i)], [time], side)
        running.operator.on_watermark(min((t for _, _, t in records[i + 1 :]), default=31) - 1)
    found += running.out.values()
    expected = [
        ((key, i), (other, j))
        for i, (side, key, time) in enumerate(records)
        for j, (other_side, other, other_time) in enumerate(records)
        if side == 0 and other_side == 1 and key == other and time + lower <= other_time <= time + upper
    ]
    assert sorted(found) == sorted(expected)


def windowed(function: Any) -> OperatorSpec:
    tagged = Types.TUPLE([Types.INT(), PAIR, PAIR])
    return spec(
        "window",
        input_types=(tagged,),
        key=KeySpec(selector=TaggedKey(first, first).get_key),
        options={
            "assigner": TumblingEventTimeWindows.of(Time.milliseconds(10)),
            "function": ("process", ApplyWindow(function)),
        },
    )


@settings(deadline=None)
@given(RECORDS)
def test_a_window_join_gives_every_pair_and_a_co_group_every_record_once(records: list[tuple[int, str, int]]) -> None:
    joined = start(windowed(JoinWindow(lambda left, right: (left, right))))
    grouped = start(windowed(CoGroupWindow(Both())))
    for i, (side, key, time) in enumerate(records):
        value = Tagged(side)((key, i))
        for running in (joined, grouped):
            running.feed([value], [time])
    for running in (joined, grouped):
        running.operator.on_watermark(1000)
    sides: dict[tuple[str, int], tuple[list[Any], list[Any]]] = {}
    for i, (side, key, time) in enumerate(records):
        sides.setdefault((key, time // 10), ([], []))[side].append((key, i))
    assert sorted(joined.out.values()) == sorted((a, b) for left, right in sides.values() for a in left for b in right)
    assert sorted(grouped.out.values()) == sorted((sorted(left), sorted(right)) for left, right in sides.values())
