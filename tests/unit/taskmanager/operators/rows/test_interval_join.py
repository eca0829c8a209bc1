"""Interval joins: bounds, late records, cleanup, and restores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.unit.taskmanager.operators.harness import Running, restored_of, spec, start, values_of
from tests.unit.taskmanager.operators.keyed_kit import PAIR, first
from tests.unit.taskmanager.operators.keyed_kit import backends as backends
from tests.unit.taskmanager.operators.rows.test_keyed import owner
from tidegate.functions.interfaces import ProcessJoinFunction
from tidegate.model.checkpoint import RestoredOperator
from tidegate.model.errors import InvalidJob, UserFunctionError
from tidegate.model.program import KeySpec


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any]:
        yield (left[1], right[1], ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp())


def join(
    lower: int,
    upper: int,
    late: tuple[str | None, str | None] = (None, None),
    restored: RestoredOperator | None = None,
    subtask: int = 0,
    parallelism: int = 1,
    func: ProcessJoinFunction | None = None,
) -> Running:
    key = KeySpec(selector=first)
    options = {"func": func or Pairs(), "lower_ms": lower, "upper_ms": upper, "late_tags": late}
    made = spec("interval_join", input_types=(PAIR, PAIR), key=key, second_key=key, options=options)
    return start(made, subtask, parallelism, restored)


def at(running: Running, side: int, *stamps: int, key: str = "a") -> None:
    """Records whose numbers are their times."""
    running.feed([(key, stamp) for stamp in stamps], list(stamps), side)


def pairs(running: Running) -> list[tuple[int, int]]:
    return [(value[0], value[1]) for value in running.out.values()]


def test_pairs_in_the_interval_join_whichever_came_first() -> None:
    running = join(-1, 2)
    at(running, 0, 10)
    at(running, 1, 8, 9, 12, 13)
    at(running, 0, 11, 14)
    assert pairs(running) == [(10, 9), (10, 12), (11, 12), (11, 13), (14, 13)]
    assert running.out.values()[0] == (10, 9, 10, 9, 10)
    assert running.out.stamps() == [10, 12, 12, 13, 14]


def test_keys_are_apart_and_equal_times_all_join() -> None:
    running = join(0, 0)
    at(running, 0, 5, 5)
    at(running, 1, 5, key="b")
    at(running, 1, 5)
    assert pairs(running) == [(5, 5), (5, 5)]


@pytest.mark.parametrize(("lower", "upper"), [(-3, 3), (2, 5), (-5, -2), (0, 0)])
def test_nothing_is_kept_once_nothing_can_join_it(lower: int, upper: int) -> None:
    running = join(lower, upper)
    at(running, 0, *range(100, 110))
    at(running, 1, *range(100, 110))
    running.operator.on_watermark(200)
    assert not [segment for segment in running.snapshot().keyed if segment.state_name.endswith("BUFFER")]


def test_what_may_still_join_is_kept() -> None:
    running = join(2, 5)
    at(running, 0, 100)
    running.operator.on_watermark(104)
    at(running, 1, 105)
    assert pairs(running) == [(100, 105)]
    running.operator.on_watermark(105)
    at(running, 1, 105)
    assert pairs(running) == [(100, 105)]


def test_late_records_go_to_their_side_output_or_are_counted() -> None:
    running = join(-5, 5, late=("late-left", None))
    at(running, 1, 10)
    running.operator.on_watermark(12)
    at(running, 0, 11, 12)
    at(running, 1, 11)
    assert values_of(running.out.sides["late-left"]) == [("a", 11)]
    assert pairs(running) == [(12, 10)]
    assert running.out.counts == {"numLateRecordsDropped": 1}


def test_buffers_come_back_at_another_parallelism() -> None:
    keys = "abcdef"
    running = join(-5, 5)
    for key in keys:
        at(running, 0, 10, key=key)
    restored = restored_of([running.snapshot()])
    new = [join(-5, 5, restored=restored, subtask=i, parallelism=2) for i in range(2)]
    for key in keys:
        at(new[owner(key, 2)], 1, 12, key=key)
    assert sorted(pair for one in new for pair in pairs(one)) == [(10, 12)] * len(keys)
    for one in new:
        one.operator.on_watermark(100)
        assert not [segment for segment in one.snapshot(2).keyed if segment.state_name.endswith("BUFFER")]


def test_records_need_timestamps() -> None:
    with pytest.raises(InvalidJob, match="has no timestamp: put assign_timestamps_and_watermarks"):
        join(0, 1).feed([("a", 1)])


def test_what_the_function_raises_names_the_operator() -> None:
    class Fails(ProcessJoinFunction):
        def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any]:
            raise ValueError("no pair")

    running = join(0, 1, func=Fails())
    at(running, 0, 1)
    with pytest.raises(UserFunctionError, match="operator 'op': ValueError: no pair"):
        at(running, 1, 1)
